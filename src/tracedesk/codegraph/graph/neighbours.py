"""What lies around a file or a symbol: definitions, references and imports in and out; counted, bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.codegraph.graph.nodes import file_at
from tracedesk.codegraph.graph.schema import FILE_IMPORTS_FILE, ROW_BITS, SYMBOL_REFERENCES_SYMBOL, rows_of
from tracedesk.journal.sqlite import Connection

MOST: Final = 50
"""Neighbours of each kind that are named without being asked for more."""

MOST_DEFINITIONS: Final = 20


@dataclass(frozen=True, slots=True)
class Place:
    """A symbol, or a line that uses one: where it is."""

    path: str
    line: int
    symbol: str | None
    """Its qualified name; for a line, that of the symbol around it, None at the top of a file."""
    kind: str
    """The symbol's kind, or how the line uses the name."""
    exported: bool = False
    signature: str = ""

    def document(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "file": self.path,
            "line": self.line,
            "symbol": self.symbol,
            "kind": self.kind,
        }
        if self.signature:
            said |= {"signature": self.signature, "exported": self.exported}
        return said


@dataclass(frozen=True, slots=True)
class Bounded:
    """The first of a list of places or paths, and how many there are."""

    found: tuple[Place | str, ...]
    total: int

    @property
    def is_cut(self) -> bool:
        return len(self.found) < self.total


@dataclass(frozen=True, slots=True)
class SymbolNeighbours:
    """Around the definitions of one name."""

    definitions: Bounded
    references_in: Bounded
    """Symbols that refer to them, by resolved edges."""
    references_out: Bounded
    """Symbols that they refer to."""
    mentions: Bounded
    """Every line that uses the name, resolved or not; one for each symbol and use."""


@dataclass(frozen=True, slots=True)
class FileNeighbours:
    """Around one file."""

    definitions: Bounded
    imports: Bounded
    imported_by: Bounded
    references_in: Bounded
    """Symbols of other files that refer to definitions here."""
    references_out: Bounded
    """Definitions in other files that symbols here refer to."""


def around_symbol(
    connection: Connection, project: int, symbol: str, path: str | None = None, most: int = MOST
) -> SymbolNeighbours | None:
    """Around a symbol by its name or qualified name, in one file where a path is given; None without one."""
    ids = defined(connection, project, symbol, path)
    if not ids:
        return None
    name = next(connection.execute("SELECT name FROM symbol WHERE id = ?", (ids[0],)))[0]
    used = ids[:MOST_DEFINITIONS]
    return SymbolNeighbours(
        Bounded(_places(connection, used), len(ids)),
        _linked(connection, used, most, inward=True),
        _linked(connection, used, most, inward=False),
        _mentions(connection, project, name, most),
    )


def around_file(connection: Connection, project: int, path: str, most: int = MOST) -> FileNeighbours | None:
    """Around a file; None if the graph does not hold it."""
    file = file_at(connection, project, path)
    if file is None or file.deleted:
        return None
    query = "SELECT id FROM symbol WHERE id BETWEEN ? AND ? ORDER BY start_byte, end_byte DESC, id"
    ids = [row[0] for row in connection.execute(query, rows_of(file.id))]
    return FileNeighbours(
        Bounded(_places(connection, ids[:most]), len(ids)),
        _files(connection, file.id, most, inward=False),
        _files(connection, file.id, most, inward=True),
        _across(connection, file.id, most, inward=True),
        _across(connection, file.id, most, inward=False),
    )


def defined(connection: Connection, project: int, symbol: str, path: str | None) -> list[int]:
    """The ids of the definitions that a name means: exported ones first, then by place."""
    name = symbol.replace("::", ".").replace("#", ".").rpartition(".")[2]
    query = """
        SELECT symbol.id FROM symbol JOIN file ON file.id = symbol.id >> ?
        WHERE symbol.project = ? AND symbol.name = ? AND (? = symbol.name OR symbol.qualified = ?
          OR symbol.qualified LIKE ? ESCAPE '\\') AND (? IS NULL OR file.path = ?)
        ORDER BY symbol.exported DESC, file.path, symbol.start_byte
    """
    dotted = symbol.replace("::", ".").replace("#", ".")
    ending = "%." + dotted.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    bindings = (ROW_BITS, project, name, dotted, dotted, ending, path, path)
    return [row[0] for row in connection.execute(query, bindings)]


