"""Logging: on the disk when it is answered, once however often it comes, without secrets, bounded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.codegraph.etg.bench import NOON, PAYLOADS, SECOND, Bench
from tests.codegraph.etg.rows import tables
from tests.support import run, until
from tracedesk.calls import CallLog
from tracedesk.calls.log import find, prepare
from tracedesk.codegraph.etg import log, schema, tail
from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.etg.model import LARGEST_PAYLOAD, Logged, NewEvent, event_ref
from tracedesk.contract import Annotations, Call, Tool
from tracedesk.errors import STANDARD, ToolError
from tracedesk.journal import Journal, Reader, verify
from tracedesk.journal.file import SMALL_PAGE
from tracedesk.primitives import json
from tracedesk.primitives.ids import is_uuid, uuid7
from tracedesk.primitives.time import parse


def test_an_event_is_one_entry_of_the_months_stream_and_its_reference_says_which(bench: Bench) -> None:
    first, second = bench.log("a", "tool_start"), bench.log("b", "checkpoint")
    assert (first.ref, second.ref) == (event_ref("etg-2026-11", 1), event_ref("etg-2026-11", 2))
    assert is_uuid(first.event_id, 7)
    with Reader(bench.path) as reader:
        events = reader.events("etg-2026-11")
    assert [(event.kind, event.time_ns) for event in events] == [("tool_start", NOON), ("checkpoint", NOON)]
    assert verify(bench.path).is_sound


def test_a_second_process_sees_an_event_as_soon_as_it_is_answered(bench: Bench) -> None:
    bench.log("a", "checkpoint")
    other = Bench(bench.path.parent)
    assert len(other.view("a").events) == 1
    other.etg.close()


def test_a_flawed_event_of_many_keeps_all_of_its_batch_out(bench: Bench) -> None:
    events = [NewEvent("a", "checkpoint", PAYLOADS["checkpoint"]), NewEvent("a", "checkpoint", {})]
    with pytest.raises(ToolError):
        bench.etg.log_many(events)
    assert bench.find("a") is None


def test_many_events_are_answered_in_order_with_their_own_places(bench: Bench) -> None:
    events = [
        NewEvent(f"a{n % 3}", "checkpoint", {"message": str(n), "graph_version": "v"}, timestamp_ns=n)
        for n in range(1_200)
    ]
    logged = bench.etg.log_many(events)
    assert [one.ref for one in logged] == [event_ref("etg-2026-11", n + 1) for n in range(1_200)]
    assert [event.payload["message"] for event in bench.view("a1").events][:3] == ["1", "4", "7"]
    assert bench.view("a1").complete
    assert bench.view("a1").brief.events == 400


# --- time --------------------------------------------------------------------------------------


def test_without_a_timestamp_an_event_is_of_now(bench: Bench) -> None:
    bench.log("a", "checkpoint")
    assert bench.view("a").events[0].time_ns == NOON


def test_events_are_ordered_by_their_time_and_then_by_their_arrival(bench: Bench) -> None:
    for text, seconds in (("c", 30), ("a", 10), ("b1", 20), ("b2", 20)):
        payload = {"message": text, "graph_version": "v"}
        bench.log("x", "checkpoint", payload, timestamp_ns=NOON + seconds * SECOND)
    view = bench.view("x")
    assert [event.payload["message"] for event in view.events] == ["a", "b1", "b2", "c"]
    assert (view.brief.started_ns, view.brief.last_ns) == (NOON + 10 * SECOND, NOON + 30 * SECOND)


def test_a_skew_of_more_than_a_day_is_flagged_and_kept(bench: Bench) -> None:
    day = 86_400 * SECOND
    near = bench.log("a", "checkpoint", timestamp_ns=NOON - day)
    far = bench.log("a", "checkpoint", timestamp_ns=NOON + day + 1)
    assert near.warnings[1:] == ()
    assert "more than 24 hours" in far.warnings[1]
    assert [event.skewed for event in bench.view("a").events] == [False, True]


def test_history_of_git_is_old_by_nature(bench: Bench) -> None:
    logged = bench.log("a", "checkpoint", timestamp_ns=0, source="git")
    assert not any("24 hours" in warning for warning in logged.warnings)


# --- duplicates --------------------------------------------------------------------------------


def test_an_event_id_of_an_attempt_is_logged_once(bench: Bench) -> None:
    first = bench.log("a", "checkpoint", event_id="e1")
    bench.clock.advance(1_000)
    again = bench.log("a", "checkpoint", event_id="e1")
    assert (again.duplicate, again.ref, again.event_id) == (True, first.ref, "e1")
    assert len(bench.view("a").events) == 1


def test_an_event_id_that_comes_with_other_words_keeps_the_first_and_warns(bench: Bench) -> None:
    bench.log("a", "checkpoint", event_id="e1")
    again = bench.log("a", "checkpoint", {"message": "other", "graph_version": "v"}, event_id="e1")
    assert again.duplicate
    assert "said something else" in again.warnings[0]
    assert [event.payload["message"] for event in bench.view("a").events] == ["Wrote a patch"]


def test_event_ids_of_two_attempts_do_not_meet(bench: Bench) -> None:
    assert not bench.log("a", "checkpoint", event_id="1").duplicate
    assert not bench.log("b", "checkpoint", event_id="1").duplicate


def test_the_same_words_at_the_same_time_are_the_same_event_whatever_came_between(bench: Bench) -> None:
    first = bench.log("a", "checkpoint", timestamp_ns=NOON)
    bench.log("a", "tool_start")
    again = bench.log("a", "checkpoint", timestamp_ns=NOON)
    assert (again.duplicate, again.event_id) == (True, first.event_id)


def test_without_times_the_newest_event_that_comes_again_within_five_seconds_is_the_same(
    bench: Bench,
) -> None:
    first = bench.log("a", "checkpoint")
    bench.clock.advance(5)
    assert bench.log("a", "checkpoint").event_id == first.event_id
    bench.clock.advance(0.001)
    assert not bench.log("a", "checkpoint").duplicate


def test_members_in_another_order_say_the_same(bench: Bench) -> None:
    nested = {"path": "x", "depth": [{"a": 1, "b": 2}]}
    turned = {"depth": [{"b": 2, "a": 1}], "path": "x"}
    first = bench.log("a", "tool_start", {"tool": "grep", "arguments": nested})
    again = bench.log("a", "tool_start", {"arguments": turned, "tool": "grep"})
    assert (again.duplicate, again.event_id) == (True, first.event_id)


def test_a_tool_that_runs_twice_within_five_seconds_has_run_twice(bench: Bench) -> None:
    for _ in range(2):
        assert not bench.start("a", "read_file", {"path": "a.py"}).duplicate
        assert not bench.end("a", "read_file").duplicate
    assert len(bench.view("a").tool_calls) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": "b"},
        {"kind": "tool_end"},
        {"call_id": "7"},
        {"payload": {"tool": "x", "arguments": {}, "status": "no"}},
    ],
)
def test_what_differs_in_anything_is_another_event(bench: Bench, change: dict[str, Any]) -> None:
    same: dict[str, Any] = {
        "attempt": "a",
        "kind": "tool_start",
        "payload": {"tool": "x", "arguments": {}, "status": "ok"},
        "timestamp_ns": NOON,
    }
    bench.log(**same)
    assert not bench.log(**{**same, **change}).duplicate


def test_duplicates_inside_one_batch_are_found(bench: Bench) -> None:
    event = NewEvent("a", "checkpoint", PAYLOADS["checkpoint"], timestamp_ns=NOON)
    logged = bench.etg.log_many([event, event, event])
    assert [one.duplicate for one in logged] == [False, True, True]
    assert len({one.ref for one in logged}) == 1


# --- what must not be kept, and what is too much -----------------------------------------------


def test_secrets_are_redacted_before_anything_is_kept(bench: Bench, tmp_path: Path) -> None:
    bench.secrets.add("canary-credential-1")
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    arguments = {"password": "hunter2", "cmd": f"use {key}", "env": "canary-credential-1"}
    bench.start("a", "shell", arguments)
    bench.log("a", "answer_rendered", {"content": f"The key is {key}.", "query": "canary-credential-1?"})
    bench.log("a", "checkpoint", {"message": "x" * LARGEST_PAYLOAD + key, "graph_version": "v"})
    bench.etg.close()
    raw = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for secret in (key, "hunter2", "canary-credential-1"):
        assert secret.encode() not in raw
    assert b"[redacted:" in raw


def test_a_payload_of_more_than_64_kib_is_cut_here_and_whole_among_the_payloads(bench: Bench) -> None:
    output = "line\n" * 20_000
    bench.start("a", "shell")
    logged = bench.log(
        "a", "tool_end", {"tool": "shell", "status": "error", "output": output, "files": ["a.py"]}
    )
    assert "larger than 65536 bytes" in logged.warnings[0]
    event = bench.view("a").events[1]
    assert event.payload_ref is not None
    kept = bench.payloads.get(event.payload_ref.removeprefix("tracedesk://payloads/"))
    assert kept is not None
    assert json.loads(kept)["output"] == output
    assert event.payload["output"].startswith("line\nline")
    assert len(json.dumps(event.payload)) < LARGEST_PAYLOAD
    assert event.payload["output_ref"] == event.payload_ref
    call = bench.view("a").tool_calls[0]
    assert (call.status, call.output_ref) == ("error", event.payload_ref)


def test_a_payload_of_exactly_64_kib_is_whole(bench: Bench) -> None:
    frame = len(json.dumps({"content": ""}))
    content = "x" * (LARGEST_PAYLOAD - frame)
    bench.log("a", "answer_rendered", {"content": content})
    event = bench.view("a").events[0]
    assert event.payload["content"] == content
    assert event.payload_ref is None


@pytest.mark.parametrize(
    "payload",
    [
        {"tool": "x", "arguments": {f"k{n}": "v" * 50 for n in range(5_000)}},
        {"tool": "x", "arguments": {f"k{n}": {str(m): "v" for m in range(300)} for n in range(300)}},
        {"tool": "x" * 100_000, "arguments": {}},
        {"tool": "x", "arguments": {}, **{f"k{n}": "v" * 2_000 for n in range(2_000)}},
    ],
)
def test_a_large_payload_of_any_shape_fits_after_it_was_cut(bench: Bench, payload: dict[str, Any]) -> None:
    bench.log("a", "tool_start", payload)
    view = bench.view("a")
    assert len(json.dumps(view.events[0].payload)) <= LARGEST_PAYLOAD
    assert view.tool_calls[0].tool.startswith("x")


def test_the_files_of_a_cut_payload_are_still_linked(bench: Bench) -> None:
    files = [f"src/{n}/{'x' * 200}.py" for n in range(600)]
    bench.log("a", "checkpoint", {"message": "m", "graph_version": "v", "files": files})
    view = bench.view("a")
    assert 100 < view.brief.file_count < 600
    assert view.events[0].payload_ref is not None


def test_a_payload_past_the_payloads_own_caps_is_logged_without_its_whole(bench: Bench) -> None:
    bench.log("a", "answer_rendered", {"content": "It works. " + "x" * 2_000_000})
    event = bench.view("a").events[0]
    assert event.payload_ref is None
    assert event.payload["content"].startswith("It works.")
    assert bench.view("a").brief.summary == "Answer: It works."


# --- project and versions ----------------------------------------------------------------------


class _World:
    """Two indexed projects."""

    def __init__(self, only: str | None = None) -> None:
        self.only = only
        self.current = {"/repo": "cg1-r", "/other": "cg1-o"}

    def version(self, project: str | None) -> str | None:
        return self.current.get(project or self.only or "")

    def project_of(self, graph_version: str) -> str | None:
        return next((name for name, known in self.current.items() if known == graph_version), None)

    def only_project(self) -> str | None:
        return self.only


@pytest.mark.parametrize(
    ("only", "version", "project", "expected"),
    [
        (None, "v", None, "default"),
        ("/repo", "v", None, "/repo"),
        ("/repo", "cg1-o", None, "/other"),
        ("/repo", "cg1-o", "/third", "/third"),
    ],
)
def test_an_attempts_project_is_the_one_told_else_that_of_its_version_else_the_only_one(
    bench: Bench, only: str | None, version: str, project: str | None, expected: str
) -> None:
    bench.etg.world = _World(only)
    bench.log("a", "checkpoint", {"message": "m", "graph_version": version}, project=project)
    assert bench.view("a").brief.project == expected


def test_the_first_project_that_was_told_stays(bench: Bench) -> None:
    bench.etg.world = _World("/repo")
    bench.log("a", "tool_start")
    bench.log("a", "tool_end", project="/other")
    bench.log("a", "checkpoint", project="/third")
    assert bench.view("a").brief.project == "/other"


def test_an_attempts_version_is_the_graphs_when_it_began(bench: Bench) -> None:
    world = bench.etg.world = _World("/repo")
    bench.log("a", "tool_start")
    world.current["/repo"] = "cg1-later"
    bench.log("a", "tool_end")
    bench.log("b", "tool_start")
    assert [bench.view(name).brief.graph_version for name in "ab"] == ["cg1-r", "cg1-later"]


def test_a_version_that_no_graph_had_is_kept_and_flagged(bench: Bench) -> None:
    bench.etg.world = _World()
    known = bench.log("a", "checkpoint", {"message": "1", "graph_version": "cg1-r"})
    unknown = bench.log("a", "checkpoint", {"message": "2", "graph_version": "cg-2024-05-01T12:00:00Z"})
    assert known.warnings == ()
    assert "known: false" in unknown.warnings[0]
    assert [event.known for event in bench.view("a").events] == [True, False]


def test_a_traceparent_means_its_trace(bench: Bench) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    logged = bench.log(f"00-{trace}-b7ad6b7169203331-01", "checkpoint")
    bench.log(f"00-{trace}-00f067aa0ba902b7-00", "tool_start")
    bench.log(trace, "tool_end")
    assert logged.attempt_id == trace
    assert len(bench.view(f"00-{trace}-b7ad6b7169203331-01").events) == 3


# --- with the record of the call ---------------------------------------------------------------


async def _nothing(args: Any, call: Any) -> None: ...


_TOOL = Tool(
    name="etg_log_event",
    toolset="codegraph",
    description="Logs.",
    input={"type": "object"},
    output=None,
    annotations=Annotations(read_only=False),
    scope="write",
    family=STANDARD,
    deadline=1.0,
    handler=_nothing,
)


class _Desk:
    """An `Etg` and a call log on one file, as a desk has them."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder)
        parts = (self.bench.clock, self.bench.secrets, self.bench.payloads)
        self.bench.etg = Etg(self.bench.path, *parts, opened=prepare)
        self.calls = CallLog(self.bench.path, *parts)

    def log(self, event: NewEvent) -> tuple[Logged, str]:
        missing: Any = None
        call = Call(uuid7(), "stdio:1", None, 0.0, None, missing, missing)
        record = self.calls.open(call, _TOOL, {"attempt_id": event.attempt_id})

        def store(journal: Journal, logged: Logged) -> None:
            self.calls.store(journal, record, json.dumps({"event_id": logged.event_id}))

        logged = self.bench.etg.log(event, by=record.ref, beside=store)
        record.stored = True
        self.calls.close(record, "ok", None, b"{}", 1)
        return logged, call.id


