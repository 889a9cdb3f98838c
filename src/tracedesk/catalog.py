"""The catalog: an index of backtest runs that can be rebuilt from their files at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

from tracedesk.home import Home, alone
from tracedesk.journal import Head, JournalError, Reader, Seal, StreamPruned
from tracedesk.journal.sqlite import (
    BusyError,
    Connection,
    Patience,
    SQLiteError,
    connect,
    create_private,
    patiently,
)
from tracedesk.primitives import json

VERSION: Final = 1
"""The schema's number, kept in the file's header; an older file is rebuilt when it is opened."""

_COLUMNS: Final = "id, file, name, kind, created_ns, ended_ns, status, events, pruned, meta"
_SCHEMA: Final = """
DROP TABLE IF EXISTS run;
CREATE TABLE run(
  id TEXT PRIMARY KEY,
  file TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  created_ns INTEGER NOT NULL,
  ended_ns INTEGER,
  status TEXT NOT NULL CHECK(status IN ('running', 'ended', 'crashed')),
  events INTEGER NOT NULL,
  pruned INTEGER NOT NULL,
  meta BLOB NOT NULL
) STRICT;
CREATE INDEX run_newest_first ON run(created_ns DESC, id DESC);
"""
_FACTS: Final = frozenset(
    ("stream", "kind", "genesis", "events", "head", "firstTimeNs", "lastTimeNs", "counts")
)
"""What every seal's manifest has; the rest is what the recorder added."""

RunStatus = Literal["running", "ended", "crashed"]


class CatalogError(Exception):
    """Something the catalog cannot do, with why."""


class UnknownRun(CatalogError):
    """No run of that id is in the catalog."""

    def __init__(self, id: str) -> None:
        super().__init__(f"no run {id!r} in the catalog")
        self.id = id


