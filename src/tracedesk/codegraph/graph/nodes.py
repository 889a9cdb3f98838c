"""The nodes of a project's graph, read: files, their symbols, chunks and imports, and how many there are."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.codegraph.graph.schema import FILE_IMPORTS_FILE, SYMBOL_REFERENCES_SYMBOL, rows_of
from tracedesk.journal.sqlite import Connection


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file of a project as the graph knows it."""

    id: int
    path: str
    language: str
    sha256: bytes
    size: int
    mtime_ns: int
    lines: int
    doc: str
    problem: str | None
    deleted: bool


@dataclass(frozen=True, slots=True)
class SymbolRow:
    """A definition in a file; `inbound` is how many symbols refer to it."""

    id: int
    name: str
    qualified: str
    kind: str
    start: int
    end: int
    start_byte: int
    end_byte: int
    signature: str
    doc: str
    exported: bool
    parent: int | None
    chunk: int | None
    """The chunk that shows it: its own, or the one around it."""
    inbound: int


@dataclass(frozen=True, slots=True)
class ImportRow:
    """What a file says it takes from another."""

    module: str
    names: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A piece of a file's text, without secrets; `symbol` is None for the head of the file."""

    id: int
    symbol: int | None
    start: int
    end: int
    key: bytes
    text: str


_FILE: Final = "SELECT id, path, language, sha256, size, mtime_ns, lines, doc, problem, deleted FROM file"


def file_at(connection: Connection, project: int, path: str) -> FileRow | None:
    """A file of a project by its path; a removed one too."""
    rows = connection.execute(f"{_FILE} WHERE project = ? AND path = ?", (project, path))
    return next((_file(row) for row in rows), None)


def files_of(connection: Connection, project: int) -> list[FileRow]:
    """The live files of a project, by path."""
    query = f"{_FILE} WHERE project = ? AND deleted = 0 ORDER BY path"
    return [_file(row) for row in connection.execute(query, (project,))]


def symbols_of(connection: Connection, file: int) -> list[SymbolRow]:
    """The definitions in a file, in the order of its text."""
    query = f"""
        SELECT id, name, qualified, kind, start, "end", start_byte, end_byte, signature, doc, exported,
          parent, chunk,
          (SELECT count(*) FROM edge WHERE edge.kind = {SYMBOL_REFERENCES_SYMBOL} AND edge.dst = symbol.id)
        FROM symbol WHERE id BETWEEN ? AND ? ORDER BY start_byte, end_byte DESC, id
    """
    return [SymbolRow(*row) for row in connection.execute(query, rows_of(file))]


def imports_of(connection: Connection, file: int) -> list[ImportRow]:
    """The imports of a file, as written."""
    query = "SELECT module, names, line FROM import WHERE id BETWEEN ? AND ? ORDER BY id"
    return [
        ImportRow(module, tuple(names.split()), line)
        for module, names, line in connection.execute(query, rows_of(file))
    ]


def chunks_of(connection: Connection, file: int) -> list[ChunkRow]:
    """The chunks of a file, its head first."""
    query = 'SELECT id, symbol, start, "end", key, text FROM chunk WHERE id BETWEEN ? AND ? ORDER BY id'
    return [ChunkRow(*row) for row in connection.execute(query, rows_of(file))]


COUNTED: Final = (
    "files", "symbols", "chunks", "references", "imports", "symbol_references_symbol", "file_imports_file",
)  # fmt: skip


def counts_of(connection: Connection, project: int) -> dict[str, int]:
    """How many nodes and edges of each kind a project has."""
    counts: dict[str, int] = dict.fromkeys(COUNTED, 0)
    ids = [row[0] for row in connection.execute(_LIVE, (project,))]
    counts["files"] = len(ids)
    if not ids:
        return counts
    counts["symbols"] = _one(connection, "SELECT count(*) FROM symbol WHERE project = ?", project)
    counts["references"] = _one(connection, "SELECT count(*) FROM reference WHERE project = ?", project)
    for first, last in _runs(ids):
        low, high = rows_of(first)[0], rows_of(last)[1]
        for noun, table in (("chunks", "chunk"), ("imports", "import")):
            counts[noun] += _one(
                connection, f"SELECT count(*) FROM {table} WHERE id BETWEEN ? AND ?", low, high
            )
        counts["symbol_references_symbol"] += _one(connection, _EDGES, SYMBOL_REFERENCES_SYMBOL, low, high)
        counts["file_imports_file"] += _one(connection, _EDGES, FILE_IMPORTS_FILE, first, last)
    return counts


_LIVE: Final = "SELECT id FROM file WHERE project = ? AND deleted = 0 ORDER BY id"
_EDGES: Final = "SELECT count(*) FROM edge WHERE kind = ? AND src BETWEEN ? AND ?"


def _runs(ids: list[int]) -> Generator[tuple[int, int]]:
    """The ids as runs of neighbours; a project's files lie mostly together."""
    first = last = ids[0]
    for id in ids[1:]:
        if id != last + 1:
            yield first, last
            first = id
        last = id
    yield first, last


def _one(connection: Connection, query: str, *bindings: int) -> int:
    return next(connection.execute(query, bindings))[0]


def _file(row: tuple[Any, ...]) -> FileRow:
    return FileRow(*row[:-1], deleted=bool(row[-1]))
