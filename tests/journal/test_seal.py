"""Sealing and pruning: how a stream ends, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journal.samples import NOON_NS, entries, entry, raw
from tracedesk.journal import (
    Cursor,
    Entry,
    Journal,
    JournalError,
    Reader,
    SeqConflict,
    StreamPruned,
    StreamSealed,
    verify,
)
from tracedesk.journal.file import key
from tracedesk.journal.sqlite import Connection, ConstraintError, SQLiteError
from tracedesk.primitives.time import ManualClock


@pytest.fixture
def journal(path: Path) -> Journal:
    opened = Journal(path, ManualClock(NOON_NS))
    opened.open("a", "run")
    opened.append("a", [entry(1), Entry("Fill", NOON_NS - 5, b"{}"), entry(3)])
    return opened


def test_a_seal_says_what_the_stream_holds(journal: Journal, path: Path) -> None:
    sealed = journal.seal("a", extra={"strategy": "sma"})
    assert (sealed.status, sealed.ended_ns) == ("ended", NOON_NS)
    assert {k: v for k, v in sealed.manifest.items() if k not in ("head", "genesis")} == {
        "stream": "a",
        "kind": "run",
        "events": 3,
        "firstTimeNs": NOON_NS - 5,
        "lastTimeNs": NOON_NS + 3,
        "counts": {"Fill": 1, "Trade": 2},
        "strategy": "sma",
    }
    assert sealed.manifest["head"] == verify(path).heads["a"]
    with Reader(path) as reader:
        assert reader.seal("a") == sealed


def test_what_a_caller_adds_to_a_manifest_never_covers_a_fact(journal: Journal, path: Path) -> None:
    sealed = journal.seal("a", extra={"events": 99, "head": "00"})
    assert sealed.manifest["events"] == 3
    assert verify(path).is_sound


def test_sealing_again_returns_the_first_seal(journal: Journal, path: Path) -> None:
    first = journal.seal("a", "crashed")
    assert journal.seal("a", "ended", {"late": True}) == first
    assert first.status == "crashed"
    assert verify(path).is_sound


def test_an_empty_stream_can_be_sealed_and_pruned(journal: Journal, path: Path) -> None:
    journal.open("b", "run")
    assert journal.seal("b").manifest["events"] == 0
    assert verify(path).is_sound
    journal.prune("b")
    assert verify(path).is_sound


def test_a_sealed_stream_takes_no_event(journal: Journal, path: Path) -> None:
    journal.seal("a")
    with pytest.raises(StreamSealed):
        journal.append("a", entries(1))
    with Journal(path) as other, pytest.raises(StreamSealed):
        other.append("a", entries(1))
    assert verify(path).events == 3


def test_a_sealed_stream_takes_no_event_by_raw_sql_either(journal: Journal, path: Path) -> None:
    stream = journal.open("a", "run").id
    journal.seal("a")
    with raw(path) as connection:
        for insert, row in (
            ("INSERT INTO event VALUES(?,?,?,?,?)", (key(stream, 4), 0, None, "Trade", b"")),
            ("INSERT INTO batch VALUES(?,?,?)", (key(stream, 4), 4, bytes(32))),
        ):
            with pytest.raises(ConstraintError, match="sealed"):
                connection.execute(insert, row)


def test_only_a_sealed_stream_can_be_pruned(journal: Journal, path: Path) -> None:
    with pytest.raises(JournalError, match="not sealed"):
        journal.prune("a")
    with raw(path) as connection, pytest.raises(ConstraintError, match="only a sealed stream"):
        connection.execute("INSERT INTO tombstone VALUES(1, 0, zeroblob(32))")
    assert verify(path).events == 3


def test_pruning_leaves_the_manifest_and_a_tombstone(journal: Journal, path: Path) -> None:
    sealed = journal.seal("a")
    assert journal.prune("a") == journal.prune("a") == sealed
    report = verify(path)
    assert (report.streams, report.events, report.pruned, report.is_sound) == (1, 0, 1, True)
    with Reader(path) as reader:
        assert reader.is_pruned("a")
        assert reader.seal("a") == sealed


READS: list[Callable[[Reader], object]] = [
    lambda r: r.events("a"),
    lambda r: r.event("a", 2),
    lambda r: r.head("a"),
    lambda r: list(r.scan(r.stream("a"))),
    lambda r: r.page("a", None, 10),
    lambda r: r.page("a", Cursor("a", 1, 3), 10),
    lambda r: r.page("a", Cursor("a", 3, 3), 10),
]


@pytest.mark.parametrize("read", READS)
def test_reading_a_pruned_stream_answers_with_its_manifest(
    journal: Journal, path: Path, read: Callable[[Reader], object]
) -> None:
    journal.seal("a")
    journal.prune("a")
    with Reader(path) as reader, pytest.raises(StreamPruned) as pruned:
        read(reader)
    assert pruned.value.manifest["events"] == 3


def test_a_pruned_stream_stays_ended_and_keeps_its_name(journal: Journal, path: Path) -> None:
    made = journal.open("a", "run")
    journal.seal("a")
    journal.prune("a")
    assert journal.open("a", "run") == made
    for batch, expected in ((entries(1), None), (entries(1), 4), ([entry(4, parent=2)], 4)):
        with pytest.raises(StreamSealed):
            journal.append("a", batch, expect=expected)
    assert journal.seal("a").manifest["events"] == 3


def test_other_streams_do_not_notice_a_prune(journal: Journal, path: Path) -> None:
    journal.open("b", "run")
    journal.append("b", entries(5))
    journal.seal("a")
    journal.prune("a")
    with Reader(path) as reader:
        assert [e.seq for e in reader.events("b")] == [1, 2, 3, 4, 5]
    with pytest.raises(SeqConflict):
        journal.append("b", entries(1), expect=1)
    assert journal.append("b", entries(1), expect=6) == range(6, 7)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET kind = 'x'",
        "DELETE FROM event",
        "INSERT OR REPLACE INTO event SELECT id, 0, NULL, 'x', x'' FROM event",
        "INSERT INTO batch SELECT id + 9, last, hash FROM batch",
        "UPDATE stream SET kind = 'x'",
        "DROP TRIGGER event_is_never_changed",
        "ALTER TABLE event ADD COLUMN extra",
        "DROP TABLE batch",
    ],
)
def test_a_projection_cannot_touch_the_journals_tables_on_the_writers_connection(
    journal: Journal, path: Path, statement: str
) -> None:
    def meddle(connection: Connection, first: int) -> None:
        connection.execute(statement)

    with pytest.raises(SQLiteError, match="not authorized"):
        journal.append("a", entries(1), beside=meddle)
    report = verify(path)
    assert (report.events, report.is_sound) == (3, True)
