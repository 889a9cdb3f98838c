"""Any interleaving of what can be done to a journal, against a model in plain memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tracedesk.journal import (
    Cursor,
    Entry,
    Event,
    Journal,
    JournalError,
    Reader,
    StreamPruned,
    StreamSealed,
    UnknownStream,
    verify,
)

NAMES = st.sampled_from(["a", "b", "c"])
LIMITS = st.integers(1, 6)


class Follower:
    """A client that pages through a stream: what it holds, and all it was given."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cursor: str | None = None
        self.seen: list[Event] = []


class Interleavings(RuleBasedStateMachine):
    followers: Bundle[Any] = Bundle("followers")

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "journal.db"
        self.journal = Journal(self.path)
        self.reader = Reader(self.path)
        self.streams: dict[str, list[Event]] = {}
        self.sealed: dict[str, int] = {}
        self.pruned: set[str] = set()
        self.following: list[Follower] = []

    @rule(name=NAMES)
    def open(self, name: str) -> None:
        assert self.journal.open(name, "run").name == name
        self.streams.setdefault(name, [])

    @rule(name=NAMES, sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), back=st.integers(0, 9))
    def append(self, name: str, sizes: list[int], back: int) -> None:
        first = len(self.streams.get(name, [])) + 1
        given = [_entry(first + i, size, back) for i, size in enumerate(sizes)]
        if name not in self.streams:
            with pytest.raises(UnknownStream):
                self.journal.append(name, given)
        elif name in self.sealed:
            with pytest.raises(StreamSealed):
                self.journal.append(name, given)
        else:
            assert self.journal.append(name, given, expect=first) == range(first, first + len(given))
            self.streams[name] += [Event(first + i, *e) for i, e in enumerate(given)]

    @rule(name=NAMES)
    def seal(self, name: str) -> None:
        if name in self.streams:
            count = self.sealed.setdefault(name, len(self.streams[name]))
            assert self.journal.seal(name).manifest["events"] == count

    @rule(name=NAMES)
    def prune(self, name: str) -> None:
        if name in self.sealed:
            self.journal.prune(name)
            self.pruned.add(name)
        elif name in self.streams:
            with pytest.raises(JournalError):
                self.journal.prune(name)

    @rule(target=followers, name=NAMES)
    def follow(self, name: str) -> Follower:
        follower = Follower(name)
        self.following.append(follower)
        return follower

    @rule(follower=followers, limit=LIMITS)
    def page(self, follower: Follower, limit: int) -> None:
        if follower.name not in self.streams:
            with pytest.raises(UnknownStream):
                self.reader.page(follower.name, None, limit)
        elif follower.name in self.pruned:
            with pytest.raises(StreamPruned):
                self.reader.page(follower.name, None, limit)
        else:
            assert len(self._next(follower, limit)) <= limit

    @rule(name=NAMES, after=st.integers(0, 20), span=st.integers(0, 20), limit=LIMITS)
    def read(self, name: str, after: int, span: int, limit: int) -> None:
        if name in self.streams and name not in self.pruned:
            expected = self.streams[name][after : after + span][:limit]
            assert self.reader.events(name, after, after + span, limit) == expected

    @rule()
    def another_writer(self) -> None:
        self.journal.close()
        self.journal = Journal(self.path)

    @invariant()
    def the_journal_is_sound_and_agrees_with_the_model(self) -> None:
        report = verify(self.path)
        assert report.faults == []
        kept = [events for name, events in self.streams.items() if name not in self.pruned]
        found = (report.streams, report.pruned, report.events)
        assert found == (len(self.streams), len(self.pruned), sum(map(len, kept)))

    def _next(self, follower: Follower, limit: int) -> list[Event]:
        held = None if follower.cursor is None else Cursor.parse(follower.cursor, follower.name)
        page, cursor = self.reader.page(follower.name, held, limit)
        follower.cursor = cursor.text()
        follower.seen += page
        assert follower.seen == self.streams[follower.name][: len(follower.seen)]
        return page

    def teardown(self) -> None:
        for follower in self.following:
            if follower.name in self.streams and follower.name not in self.pruned:
                while self._next(follower, 7):
                    pass
                assert follower.seen == self.streams[follower.name], "each event exactly once"
        self.reader.close()
        self.journal.close()
        self.folder.cleanup()


def _entry(seq: int, size: int, back: int) -> Entry:
    parent = seq - back if 0 < seq - back < seq else None
    return Entry(f"kind-{size}", seq * 1_000, b"x" * size, parent)


def test_any_interleaving_agrees_with_a_plain_model() -> None:
    bounds = settings(
        max_examples=200,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(Interleavings, settings=bounds)