def test_a_calls_record_and_its_event_are_one_transaction(tmp_path: Path) -> None:
    desk = _Desk(tmp_path)
    logged, call = desk.log(NewEvent("a", "checkpoint", PAYLOADS["checkpoint"]))
    desk.calls.stop()
    with Reader(desk.bench.path) as reader:
        record = find(reader, call)
        assert record is not None
        assert json.loads(record.body["result"]["text"]) == {"event_id": logged.event_id}
        assert len(reader.events("calls-2026-11")) == 1
    assert verify(desk.bench.path).is_sound
    event = desk.bench.view("a").events[0]
    assert event.by == f"tracedesk://calls/{call}"
    desk.bench.etg.close()


def test_when_the_record_cannot_be_written_the_event_is_not_there_and_the_next_one_is(tmp_path: Path) -> None:
    desk = _Desk(tmp_path)

    def fail(journal: Journal, logged: Logged) -> None:
        journal.open("calls-2026-11", "calls")
        raise OSError("no room")

    event = NewEvent("a", "checkpoint", PAYLOADS["checkpoint"])
    with pytest.raises(OSError, match="no room"):
        desk.bench.etg.log(event, beside=fail)
    assert desk.bench.find("a") is None
    logged, _ = desk.log(event)
    assert (logged.duplicate, logged.ref) == (False, event_ref("etg-2026-11", 1))
    assert verify(desk.bench.path).is_sound
    desk.bench.etg.close()


