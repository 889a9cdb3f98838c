"""The desk's own calls in the attempts they name: folded in afterwards, ours tagged, pruned ones gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codegraph.etg.bench import NOON, Bench
from tracedesk import prune
from tracedesk.calls import CallLog
from tracedesk.codegraph.etg import records
from tracedesk.codegraph.etg.model import NewEvent
from tracedesk.codegraph.etg.rebuild import forget_for_good
from tracedesk.contract import Annotations, Call, Tool
from tracedesk.errors import STANDARD
from tracedesk.home import Home
from tracedesk.journal import Journal, verify
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.time import DAY, parse

Record = Callable[..., str]


async def _nothing(args: Any, call: Any) -> None: ...


def _record(bench: Bench, attempt: str | None, tool: str = "trade_execute", **facts: Any) -> str:
    """A call that a desk made, written before this returns."""
    log = CallLog(bench.path, bench.clock, bench.secrets, bench.payloads)
    declared = Tool(
        name=tool,
        toolset=facts.get("toolset", "trading"),
        description="For the tests.",
        input={"type": "object"},
        output=None,
        annotations=Annotations(read_only=True),
        scope="read",
        family=STANDARD,
        deadline=1.0,
        handler=_nothing,
    )
    missing: Any = None
    scope = facts.get("scope", "stdio:1")
    call = Call(uuid7(), scope, facts.get("principal"), 0.0, None, missing, missing, attempt)
    record = log.open(call, declared, {"symbol": "ACME"})
    log.close(record, facts.get("outcome", "ok"), facts.get("code"), facts.get("result", b"{}"), 1_500)
    log.stop()
    return call.id


def test_a_call_that_names_an_attempt_is_one_of_its_tool_calls(bench: Bench) -> None:
    bench.log("a", "context_retrieved", {"files": [], "query": "buy low"})
    call = _record(bench, "a", result=b"x" * 5_000)
    view = bench.view("a")
    found = view.tool_calls[0]
    assert (found.ref, found.tool, found.status) == (f"tracedesk://calls/{call}", "trade_execute", "ok")
    assert (found.origin, found.pairing, found.duration_us) == ("desk", "record", 1_500)
    assert (found.started_ns, found.ended_ns) == (NOON, NOON + 1_500_000)
    assert found.output_ref is not None
    assert found.arguments is None, "a call's arguments are shown only to those who may see the call"
    assert (view.brief.events, view.brief.calls) == (1, 1)


def test_an_attempt_that_has_only_calls_exists(bench: Bench) -> None:
    _record(bench, "only-calls")
    view = bench.view("only-calls")
    assert (view.events, view.brief.evidence, view.brief.verdict.outcome) == ((), True, "unknown")


def test_a_call_without_a_named_attempt_belongs_to_its_scope(bench: Bench) -> None:
    _record(bench, None)
    assert len(bench.view("stdio:1").tool_calls) == 1


@pytest.mark.parametrize("scope", ["anonymous", "session:abc"])
def test_calls_that_nobody_signed_are_of_no_attempt(bench: Bench, scope: str) -> None:
    bench.log("a", "answer_rendered")
    before = bench.view("a")
    for name in ("a", "b", None):
        _record(bench, name, scope=scope, outcome="error", code="INVALID_PARAMETER")
    assert bench.view("a") == before
    assert bench.rows("SELECT name FROM attempt") == [("a",)]
    _record(bench, "a", scope=scope, principal="owner")
    assert bench.view("a").brief.calls == 1


@pytest.mark.parametrize("name", ["\x1b[31m", "x" * 5_000])
def test_what_cannot_be_the_name_of_an_attempt_is_none(bench: Bench, name: str) -> None:
    _record(bench, name)
    assert bench.rows("SELECT name FROM attempt") == []


def test_calls_of_one_trace_are_of_one_attempt(bench: Bench) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    _record(bench, f"00-{trace}-b7ad6b7169203331-01")
    _record(bench, f"00-{trace}-00f067aa0ba902b7-01")
    bench.log(trace, "checkpoint")
    assert len(bench.view(trace).tool_calls) == 2


@pytest.mark.parametrize("toolset", ["codegraph", "desk"])
def test_our_own_look_ups_are_tagged_and_no_evidence(bench: Bench, toolset: str) -> None:
    _record(bench, "a", "graph_search", toolset=toolset, outcome="error", code="INVALID_PARAMETER")
    view = bench.view("a")
    assert [call.origin for call in view.tool_calls] == ["self"]
    assert (view.brief.calls, view.brief.evidence, view.brief.failed_tools) == (0, False, ())
    assert bench.rows("SELECT evidence FROM summary") == []


@pytest.mark.parametrize(
    ("outcome", "code", "status"),
    [
        ("error", "INSUFFICIENT_FUNDS", "error"),
        ("error", "QUERY_TIMEOUT", "timeout"),
        ("cancelled", None, "cancelled"),
        ("ok", None, "ok"),
    ],
)
def test_how_a_call_ended_is_its_status(bench: Bench, outcome: str, code: str | None, status: str) -> None:
    _record(bench, "a", outcome=outcome, code=code)
    view = bench.view("a")
    assert view.tool_calls[0].status == status
    failed = ("trade_execute",) if status in ("error", "timeout") else ()
    assert view.brief.failed_tools == failed
    assert view.brief.summary == ("Failed: trade_execute" if failed else "")


def test_each_call_is_folded_once_by_whoever_comes_first(bench: Bench) -> None:
    other = Bench(bench.path.parent)
    for _ in range(3):
        _record(bench, "a")
        bench.etg.catch_up()
        other.etg.catch_up()
    assert len(bench.view("a").tool_calls) == 3
    assert bench.view("a").brief.calls == 3
    other.etg.close()


def test_more_calls_than_one_transaction_folds_are_all_folded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "BATCH", 2)
    for _ in range(5):
        _record(bench, "a")
    assert len(bench.view("a").tool_calls) == 5


def test_a_rebuild_makes_the_same_attempts_of_events_and_calls(bench: Bench) -> None:
    bench.start("a", "shell")
    _record(bench, "a", outcome="error", code="X")
    bench.end("a", "shell", project="/repo")
    _record(bench, "b")
    before = [bench.view(name) for name in ("a", "b")]
    bench.etg.rebuild()
    after = [bench.view(name) for name in ("a", "b")]
    assert [view.tool_calls for view in after] == [view.tool_calls for view in before]
    assert [view.brief.summary for view in after] == [view.brief.summary for view in before]
    assert after[0].brief == before[0].brief


# --- pruning -----------------------------------------------------------------------------------


def _later(bench: Bench, text: str) -> None:
    bench.clock.set(parse(text).ns)
    bench.etg.close()


def _prune(bench: Bench, kinds: tuple[str, ...] = ()) -> prune.Outcome:
    home = Home(bench.path.parent)
    chosen = prune.plan(home, before_ns=bench.clock.now_ns() + 1, kinds=kinds, clock=bench.clock)
    return prune.prune(home, chosen, clock=bench.clock, refold=forget_for_good)


@pytest.fixture
def pruned(tmp_path: Path) -> Bench:
    """A home whose November is sealed: attempts of November, of December, and of both."""
    Home.open(tmp_path)
    bench = Bench(tmp_path)
    bench.log("old", "context_retrieved", {"files": ["old.py"], "query": "kumquat"})
    bench.start("both", "shell", {"n": 1})
    bench.log("both", "checkpoint", {"message": "tangerine", "graph_version": "v", "files": ["old.py"]})
    _record(bench, "both", "old_call", outcome="error", code="X")
    _record(bench, "calls-only", "old_call")
    bench.etg.catch_up()
    _later(bench, "2026-12-05T12:00:00Z")
    bench.end("both", "shell")
    bench.log("both", "checkpoint", {"message": "clementine", "graph_version": "v"})
    _record(bench, "both", "new_call")
    bench.log("new", "checkpoint")
    return bench


def test_what_was_pruned_is_gone_from_every_table_and_the_rest_is_worked_out_anew(pruned: Bench) -> None:
    assert len(_prune(pruned).streams) == 2
    assert pruned.find("old") is None
    assert pruned.find("calls-only") is None
    view = pruned.view("both")
    assert [event.kind for event in view.events] == ["tool_end", "checkpoint"]
    assert [(call.tool, call.pairing) for call in view.tool_calls] == [
        ("shell", "orphan"),
        ("new_call", "record"),
    ]
    assert (view.files, view.brief.summary, view.brief.failed_tools) == ((), "Steps: clementine", ())
    assert view.brief.started_ns == parse("2026-12-05T12:00:00Z").ns
    assert len(pruned.view("new").events) == 1
    before = [pruned.view("both"), pruned.view("new")]
    pruned.etg.rebuild()
    assert [view.events for view in (pruned.view("both"), pruned.view("new"))] == [v.events for v in before]
    assert verify(pruned.path).is_sound
    pruned.etg.close()


def test_words_that_were_pruned_are_not_in_the_file_any_more(tmp_path: Path) -> None:
    Home.open(tmp_path)
    bench = Bench(tmp_path)
    payload = {"message": "pomelo kumquat " * 50, "graph_version": "v", "files": ["tangerine.py"]}
    bench.etg.log_many([NewEvent(f"old{n}", "checkpoint", payload) for n in range(100)])
    bench.clock.set(NOON + 30 * DAY)
    bench.etg.close()
    bench.log("new", "checkpoint", {"message": "clementine", "graph_version": "v"})
    bench.etg.close()
    assert _prune(bench).freed > 0
    raw = b"".join(file.read_bytes() for file in tmp_path.glob("trace.db*"))
    assert b"clementin" in raw
    for word in (b"pomelo", b"kumquat", b"tangerin", b"old42"):
        assert word not in raw


def test_calls_alone_can_be_pruned(pruned: Bench) -> None:
    _prune(pruned, ("calls",))
    assert [call.tool for call in pruned.view("both").tool_calls] == ["shell", "new_call"]
    assert pruned.find("calls-only") is None
    assert pruned.find("old") is not None
    pruned.etg.close()


def test_an_attempt_that_was_pruned_by_another_program_is_forgotten_at_the_next_look(pruned: Bench) -> None:
    with Journal(pruned.path, pruned.clock) as journal:
        journal.prune("etg-2026-11")
    assert pruned.find("old") is None
    assert pruned.rows("SELECT rowid FROM attempt_fts WHERE attempt_fts MATCH 'kumquat'") == []
    pruned.etg.close()


def test_calls_that_were_pruned_before_they_were_folded_are_no_trouble(tmp_path: Path) -> None:
    Home.open(tmp_path)
    bench = Bench(tmp_path)
    _record(bench, "a")
    bench.clock.set(NOON + 30 * DAY)
    _record(bench, "b")
    _prune(bench)
    assert bench.find("a") is None
    assert len(bench.view("b").tool_calls) == 1
    bench.etg.close()
