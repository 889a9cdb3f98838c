"""Detection of a rollback: `ledger.db` or `trace.db` replaced by an older copy, while the other went on.

Each of the two stores the other's newest committed heads (`journal.heads`). The check reads what one file
stores and looks it up in the other: a head that the other file lacks was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tracedesk.journal import heads
from tracedesk.journal.file import open_reader
from tracedesk.journal.heads import Contradiction, Heads, Unreadable, Witness
from tracedesk.journal.model import Head, JournalError
from tracedesk.journal.sqlite import (
    BusyError,
    CantOpenError,
    Connection,
    DiskIOError,
    FullError,
    Patience,
    SQLiteError,
    connect,
)

TRACE: Final = "trace.db"
LEDGER: Final = "ledger.db"
REMEDY: Final = "Put both files back from one backup; what was written after it is lost."


@dataclass(frozen=True, slots=True)
class Loss:
    """A head that was committed to a file, and that the file no longer has."""

    file: str
    stream: str
    seq: int
    problem: str
    stored_by: str
    """The file, or anchor, that names the lost head."""

    @property
    def text(self) -> str:
        return f"{self.file}, {self.stream}: {self.problem_by}"

    @property
    def problem_by(self) -> str:
        """The problem, with the file that shows it."""
        return f"{self.problem}, as {self.stored_by} has stored"

    def document(self) -> dict[str, object]:
        facts: dict[str, object] = {"file": self.file, "stream": self.stream or None, "seq": self.seq}
        return {**facts, "problem": self.problem, "storedBy": self.stored_by}


@dataclass(frozen=True, slots=True)
class Witnesses:
    """The two witnesses of a desk: what it commits to either file is stored in the other."""

    trace: Witness
    ledger: Witness

    @staticmethod
    def of(home: Path) -> Witnesses:
        trace, ledger = Heads(), Heads()
        return Witnesses(
            Witness(trace, ledger, _asking(home / LEDGER)), Witness(ledger, trace, _asking(home / TRACE))
        )


def check(home: Path, files: tuple[str, ...] = (TRACE, LEDGER)) -> list[Loss]:
    """The heads that these files have lost, as far as the other one of the two stores them."""
    found: list[Loss] = []
    for file, other in ((TRACE, LEDGER), (LEDGER, TRACE)):
        if file in files:
            # Read first what was stored, and then the file: it can only have gone on meanwhile.
            found += missing(home / file, _stored(home / other), other)
    return found


def missing(path: Path, wanted: Mapping[str, Head], stored_by: str, name: str = "") -> list[Loss]:
    """The heads among `wanted` that the file at `path` does not have; `name` is its name in a report."""
    name = name or path.name
    if not wanted:
        return []
    if not path.exists():
        return [
            Loss(name, stream, head.seq, "the file is missing", stored_by) for stream, head in wanted.items()
        ]
    try:
        with _open(path) as contradiction:
            problems = [(stream, head, contradiction(stream, head)) for stream, head in wanted.items()]
    except Unreadable as fault:
        return [Loss(name, "", 0, str(fault), stored_by)]
    return [Loss(name, s, head.seq, problem, stored_by) for s, head, problem in problems if problem]


@contextmanager
def snapshot(home: Path) -> Generator[dict[str, Connection]]:
    """Open both files in read transactions, of states in which neither lacks a head that the other stores.

    A copy made of these raises no alarm. Nobody is locked out: where a writer came between the two, the
    transactions are begun again. A file that is missing or no database is left out.
    """
    with ExitStack() as stack:
        opened: dict[str, Connection] = {}
        before: Mapping[str, Head] = {}
        while True:
            # The ledger comes first: what it stores of the trace, the trace has by the time it is read.
            for file in (LEDGER, TRACE):
                _begin(home / file, opened, stack)
            lacking = _lacking(opened)
            # A head lacking twice was not committed between the two reads: it is lost, and stays so.
            if not lacking or lacking == before:
                break
            before = lacking
        yield opened


def _begin(path: Path, opened: dict[str, Connection], stack: ExitStack) -> None:
    """Begin a read transaction, or begin it anew."""
    connection = opened.get(path.name)
    if connection is None:
        if not path.exists():
            return
        connection = stack.enter_context(closing(connect(path, read_only=True)))
        connection.set_busy_handler(Patience())
    else:
        connection.execute("COMMIT")
    connection.execute("BEGIN")
    try:
        connection.pragma("user_version")  # the first read fixes the state
    except SQLiteError:
        connection.close()
    else:
        opened[path.name] = connection


def _lacking(opened: Mapping[str, Connection]) -> Mapping[str, Head]:
    """The heads that the trace stores and the ledger lacks."""
    trace, ledger = opened.get(TRACE), opened.get(LEDGER)
    try:
        stored = {} if trace is None else heads.stored(trace)
        if ledger is None:
            return stored
        contradiction = contradiction_in(LEDGER)
        return {stream: head for stream, head in stored.items() if contradiction(ledger, stream, head)}
    except SQLiteError:
        return {}  # a damaged file: its copy is checked like the file itself


def contradiction_in(file: str) -> Callable[[Connection, str, Head], str | None]:
    """The way to look up a head in a file of that name."""
    if file != LEDGER:
        return heads.contradiction

    from tracedesk.trading.schema import contradiction

    return lambda connection, _, head: contradiction(connection, head)


def _stored(path: Path) -> Mapping[str, Head]:
    """The heads that the file at `path` stores; a file that cannot be read is a fault of other checks."""
    if not path.exists():
        return {}
    try:
        with _connected(path) as connection:
            return heads.stored(connection)
    except Unreadable:
        return {}


def _asking(path: Path) -> Contradiction:
    """Look a head up in the file, which is opened for each question: it may be replaced meanwhile."""

    def ask(stream: str, head: Head) -> str | None:
        if not path.exists():
            return "the file is missing"
        try:
            with _open(path) as contradiction:
                return contradiction(stream, head)
        except SQLiteError as fault:
            raise Unreadable(str(fault)) from None

    return ask


@contextmanager
def _open(path: Path) -> Generator[Contradiction]:
    with _connected(path) as connection:
        yield partial(contradiction_in(path.name), connection)


@contextmanager
def _connected(path: Path) -> Generator[Connection]:
    from tracedesk.trading.schema import LedgerError
    from tracedesk.trading.schema import open_reader as open_ledger

    opener = open_ledger if path.name == LEDGER else open_reader
    try:
        with closing(opener(path)) as connection:
            yield connection
    except (BusyError, CantOpenError, DiskIOError, FullError):
        raise  # the file is not damaged: it is held by others, or its disk is full or read-only
    except (SQLiteError, JournalError, LedgerError) as fault:
        raise Unreadable(f"the file cannot be read: {fault}") from None