# --- months ------------------------------------------------------------------------------------


def test_a_past_month_is_sealed_a_day_after_its_end_and_attempts_go_on_in_the_next(bench: Bench) -> None:
    bench.start("a", "shell")
    bench.clock.set(parse("2026-12-01T12:00:00Z").ns)
    bench.end("a", "shell")
    with Reader(bench.path) as reader:
        assert reader.seal("etg-2026-11") is None
    bench.clock.set(parse("2026-12-02T00:00:01Z").ns)
    bench.etg.close()
    bench.log("a", "answer_rendered")
    with Reader(bench.path) as reader:
        assert reader.seal("etg-2026-11") is not None
        assert reader.seal("etg-2026-12") is None
    view = bench.view("a")
    assert [event.ref for event in view.events] == [
        event_ref("etg-2026-11", 1),
        event_ref("etg-2026-12", 1),
        event_ref("etg-2026-12", 2),
    ]
    assert view.tool_calls[0].pairing == "inferred"


def test_a_desk_whose_clock_is_behind_still_logs_to_the_month_before(bench: Bench) -> None:
    late = Bench(bench.path.parent)
    bench.clock.set(parse("2026-12-01T00:00:05Z").ns)
    bench.start("a", "shell")
    late.log("a", "context_retrieved", {"files": ["a.py"], "query": "why"}, project="/repo")
    bench.end("a", "shell")
    before = bench.view("a")
    bench.etg.rebuild()
    assert bench.view("a") == before
    assert (before.brief.project, before.brief.summary) == ("/repo", "why")
    late.etg.close()


