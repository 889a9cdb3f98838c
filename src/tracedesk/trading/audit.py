"""Proof that a ledger is what was written: its file, its chain, its sums and its caches."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tracedesk.journal import heads
from tracedesk.journal.format import DEFINITIONS
from tracedesk.journal.sqlite import BusyError, Connection, InterruptError, SQLiteError
from tracedesk.journal.verify import has_log
from tracedesk.trading import book
from tracedesk.trading.ledger import cached, gather
from tracedesk.trading.schema import (
    CHILDREN,
    GENESIS,
    OPEN_ORDERS,
    LedgerError,
    Rows,
    definitions,
    entry_of,
    link,
    open_reader,
)

FAULTS: Final = 50
"""Faults that are kept; a ledger with more has lost its case already."""

_PAGE: Final = 200
_FIRST: Final = -(2**63)
_DAMAGE: Final = (SQLiteError, LedgerError, ValueError, TypeError, AttributeError, LookupError)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is not as it was written, and the entry it concerns."""

    seq: int | None
    problem: str


@dataclass(slots=True)
class Report:
    """What was checked, and what was found."""

    entries: int = 0
    head: str = GENESIS.hex()
    """The last entry's hash: remembered elsewhere, it tells when entries were cut off or rewritten."""
    faults: list[Fault] = field(default_factory=list[Fault])

    @property
    def is_sound(self) -> bool:
        return not self.faults

    def blame(self, seq: int | None, problem: str) -> None:
        if len(self.faults) < FAULTS:
            self.faults.append(Fault(seq, problem))


def verify(path: Path, *, progress: Callable[[int], None] | None = None) -> Report:
    """Check a whole ledger as it is now, in memory that does not grow with it."""
    report = Report()
    with _noting(report), closing(open_reader(path)) as connection, connection:
        _check_file(connection, path, report)
        _check_strays(connection, report)
        _check_orders(connection, report)
        courses = _check_entries(connection, report, progress)
        _check_courses(connection, courses, report)
        _check_open_orders(connection, report)
    return report


@contextmanager
def _noting(report: Report) -> Generator[None]:
    """What a damaged file makes the reading fail with is a fault; a busy or interrupted one is not."""
    try:
        yield
    except (BusyError, InterruptError):
        raise
    except _DAMAGE as problem:
        report.blame(None, f"the file cannot be read: {problem}")


# --- the file ----------------------------------------------------------------------------------


def _check_file(connection: Connection, path: Path, report: Report) -> None:
    for (text,) in connection.execute("PRAGMA integrity_check(1)"):
        if text != "ok":
            report.blame(None, text)
    found, wanted = dict(connection.execute(DEFINITIONS)), definitions()
    wrong = heads.changed_definitions(found)
    named = {*found, *wanted}.difference(heads.definitions())
    changed = sorted([*wrong, *(name for name in named if found.get(name) != wanted.get(name))])
    if changed:
        report.blame(None, f"tables or guards are missing, changed or added: {', '.join(changed)}")
    # Pages that were let go stay in the file until the log is written back to it.
    size = connection.pragma("page_count") * connection.pragma("page_size")
    if not has_log(path) and path.stat().st_size > size:
        report.blame(None, "the file is longer than the ledger in it")


def _check_strays(connection: Connection, report: Report) -> None:
    for table in CHILDREN:
        query = f"SELECT entry FROM {table} WHERE entry NOT IN (SELECT seq FROM entry) LIMIT 1"
        for (seq,) in connection.execute(query):
            report.blame(seq, f"the table {table} has rows of no entry")


def _check_orders(connection: Connection, report: Report) -> None:
    for table in ("order_state", "fill"):
        query = f"SELECT entry FROM {table} WHERE order_id NOT IN (SELECT id FROM trade_order) LIMIT 1"
        for (seq,) in connection.execute(query):
            report.blame(seq, f"the table {table} has rows of no order")
    last = "SELECT filled FROM order_state WHERE order_id = id ORDER BY entry DESC, line DESC LIMIT 1"
    total = "SELECT coalesce(sum(quantity), 0) FROM fill WHERE order_id = id"
    query = f"SELECT entry, id FROM trade_order WHERE ({last}) IS NOT ({total}) LIMIT {FAULTS}"
    for seq, identifier in connection.execute(query):
        report.blame(seq, f"the fills of order {identifier!r} are not what its last state says")


# --- the entries -------------------------------------------------------------------------------


def _check_entries(
    connection: Connection, report: Report, progress: Callable[[int], None] | None
) -> dict[str, book.Course]:
    """Walk the chain, and fold every account on the way."""
    courses: dict[str, book.Course] = {}
    last, head, after = 0, GENESIS, _FIRST
    query = f"SELECT seq FROM entry WHERE seq > ? ORDER BY seq LIMIT {_PAGE}"
    while seqs := [seq for (seq,) in connection.execute(query, (after,))]:
        for rows in gather(connection, seqs):
            if rows.entry[0] != last + 1:
                report.blame(last + 1, "an entry is missing, or one is too many")
            if link(head, rows) != rows.hash:
                report.blame(rows.entry[0], "the entry is not what was written")
            _check_entry(rows, courses, report)
            last, head = rows.entry[0], rows.hash
        after = seqs[-1]
        report.entries += len(seqs)
        if progress is not None:
            progress(report.entries)
    report.head = head.hex()
    return courses


def _check_entry(rows: Rows, courses: dict[str, book.Course], report: Report) -> None:
    entry = entry_of(rows)
    owners = {row[1] for row in rows.children["call"]}
    owners |= {row[2] for table in ("posting", "order_state") for row in rows.children[table]}
    if {*owners, *(order.account for order in entry.orders)} - {entry.account}:
        report.blame(entry.seq, "the entry has rows of another account")
    if book.imbalance(entry.postings):
        report.blame(entry.seq, "the postings do not balance")
    if book.contradict(entry.fills, entry.postings):
        report.blame(entry.seq, "the postings are not those of the fills")
    if entry.postings:
        before = courses.get(entry.account) or book.Course(book.opened(entry.account))
        courses[entry.account] = book.follow(before, entry)


# --- the caches --------------------------------------------------------------------------------


def _check_courses(connection: Connection, courses: dict[str, book.Course], report: Report) -> None:
    holding = {account: (c.now.version, c.clock_ns, cached(c.now)) for account, c in courses.items()}
    day = {account: (c.day.through_ns, cached(c.day.portfolio)) for account, c in courses.items() if c.day}
    for table, wanted in (("holding", holding), ("day", day)):
        found = {account: tuple(rest) for account, *rest in connection.execute(f"SELECT * FROM {table}")}
        for account in sorted({*wanted, *found}):
            if wanted.get(account) != found.get(account):
                problem = f"the cached portfolio of {account!r} ({table}) is not what its entries fold to"
                report.blame(None, problem)


def _check_open_orders(connection: Connection, report: Report) -> None:
    cache = "SELECT * FROM open_order"
    for one, other in ((cache, OPEN_ORDERS), (OPEN_ORDERS, cache)):
        for account, seq, *_ in connection.execute(f"{one} EXCEPT {other} LIMIT {FAULTS}"):
            report.blame(seq, f"the cached open orders of {account!r} are not those of its entries")
