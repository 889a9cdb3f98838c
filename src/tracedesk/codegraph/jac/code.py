"""Files, symbols and chunks of the store as nodes, and the edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tracedesk.codegraph.graph.nodes import ChunkRow, FileRow, chunks_of, files_of, symbols_of
from tracedesk.codegraph.graph.schema import FILE_IMPORTS_FILE, SYMBOL_REFERENCES_SYMBOL, rows_of
from tracedesk.codegraph.jac.types import ContextChunk, Draft, File, Pair, Span, Symbol
from tracedesk.journal.sqlite import Connection

if TYPE_CHECKING:
    from tracedesk.codegraph.embed.vectors import Vectors

_DIGITS: Final = 4
"""Of an embedding's numbers: they were kept in eight bits each."""


class Sized(NamedTuple):
    """A file of the store, and how much is in it."""

    file: FileRow
    symbols: int
    chunks: int

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def nodes(self) -> int:
        return 1 + self.symbols + self.chunks


class Piece(NamedTuple):
    """A chunk that was taken: its place, the symbol it is of, and its lines."""

    place: int
    symbol: str | None
    start: int
    end: int


@dataclass(slots=True)
class Code:
    """What was taken of the code graph: places of nodes by row id and by path."""

    files: dict[int, int] = field(default_factory=dict[int, int])
    symbols: dict[int, int] = field(default_factory=dict[int, int])
    paths: dict[str, int] = field(default_factory=dict[str, int])
    pieces: dict[str, list[Piece]] = field(default_factory=dict[str, list[Piece]])
    left_out: Counter[str] = field(default_factory=Counter[str])
    embedded: int = 0


def sizes(connection: Connection, project: int) -> list[Sized]:
    """Every live file of a project, by path."""
    return [
        Sized(file, *(_count(connection, table, file.id) for table in ("symbol", "chunk")))
        for file in files_of(connection, project)
    ]


def _count(connection: Connection, table: str, file: int) -> int:
    query = f"SELECT count(*) FROM {table} WHERE id BETWEEN ? AND ?"
    return next(connection.execute(query, rows_of(file)))[0]


def take(draft: Draft, connection: Connection, chosen: Iterable[Sized], vectors: Vectors | None) -> Code:
    """Add the files to the draft with all that is in them, then the edges that stay among them."""
    code = Code()
    for sized in chosen:
        _take(draft, connection, sized.file, code, vectors)
    _link(draft, connection, code)
    return code


def _take(draft: Draft, connection: Connection, file: FileRow, code: Code, vectors: Vectors | None) -> None:
    place = draft.add(File(file.path, file.language, file.sha256.hex(), draft.project.project_root))
    code.files[file.id] = code.paths[file.path] = place
    draft.link("project_has_file", 0, place)
    names: dict[int, str] = {}
    for row in symbols_of(connection, file.id):
        names[row.id] = row.name
        code.symbols[row.id] = draft.add(Symbol(row.name, row.kind, file.path, Span(row.start, row.end)))
        draft.link("file_has_symbol", place, code.symbols[row.id])
    chunks = chunks_of(connection, file.id)
    code.pieces[file.path] = [
        _take_chunk(draft, file, chunk, embedding, names, code)
        for chunk, embedding in zip(chunks, embedded([chunk.key for chunk in chunks], vectors), strict=True)
    ]


def _take_chunk(
    draft: Draft,
    file: FileRow,
    chunk: ChunkRow,
    embedding: tuple[float, ...],
    names: Mapping[int, str],
    code: Code,
) -> Piece:
    place = draft.add(ContextChunk(file.path, chunk.text, embedding))
    draft.link("file_has_context", code.files[file.id], place)
    if chunk.symbol is not None:
        draft.link("symbol_in_context", code.symbols[chunk.symbol], place)
    code.embedded += bool(embedding)
    name = None if chunk.symbol is None else names[chunk.symbol]
    return Piece(place, name, chunk.start, chunk.end)


def embedded(keys: Sequence[bytes], vectors: Vectors | None) -> list[tuple[float, ...]]:
    """The vector of each text that has one; an empty one for the others."""
    if vectors is None or not keys:
        return [()] * len(keys)
    missing = frozenset(vectors.missing(keys))
    rows: list[list[float]] = vectors.get(keys).tolist()
    return [
        () if key in missing else tuple(round(number, _DIGITS) for number in row)
        for key, row in zip(keys, rows, strict=True)
    ]


# --- edges between files --------------------------------------------------------------------------


def _link(draft: Draft, connection: Connection, code: Code) -> None:
    for file in code.files:
        low, high = rows_of(file)
        references = _edges(connection, SYMBOL_REFERENCES_SYMBOL, low, high)
        _link_all(draft, "symbol_references_symbol", references, code.symbols, code.left_out)
        imports = _edges(connection, FILE_IMPORTS_FILE, file, file)
        _link_all(draft, "file_imports_file", imports, code.files, code.left_out)


def _edges(connection: Connection, kind: int, low: int, high: int) -> Iterable[Pair]:
    query = "SELECT src, dst FROM edge WHERE kind = ? AND src BETWEEN ? AND ? ORDER BY src, dst"
    return connection.execute(query, (kind, low, high))


def _link_all(
    draft: Draft, kind: str, edges: Iterable[Pair], places: Mapping[int, int], left_out: Counter[str]
) -> None:
    for source, target in edges:
        if target in places:
            draft.link(kind, places[source], places[target])
        else:
            left_out[kind] += 1
