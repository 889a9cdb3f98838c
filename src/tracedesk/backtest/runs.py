"""Runs of a home: making one, finding out that its recorder has died, and settling it then."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tracedesk.backtest import native, rebuild, schema, validation
from tracedesk.backtest.model import STREAM_KIND, exactly
from tracedesk.backtest.texts import parameters
from tracedesk.backtest.validation import Profile
from tracedesk.catalog import Catalog, CatalogError, Run, describe
from tracedesk.config import locate
from tracedesk.home import Home, alone
from tracedesk.hosts.processes import Processes, system_processes
from tracedesk.journal import Journal, JournalError, Reader, Status, Stream
from tracedesk.journal.sqlite import Connection, SQLiteError
from tracedesk.primitives.disk import sync
from tracedesk.primitives.time import Clock, format

_CHECKPOINT_PAGES: Final = 4_000
"""The pages at the ends of the indexes change with every batch, so several batches share a checkpoint."""

_CACHE_KIB: Final = 32_768
"""What a batch changes stays in memory until it is committed: a page pushed out early is written twice."""

DIED: Final = "the recording process ended without closing the run"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is made with."""

    name: str
    engine: str = ""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    start_ns: int | None = None
    end_ns: int | None = None
    parent_run: str | None = None
    profile: Profile = ""
    fast: bool = False

    def meta(self) -> dict[str, Any]:
        """The plan as the run's stream keeps it."""
        meta: dict[str, Any] = {
            "name": self.name,
            "engine": self.engine,
            "config": exactly(dict(self.config)),
            "configHash": config_hash(self.config),
            "validation": validation.VERSION,
        }
        if self.start_ns is not None:
            meta["startTime"] = format(self.start_ns)
        if self.end_ns is not None:
            meta["endTime"] = format(self.end_ns)
        if self.parent_run is not None:
            meta["parentRun"] = self.parent_run
        if self.fast:
            meta["fast"] = True
        if self.profile:
            meta["profile"] = self.profile
        return meta


def config_hash(config: Mapping[str, Any]) -> str:
    """The SHA-256 of a configuration in its one form: names sorted, digits as given."""
    return hashlib.sha256(parameters(dict(config)).encode()).hexdigest()


def open_home(home: Home | Path | str | None) -> Home:
    """The home as given, or the one that the environment or the platform names."""
    return home if isinstance(home, Home) else Home.open(locate(home))


def create(home: Home, run_id: str, plan: Plan, clock: Clock) -> tuple[Journal, Stream]:
    """A new run: its file with the recorder's mark in it, its stream, and its entry in the catalog.

    The mark comes first, so that a run that others can see always tells who records it.
    """
    path = home.run_file(run_id)
    if path.exists():
        raise ValueError(f"run_id: the run {run_id} exists already; leave run_id out for a new one")
    journal = Journal(path, clock)
    try:
        journal.connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        journal.connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        with journal.connection:
            schema.create(journal.connection, indexed=not plan.fast, packed=native.core() is not None)
            _mark(journal.connection, indexed=not plan.fast)
        stream = journal.open(run_id, STREAM_KIND, plan.meta())
        register(home, run_id)
    except BaseException:
        journal.close()
        raise
    return journal, stream


def _mark(connection: Connection, *, indexed: bool) -> None:
    pid = os.getpid()
    started = system_processes().started(pid) or ""
    row = (schema.version(connection), int(indexed), pid, started)
    connection.execute("INSERT INTO recording VALUES(1,?,?,?,?)", row)


def register(home: Home, run_id: str) -> Run:
    """Put what the run's file says into the catalog."""
    with Catalog(home) as catalog:
        return catalog.refresh(run_id)


def index(journal: Journal, stream: Stream) -> int:
    """Build the tables of a run from its journal; returns how many events it has."""
    return rebuild.tables(journal.connection, stream)


def seal(journal: Journal, stream: Stream, status: Status, extra: Mapping[str, Any]) -> None:
    """End a run, and bind what was given beside the journal to its seal."""
    journal.seal(stream.name, status, {**extra, "givenHash": given_hash(journal.connection)})


def given_hash(connection: Connection) -> str:
    """The SHA-256 over everything that events were given beside their journal rows."""
    digest = hashlib.sha256()
    for row in connection.execute("SELECT event, severity, category, guid, faults FROM given ORDER BY event"):
        digest.update(repr(row).encode())
    return digest.hexdigest()


