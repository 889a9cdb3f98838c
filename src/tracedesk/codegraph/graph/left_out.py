"""Files that a graph looked at and did not take: too large, minified, no text, or not to be opened."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final, NamedTuple

from tracedesk.codegraph.graph.limits import Skip
from tracedesk.journal.sqlite import Connection

_UNSEEN: Final = frozenset(("denied", "too_deep"))
"""Reasons of a scan for which it did not see what may be source."""
_INSERT: Final = (
    "INSERT OR REPLACE INTO left_out(project, path, reason, size, mtime_ns) VALUES(?, ?, ?, ?, ?)"
)


class LeftOut(NamedTuple):
    """A file that is not in the graph, why, and its size and time of writing when it was looked at."""

    path: str
    reason: str
    size: int
    mtime_ns: int


def unseen(skipped: Iterable[Skip]) -> list[Skip]:
    """Return the folders and files of a scan that it could not look into."""
    return [skip for skip in skipped if skip.reason in _UNSEEN]


def marked(root: str, skip: Skip) -> LeftOut | None:
    """Return a file that is left out with its size and time; None for one that is not there."""
    try:
        info = os.lstat(os.path.join(root, skip.file))
    except OSError:
        return None
    return LeftOut(skip.file, skip.reason, info.st_size, info.st_mtime_ns)


def left_out(connection: Connection, project: int) -> dict[str, LeftOut]:
    """Return what a project's graph leaves out, by path."""
    query = "SELECT path, reason, size, mtime_ns FROM left_out WHERE project = ? ORDER BY path"
    return {row[0]: LeftOut(*row) for row in connection.execute(query, (project,))}


def left_out_at(connection: Connection, project: int, path: str) -> LeftOut | None:
    """Return one file that a project's graph leaves out, None for any other."""
    query = "SELECT path, reason, size, mtime_ns FROM left_out WHERE project = ? AND path = ?"
    return next((LeftOut(*row) for row in connection.execute(query, (project, path))), None)


def put(connection: Connection, project: int, rows: Iterable[LeftOut]) -> None:
    """Store what is left out beside what already is."""
    connection.executemany(_INSERT, [(project, *row) for row in rows])


def clear(connection: Connection, project: int, paths: Iterable[str]) -> None:
    """Remove rows: these files are in the graph now, or gone."""
    query = "DELETE FROM left_out WHERE project = ? AND path = ?"
    connection.executemany(query, [(project, path) for path in paths])


def replace(connection: Connection, project: int, rows: Iterable[LeftOut]) -> None:
    """Store what is left out in place of all that was."""
    connection.execute("DELETE FROM left_out WHERE project = ?", (project,))
    put(connection, project, rows)
