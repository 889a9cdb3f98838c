"""A project's chunks as the graph has them, to be embedded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tracedesk.codegraph.graph.schema import ROW_BITS
from tracedesk.codegraph.graph.store import Store

_AT_ONCE = 500


class Chunks(Protocol):
    """Texts that want vectors, each under a number of its own and the key of its content."""

    def keys(self) -> dict[bytes, int]:
        """Every key, with the number of a chunk that has it."""
        ...

    def texts(self, numbers: Sequence[int]) -> list[str | None]:
        """The texts of those chunks; None for one that has gone since."""
        ...


class ProjectChunks:
    """The chunks of the project at a root, read from the graph in short transactions."""

    def __init__(self, store: Store, root: str) -> None:
        self._store = store
        self._root = root

    def keys(self) -> dict[bytes, int]:
        query = (
            "SELECT chunk.key, chunk.id FROM project "
            "JOIN file ON file.project = project.id AND file.deleted = 0 "
            f"JOIN chunk ON chunk.id >= (file.id << {ROW_BITS}) AND chunk.id < ((file.id + 1) << {ROW_BITS}) "
            "WHERE project.root = ? AND project.state = 'current'"
        )
        with self._store.reading() as graph:
            return dict(graph.execute(query, (self._root,)))

    def texts(self, numbers: Sequence[int]) -> list[str | None]:
        found: dict[int, str] = {}
        with self._store.reading() as graph:
            for at in range(0, len(numbers), _AT_ONCE):
                some = numbers[at : at + _AT_ONCE]
                marks = ",".join("?" * len(some))
                found.update(graph.execute(f"SELECT id, text FROM chunk WHERE id IN ({marks})", some))
        return [found.get(number) for number in numbers]