# --- removing a run -----------------------------------------------------------------------------


class RunInUse(Exception):
    """A run that cannot be removed now, with the remedy."""


def remove(home: Home, run_id: str) -> int:
    """Delete a run's file and its entry in the catalog; the bytes that were freed.

    The entry goes first: a process that is killed in between leaves a run that `settle` lists again.
    """
    path = home.run_file(run_id)
    with alone(home.path):
        with suppress(CatalogError, JournalError, SQLiteError):
            found = describe(home, path)
            if found is not None and not found.is_settled:
                raise RunInUse(f"run {run_id} is being recorded; end its recorder, then remove the run")
        _empty_log(path)
        files = [path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm", "")]
        size = sum(file.stat().st_size for file in files if file.exists())
        with Catalog(home) as catalog:
            catalog.forget(run_id)
        # The log is empty, so it goes first: left alone, it could be taken for that of a later file.
        for file in files:
            file.unlink(missing_ok=True)
        sync(home.runs)
    return size


def _empty_log(path: Path) -> None:
    """Move the write-ahead log into the file; a file that is damaged or gone has none to move."""
    if not path.exists():
        return
    with suppress(JournalError, SQLiteError), Journal(path) as journal:
        busy, _, _ = next(iter(journal.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
        if busy:
            raise RunInUse(f"run {path.stem} is being read by another process; try again in a moment")


# --- runs whose recorder died ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settled:
    """What a look at the unfinished runs of a home led to."""

    crashed: tuple[str, ...] = ()
    """Runs that were sealed, because the process that recorded them is gone."""
    indexed: tuple[str, ...] = ()
    """Runs whose tables were completed."""
    unreadable: tuple[str, ...] = ()


def settle(home: Home, *, processes: Processes | None = None, clock: Clock | None = None) -> Settled:
    """Seal the runs whose recorder is dead as crashed, and complete the tables of those that lack them.

    Several processes may do this at once: sealing twice is sealing once.
    """
    who = processes or system_processes()
    crashed: list[str] = []
    indexed: list[str] = []
    unreadable: list[str] = []
    for run in _unfinished(home):
        try:
            was_sealed, was_indexed = _settle(home, run, who, clock)
        except (JournalError, SQLiteError, CatalogError, OSError, ValueError, RecursionError):
            unreadable.append(run)
            continue
        crashed += [run] if was_sealed else []
        indexed += [run] if was_indexed else []
    return Settled(tuple(crashed), tuple(indexed), tuple(unreadable))


def _unfinished(home: Home) -> list[str]:
    """Runs that the catalog holds for running, with those whose file it does not know yet."""
    with Catalog(home) as catalog:
        runs = catalog.list()
    known = {run.id for run in runs}
    running = [run.id for run in runs if not run.is_settled or run.meta.get("fast")]
    return running + sorted(file.stem for file in home.runs.glob("*.db") if file.stem not in known)


def _settle(home: Home, run_id: str, processes: Processes, clock: Clock | None) -> tuple[bool, bool]:
    path = home.run_file(run_id)
    found = describe(home, path)
    if found is None or found.pruned or _is_done(path, found) or not _has_mark(path):
        return False, False
    with Journal(path, clock) as journal:
        if not _claim(journal.connection, processes):
            return False, False
        stream = journal.open(run_id, STREAM_KIND)
        if not found.is_settled:
            seal(journal, stream, "crashed", {"reason": DIED})
        was_indexed = not schema.is_complete(journal.connection)
        if was_indexed:
            index(journal, stream)
    register(home, run_id)
    return not found.is_settled, was_indexed


def _is_done(path: Path, run: Run) -> bool:
    """Whether only the catalog has to learn how the run ended."""
    with Reader(path) as reader:
        return run.is_settled and schema.is_complete(reader.connection)


def _has_mark(path: Path) -> bool:
    """Whether a recorder made the file; another one is left to whoever writes it."""
    with Reader(path) as reader:
        return any(reader.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'recording'"))


def _claim(connection: Connection, processes: Processes) -> bool:
    """Take the run over if its recorder is dead; of several that try, one gets it."""
    with connection:
        for pid, started in connection.execute("SELECT pid, started FROM recording"):
            if processes.started(pid) == started:
                return False
        pid = os.getpid()
        mine = (pid, processes.started(pid) or "")
        connection.execute("UPDATE recording SET pid = ?, started = ?", mine)
    return True
