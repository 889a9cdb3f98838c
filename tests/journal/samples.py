"""Small events, and connections that do not ask the journal's leave."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from tracedesk.journal import Entry, Event, Journal
from tracedesk.journal.sqlite import Connection, connect

TABLES: Final = ("stream", "event", "batch", "seal", "tombstone")
NOON_NS: Final = 1_700_000_000_000_000_000


def entry(n: int, parent: int | None = None) -> Entry:
    return Entry("Trade", NOON_NS + n, b'{"n":%d}' % n, parent)


def entries(count: int, start: int = 1) -> list[Entry]:
    return [entry(n) for n in range(start, start + count)]


def as_events(given: list[Entry], first: int = 1) -> list[Event]:
    """What a reader must return for what was appended."""
    return [Event(seq, *e) for seq, e in enumerate(given, first)]


@contextmanager
def raw(path: Path) -> Generator[Connection]:
    """The file as any SQLite program sees it."""
    with closing(connect(path)) as connection:
        yield connection


def rows(connection: Connection) -> dict[str, list[Any]]:
    """Everything a journal holds."""
    return {table: list(connection.execute(f"SELECT * FROM {table} ORDER BY 1")) for table in TABLES}


def fill(journal: Journal) -> None:
    """One stream of each sort: growing, empty, sealed, sealed when empty, pruned."""
    for name in ("growing", "empty", "sealed", "hollow", "pruned"):
        journal.open(name, "run", {"seed": 7, "note": "é\u001f", "size": 1e22})
    for name in ("growing", "sealed", "pruned"):
        journal.append(name, entries(5))
        journal.append(name, [entry(6, parent=2), entry(7, parent=6)])
        journal.append(name, entries(4, 8))
    for name in ("sealed", "hollow", "pruned"):
        journal.seal(name, extra={"answer": 42})
    journal.prune("pruned")
