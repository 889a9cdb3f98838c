"""Usage of a symbol: told apart are used, unused, and unknown."""

from __future__ import annotations

import re
from typing import Any, Final

from tracedesk.codegraph.graph.left_out import LeftOut, left_out
from tracedesk.codegraph.graph.neighbours import around_symbol, defined
from tracedesk.codegraph.graph.schema import ROW_BITS, file_fts
from tracedesk.codegraph.rank.terms import match
from tracedesk.foreign import quoted
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.paths import Jail, PathRefused

_LARGEST: Final = 1_000_000
_MOST_READ: Final = 4_000_000
"""Bytes of the files that define a name in which it is counted."""
_MOST_LEFT_OUT: Final = 32_000_000
"""Bytes of files outside of the graph in which a name is looked for."""
_UNUSED: Final = "no other place in the indexed files has the name; users outside of them are not known"
_USED: Final = "by references that were resolved; there may be more of them than are known"


def usage(
    connection: Connection, project: int, jail: Jail, root: str, symbol: str, path: str | None
) -> dict[str, Any]:
    """Say whether anything uses a symbol. Without a resolved reference: unknown while it is named."""
    around = around_symbol(connection, project, symbol, path, 1)
    if around is None or not around.references_in.total:
        status, reason = _without_references(connection, project, jail, root, symbol, path)
    else:
        status, reason = "used", _USED
    unresolved = 0 if around is None else around.mentions.total
    return {"status": status, "reason": reason, "mentions": unresolved}


def _without_references(
    connection: Connection, project: int, jail: Jail, root: str, symbol: str, path: str | None
) -> tuple[str, str]:
    ids = defined(connection, project, symbol, path)
    files = {id >> ROW_BITS for id in ids}
    name = next(connection.execute("SELECT name FROM symbol WHERE id = ?", (ids[0],)))[0]
    query = "SELECT count(*) FROM reference WHERE project = ? AND name = ?"
    calls = next(connection.execute(query, (project, name)))[0]
    if calls:
        return "unknown", f"{calls} uses of the name were not resolved to one definition"
    table = file_fts(project)
    query = f"SELECT rowid FROM {table} WHERE {table} MATCH ?"
    others = {row[0] for row in connection.execute(query, (match([name]),))} - files
    if others:
        return (
            "unknown",
            f"{len(others)} other files have the name in their text, in no resolved call",
        )
    times = _times(connection, jail, root, name, files)
    if times is None:
        return "unknown", "the files that define the name are too large to be searched, or one cannot be read"
    if times > _definitions(connection, project, name):
        return "unknown", "the file itself has the name in other places, in no resolved call"
    outside = _left_out(connection, project, jail, root, name)
    if outside is not None:
        return (
            "unknown",
            f"{quoted(outside.path)} is not in the graph ({outside.reason}) and may use the name",
        )
    return "unused", _UNUSED


def _left_out(connection: Connection, project: int, jail: Jail, root: str, name: str) -> LeftOut | None:
    """The first file that the graph left out and that has a name, or may have it."""
    budget = _MOST_LEFT_OUT
    for row in left_out(connection, project).values():
        if row.reason == "binary":
            continue
        if row.size > budget or not name.isascii():
            return row
        budget -= row.size
        try:
            with jail.open_read(root, row.path) as file:
                data = file.read(row.size + 1)
        except (PathRefused, OSError) as problem:
            if isinstance(problem, FileNotFoundError) or getattr(problem, "reason", "") == "missing":
                continue
            return row
        # One that is written on holds more than is known of it.
        if len(data) > row.size or name.encode() in data:
            return row
    return None


def _definitions(connection: Connection, project: int, name: str) -> int:
    query = "SELECT count(*) FROM symbol WHERE project = ? AND name = ?"
    return next(connection.execute(query, (project, name)))[0]


def _times(connection: Connection, jail: Jail, root: str, name: str, files: set[int]) -> int | None:
    """Count a name in the text of files; None where one cannot be read, or they are too large."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    count, room = 0, _MOST_READ
    for file in sorted(files):
        path = next(connection.execute("SELECT path FROM file WHERE id = ?", (file,)))[0]
        try:
            with jail.open_read(root, path) as opened:
                data = opened.read(_LARGEST)
        except (PathRefused, OSError):
            return None
        room -= len(data)
        if room < 0:
            return None
        count += len(word.findall(data.decode("utf-8", "replace")))
    return count
