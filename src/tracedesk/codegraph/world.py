"""What the trace asks of the code graph: which project, and which version of it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tracedesk.codegraph.etg.model import DEFAULT_PROJECT
from tracedesk.codegraph.graph.schema import GraphError
from tracedesk.journal.sqlite import SQLiteError

if TYPE_CHECKING:
    from tracedesk.codegraph.graph.store import Store
    from tracedesk.journal.sqlite import Connection

log = logging.getLogger(__name__)

T = TypeVar("T")
_ROOTS = "SELECT root FROM project WHERE state = 'current' ORDER BY root"
_VERSION = "SELECT graph_version FROM project WHERE root = ? AND state = 'current'"
_OWNER = "SELECT root FROM version WHERE graph_version = ?"


class GraphWorld:
    """The projects of a home that this desk may show, which are those inside its roots.

    Logging asks it in passing, so it keeps one reader and never makes a graph.
    """

    def __init__(self, store: Store, configured: Sequence[Path]) -> None:
        self._store = store
        self._configured = [os.path.realpath(root) for root in configured]
        self._lock = threading.Lock()
        self._reader: Connection | None = None

    def close(self) -> None:
        with self._lock:
            if self._reader is not None:
                self._reader.close()
            self._reader = None

    def version(self, project: str | None) -> str | None:
        """The current version of a project's graph, or of the only one."""
        root = project or self.only_project()
        return None if root is None else self._ask(lambda c: _first(c, _VERSION, root), None)

    def project_of(self, graph_version: str) -> str | None:
        """The project that has or had this version."""
        root = self._ask(lambda c: _first(c, _OWNER, graph_version), None)
        return root if root is not None and self.allows(root) else None

    def only_project(self) -> str | None:
        """The project, when there is exactly one: indexed, or else allowed."""
        roots = self.roots() or self._configured
        return roots[0] if len(roots) == 1 else None

    def roots(self) -> list[str]:
        """Every project that has a graph."""
        every = self._ask(lambda c: [root for (root,) in c.execute(_ROOTS)], list[str]())
        return [root for root in every if self.allows(root)]

    def allows(self, project: str) -> bool:
        """Whether a project, of code or of attempts, lies inside the roots; attempts of none do too."""
        return project == DEFAULT_PROJECT or any(_holds(base, project) for base in self._configured)

    def holding(self, folder: str) -> str | None:
        """The innermost project that a folder lies in."""
        real = os.path.realpath(folder)
        inside = [root for root in self.roots() if _holds(root, real)]
        return max(inside, key=len, default=None)

    def _ask(self, work: Callable[[Connection], T], otherwise: T) -> T:
        """What the graph says. An event is recorded also where the graph cannot be read."""
        with self._lock:
            try:
                if self._reader is None:
                    if not self._store.path.exists():
                        return otherwise
                    self._reader = self._store.open_reader()
                return work(self._reader)
            except (SQLiteError, GraphError) as problem:
                # Perhaps another process is just making it.
                log.info("the graph was not asked: %s", problem)
                return otherwise


def _holds(base: str, path: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _first(connection: Connection, query: str, value: str) -> str | None:
    return next((row[0] for row in connection.execute(query, (value,))), None)