_PLACE: Final = f"""
SELECT file.path, symbol.start, symbol.qualified, symbol.kind, symbol.exported, symbol.signature
FROM symbol JOIN file ON file.id = symbol.id >> {ROW_BITS}
"""


def _places(connection: Connection, ids: Sequence[int]) -> tuple[Place, ...]:
    query = f"{_PLACE} WHERE symbol.id = ?"
    return tuple(_place(row) for id in ids for row in connection.execute(query, (id,)))


def _place(row: tuple[Any, ...]) -> Place:
    return Place(*row[:4], exported=bool(row[4]), signature=row[5])


def _linked(connection: Connection, ids: Sequence[int], most: int, *, inward: bool) -> Bounded:
    near, far = ("dst", "src") if inward else ("src", "dst")
    query = f"SELECT {far} FROM edge WHERE kind = ? AND {near} = ?"
    found = {row[0] for id in ids for row in connection.execute(query, (SYMBOL_REFERENCES_SYMBOL, id))} - set(
        ids
    )
    return _bounded(connection, found, most)


def _across(connection: Connection, file: int, most: int, *, inward: bool) -> Bounded:
    near, far = ("dst", "src") if inward else ("src", "dst")
    first, last = rows_of(file)
    query = f"""
        SELECT DISTINCT {far} FROM edge
        WHERE kind = ? AND {near} BETWEEN ? AND ? AND {far} NOT BETWEEN ? AND ?
    """
    rows = connection.execute(query, (SYMBOL_REFERENCES_SYMBOL, first, last, first, last))
    return _bounded(connection, {row[0] for row in rows}, most)


def _bounded(connection: Connection, ids: set[int], most: int) -> Bounded:
    """The first of some symbols by path and line. Which come first must not depend on their ids."""
    if len(ids) <= most:
        return Bounded(_sorted(_places(connection, list(ids))), len(ids))
    by_file: dict[int, list[int]] = {}
    for id in ids:
        by_file.setdefault(id >> ROW_BITS, []).append(id)
    query = "SELECT path FROM file WHERE id = ?"
    paths = sorted((next(connection.execute(query, (file,)))[0], file) for file in by_file)
    chosen: list[int] = []
    for _, file in paths:
        if len(chosen) >= most:
            break
        chosen += by_file[file]
    return Bounded(_sorted(_places(connection, chosen))[:most], len(ids))


def _sorted(places: tuple[Place, ...]) -> tuple[Place, ...]:
    return tuple(sorted(places, key=lambda place: (place.path, place.line, place.symbol or "", place.kind)))


def _mentions(connection: Connection, project: int, name: str, most: int) -> Bounded:
    total = next(
        connection.execute("SELECT count(*) FROM reference WHERE project = ? AND name = ?", (project, name))
    )[0]
    query = f"""
        SELECT file.path, reference.line, holder.qualified, reference.kind
        FROM reference JOIN file ON file.id = reference.id >> {ROW_BITS}
        LEFT JOIN symbol AS holder ON holder.id = reference.holder
        WHERE reference.project = ? AND reference.name = ?
        ORDER BY file.path, reference.line, reference.kind, holder.qualified LIMIT ?
    """
    return Bounded(tuple(Place(*row) for row in connection.execute(query, (project, name, most))), total)


def _files(connection: Connection, file: int, most: int, *, inward: bool) -> Bounded:
    near, far = ("dst", "src") if inward else ("src", "dst")
    query = f"""
        SELECT file.path FROM edge JOIN file ON file.id = edge.{far}
        WHERE edge.kind = ? AND edge.{near} = ? ORDER BY file.path
    """
    paths = [row[0] for row in connection.execute(query, (FILE_IMPORTS_FILE, file))]
    return Bounded(tuple(paths[:most]), len(paths))
