"""Transactions: what is appended in one lasts or goes with all of it."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from tests.journal.samples import entries, entry, raw
from tracedesk.journal import BadEntry, Journal, Reader, SeqConflict, verify
from tracedesk.journal.append import Transaction
from tracedesk.journal.sqlite import Connection, SQLiteError
from tracedesk.primitives.time import ManualClock


def _heads(path: Path, *names: str) -> list[int]:
    with Reader(path) as reader:
        return [reader.head(name).seq for name in names]


def _two(journal: Journal) -> None:
    for name in ("a", "b"):
        journal.open(name, "run")


def _undone(journal: Journal, work: Callable[[], object]) -> None:
    """Do it in a transaction that fails in the end."""
    with Transaction(journal.connection):
        work()
        raise ArithmeticError("the end")


_LARGE = entry(1)._replace(body=b"x" * 100_000)


def _filled(journal: Journal) -> Connection:
    """Two streams on a disk that has no room for more."""
    _two(journal)
    connection = journal.connection
    connection.pragma("max_page_count", connection.pragma("page_count"))
    return connection


def _fail(connection: Connection, first: int) -> None:
    raise ArithmeticError("the projection cannot be made")


def test_appends_of_one_transaction_are_there_together(journal: Journal, path: Path) -> None:
    _two(journal)
    with Transaction(journal.connection):
        journal.append("a", entries(1))
        journal.append("b", entries(2))
        assert _heads(path, "a", "b") == [0, 0], "nobody sees them yet"
    assert _heads(path, "a", "b") == [1, 2]
    assert verify(path).is_sound


def test_what_ends_a_transaction_undoes_the_appends_before(journal: Journal, path: Path) -> None:
    _two(journal)
    with pytest.raises(ArithmeticError, match="the end"):
        _undone(journal, lambda: journal.append("a", entries(1)))
    assert _heads(path, "a") == [0]
    assert journal.append("a", entries(1)) == range(1, 2)
    assert verify(path).is_sound


@pytest.mark.parametrize("count", [1, 3])
def test_an_append_that_fails_half_way_undoes_all_whoever_catches_it(
    journal: Journal, path: Path, count: int
) -> None:
    _two(journal)

    def go_on() -> None:
        with Transaction(journal.connection):
            journal.append("a", entries(count))
            with suppress(ArithmeticError):
                journal.append("b", entries(count), beside=_fail)
            journal.append("a", entries(count))

    with pytest.raises(ArithmeticError, match="cannot be made"):
        go_on()
    assert not journal.connection.in_transaction
    assert _heads(path, "a", "b") == [0, 0]
    assert journal.append("b", entries(count)) == range(1, count + 1)
    assert verify(path).is_sound


def test_a_transaction_goes_on_after_a_refusal_that_wrote_nothing(journal: Journal, path: Path) -> None:
    _two(journal)
    with Transaction(journal.connection):
        journal.append("a", entries(1))
        with pytest.raises(BadEntry):
            journal.append("b", [entry(1, parent=5)])
        with pytest.raises(SeqConflict):
            journal.append("b", entries(1), expect=7)
        journal.append("b", entries(1))
    assert _heads(path, "a", "b") == [1, 1]
    assert verify(path).is_sound


def test_a_transaction_inside_another_can_be_undone_alone(journal: Journal, path: Path) -> None:
    _two(journal)
    with Transaction(journal.connection):
        journal.append("a", entries(1))
        with pytest.raises(ArithmeticError), Transaction(journal.connection):
            journal.append("b", entries(1), beside=_fail)
        journal.append("a", entries(1))
    assert _heads(path, "a", "b") == [2, 0]
    assert verify(path).is_sound


def test_a_full_disk_that_is_passed_over_is_told_in_the_end(journal: Journal, path: Path) -> None:
    connection = _filled(journal)
    with pytest.raises(SQLiteError, match="full"), Transaction(connection), suppress(SQLiteError):
        journal.append("a", [_LARGE])
    connection.pragma("max_page_count", 1_000_000)
    assert journal.append("a", entries(1)) == range(1, 2)
    assert verify(path).is_sound


def test_nothing_is_kept_that_comes_after_a_full_disk_has_undone_the_rest(
    journal: Journal, path: Path
) -> None:
    connection = _filled(journal)

    def go_on() -> None:
        with Transaction(connection):
            journal.append("a", entries(1))
            with suppress(SQLiteError):
                journal.append("b", [_LARGE])
            assert not connection.in_transaction
            with suppress(SQLiteError):
                journal.append("a", entries(2))

    with pytest.raises(SQLiteError, match="full"):
        go_on()
    assert _heads(path, "a", "b") == [0, 0]
    assert verify(path).is_sound


def test_a_full_disk_that_let_nothing_be_written_undoes_the_rest_too(journal: Journal, path: Path) -> None:
    connection = _filled(journal)

    def go_on() -> None:
        with Transaction(connection):
            journal.append("a", entries(1))
            with suppress(SQLiteError):
                journal.open("c", "run", {"note": "x" * 100_000})

    with pytest.raises(SQLiteError, match="full"):
        go_on()
    connection.pragma("max_page_count", 1_000_000)
    assert _heads(path, "a") == [0]


def test_an_append_after_a_transaction_inside_is_still_part_of_the_outer(
    journal: Journal, path: Path
) -> None:
    _two(journal)

    def go_on() -> None:
        with Transaction(journal.connection):
            with Transaction(journal.connection):
                journal.append("a", entries(1))
            with suppress(ArithmeticError):
                journal.append("b", entries(1), beside=_fail)

    with pytest.raises(ArithmeticError, match="cannot be made"):
        go_on()
    assert _heads(path, "a", "b") == [0, 0]


def test_a_stream_whose_commit_could_not_be_written_is_made_again(path: Path) -> None:
    clock = ManualClock(1)
    with Journal(path, clock) as journal:

        def make() -> None:
            with Transaction(journal.connection):
                journal.open("a", "run")
                journal.append("a", [entry(1)._replace(body=b"x" * 100_000)])

        largest = max(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 1_000, hard))
        try:
            with pytest.raises(SQLiteError, match="disk"):
                make()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        clock.set(2)
        assert journal.open("a", "run").created_ns == 2
        assert journal.append("a", entries(1)) == range(1, 2)
    assert verify(path).is_sound


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("bare", [False, True])
def test_a_stream_that_was_undone_is_made_again(path: Path, bare: bool, inside: bool) -> None:
    clock = ManualClock(1)
    with Journal(path, clock) as journal:

        def make() -> None:
            journal.open("a", "run")
            journal.append("a", entries(1))
            raise ArithmeticError("the end")

        connection = journal.connection
        with (
            connection if inside else nullcontext(),
            pytest.raises(ArithmeticError, match="the end"),
            connection if bare else Transaction(connection),
        ):
            make()
        clock.set(2)
        journal.open("b", "run")
        assert journal.open("a", "run").created_ns == 2
        assert journal.append("a", entries(1)) == range(1, 2)
    report = verify(path)
    assert (report.events, report.faults) == (1, [])


def test_a_projection_made_in_a_transaction_goes_with_it(journal: Journal, path: Path) -> None:
    _two(journal)
    journal.connection.execute("CREATE TABLE total(seq INTEGER)")

    def count(connection: Connection, first: int) -> None:
        connection.execute("INSERT INTO total VALUES(?)", (first,))

    with pytest.raises(ArithmeticError, match="the end"):
        _undone(journal, lambda: journal.append("a", entries(1), beside=count))
    with Transaction(journal.connection):
        journal.append("b", entries(1), beside=count)
    with raw(path) as connection:
        assert list(connection.execute("SELECT seq FROM total")) == [(1,)]
    assert _heads(path, "a", "b") == [0, 1]
