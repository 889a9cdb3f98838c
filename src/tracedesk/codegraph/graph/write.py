"""Rows of files into the tables, many to a statement, in the order of their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add
from typing import Any, Final

from tracedesk.codegraph.graph.rows import FileRows
from tracedesk.codegraph.graph.schema import ROW_BITS, chunk_fts, file_fts, name_fts, symbol_fts
from tracedesk.journal.sqlite import Connection, insert

_FILE: Final = (
    "INSERT INTO file(id, project, path, language, hint, sha256, leaf, size, mtime_ns, lines, doc, problem, "
    "stem)"
)
_SYMBOL: Final = (
    'INSERT INTO symbol(id, project, name, qualified, kind, start, "end", start_byte, end_byte, signature, '
    "doc, exported, parent, scope, chunk)"
)
_REFERENCE: Final = "INSERT INTO reference(id, project, name, kind, line, holder)"
_IMPORT: Final = "INSERT INTO import(id, module, names, line)"
_WANTED: Final = "INSERT INTO wanted(project, stem, import)"
_CHUNK: Final = 'INSERT INTO chunk(id, symbol, start, "end", key, text)'
_EDGE: Final = "INSERT OR IGNORE INTO edge(kind, src, dst)"


def next_file(connection: Connection) -> int:
    """The id of the next new file, of whatever project."""
    return next(connection.execute("SELECT coalesce(max(id), 0) + 1 FROM file"))[0]


def insert_files(connection: Connection, project: int, files: Sequence[FileRows]) -> list[int]:
    """Insert new files with everything they hold; their ids, in order. Edges come later."""
    first = next_file(connection)
    ids = list(range(first, first + len(files)))
    heads = [list(column) for column in zip(*(rows[:11] for rows in files), strict=True)]
    insert(connection, _FILE, [ids, [project] * len(ids), *heads])
    insert_symbols(
        connection, project, [(id << ROW_BITS, rows.symbols) for id, rows in zip(ids, files, strict=True)]
    )
    insert_contents(connection, project, ids, files)
    return ids


def insert_symbols(connection: Connection, project: int, parts: Iterable[tuple[int, list[Any]]]) -> None:
    """Symbols of files whose rows begin at the given ids."""
    columns: list[list[Any]] = [[] for _ in range(14)]
    for base, symbols in parts:
        columns[0] += range(base, base + len(symbols[0]))
        for column, values in zip(columns[1:], symbols, strict=True):
            column += values
        _shift(columns[11], base, len(symbols[0]))
        _shift(columns[13], base, len(symbols[0]))
    _insert(connection, _SYMBOL, [columns[0], [project] * len(columns[0]), *columns[1:]])


def insert_contents(
    connection: Connection,
    project: int,
    ids: Sequence[int],
    files: Sequence[FileRows],
    places: Sequence[Sequence[int]] | None = None,
) -> None:
    """References, imports, chunks and full text of files; symbols are numbered from the file's first row.

    `places` are those of each file's symbols among its rows where they do not follow each other from 0.
    """
    _insert_references(connection, project, ids, files)
    _insert_imports(connection, project, ids, files)
    _insert_chunks(connection, project, ids, files)
    at = places or [range(len(rows.symbols[0])) for rows in files]
    _insert_symbol_words(connection, project, ids, files, at)
    paths, symbols, texts = ([rows.words[place] for rows in files] for place in range(3))
    insert(connection, f"INSERT INTO {name_fts(project)}(rowid, path, symbols)", [ids, paths, symbols])
    insert(connection, f"INSERT INTO {file_fts(project)}(rowid, text)", [ids, texts])


def _insert_references(
    connection: Connection, project: int, ids: Sequence[int], files: Sequence[FileRows]
) -> None:
    columns: list[list[Any]] = [[] for _ in range(5)]
    for id, rows in zip(ids, files, strict=True):
        base = id << ROW_BITS
        count = len(rows.references[0])
        columns[0] += range(base, base + count)
        for column, values in zip(columns[1:], rows.references, strict=True):
            column += values
        _shift(columns[4], base, count)
    _insert(connection, _REFERENCE, [columns[0], [project] * len(columns[0]), *columns[1:]])


def _insert_imports(
    connection: Connection, project: int, ids: Sequence[int], files: Sequence[FileRows]
) -> None:
    columns: list[list[Any]] = [[] for _ in range(4)]
    stems: list[str] = []
    wanting: list[int] = []
    for id, rows in zip(ids, files, strict=True):
        base = id << ROW_BITS
        columns[0] += range(base, base + len(rows.imports[0]))
        for column, values in zip(columns[1:], rows.imports, strict=True):
            column += values
        stems += rows.wanted[0]
        wanting += [base + number for number in rows.wanted[1]]
    _insert(connection, _IMPORT, columns)
    _insert(connection, _WANTED, [[project] * len(stems), stems, wanting])


def _insert_chunks(
    connection: Connection, project: int, ids: Sequence[int], files: Sequence[FileRows]
) -> None:
    columns: list[list[Any]] = [[] for _ in range(6)]
    words: list[str] = []
    for id, rows in zip(ids, files, strict=True):
        base = id << ROW_BITS
        columns[0] += range(base, base + len(rows.chunks[0]))
        for column, values in zip(columns[1:], rows.chunks, strict=True):
            column += values
        _shift(columns[1], base, len(rows.chunks[0]))
        words += map(add, rows.chunks[4], rows.chunk_words)
    _insert(connection, _CHUNK, columns)
    _insert(connection, f"INSERT INTO {chunk_fts(project)}(rowid, text)", [columns[0], words])


def _insert_symbol_words(
    connection: Connection,
    project: int,
    ids: Sequence[int],
    files: Sequence[FileRows],
    places: Iterable[Sequence[int]],
) -> None:
    columns: list[list[Any]] = [[] for _ in range(5)]
    for id, rows, at in zip(ids, files, places, strict=True):
        base = id << ROW_BITS
        bodies = dict(zip(rows.chunks[0], map(add, rows.chunks[4], rows.chunk_words), strict=True))
        # Rows that come in the order of their ids are written at once.
        order = sorted(range(len(at)), key=at.__getitem__)
        columns[0] += [base + at[number] for number in order]
        for column, values in zip(columns[1:], rows.symbol_words, strict=False):
            column += [values[number] for number in order]
        columns[4] += [bodies.get(at[number], "") for number in order]
    into = f"INSERT INTO {symbol_fts(project)}(rowid, name, signature, doc, body)"
    _insert(connection, into, columns)


def insert_edges(connection: Connection, kind: int, pairs: Sequence[tuple[int, int]]) -> None:
    _insert(connection, _EDGE, [[kind] * len(pairs), [src for src, _ in pairs], [dst for _, dst in pairs]])


def delete_edges(connection: Connection, kind: int, pairs: Iterable[tuple[int, int]]) -> None:
    rows = [(kind, src, dst) for src, dst in pairs]
    connection.executemany("DELETE FROM edge WHERE kind = ? AND src = ? AND dst = ?", rows)


def _shift(column: list[Any], base: int, count: int) -> None:
    """Make the last so many places in a file row ids."""
    if count:
        column[-count:] = [None if place is None else base + place for place in column[-count:]]


def _insert(connection: Connection, into: str, columns: Sequence[Sequence[Any]]) -> None:
    if columns[0]:
        insert(connection, into, columns)
