"""Random events of several attempts, doubled, late and orphaned: the trace says what plain lists say."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.codegraph.etg.bench import SECOND, Bench
from tests.codegraph.etg.plain import Plain, shown
from tests.codegraph.etg.rows import tables
from tests.judges.size import Size
from tracedesk.codegraph.etg.log import month
from tracedesk.codegraph.etg.model import NewEvent, event_ref
from tracedesk.journal import verify
from tracedesk.primitives.time import parse

NEW_YEAR = parse("2027-01-01T00:00:00Z").ns
"""Events are logged around the end of a month, by desks whose clocks differ: two streams grow in turn."""

_attempts = st.sampled_from(["a", "b", "git:c"])
_times = st.none() | st.integers(-20, 20).map(lambda seconds: NEW_YEAR + seconds * SECOND)
_tools = st.sampled_from(["shell", "edit"])
_files = st.lists(st.sampled_from(["a.py", "/r/a.py", "./b.py", "/s/c.py", "."]), max_size=3)
_words = st.sampled_from(["", "fix the parser", "parser", "It fails. Badly.", "npm test"])
_said = st.fixed_dictionaries({}, optional={"query": _words, "summary": st.sampled_from(["", "mine"])})
_statuses = st.sampled_from(["ok", "error", "timeout", "odd"])


def _with(needed: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(_both, st.fixed_dictionaries(needed), _said)


def _both(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    return {**one, **two}


_payloads = {
    "tool_start": _with(
        {"tool": _tools, "arguments": st.fixed_dictionaries({"path": st.sampled_from("xy")})}
    ),
    "tool_end": st.one_of(
        _with({"tool": _tools, "status": _statuses}),
        _with({"tool": _tools, "status": _statuses, "duration_ms": st.integers(0, 3)}),
    ),
    "checkpoint": _with({"message": _words, "graph_version": st.just("v"), "files": _files}),
    "context_retrieved": _with({"files": _files}),
    "answer_rendered": _with({"content": _words, "citations": st.lists(st.just("a.py:3"), max_size=1)}),
}
_outcomes = st.none() | st.sampled_from(["succeeded", "failed"])


@st.composite
def _events(draw: st.DrawFn) -> NewEvent:
    kind = draw(st.sampled_from([*_payloads, "tool_start", "tool_end"]))
    speaks = kind in ("checkpoint", "answer_rendered")
    return NewEvent(
        attempt_id=draw(_attempts),
        kind=kind,
        payload=draw(_payloads[kind]),
        timestamp_ns=draw(_times),
        project=draw(st.sampled_from([None, None, None, "/r", "/s"])),
        outcome=draw(_outcomes) if speaks else None,
        call_id=draw(st.sampled_from([None, "1", "2"])) if kind.startswith("tool") else None,
        event_id=draw(st.sampled_from([None, None, None, "e1", "e2"])),
    )


class Tracing(RuleBasedStateMachine):
    """One desk ahead of the other by a few seconds, over the end of a year."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.desks = [Bench(self.folder), Bench(self.folder)]
        self.desks[0].clock.set(NEW_YEAR + SECOND)
        self.desks[1].clock.set(NEW_YEAR - 6 * SECOND)
        self.plain = Plain()
        self.logged: list[NewEvent] = []
        self.changed: set[str] = set()
        for desk in (0, 1):  # who has logged once may log at once
            self._log(NewEvent("a", "context_retrieved", {"files": [f"{desk}.py"]}), desk)

    @rule(event=_events(), desk=st.integers(0, 1))
    def log(self, event: NewEvent, desk: int) -> None:
        self._log(event, desk)

    @precondition(lambda self: bool(self.logged))
    @rule(data=st.data(), desk=st.integers(0, 1))
    def log_again(self, data: st.DataObject, desk: int) -> None:
        self._log(data.draw(st.sampled_from(self.logged)), desk)

    @rule(events=st.lists(_events(), max_size=6), desk=st.integers(0, 1))
    def log_many(self, events: list[NewEvent], desk: int) -> None:
        bench = self.desks[desk]
        answers = bench.etg.log_many(events)
        for event, answer in zip(events, answers, strict=True):
            self._compare(event, bench.clock.now_ns(), answer.event_id, answer.ref, answer.duplicate)

    @rule(seconds=st.sampled_from([0.5, 3]))
    def wait(self, seconds: float) -> None:
        for bench in self.desks:
            bench.clock.advance(seconds)

    @rule(desk=st.integers(0, 1))
    def rebuild(self, desk: int) -> None:
        self.desks[desk].etg.rebuild()
        self.changed |= self.plain.attempts.keys()

    @rule(event=_events(), desk=st.integers(0, 1))
    def log_at_once(self, event: NewEvent, desk: int) -> None:
        self._log(event, desk, at_once=True)

    @precondition(lambda self: bool(self.logged))
    @rule(data=st.data(), desk=st.integers(0, 1))
    def log_again_at_once(self, data: st.DataObject, desk: int) -> None:
        self._log(data.draw(st.sampled_from(self.logged)), desk, at_once=True)

    def _log(self, event: NewEvent, desk: int, *, at_once: bool = False) -> None:
        bench = self.desks[desk]
        answer = (bench.etg.log_at_once(event) if at_once else None) or bench.etg.log(event)
        self._compare(event, bench.clock.now_ns(), answer.event_id, answer.ref, answer.duplicate)

    def _compare(self, event: NewEvent, now_ns: int, event_id: str, ref: str, duplicate: bool) -> None:
        known = self.plain.log(event, now_ns, month(now_ns), event_id)
        assert duplicate == (known is not None)
        place = known.place if known else (month(now_ns), self.plain.seqs[month(now_ns)])
        assert ref == event_ref(*place)
        assert known is None or known.event_id == event_id
        self.logged.append(event)

        self.changed.add(event.attempt_id)

    @rule(desk=st.integers(0, 1))
    def says_what_plain_lists_say(self, desk: int) -> None:
        for name in self.changed:
            assert shown(self.desks[desk].view(name)) == self.plain.view(name)
        self.changed.clear()

    def teardown(self) -> None:
        self.says_what_plain_lists_say(0)
        before = tables(self.folder / "trace.db") if self.plain.attempts else {}
        if before:
            self.desks[0].etg.rebuild()
            assert tables(self.folder / "trace.db") == before
            assert verify(self.folder / "trace.db").is_sound
        for bench in self.desks:
            bench.etg.close()
        shutil.rmtree(self.folder)


Tracing.TestCase.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
test_random_events_are_traced_as_in_plain_lists = Tracing.TestCase


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_very_many_random_events_are_traced_as_in_plain_lists(size: Size) -> None:
    examples = size.of(judge=100, prove=300)
    run_state_machine_as_test(
        Tracing, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None)
    )