# --- without waiting ---------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the disk is, no commit counts as slow."""
    monkeypatch.setattr(log, "SLOW_SECONDS", 3600.0)


def at_once(bench: Bench, attempt: str = "a") -> Logged | None:
    return bench.etg.log_at_once(NewEvent(attempt, "checkpoint", PAYLOADS["checkpoint"]))


def test_who_cannot_wait_logs_once_the_file_is_open(bench: Bench) -> None:
    assert at_once(bench) is None
    bench.log("a", "tool_start")
    logged = at_once(bench)
    assert logged is not None
    assert logged.ref == event_ref("etg-2026-11", 2)
    assert [event.kind for event in bench.view("a").events] == ["tool_start", "checkpoint"]


def test_who_cannot_wait_is_told_when_another_writes_and_nothing_has_happened(bench: Bench) -> None:
    bench.log("a", "tool_start")
    with Journal(bench.path) as other:
        with other.connection:
            assert at_once(bench) is None
        assert at_once(bench) is not None
    assert len(bench.view("a").events) == 2


def test_who_cannot_wait_is_told_at_the_turn_of_the_month(bench: Bench) -> None:
    bench.log("a", "tool_start")
    bench.clock.advance(40 * 86_400)
    assert at_once(bench) is None
    bench.log("a", "tool_end")
    assert at_once(bench) is not None
    assert len(bench.view("a").events) == 3