@dataclass(frozen=True, slots=True)
class Run:
    """One backtest run: where its journal is, and how it stands."""

    id: str
    file: str
    """Relative to the home."""
    name: str
    kind: str
    """The engine that recorded it."""
    created_ns: int
    ended_ns: int | None = None
    status: RunStatus = "running"
    events: int = 0
    pruned: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_settled(self) -> bool:
        """Whether its file takes no more events."""
        return self.status != "running"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild found."""

    runs: int
    unreadable: tuple[str, ...] = ()


class Catalog:
    """One connection to a home's catalog; several processes may have one. Not for two threads at once."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._connection = _connect(home.catalog)
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def add(self, run: Run) -> None:
        """Add a run, or replace what is known of it."""
        with self._connection:
            self._put(run)

    def update(
        self,
        id: str,
        *,
        name: str | None = None,
        status: RunStatus | None = None,
        ended_ns: int | None = None,
        events: int | None = None,
        pruned: bool | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Run:
        """Change what is given of a run and return it."""
        given = {"name": name, "status": status, "ended_ns": ended_ns}
        given |= {"events": events, "pruned": pruned, "meta": meta}
        with self._connection:
            run = replace(self.get(id), **{key: value for key, value in given.items() if value is not None})
            self._put(run)
        return run

    def refresh(self, id: str) -> Run:
        """Read a run's file again and keep what it says now."""
        run = describe(self._home, self._home.run_file(id))
        if run is None:
            raise UnknownRun(id)
        self.add(run)
        return run

    def get(self, id: str) -> Run:
        """The run of that id."""
        for row in self._connection.execute(f"SELECT {_COLUMNS} FROM run WHERE id = ?", (id,)):
            return _run(row)
        raise UnknownRun(id)

    def list(
        self,
        *,
        status: RunStatus | None = None,
        kind: str | None = None,
        after: Run | None = None,
        limit: int = -1,
    ) -> list[Run]:
        """Runs, newest first; `after` is the last one of the page before."""
        start = (after.created_ns, after.id) if after else (None, None)
        query = f"""
            SELECT {_COLUMNS} FROM run
            WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR kind = ?2)
              AND (?3 IS NULL OR (created_ns, id) < (?3, ?4))
            ORDER BY created_ns DESC, id DESC LIMIT ?5
        """
        return [_run(row) for row in self._connection.execute(query, (status, kind, *start, limit))]

    def forget(self, id: str) -> bool:
        """Take a run out of the index; its file stays, and a rebuild finds it again."""
        with self._connection:
            self._connection.execute("DELETE FROM run WHERE id = ?", (id,))
            return self._connection.changes() > 0

    def rebuild(self) -> Rebuilt:
        """Read every run's file and replace the index by what they say."""
        runs, _ = _survey(self._home, {})
        settled = {run.id: run for run in runs if run.is_settled}
        # Once more under the write lock, for runs that began or ended meanwhile; the others are known.
        with self._connection:
            return self._fill(settled)

    def _fill(self, settled: Mapping[str, Run]) -> Rebuilt:
        runs, unreadable = _survey(self._home, settled)
        self._connection.execute("DELETE FROM run")
        for run in runs:
            self._put(run)
        return Rebuilt(len(runs), unreadable)

    def _put(self, run: Run) -> None:
        row = (run.id, run.file, run.name, run.kind, run.created_ns, run.ended_ns, run.status, run.events)
        places = ",".join("?" * 10)
        self._connection.execute(
            f"INSERT OR REPLACE INTO run({_COLUMNS}) VALUES({places})",
            (*row, int(run.pruned), json.dumps(run.meta)),
        )

    def _prepare(self) -> None:
        if self._version() == VERSION:
            return
        runs, _ = _survey(self._home, {})
        with self._connection:
            if self._version() == VERSION:
                return
            self._connection.execute(_SCHEMA)
            self._fill({run.id: run for run in runs if run.is_settled})
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> int:
        found = self._connection.pragma("user_version")
        if found > VERSION:
            raise CatalogError(f"{self._home.catalog} has schema {found}; update tracedesk to use it")
        return found


def rebuild(home: Home) -> Rebuilt:
    """Make the catalog anew from `runs/*.db`, whatever state it was in."""
    try:
        with Catalog(home) as catalog:
            return catalog.rebuild()
    except SQLiteError as problem:
        if isinstance(problem, BusyError):
            raise
    with alone(home.path):
        for suffix in ("", "-wal", "-shm"):
            Path(f"{home.catalog}{suffix}").unlink(missing_ok=True)
        with Catalog(home) as catalog:
            return catalog.rebuild()


def describe(home: Home, file: Path) -> Run | None:
    """What a run's own file says about it: its first stream is the run. None while it has no stream."""
    with Reader(file) as reader:
        streams = reader.streams()
        if not streams:
            return None
        first = streams[0]
        seal = reader.seal(first.name)
        return Run(
            id=file.stem,
            file=file.relative_to(home.path).as_posix(),
            name=str(first.meta.get("name") or first.name),
            kind=str(first.meta.get("engine") or first.kind),
            created_ns=first.created_ns,
            ended_ns=seal.ended_ns if seal else None,
            status=seal.status if seal else "running",
            events=sum(_reach(reader, stream.name) for stream in streams),
            pruned=reader.is_pruned(first.name),
            meta={**first.meta, **_added(seal)},
        )


def _reach(reader: Reader, name: str) -> int:
    """How many events a stream has, or had when it was sealed."""
    try:
        head: Head = reader.head(name)
        return head.seq
    except StreamPruned as pruned:
        return int(pruned.manifest.get("events", 0))


def _added(seal: Seal | None) -> dict[str, Any]:
    return {k: v for k, v in seal.manifest.items() if k not in _FACTS} if seal else {}


def _survey(home: Home, settled: Mapping[str, Run]) -> tuple[list[Run], tuple[str, ...]]:
    """Every run with a readable file, and the names of the files that cannot be read."""
    runs: list[Run] = []
    unreadable: list[str] = []
    for file in sorted(home.runs.glob("*.db")):
        try:
            run = settled.get(file.stem) or describe(home, file)
        except (JournalError, SQLiteError, ValueError):
            unreadable.append(file.name)
        else:
            runs += [run] if run else []
    return runs, tuple(unreadable)


def _run(row: tuple[Any, ...]) -> Run:
    facts: dict[str, Any] = dict(zip(_COLUMNS.split(", "), row, strict=True))
    facts |= {"pruned": bool(facts["pruned"]), "meta": json.loads(facts["meta"])}
    return Run(**facts)


def _connect(path: Path) -> Connection:
    create_private(path)
    connection = connect(path)
    try:
        connection.set_busy_handler(Patience())
        connection.transaction_mode = "IMMEDIATE"
        patiently(connection, "PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection
