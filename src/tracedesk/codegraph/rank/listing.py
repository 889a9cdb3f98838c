"""The live files of one state of a project's graph, kept between questions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tracedesk.codegraph.graph.languages import SUPPORTED
from tracedesk.codegraph.graph.schema import chunk_fts, symbol_fts
from tracedesk.codegraph.graph.store import Project
from tracedesk.codegraph.rank.paths import is_test
from tracedesk.journal.sqlite import Connection

Kind = Literal["source", "test", "other"]
KINDS: Final[tuple[Kind, ...]] = ("source", "test", "other")

_KEPT: Final = 4
"""Projects whose listing stays in memory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A live file; `other` is text that is no code."""

    id: int
    path: str
    language: str
    sha256: bytes
    kind: Kind


@dataclass(frozen=True, slots=True)
class Listing:
    """A project's files, by id, by path and by kind, and how many chunks and symbols they have."""

    project: Project
    by_id: Mapping[int, Entry] = field(repr=False)
    by_path: Mapping[str, Entry] = field(repr=False)
    of_kind: Mapping[Kind, frozenset[str]] = field(repr=False)
    chunks: int
    symbols: int


class Listings:
    """The listings of the projects that were asked last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], Listing] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, graph: Connection, project: Project) -> Listing:
        """The files of a project in the state that the connection sees."""
        key = project.id, project.graph_version
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        found = _read(graph, project)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found


def _read(graph: Connection, project: Project) -> Listing:
    query = "SELECT id, path, language, sha256 FROM file WHERE project = ? AND deleted = 0"
    rows = graph.execute(query, (project.id,))
    entries = [Entry(id, path, language, sha, _kind(path, language)) for id, path, language, sha in rows]
    by_id = {entry.id: entry for entry in entries}
    of_kind: dict[Kind, frozenset[str]] = {
        kind: frozenset(entry.path for entry in entries if entry.kind == kind) for kind in KINDS
    }
    by_path = {entry.path: entry for entry in entries}
    chunks, symbols = (
        next(graph.execute(f"SELECT count(*) FROM {table(project.id)}"))[0]
        for table in (chunk_fts, symbol_fts)
    )
    return Listing(project, by_id, by_path, of_kind, chunks, symbols)


def _kind(path: str, language: str) -> Kind:
    if language not in SUPPORTED:
        return "other"
    return "test" if is_test(path) else "source"
