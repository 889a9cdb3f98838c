"""Short write transactions, and the parts that others do in one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType

from tracedesk.journal.model import JournalBusy, JournalError
from tracedesk.journal.sqlite import BusyError, Connection, SQLiteError


class Transaction:
    """A short write transaction: begun at once, so that what it reads is what it writes on.

    What ends it early is what its user hears of, also where SQLite has undone everything by itself, as it
    does on a full disk, and refuses to undo it again.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._outer: Transaction | None = None
        self._failure: BaseException | None = None
        self._afterwards: list[Callable[[], None]] = []

    def __enter__(self) -> Connection:
        connection = self._connection
        try:
            connection.__enter__()
        except BusyError:
            raise JournalBusy("other writers held the journal for five seconds; try again") from None
        self._outer, connection.transaction = connection.transaction, self
        self._failure = None
        self._afterwards = []
        return connection

    def afterwards(self, work: Callable[[], None]) -> None:
        """Run `work` once all of it is on the disk; never, where it is undone."""
        self._afterwards.append(work)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.transaction = self._outer
        failure = self._failure
        if problem is not None or failure is None:
            self._end(kind, problem, trace)
        else:
            self._end(type(failure), failure, None)
            raise failure
        if problem is None:
            self._go_on_afterwards()

    def _go_on_afterwards(self) -> None:
        for work in self._afterwards:
            if self._outer is None:
                work()
            else:  # only a savepoint has ended: nothing is on the disk yet
                self._outer.afterwards(work)

    def fail(self, problem: BaseException) -> None:
        """Have all of it undone when it ends, also where someone goes on after this problem."""
        self._failure = self._failure or problem

    def go_on(self) -> None:
        """Raise if there is nothing to go on with: what comes after a failure would be kept by itself."""
        if self._failure is not None:
            raise self._failure
        if not self._connection.in_transaction:
            raise JournalError("the transaction was undone, and nothing of it is kept; begin another")

    def _end(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        outside = sys.exception()
        try:
            self._connection.__exit__(kind, problem, trace)
        except SQLiteError as fault:
            if self._connection.in_transaction:
                raise
            if problem is None:
                raise _first(fault, outside) from None


class Part:
    """Something done in a transaction that is open: the two last or go together.

    It needs no savepoint, which would copy each page before it is changed. What fails when it has written
    nothing can be caught; the transaction goes on without it.
    """

    def __init__(self, whole: Transaction, connection: Connection) -> None:
        self._whole = whole
        self.afterwards = whole.afterwards
        self._connection = connection
        self._before = 0

    def __enter__(self) -> Connection:
        self._whole.go_on()
        self._before = self._connection.total_changes()
        return self._connection

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        if problem is None:
            return
        connection = self._connection
        if connection.total_changes() != self._before or not connection.in_transaction:
            self._whole.fail(problem)


def writing(connection: Connection) -> Transaction | Part:
    """A transaction, or a part of the one that is open."""
    whole = connection.transaction
    return Transaction(connection) if whole is None else Part(whole, connection)


def _first(fault: BaseException, outside: BaseException | None) -> BaseException:
    """What began a row of failures, each met while the one before it was handled."""
    while fault.__context__ is not None and fault.__context__ is not outside:
        fault = fault.__context__
    return fault
