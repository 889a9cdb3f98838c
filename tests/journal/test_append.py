"""Appending: batches, seqs, parents, and what is written beside them."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.journal.samples import as_events, entries, entry, fill, raw, rows
from tracedesk.journal import (
    BadEntry,
    Entry,
    Journal,
    JournalBusy,
    Reader,
    SeqConflict,
    UnknownStream,
    verify,
)
from tracedesk.journal import sqlite as journal_sqlite
from tracedesk.journal.append import Transaction
from tracedesk.journal.file import MAX_SEQ, SMALL_PAGE, key
from tracedesk.journal.sqlite import Connection, ConstraintError, SQLiteError
from tracedesk.primitives.time import ManualClock


def test_a_batch_gets_the_next_seqs_without_a_gap(journal: Journal) -> None:
    journal.open("a", "run")
    assert journal.append("a", entries(3)) == range(1, 4)
    assert journal.append("a", entries(1)) == range(4, 5)
    assert journal.append("a", entries(2)) == range(5, 7)


def test_streams_of_one_file_count_separately(journal: Journal) -> None:
    for name in ("a", "b"):
        journal.open(name, "run")
    assert journal.append("a", entries(3)) == range(1, 4)
    assert journal.append("b", entries(2)) == range(1, 3)
    assert journal.append("a", entries(1)) == range(4, 5)


def test_events_keep_to_their_streams_whichever_stream_comes_last(journal: Journal, path: Path) -> None:
    for name in ("a", "b"):
        journal.open(name, "run")
    for name in ("a", "a", "b", "a", "b", "b"):
        journal.append(name, entries(700))
    journal.seal("b")
    journal.prune("b")
    journal.append("a", entries(9))
    journal.open("c", "run")
    for name in ("c", "a", "c"):
        journal.append(name, entries(3))
    with Reader(path) as reader:
        seqs = {name: [event.seq for event in reader.events(name)] for name in ("a", "c")}
    assert seqs == {"a": list(range(1, 2_113)), "c": list(range(1, 7))}
    assert verify(path).is_sound


def test_an_empty_batch_appends_nothing(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    assert len(journal.append("a", [])) == 0
    assert verify(path).events == 0


def test_events_come_back_as_they_were_given(journal: Journal, path: Path) -> None:
    given = [
        Entry("MarketData", 0, b""),
        Entry("Ünïcode ✓", -(2**63), bytes(range(256)), 1),
        Entry("k" * 128, 2**63 - 1, b'{"a":1}' * 50_000, 1),
        Entry("nul\0inside", 1, b"\0", 3),
    ]
    journal.open("a", "run")
    journal.append("a", given)
    with Reader(path) as reader:
        assert reader.events("a") == as_events(given)
    assert verify(path).is_sound


def test_opening_a_stream_again_returns_the_one_there_is(journal: Journal, path: Path) -> None:
    made = journal.open("a", "run", {"seed": 7})
    assert journal.open("a", "other", {"seed": 8}) == made
    assert made.meta == {"seed": 7}
    with Reader(path) as reader:
        assert reader.streams() == [made]


def test_only_an_earlier_event_can_be_a_parent(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    journal.append("a", [entry(1), entry(2, parent=1), entry(3, parent=2)])
    journal.append("a", [entry(4, parent=1), entry(5, parent=4)])
    with Reader(path) as reader:
        assert [e.parent for e in reader.events("a")] == [None, 1, 2, 1, 4]


@pytest.mark.parametrize("parent", [0, -1, 3, 4, 2**40])
def test_any_other_parent_is_refused_and_the_batch_with_it(journal: Journal, path: Path, parent: int) -> None:
    journal.open("a", "run")
    journal.append("a", entries(1))
    with pytest.raises(BadEntry, match="not an earlier event"):
        journal.append("a", [entry(2), entry(3, parent=parent)])
    with Reader(path) as reader:
        assert reader.head("a").seq == 1


@pytest.mark.parametrize(
    "bad",
    [Entry("", 0, b""), Entry("k" * 129, 0, b""), Entry("k", 2**63, b""), Entry("k", -(2**63) - 1, b"")],
)
def test_an_entry_out_of_bounds_is_refused_and_the_batch_with_it(
    journal: Journal, path: Path, bad: Entry
) -> None:
    journal.open("a", "run")
    with pytest.raises(BadEntry):
        journal.append("a", [entry(1), bad])
    assert verify(path).events == 0
    assert journal.append("a", entries(1)) == range(1, 2)


@pytest.mark.parametrize(
    "bad",
    [
        Entry("", 0, b""),
        Entry("k" * 129, 0, b""),
        Entry("k", 2**63, b""),
        Entry("k", -(2**63) - 1, b""),
        *(entry(2, parent=parent) for parent in (0, -1, 2, 3, 2**40)),
    ],
)
def test_an_entry_is_refused_alone_as_it_is_among_others(journal: Journal, path: Path, bad: Entry) -> None:
    journal.open("a", "run")
    journal.append("a", entries(1))
    with pytest.raises(BadEntry, match="event 2 "):
        journal.append("a", [bad])
    assert verify(path).events == 1
    assert journal.append("a", [entry(2, parent=1)]) == range(2, 3)


@pytest.mark.parametrize("count", [1, 2])
def test_a_stream_whose_seqs_are_used_up_takes_no_more(journal: Journal, path: Path, count: int) -> None:
    stream = journal.open("a", "run")
    with raw(path) as connection:
        last = MAX_SEQ + 1 - count
        connection.execute("INSERT INTO batch VALUES(?,?,zeroblob(32))", (key(stream.id, last), last))
    with pytest.raises(BadEntry, match="full"):
        journal.append("a", entries(count))


def test_events_appended_one_by_one_are_like_those_of_a_batch(tmp_path: Path) -> None:
    given = [entry(1), entry(2, parent=1), Entry("Ünïcode ✓", -(2**63), bytes(range(256)), 1)]
    found: list[list[object]] = []
    for name, batches in (("one.db", [[e] for e in given]), ("all.db", [given])):
        with Journal(tmp_path / name) as journal:
            journal.open("a", "run")
            for batch in batches:
                journal.append("a", batch)
        with raw(tmp_path / name) as connection:
            found.append(list(connection.execute("SELECT * FROM event ORDER BY id")))
        assert verify(tmp_path / name).is_sound
    assert found[0] == found[1]


@pytest.mark.parametrize("count", [1, 2, 700])
def test_a_batch_by_columns_is_like_the_same_batch_by_entries(tmp_path: Path, count: int) -> None:
    given = [entry(1), *(entry(n, parent=n - 1 if n % 3 else None) for n in range(2, count + 1))]
    heads: list[bytes] = []
    for name, by_columns in (("entries", False), ("columns", True)):
        path = tmp_path / f"{name}.db"
        with Journal(path, ManualClock(0)) as journal:
            journal.open("a", "run")
            if by_columns:
                seqs = journal.append_columns("a", *map(list, zip(*given, strict=True)), expect=1)
            else:
                seqs = journal.append("a", given)
        assert seqs == range(1, count + 1)
        assert verify(path).is_sound
        with Reader(path) as reader:
            assert [event[1:] for event in reader.events("a", 0, limit=count)] == given
            heads.append(reader.head("a").hash)
    assert heads[0] == heads[1]


@pytest.mark.parametrize("parents", [[None], [None, 1, None], [None, 2], [None, 0]])
def test_columns_that_make_no_batch_are_refused_as_a_whole(
    journal: Journal, path: Path, parents: list[int | None]
) -> None:
    journal.open("a", "run")
    with pytest.raises(BadEntry):
        journal.append_columns("a", ["k", "k"], [1, 2], [b"", b""], parents)
    assert journal.append_columns("a", [], [], [], []) == range(0)
    assert verify(path).events == 0


def test_a_new_file_has_the_pages_it_is_to_have_and_keeps_them(path: Path) -> None:
    with Journal(path, page=SMALL_PAGE) as journal:
        assert journal.connection.pragma("page_size") == SMALL_PAGE
    with Journal(path) as journal:
        assert journal.connection.pragma("page_size") == SMALL_PAGE


@pytest.mark.parametrize("name", ["", "n" * 257])
def test_a_stream_needs_a_name_of_1_to_256_characters(journal: Journal, name: str) -> None:
    with pytest.raises(BadEntry, match="1 to 256"):
        journal.open(name, "run")


def test_a_stream_must_be_opened_before_it_is_appended_to(journal: Journal) -> None:
    with pytest.raises(UnknownStream, match="'a'"):
        journal.append("a", entries(1))


def test_a_sole_writer_learns_that_it_is_not_alone(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    assert journal.append("a", entries(2), expect=1) == range(1, 3)
    with Journal(path) as other:
        other.append("a", entries(1))
    with pytest.raises(SeqConflict) as conflict:
        journal.append("a", entries(1), expect=3)
    assert (conflict.value.expected, conflict.value.found) == (3, 4)
    assert journal.append("a", entries(1), expect=4) == range(4, 5)


def test_what_is_written_beside_is_there_with_the_events(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    journal.connection.execute("CREATE TABLE total(seq INTEGER)")

    def count(connection: Connection, first: int) -> None:
        connection.execute("INSERT INTO total VALUES(?)", (first,))

    journal.append("a", entries(3), beside=count)
    journal.append("a", entries(3), beside=count)
    with raw(path) as connection:
        assert list(connection.execute("SELECT seq FROM total")) == [(1,), (4,)]
    assert verify(path).is_sound


def test_a_failure_beside_leaves_neither_events_nor_projection(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    journal.append("a", entries(2))
    journal.connection.execute("CREATE TABLE total(seq INTEGER)")

    def fail(connection: Connection, first: int) -> None:
        connection.execute("INSERT INTO total VALUES(?)", (first,))
        raise ArithmeticError("the projection cannot be made")

    with pytest.raises(ArithmeticError):
        journal.append("a", entries(3), beside=fail)
    with raw(path) as connection:
        assert list(connection.execute("SELECT seq FROM total")) == []
    report = verify(path)
    assert (report.events, report.is_sound) == (2, True)
    assert journal.append("a", entries(1)) == range(3, 4)


@pytest.mark.parametrize("table", ["stream", "event", "batch", "seal", "tombstone"])
def test_no_row_can_be_changed_removed_or_replaced_by_any_program(
    journal: Journal, path: Path, table: str
) -> None:
    fill(journal)
    attempts = (
        f"UPDATE {table} SET rowid = rowid + 1000000",
        f"DELETE FROM {table}",
        f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
        f"REPLACE INTO {table} SELECT * FROM {table} LIMIT 1",
        f"INSERT INTO {table} SELECT * FROM {table} WHERE 1 ON CONFLICT DO UPDATE SET rowid = rowid + 1",
    )
    with raw(path) as connection:
        before = rows(connection)
        for attempt in attempts:
            with pytest.raises(ConstraintError, match="immutable"):
                connection.execute(attempt)
        assert rows(connection) == before


def test_a_stream_cannot_be_replaced_by_name(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    with raw(path) as connection, pytest.raises(ConstraintError, match="immutable"):
        connection.execute("REPLACE INTO stream VALUES(99, 'a', 'run', 0, x'7b7d', zeroblob(32))")


def test_a_writer_kept_waiting_too_long_says_that_the_journal_is_busy(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_sqlite, "BUSY_SECONDS", 0.05)
    journal.open("a", "run")
    with raw(path) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalBusy):
            journal.append("a", entries(1))
        holder.execute("ROLLBACK")
    assert journal.append("a", entries(1)) == range(1, 2)


def test_a_full_disk_is_told_as_what_it_is_and_leaves_nothing_behind(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    journal.append("a", entries(1))
    connection = journal.connection
    connection.pragma("max_page_count", connection.pragma("page_count"))
    with pytest.raises(SQLiteError, match="full"), Transaction(connection):
        journal.append("a", [Entry("k", 0, b"x" * 100_000)])
    assert not connection.in_transaction
    connection.pragma("max_page_count", 1_000_000)
    assert journal.append("a", entries(1)) == range(2, 3)
    assert verify(path).is_sound


def test_a_commit_that_cannot_be_written_is_told_as_what_it_is(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    journal.append("a", entries(1))
    largest = max(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 1_000, hard))
    try:
        with pytest.raises(SQLiteError, match="disk"):
            journal.append("a", [Entry("k", 0, b"x" * 100_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not journal.connection.in_transaction
    assert journal.append("a", entries(1)) == range(2, 3)
    assert verify(path).is_sound
