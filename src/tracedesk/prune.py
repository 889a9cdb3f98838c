"""Pruning: whole sealed streams go, their manifests stay; then payloads that nothing refers to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from tracedesk import sweep
from tracedesk.catalog import Catalog, CatalogError
from tracedesk.disk import journals
from tracedesk.home import Home, alone
from tracedesk.journal import Journal, JournalError, Reader
from tracedesk.journal.file import SEQ_BITS, key
from tracedesk.journal.sqlite import Connection, SQLiteError
from tracedesk.primitives.time import Clock, SystemClock

SMALL: Final = 64 << 20
"""A journal in use is rewritten only up to this size: its writers wait meanwhile, and wait five seconds."""

_ROW: Final = 24
"""Bytes that an event takes beside its kind and body, about."""

_CHECKPOINT_MS: Final = 250
_OWN_TABLES: Final = ("stream", "event", "batch", "seal", "tombstone")
Progress = Callable[[int, int, str], None]
Refold = Callable[[Connection], object]


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed stream whose events are still there."""

    file: Path
    id: int
    name: str
    kind: str
    ended_ns: int
    events: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What would go."""

    streams: tuple[Sealed, ...] = ()
    payloads: tuple[sweep.Payload, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """About how many bytes of rows and bodies that is."""
        return sum(stream.bytes for stream in self.streams) + sum(p.bytes for p in self.payloads)


@dataclass(slots=True)
class Outcome:
    """What went."""

    streams: list[Sealed] = field(default_factory=list[Sealed])
    payloads: int = 0
    freed: int = 0
    """Bytes given back to the file system."""
    reusable: int = 0
    """Bytes inside journals in use that their next events fill."""
    notes: list[str] = field(default_factory=list[str])


def plan(
    home: Home,
    *,
    before_ns: int | None = None,
    down_to: int | None = None,
    kinds: Collection[str] = (),
    clock: Clock | None = None,
) -> Plan:
    """Choose sealed streams that ended before `before_ns`; with `down_to`, oldest first and only as many
    as bring the journals to that size. Then the payloads that nothing else refers to."""
    found = [stream for stream in _sealed(home) if not kinds or stream.kind in kinds]
    chosen = [stream for stream in found if before_ns is None or stream.ended_ns < before_ns]
    if down_to is not None:
        chosen = _enough(chosen, _weight(home) - down_to)
    payloads, notes = _payloads(home, chosen, (clock or SystemClock()).now_ns())
    return Plan(tuple(chosen), payloads, notes)


def _sealed(home: Home) -> list[Sealed]:
    """Every stream that may be pruned, the longest ended first. The ledger is never pruned."""
    found = [
        stream for file, reader in journals(home) if file != home.ledger for stream in _ended(file, reader)
    ]
    return sorted(found, key=lambda stream: (stream.ended_ns, stream.file, stream.id))


def _ended(file: Path, reader: Reader) -> list[Sealed]:
    query = """
        SELECT stream.id, stream.name, stream.kind, seal.ended_ns FROM stream
        JOIN seal ON seal.stream = stream.id
        WHERE stream.id NOT IN (SELECT stream FROM tombstone)
    """
    return [
        Sealed(file, id, name, kind, ended, *_extent(reader.connection, id))
        for id, name, kind, ended in list(reader.connection.execute(query))
    ]


def _extent(connection: Connection, stream: int) -> tuple[int, int]:
    query = "SELECT count(*), total(length(kind) + length(body)) FROM event WHERE id BETWEEN ? AND ?"
    count, size = next(iter(connection.execute(query, (key(stream, 0), key(stream + 1, 0) - 1))))
    return count, int(size) + _ROW * count


def _enough(streams: Iterable[Sealed], excess: int) -> list[Sealed]:
    chosen: list[Sealed] = []
    for stream in streams:
        if excess <= 0:
            break
        chosen.append(stream)
        excess -= stream.bytes
    return chosen


def _weight(home: Home) -> int:
    return sum(_size(file) for file, _ in journals(home) if file != home.ledger)


def _payloads(
    home: Home, going: Collection[Sealed], now_ns: int
) -> tuple[tuple[sweep.Payload, ...], tuple[str, ...]]:
    gone = {(stream.file, stream.id) for stream in going}
    try:
        found = sweep.unreferenced(home, now_ns, lambda file: {id for path, id in gone if path == file})
    except sweep.Unsure as reason:
        return (), (f"Payloads stay: {reason}, so none can be proved unreferenced.",)
    return tuple(found), ()


# --- doing it ----------------------------------------------------------------------------------


def prune(
    home: Home,
    chosen: Plan,
    *,
    shrink: bool = False,
    clock: Clock | None = None,
    progress: Progress | None = None,
    refold: Refold = lambda connection: None,
) -> Outcome:
    """Remove the plan's streams, give their space back, and sweep the payloads. Killed, it can be repeated.

    `refold` brings what a toolset has made of several streams to what is left of them, while their file is
    still to be shrunk. The payloads are looked for again: between plan and deed someone may have begun to
    refer to one.
    """
    clock = clock or SystemClock()
    outcome = Outcome()
    by_file = [(f, list(s)) for f, s in groupby(sorted(chosen.streams, key=_place), lambda s: s.file)]
    with alone(home.path):
        for number, (file, streams) in enumerate(by_file):
            if progress is not None:
                progress(number, len(by_file), file.name)
            _prune_file(home, file, streams, shrink, clock, outcome, refold)
        _sweep(home, clock.now_ns(), outcome)
    return outcome


def _place(stream: Sealed) -> tuple[Path, int]:
    return stream.file, stream.id


def _prune_file(
    home: Home,
    file: Path,
    streams: list[Sealed],
    shrink: bool,
    clock: Clock,
    outcome: Outcome,
    refold: Refold,
) -> None:
    before = _size(file)
    try:
        with Journal(file, clock) as journal:
            for stream in streams:
                journal.prune(stream.name)
                outcome.streams.append(stream)
            _drop_projections(journal.connection)
            refold(journal.connection)
            outcome.reusable += _give_back(journal.connection, shrink)
            if not _checkpoint(journal.connection):
                outcome.notes.append(f"{file.name} gets smaller once those who read it now are done.")
    except (JournalError, SQLiteError) as problem:
        outcome.notes.append(f"{file.name}: {problem}.")
    outcome.freed += max(0, before - _size(file))
    if file.parent == home.runs and home.catalog.exists():
        _refresh(home, file.stem, outcome)


def _drop_projections(connection: Connection) -> None:
    """Rows of other tables that belong to a removed event: by custom they name it in a column `event`."""
    query = """
        SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
        WHERE m.type = 'table' AND c.name = 'event'
    """
    with connection:
        for (table,) in list(connection.execute(query)):
            if table not in _OWN_TABLES:
                quoted = table.replace('"', '""')
                gone = f"event >> {SEQ_BITS} IN (SELECT stream FROM tombstone)"
                connection.execute(f'DELETE FROM "{quoted}" WHERE {gone}')


def _give_back(connection: Connection, forced: bool) -> int:
    """Shrink the file; return how many bytes stay in it for reuse instead."""
    page = int(connection.pragma("page_size"))
    free = int(connection.pragma("freelist_count")) * page
    live = int(connection.pragma("page_count")) * page - free
    if free and (forced or live <= SMALL or not _is_in_use(connection)):
        connection.execute("VACUUM")
        free = 0
    return free


def _checkpoint(connection: Connection) -> bool:
    """Bring the file itself to its new size; not while others read, for writers would wait for them too."""
    connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_MS}")
    busy, _, _ = next(iter(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
    return not busy


def _is_in_use(connection: Connection) -> bool:
    query = "SELECT 1 FROM stream WHERE id NOT IN (SELECT stream FROM seal) LIMIT 1"
    return bool(list(connection.execute(query)))


def _refresh(home: Home, id: str, outcome: Outcome) -> None:
    try:
        with Catalog(home) as catalog:
            catalog.refresh(id)
    except (CatalogError, JournalError, SQLiteError) as problem:
        outcome.notes.append(f"The catalog does not know yet that {id} was pruned: {problem}.")


def _sweep(home: Home, now_ns: int, outcome: Outcome) -> None:
    sweep.tidy(home.payloads, now_ns)
    payloads, notes = _payloads(home, (), now_ns)
    outcome.notes += notes
    for payload in payloads:
        if sweep.remove(payload, now_ns):
            outcome.payloads += 1
            outcome.freed += payload.bytes


def _size(file: Path) -> int:
    """What a database takes, with its write-ahead log."""
    both = (file, Path(f"{file}-wal"))
    return sum(part.stat().st_size for part in both if part.exists())
