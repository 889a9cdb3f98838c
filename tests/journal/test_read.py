"""Reading: by seq, by range, one consistent state at a time, and never longer than the call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.journal.samples import as_events, entries
from tracedesk.journal import Journal, Reader, UnknownStream
from tracedesk.journal.read import interrupted
from tracedesk.journal.sqlite import InterruptError, SQLiteError


@pytest.fixture
def reader(journal: Journal, path: Path) -> Generator[Reader]:
    journal.open("a", "run", {"seed": 7})
    journal.append("a", entries(6))
    journal.append("a", entries(4, 7))
    with Reader(path) as opened:
        yield opened


def test_an_event_is_found_by_its_seq(reader: Reader) -> None:
    assert reader.event("a", 7) == as_events(entries(10))[6]
    assert reader.event("a", 0) is None
    assert reader.event("a", 11) is None


@pytest.mark.parametrize(
    ("after", "upto", "limit", "seqs"),
    [
        (0, 10, -1, range(1, 11)),
        (3, 7, -1, range(4, 8)),
        (3, 99, 2, range(4, 6)),
        (10, 99, -1, range(0)),
        (5, 5, -1, range(0)),
    ],
)
def test_a_range_excludes_its_start_and_includes_its_end(
    reader: Reader, after: int, upto: int, limit: int, seqs: range
) -> None:
    assert [e.seq for e in reader.events("a", after, upto, limit)] == list(seqs)


def test_a_range_never_reaches_into_the_next_stream(reader: Reader, journal: Journal) -> None:
    journal.open("b", "run")
    journal.append("b", entries(3))
    assert len(reader.events("a")) == 10
    assert len(reader.events("b")) == 3


def test_an_unknown_stream_is_named(reader: Reader) -> None:
    for ask in (reader.stream, reader.head, reader.events, reader.seal, reader.is_pruned):
        with pytest.raises(UnknownStream, match="'nowhere'"):
            ask("nowhere")


def test_a_reader_sees_what_was_appended_after_it_opened(reader: Reader, journal: Journal) -> None:
    journal.append("a", entries(1))
    assert reader.head("a").seq == 11
    assert len(reader.events("a")) == 11


def test_a_scan_stays_in_the_state_it_began_in(reader: Reader, journal: Journal) -> None:
    scan = reader.scan(reader.stream("a"))
    next(scan)
    journal.append("a", entries(5))
    assert [e.seq for e in scan] == list(range(2, 11))


def test_a_reader_cannot_write(reader: Reader) -> None:
    with pytest.raises(SQLiteError, match="readonly"):
        reader.connection.execute("INSERT INTO stream VALUES(9, 'z', 'run', 0, x'7b7d', zeroblob(32))")


CALLS: list[Callable[[Reader], object]] = [
    lambda r: r.streams(),
    lambda r: r.stream("a"),
    lambda r: r.head("a"),
    lambda r: r.seal("a"),
    lambda r: r.is_pruned("a"),
    lambda r: r.event("a", 3),
    lambda r: r.event("a", 99),
    lambda r: r.events("a", limit=2),
    lambda r: list(r.scan(r.stream("a"))),
    lambda r: r.page("a", None, 3),
]


@pytest.mark.parametrize("call", CALLS)
def test_no_read_transaction_outlives_a_call(
    reader: Reader, journal: Journal, call: Callable[[Reader], object]
) -> None:
    kept = call(reader)
    journal.append("a", entries(1))
    # Emptying the WAL needs every reader to have let go of it.
    busy, _, _ = next(journal.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
    assert busy == 0
    assert kept is not ...


def test_an_interrupt_from_another_thread_ends_a_long_scan(journal: Journal, path: Path) -> None:
    journal.open("long", "run")
    for _ in range(40):
        journal.append("long", entries(1_000))
    with Reader(path) as reader:
        over = threading.Event()

        def insist() -> None:
            while not over.is_set():
                reader.interrupt()

        insisting = threading.Thread(target=insist)
        insisting.start()
        try:
            with pytest.raises(InterruptError) as ended:
                reader.events("long")
        finally:
            over.set()
            insisting.join()
        assert interrupted(ended.value)
        assert len(reader.events("long")) == 40_000, "the reader serves on"
