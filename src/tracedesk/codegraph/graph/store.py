"""`graph.db`: the projects in it, its one writer at a time, and its readers."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracedesk.codegraph.graph.locks import Holder, Locks
from tracedesk.codegraph.graph.migration import OLDEST, migrate
from tracedesk.codegraph.graph.pool import Parsers, Parsing
from tracedesk.codegraph.graph.schema import FORMAT, VERSION, GraphError, drop_fts, rows_of
from tracedesk.home import alone
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives import json

_CACHE_KIB: Final = 32_768
_CHECKPOINT_PAGES: Final = 16_384
_COLUMNS: Final = "id, root, graph_version, extractor, indexed_ns, updated_ns"
_FILES_AT_ONCE: Final = 200
_ROWS_AT_ONCE: Final = 20_000


@dataclass(frozen=True, slots=True)
class Project:
    """A project whose graph is complete."""

    id: int
    root: str
    graph_version: str
    extractor: str
    indexed_ns: int
    updated_ns: int


class Store:
    """A home's code graph. Its writer is opened when first needed; threads take turns with it."""

    def __init__(self, path: Path, parsers: Parsing | None = None) -> None:
        self.path = path
        self.locks = Locks(path)
        self.parsers: Parsing = parsers or Parsers()
        self._owns_parsers = parsers is None
        self._lock = threading.RLock()
        self._connection: Connection | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._owns_parsers:
            self.parsers.close()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """The writer, in a transaction."""
        with self._lock:
            connection = self._writer()
            with connection:
                yield connection

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A connection of its own that sees one state of the graph from its first to its last statement."""
        connection = self.open_reader()
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()

    def open_reader(self) -> Connection:
        """A read-only connection for a pool of readers."""
        try:
            connection = FORMAT.open_reader(self.path)
        except GraphError:
            # Not there yet, or just being made: the writer makes it, or waits for whoever does.
            return self._made_reader()
        if OLDEST <= connection.pragma("user_version") < VERSION:
            connection.close()
            return self._made_reader()
        return connection

    def _made_reader(self) -> Connection:
        """A reader of the file as the writer leaves it when it opens."""
        with self._lock:
            self._writer()
        return FORMAT.open_reader(self.path)

    # --- projects

    def project(self, root: str) -> Project | None:
        """The project at a real root, None while it has no complete graph."""
        with self.reading() as connection:
            return project_at(connection, root)

    def projects(self) -> list[Project]:
        """Every project that has a complete graph, by root."""
        with self.reading() as connection:
            query = f"SELECT {_COLUMNS} FROM project WHERE state = 'current' ORDER BY root"
            return [Project(*row) for row in connection.execute(query)]

    def holder(self, root: str) -> Holder | None:
        """Who indexes or updates the project now."""
        return self.locks.holder(root)

    def report(self, root: str) -> Mapping[str, Any] | None:
        """The report of the project's last index."""
        with self.reading() as connection:
            query = """
                SELECT body FROM report JOIN project ON project.id = report.project
                WHERE root = ? AND state = 'current'
            """
            found = next(connection.execute(query, (root,)), (None,))[0]
        return None if found is None else json.loads(found)

    def root_of(self, version: str) -> str | None:
        """The root of the project that has, or once had, a graph of this version."""
        with self.reading() as connection:
            query = "SELECT root FROM version WHERE graph_version = ?"
            return next(connection.execute(query, (version,)), (None,))[0]

    def forget(self, root: str) -> bool:
        """Remove a project's graph."""
        with self.locks.held(root, "forget", 5.0):
            with self.writing() as connection:
                changed = project_at(connection, root) is not None
                connection.execute("UPDATE project SET state = 'obsolete' WHERE root = ?", (root,))
            self.sweep(root)
        return changed

    def sweep(self, root: str) -> None:
        """Remove what finished and broken-off indexes of a project left, some files at a time."""
        while True:
            with self.writing() as connection:
                query = "SELECT id FROM project WHERE root = ? AND state = 'obsolete' LIMIT 1"
                found = next(connection.execute(query, (root,)), None)
                if found is None:
                    return
                _sweep_some(connection, found[0])

    # --- the writer

    def _writer(self) -> Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> Connection:
        connection = FORMAT.open_writer(self.path)
        found = connection.pragma("user_version")
        if not OLDEST <= found <= VERSION:
            connection.close()
            if found > VERSION:
                raise GraphError(f"{self.path} has schema {found}; update tracedesk to use it")
            return self._anew()
        if found < VERSION:
            migrate(connection)
        # The graph can be rebuilt: the last commits may be lost with the power, but never a part of one.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        return connection

    def _anew(self) -> Connection:
        with alone(self.path.parent):
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        return self._open()


def project_at(connection: Connection, root: str) -> Project | None:
    """The project at a real root, as a connection sees it."""
    query = f"SELECT {_COLUMNS} FROM project WHERE root = ? AND state = 'current'"
    return next((Project(*row) for row in connection.execute(query, (root,))), None)


def erase(connection: Connection, file: int) -> None:
    """Remove what a file holds, and the edges from and to it; its own row and full text stay."""
    first, last = rows_of(file)
    for table in ("symbol", "reference", "chunk"):
        connection.execute(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", (first, last))
    for kind, low, high in ((1, first, last), (2, file, file)):
        connection.execute("DELETE FROM edge WHERE kind = ? AND src BETWEEN ? AND ?", (kind, low, high))
        query = """
            DELETE FROM edge WHERE (kind, src, dst) IN
            (SELECT kind, src, dst FROM edge WHERE kind = ? AND dst BETWEEN ? AND ?)
        """
        connection.execute(query, (kind, low, high))


def _sweep_some(connection: Connection, project: int) -> None:
    """One short step: what the imports want, then files with what they hold, then the rest."""
    query = """
        DELETE FROM wanted WHERE (project, stem, import) IN
        (SELECT project, stem, import FROM wanted WHERE project = ? LIMIT ?)
    """
    connection.execute(query, (project, _ROWS_AT_ONCE))
    if connection.changes():
        return
    query = "SELECT id FROM file WHERE project = ? ORDER BY id LIMIT ?"
    ids = [row[0] for row in connection.execute(query, (project, _FILES_AT_ONCE))]
    for file in ids:
        erase(connection, file)
        connection.execute("DELETE FROM import WHERE id BETWEEN ? AND ?", rows_of(file))
        connection.execute("DELETE FROM file WHERE id = ?", (file,))
    if not ids:
        drop_fts(connection, project)
        connection.execute("DELETE FROM report WHERE project = ?", (project,))
        connection.execute("DELETE FROM left_out WHERE project = ?", (project,))
        connection.execute("DELETE FROM project WHERE id = ?", (project,))