def steps(bench: Bench, numbers: range) -> list[Logged | None]:
    """Events of which none says what another does."""
    told = ({"message": f"step {number}", "graph_version": "v"} for number in numbers)
    return [bench.etg.log_at_once(NewEvent("a", "checkpoint", each)) for each in told]


def test_who_cannot_wait_is_told_when_too_much_is_left_to_take_in(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.log("a", "tool_start")
    monkeypatch.setattr(tail, "MOST", 3)
    assert [step is not None for step in steps(bench, range(4))] == [True, True, True, False]
    bench.log("a", "tool_end")
    assert None not in steps(bench, range(4, 7))
    assert len(bench.view("a").events) == 8


def test_too_much_that_others_have_left_is_told_as_well(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.log("a", "tool_start")
    other = Bench(bench.path.parent)
    other.log("b", "tool_start")
    assert None not in steps(other, range(4))
    monkeypatch.setattr(tail, "MOST", 3)
    assert at_once(bench) is None
    other.etg.close()
    assert at_once(bench) is not None


def test_a_few_slow_commits_are_accidents_and_after_more_who_cannot_wait_is_told_for_a_while(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.log("a", "tool_start")
    assert None not in steps(bench, range(8))
    monkeypatch.setattr(log, "SLOW_SECONDS", -1.0)
    assert [step is not None for step in steps(bench, range(8, 13))] == [True, True, True, True, False]
    bench.log("a", "tool_end")


def test_what_was_logged_at_once_is_in_the_tables_of_whoever_reads_or_closes(bench: Bench) -> None:
    bench.log("a", "tool_start")
    assert None not in steps(bench, range(5))
    assert len(tables(bench.path)["attempt_event"]) == 1
    bench.etg.catch_up()
    assert len(tables(bench.path)["attempt_event"]) == 6
    assert None not in steps(bench, range(5, 10))
    bench.etg.close()
    followed = tables(bench.path)
    assert len(followed["attempt_event"]) == 11
    bench.etg.rebuild()
    assert tables(bench.path) == followed


def test_whoever_leaves_something_to_take_in_is_called(tmp_path: Path) -> None:
    left: list[str] = []
    bench = Bench(tmp_path, left=lambda: left.append("called"))
    bench.log("a", "tool_start")
    assert left == []
    assert at_once(bench) is not None
    assert at_once(bench) is not None
    assert left == ["called"], "the second one was the same event"
    bench.etg.close()


@pytest.mark.parametrize("facts", [{}, {"event_id": "mine"}, {"timestamp_ns": NOON}])
@pytest.mark.parametrize("takes_in", [True, False])
def test_a_repeated_event_is_known_again_whoever_has_it_and_wherever_it_is(
    bench: Bench, facts: dict[str, Any], takes_in: bool
) -> None:
    other = Bench(bench.path.parent)
    for desk in (bench, other):
        desk.log("b", "tool_start")
    new = NewEvent("a", "checkpoint", PAYLOADS["checkpoint"], **facts)
    first = bench.etg.log_at_once(new)
    assert first is not None
    if takes_in:
        other.etg.catch_up()
    for desk in (other, bench, other):
        again = desk.etg.log_at_once(new)
        assert again == replace(first, duplicate=True, warnings=())
    assert len(bench.view("a").events) == 1
    other.etg.close()


def test_the_newest_event_is_known_although_others_have_taken_in_what_was_left(bench: Bench) -> None:
    other = Bench(bench.path.parent)
    for desk in (bench, other):
        desk.log("b", "tool_start")
    assert at_once(bench) is not None
    other.log("a", "tool_start")
    assert bench.etg.log_at_once(NewEvent("a", "tool_start", PAYLOADS["tool_start"])) is not None
    newest = at_once(bench)
    assert newest is not None
    assert not newest.duplicate, "it was said before, but not last"
    assert [event.kind for event in bench.view("a").events] == ["checkpoint", "tool_start", "checkpoint"]
    other.etg.close()


def test_an_event_is_known_again_although_another_has_made_the_tables_anew(bench: Bench) -> None:
    first = bench.log("a", "checkpoint", event_id="1")
    assert bench.etg.log_at_once(NewEvent("a", "tool_start", PAYLOADS["tool_start"])) is not None
    with Journal(bench.path) as other, other.connection:
        schema.empty(other.connection)
    new = NewEvent("a", "checkpoint", PAYLOADS["checkpoint"], event_id="1")
    assert bench.etg.log_at_once(new) is None, "what it could be told by is gone"
    assert bench.etg.log(new).ref == first.ref
    assert len(bench.view("a").events) == 2


def test_what_others_have_taken_in_is_not_left_for_long(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "MOST", 3)
    other = Bench(bench.path.parent)
    bench.log("a", "tool_start")
    assert None not in steps(bench, range(3))
    other.etg.catch_up()
    other.etg.close()
    assert at_once(bench) is None
    bench.log("a", "tool_end")
    assert at_once(bench) is not None


def test_closing_waits_for_nobody_and_leaves_the_rest_to_the_next(bench: Bench) -> None:
    bench.log("a", "tool_start")
    assert None not in steps(bench, range(2))
    with Journal(bench.path) as other, other.connection:
        bench.etg.close()
    assert len(tables(bench.path)["attempt_event"]) == 1
    assert len(bench.view("a").events) == 3


def test_who_cannot_wait_goes_on_while_what_was_logged_is_carried_into_the_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "CARRY_PAGES", 100)
    bench.log("a", "tool_start")
    with Journal(bench.path):  # so that the logger's is not the last to close, which would carry as well
        before = bench.path.stat().st_size
        for number in range(64):
            assert bench.etg.log_at_once(step(number)) is not None
        bench.etg.close()
        assert bench.path.stat().st_size > before
    assert len(bench.view("a").events) == 65


def step(number: int) -> NewEvent:
    return NewEvent("a", "checkpoint", {"message": f"step {number}", "graph_version": "v"})


def test_room_is_made_for_the_events_that_follow_the_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_PAGES", 512)
    bench.log("a", "tool_start")
    run(until(lambda: ahead(bench).stat().st_size >= 512 * SMALL_PAGE))
    room = ahead(bench).stat().st_size
    for number in range(20):
        assert bench.etg.log_at_once(step(number)) is not None
    assert ahead(bench).stat().st_size == room
    assert len(bench.view("a").events) == 21


def ahead(bench: Bench) -> Path:
    """The write-ahead log."""
    return bench.path.with_name(f"{bench.path.name}-wal")


def test_a_flawed_event_is_refused_also_at_once_and_the_next_is_logged(bench: Bench) -> None:
    bench.log("a", "tool_start")
    with pytest.raises(ToolError):
        bench.etg.log_at_once(NewEvent("a", "checkpoint", {}))
    assert at_once(bench) is not None


def test_the_write_ahead_log_stays_small_however_much_is_logged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "CARRY_PAGES", 400)
    monkeypatch.setattr(log, "MOST_PAGES", 512)
    for number in range(600):
        bench.log(f"a{number % 7}", "checkpoint", {"message": f"step {number}", "graph_version": "v"})
        bench.clock.advance(10)
    pages = ahead(bench).stat().st_size / SMALL_PAGE
    assert 512 <= pages < 1_024
    assert verify(bench.path).is_sound
