"""Reading attempts: how they ended, the timeline in pages, and where references lead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codegraph.etg.bench import NOON, SECOND, Bench
from tracedesk.codegraph.etg import read, source
from tracedesk.codegraph.etg.model import attempt_ref, event_ref
from tracedesk.codegraph.etg.read import Timeline, Wanted
from tracedesk.contract import Edge, Source
from tracedesk.errors import ToolError

DAY = 86_400


def _verdict(bench: Bench, name: str = "a") -> tuple[str, str, float]:
    verdict = bench.view(name).brief.verdict
    return verdict.outcome, verdict.source, verdict.confidence


# --- outcomes ----------------------------------------------------------------------------------


def test_an_outcome_that_was_given_is_certain_and_the_latest_counts(bench: Bench) -> None:
    bench.log("a", "answer_rendered", outcome="succeeded", timestamp_ns=NOON + SECOND)
    bench.log("a", "checkpoint", outcome="failed", timestamp_ns=NOON)
    bench.start("a", "shell", {"cmd": "npm test"})
    bench.end("a", "shell", "error")
    assert _verdict(bench) == ("succeeded", "given", 1.0)


@pytest.mark.parametrize(
    ("status", "outcome"), [("ok", "succeeded"), ("error", "failed"), ("timeout", "failed")]
)
def test_the_last_test_or_build_tells_how_the_work_stands(bench: Bench, status: str, outcome: str) -> None:
    bench.start("a", "shell", {"cmd": "npm test"}, timestamp_ns=NOON + 10)
    bench.end("a", "shell", status, timestamp_ns=NOON + 11)
    bench.start("a", "shell", {"cmd": "make"}, timestamp_ns=NOON)
    bench.end("a", "shell", "error" if status == "ok" else "ok", timestamp_ns=NOON + 1)
    bench.end("a", "read_file", "error", timestamp_ns=NOON + 12)
    assert _verdict(bench) == (outcome, "inferred", 0.6)
    bench.log("a", "answer_rendered", timestamp_ns=NOON + 20)
    assert _verdict(bench) == (outcome, "inferred", 0.8)


@pytest.mark.parametrize(("status", "expected"), [("ok", ("succeeded", 0.5)), ("error", ("failed", 0.4))])
def test_without_a_test_an_answer_is_weak_evidence(
    bench: Bench, status: str, expected: tuple[str, float]
) -> None:
    bench.end("a", "read_file", status)
    bench.log("a", "answer_rendered")
    assert _verdict(bench) == (expected[0], "inferred", expected[1])


def test_a_tool_that_fails_after_the_answer_says_nothing_about_it(bench: Bench) -> None:
    bench.end("a", "read_file", "ok", timestamp_ns=NOON)
    bench.log("a", "answer_rendered", timestamp_ns=NOON + 1)
    bench.end("a", "fetch", "error", timestamp_ns=NOON + 2)
    assert _verdict(bench) == ("succeeded", "inferred", 0.5)
    bench.log("a", "answer_rendered", {"content": "It did not work."}, timestamp_ns=NOON + 3)
    assert _verdict(bench) == ("failed", "inferred", 0.4)


def test_an_attempt_without_an_answer_is_open_for_a_day_and_then_abandoned(bench: Bench) -> None:
    bench.start("a", "edit")
    bench.clock.advance(DAY)
    assert (bench.view("a").brief.state, _verdict(bench)) == ("open", ("unknown", "inferred", 0.0))
    bench.clock.advance(0.001)
    assert (bench.view("a").brief.state, _verdict(bench)) == ("closed", ("abandoned", "inferred", 0.5))


def test_an_attempt_whose_question_was_asked_again_is_superseded(bench: Bench) -> None:
    for name in ("a", "b"):
        bench.log(name, "context_retrieved", {"files": [], "query": "Fix  the parser"}, project="/r")
        bench.clock.advance(60)
    bench.log("c", "context_retrieved", {"files": [], "query": "fix the PARSER"}, project="/other")
    assert _verdict(bench, "a") == ("superseded", "inferred", 0.4)
    assert _verdict(bench, "b") == ("unknown", "inferred", 0.0)
    bench.clock.advance(2 * DAY)
    assert _verdict(bench, "a") == ("superseded", "inferred", 0.6)
    assert _verdict(bench, "b") == ("abandoned", "inferred", 0.5)


def test_an_answer_closes_an_attempt_until_something_follows_it(bench: Bench) -> None:
    bench.log("a", "answer_rendered")
    assert bench.view("a").brief.state == "closed"
    bench.clock.advance(1)
    bench.start("a", "shell")
    assert bench.view("a").brief.state == "open"


# --- the timeline ------------------------------------------------------------------------------


def _timeline(bench: Bench, wanted: Wanted | None = None, **how: Any) -> Timeline:
    return bench.read(lambda reader: read.timeline(reader, bench.clock.now_ns(), wanted, **how))


def _names(page: Timeline) -> list[str]:
    return [brief.attempt_id for brief in page.attempts]


def _ten(bench: Bench) -> None:
    for n in range(10):
        bench.log(
            f"a{n}",
            "checkpoint",
            {"message": f"m{n}", "graph_version": "v", "files": [f"{n % 2}.py"]},
            timestamp_ns=NOON + n * SECOND,
            project=f"/p{n % 2}",
            outcome="failed" if n % 3 == 0 else "succeeded",
        )


def test_the_timeline_is_latest_first_in_pages_that_neither_repeat_nor_miss(bench: Bench) -> None:
    _ten(bench)
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = _timeline(bench, limit=3, cursor=cursor)
        names += _names(page)
        cursor = page.cursor(len(page.attempts))
        if not page.more:
            break
        bench.log(f"new{len(names)}", "checkpoint", timestamp_ns=NOON + 60 * SECOND)
    assert names == [f"a{n}" for n in range(9, -1, -1)]


def test_a_page_that_is_cut_shorter_goes_on_after_what_was_shown(bench: Bench) -> None:
    _ten(bench)
    page = _timeline(bench, limit=6)
    assert _names(_timeline(bench, limit=2, cursor=page.cursor(4))) == ["a5", "a4"]
    assert _names(_timeline(bench, limit=2, cursor=page.cursor(0))) == ["a9", "a8"]
    later = _timeline(bench, limit=2, cursor=page.cursor(6))
    assert _names(_timeline(bench, limit=1, cursor=later.cursor(0))) == ["a3"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Wanted(project="/p0"), ["a8", "a6", "a4", "a2", "a0"]),
        (Wanted(outcome="failed"), ["a9", "a6", "a3", "a0"]),
        (Wanted(since_ns=NOON + 7 * SECOND), ["a9", "a8", "a7"]),
        (Wanted(until_ns=NOON + SECOND), ["a1", "a0"]),
        (Wanted(path="1.py", outcome="failed"), ["a9", "a3"]),
        (Wanted(project="/none"), []),
        (Wanted(path="./1.py", outcome="failed"), ["a9", "a3"]),
        (Wanted(path="/p1/1.py", outcome="failed"), ["a9", "a3"]),
        (Wanted(path="/p1/1.py", project="/p1", outcome="failed"), ["a9", "a3"]),
        (Wanted(path="/p0/1.py"), []),
        (Wanted(path="\x1b"), []),
    ],
)
def test_the_timeline_is_filtered(bench: Bench, wanted: Wanted, names: list[str]) -> None:
    _ten(bench)
    assert _names(_timeline(bench, wanted)) == names


def test_an_outcome_is_looked_for_in_bounded_pages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_MOST_LOOKED_AT", 2)
    _ten(bench)
    first = _timeline(bench, Wanted(outcome="failed"))
    assert (_names(first), first.more) == (["a9"], True)
    second = _timeline(bench, Wanted(outcome="failed"), cursor=first.cursor(1))
    third = _timeline(bench, Wanted(outcome="failed"), cursor=second.cursor(1))
    assert (_names(second), _names(third), third.more) == (["a6"], [], True)
    assert _names(_timeline(bench, Wanted(outcome="failed"), cursor=third.cursor(0))) == ["a3"]


def test_attempts_that_are_only_our_own_look_ups_are_not_shown_unless_asked_for(bench: Bench) -> None:
    bench.start("look", "graph_search")
    assert _names(_timeline(bench)) == []
    assert _names(_timeline(bench, Wanted(evidence_only=False))) == ["look"]


@pytest.mark.parametrize("cursor", ["", "x", "1", "1.", ".1", "1.2.3", "9" * 30 + ".1", "١.١"])
def test_an_invented_cursor_is_refused(bench: Bench, cursor: str) -> None:
    with pytest.raises(ToolError, match="cursor"):
        _timeline(bench, cursor=cursor)


@pytest.mark.parametrize("started", ["-9999999999999999999", "9999999999999999999"])
def test_a_cursor_beyond_all_times_is_at_the_end_of_them(bench: Bench, started: str) -> None:
    _ten(bench)
    assert len(_names(_timeline(bench, cursor=f"{started}.1"))) == (0 if started[0] == "-" else 10)


def test_a_brief_names_the_files_that_were_changed_first(bench: Bench) -> None:
    bench.log("a", "context_retrieved", {"files": ["read.py"]}, source="hook")
    bench.log("a", "context_retrieved", {"files": ["read.py", "x.py"]})
    bench.log("a", "checkpoint", {"message": "m", "graph_version": "v", "files": ["changed.py"]})
    brief = bench.view("a").brief
    assert (brief.files, brief.file_count) == (("changed.py", "read.py", "x.py"), 3)
    assert brief.source == "hook"


# --- pages of events ---------------------------------------------------------------------------


def test_every_event_is_on_one_page_whatever_arrives_meanwhile(bench: Bench) -> None:
    logged = [bench.log("a", "checkpoint", timestamp_ns=NOON + n // 2, event_id=str(n)) for n in range(7)]
    seen, cursor = list[str](), None
    while True:
        page = bench.read(lambda r, c=cursor: read.attempt(r, "a", NOON, limit=3, cursor=c))
        assert page is not None
        assert not page.complete
        seen += [event.event_id for event in page.events]
        bench.log("a", "checkpoint", timestamp_ns=NOON - 1, event_id=f"late {len(seen)}")
        if not page.more:
            break
        cursor = page.cursor(3)
    assert seen == [each.event_id for each in logged]


def test_a_page_of_events_that_is_cut_shorter_goes_on_after_what_was_shown(bench: Bench) -> None:
    for n in range(4):
        bench.log("a", "checkpoint", timestamp_ns=NOON + n, event_id=str(n))
    whole = bench.view("a")
    assert (whole.more, whole.complete) == (False, True)
    for kept in range(4):
        cursor = whole.cursor(kept)
        rest = bench.read(lambda r, c=cursor: read.attempt(r, "a", NOON, cursor=c))
        assert rest is not None
        assert [event.event_id for event in rest.events] == [str(n) for n in range(kept, 4)]


def test_who_takes_an_attempt_elsewhere_gets_all_of_its_events(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MOST_EVENTS", 3)
    for number in range(7):
        bench.log("a", "checkpoint", event_id=str(number), timestamp_ns=NOON + number)
    assert len(bench.view("a").events) == 3
    found = bench.read(lambda reader: read.whole(reader, "a", NOON))
    assert found is not None
    assert [event.event_id for event in found.events] == list("0123456")
    assert not found.more


def test_the_tool_calls_of_a_long_attempt_are_its_newest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MOST_CALLS", 2)
    for n in range(4):
        bench.end("a", f"tool{n}", timestamp_ns=NOON + n)
    view = bench.view("a")
    assert [call.tool for call in view.tool_calls] == ["tool2", "tool3"]
    assert not view.complete


# --- references --------------------------------------------------------------------------------


def _source(bench: Bench, ref: str) -> Source | None:
    def file_ref(project: str, path: str) -> str:
        return f"tracedesk://codegraph/files/{project.strip('/')}/{path}"

    return bench.read(lambda reader: source.resolve(reader, ref, bench.clock.now_ns(), file_ref))


def test_an_event_leads_to_its_attempt_its_call_its_payload_its_files_and_its_other_half(
    bench: Bench,
) -> None:
    start = bench.start("a/b", "edit_file", {"path": "x.py"}, project="/r")
    payload = {"tool": "edit_file", "status": "ok", "output": "y" * 70_000, "files": ["x.py"]}
    end = bench.log("a/b", "tool_end", payload)
    found = _source(bench, end.ref)
    assert found is not None
    assert (found.kind, found.ref, found.body["event_id"]) == ("event", end.ref, end.event_id)
    assert found.edges == (
        Edge("attempt", "tracedesk://codegraph/attempts/a%2Fb"),
        Edge("payload", found.body["payload_ref"]),
        Edge("started_by", start.ref),
        Edge("changes_file", "tracedesk://codegraph/files/r/x.py"),
    )
    other = _source(bench, start.ref)
    assert other is not None
    assert Edge("ended_by", end.ref) in other.edges


def test_a_bare_event_id_finds_its_event(bench: Bench) -> None:
    logged = bench.log("a", "checkpoint", event_id="mine-1")
    found = _source(bench, "mine-1")
    assert found is not None
    assert found.ref == logged.ref
    assert found.body["known"] is False


def test_an_output_elsewhere_is_an_edge(bench: Bench) -> None:
    logged = bench.log("a", "tool_end", {"tool": "x", "status": "ok", "output_ref": "log://attempt/1"})
    found = _source(bench, logged.ref)
    assert found is not None
    assert Edge("output", "log://attempt/1") in found.edges


def test_citations_are_shown_apart_and_those_that_cannot_be_are_kept(bench: Bench) -> None:
    payload = {"content": "x", "citations": ["/r/a.py:L3-L5", "the docs"]}
    found = _source(bench, bench.log("a", "answer_rendered", payload, project="/r").ref)
    assert found is not None
    assert found.body["citations"] == [
        {"text": "/r/a.py:L3-L5", "file": "/r/a.py", "start": 3, "end": 5},
        {"text": "the docs"},
    ]
    assert found.body["files"] == [{"path": "a.py", "role": "cited"}]


def test_an_attempt_leads_to_its_events(bench: Bench) -> None:
    refs = [bench.log("a b", "checkpoint").ref, bench.log("a b", "answer_rendered").ref]
    found = _source(bench, attempt_ref("a b"))
    assert found is not None
    assert (found.kind, found.body["attempt_id"], found.body["state"]) == ("attempt", "a b", "closed")
    assert [edge.ref for edge in found.edges] == refs


@pytest.mark.parametrize(
    "ref",
    [
        event_ref("etg-2026-11", 99),
        event_ref("etg-1999-01", 1),
        "tracedesk://codegraph/etg-2026-11/0",
        "tracedesk://codegraph/etg-2026-11/x",
        "tracedesk://codegraph/etg-2026-11/" + "9" * 40,
        "tracedesk://codegraph/calls-2026-11/1",
        attempt_ref("nobody"),
        "nothing",
        "x" * 5_000,
    ],
)
def test_an_invented_reference_leads_nowhere(bench: Bench, ref: str) -> None:
    bench.log("a", "checkpoint")
    assert _source(bench, ref) is None


def test_what_a_reference_leads_to_has_visible_characters_only(bench: Bench) -> None:
    payload = {
        "content": "\x1b[31mred\u202e\x07",
        "query": "why\x1b]0;title\x07",
        "citations": ["a\u202eb.py:1"],
    }
    logged = bench.log("a", "answer_rendered", {**payload, "odd\x1b[1m": ["\u2066deep"]})
    for ref in (logged.ref, attempt_ref("a")):
        found = _source(bench, ref)
        assert found is not None
        assert not set(str(found.body)) & set("\x1b\x07\u202e\u2066")
    event = _source(bench, logged.ref)
    assert event is not None
    assert (event.body["payload"]["content"], event.body["payload"]["odd"]) == ("red", ["deep"])


def test_a_long_text_is_whole_where_its_reference_leads(bench: Bench) -> None:
    logged = bench.log("a", "answer_rendered", {"content": "long " * 2_000})
    found = _source(bench, logged.ref)
    assert found is not None
    assert found.body["payload"]["content"] == "long " * 2_000
