"""Changes to a whole graph that leave it whole: files that came, changed or went, and the edges that follow.

Definitions that stay keep their rows, so edges from other files stay right by themselves. What must be looked
at again follows from the rules of resolution: the changed files; files with an import whose stem a file
gained or lost; and, for a name whose definitions changed, the files that import the changed one, or every
user of the name when its exported definitions are few enough to be meant from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.codegraph.graph.modules import family_of, wants
from tracedesk.codegraph.graph.resolve import (
    MOST,
    Pair,
    Resolver,
    edges_from,
    file_of,
    imported_by,
    importers_of,
)
from tracedesk.codegraph.graph.rows import FileRows
from tracedesk.codegraph.graph.schema import (
    FILE_IMPORTS_FILE,
    ROW_BITS,
    SYMBOL_REFERENCES_SYMBOL,
    chunk_fts,
    file_fts,
    name_fts,
    rows_of,
    symbol_fts,
)
from tracedesk.codegraph.graph.store import erase
from tracedesk.codegraph.graph.write import (
    delete_edges,
    insert_contents,
    insert_edges,
    insert_files,
    insert_symbols,
)
from tracedesk.journal.sqlite import Connection

Definition = tuple[int, int | None, int]
"""What resolution sees of a definition: its row, the row around it, and its scope."""

_SYMBOL: Final = """
UPDATE symbol SET start = ?, "end" = ?, start_byte = ?, end_byte = ?, signature = ?, doc = ?, exported = ?,
  parent = ?, scope = ?, chunk = ? WHERE id = ?
"""
_FILE: Final = """
UPDATE file SET language = ?, hint = ?, sha256 = ?, leaf = ?, size = ?, mtime_ns = ?, lines = ?, doc = ?,
  problem = ?,
  stem = ?, deleted = 0 WHERE id = ?
"""


@dataclass(slots=True)
class _Reach:
    """What a change touches."""

    files: dict[int, None] = field(default_factory=dict[int, None])
    """Files whose own imports and references changed."""
    stems: set[str] = field(default_factory=set[str])
    """Stems that a file gained or lost."""
    names: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    """Names whose definitions changed, and the files in which they did."""
    gained: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """How many exported definitions a name may have gained in a language family."""

    def note(self, file: int, before: dict[str, set[Definition]], after: dict[str, set[Definition]]) -> None:
        for name in before.keys() | after.keys():
            old, new = before.get(name, set()), after.get(name, set())
            if old != new:
                self.names.setdefault(name, set()).add(file)
                for scope in {definition[2] for definition in old ^ new} - {0}:
                    count = sum(definition[2] == scope for definition in new)
                    self.gained[name, scope] = self.gained.get((name, scope), 0) + count


def apply(connection: Connection, project: int, files: Sequence[FileRows], removed: Iterable[str]) -> None:
    """Bring a whole graph to another: in one transaction, the caller's."""
    reach = _Reach()
    for path in removed:
        _remove(connection, project, path, reach)
    for rows in files:
        _put(connection, project, rows, reach)
    _follow(connection, project, reach)


# --- rows


def _remove(connection: Connection, project: int, path: str, reach: _Reach) -> None:
    found = _known(connection, project, path)
    if found is None or found[3]:
        return
    file, language, stem, _ = found
    reach.stems.add(stem)
    reach.note(file, _definitions(connection, file), {})
    _erase_text(connection, project, file, path, language)
    erase(connection, file)
    connection.execute("UPDATE file SET deleted = 1 WHERE id = ?", (file,))


def _put(connection: Connection, project: int, rows: FileRows, reach: _Reach) -> None:
    found = _known(connection, project, rows.path)
    if found is None:
        file = insert_files(connection, project, [rows])[0]
        reach.stems.add(rows.stem)
        reach.note(file, {}, _definitions(connection, file))
    else:
        file = _replace(connection, project, rows, found, reach)
    reach.files[file] = None


def _replace(
    connection: Connection, project: int, rows: FileRows, found: tuple[int, str, str, int], reach: _Reach
) -> int:
    file, language, stem, deleted = found
    if deleted or (stem, language) != (rows.stem, rows.language):
        reach.stems |= {stem, rows.stem}
    before = _definitions(connection, file)
    _erase_text(connection, project, file, rows.path, language)
    connection.execute(_FILE, (*rows[1:11], file))
    places = _replace_symbols(connection, project, file, rows.symbols)
    insert_contents(connection, project, [file], [_renumbered(rows, places)], [places])
    reach.note(file, before, _definitions(connection, file))
    return file


def _known(connection: Connection, project: int, path: str) -> tuple[int, str, str, int] | None:
    query = "SELECT id, language, stem, deleted FROM file WHERE project = ? AND path = ?"
    return next(connection.execute(query, (project, path)), None)


def _definitions(connection: Connection, file: int) -> dict[str, set[Definition]]:
    found: dict[str, set[Definition]] = {}
    query = "SELECT name, id, parent, scope FROM symbol WHERE id BETWEEN ? AND ?"
    for name, id, parent, scope in connection.execute(query, rows_of(file)):
        found.setdefault(name, set()).add((id, parent, scope))
    return found


def _erase_text(connection: Connection, project: int, file: int, path: str, language: str) -> None:
    """Everything of a file but its symbols and their edges."""
    bounds = rows_of(file)
    _unwant(connection, project, file, path, language)
    for table, words in (("chunk", chunk_fts(project)), ("symbol", symbol_fts(project))):
        ids = list(connection.execute(f"SELECT id FROM {table} WHERE id BETWEEN ? AND ?", bounds))
        connection.executemany(f"DELETE FROM {words} WHERE rowid = ?", ids)
    for table in (file_fts(project), name_fts(project)):
        connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (file,))
    for table in ("reference", "import", "chunk"):
        connection.execute(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", bounds)


def _unwant(connection: Connection, project: int, file: int, path: str, language: str) -> None:
    family = family_of(language)
    query = "SELECT id, module, names FROM import WHERE id BETWEEN ? AND ?"
    gone = {
        (project, want.stem, id)
        for id, module, names in connection.execute(query, rows_of(file))
        for want in wants(family, path, module, names.split())
    }
    connection.executemany("DELETE FROM wanted WHERE project = ? AND stem = ? AND import = ?", gone)


def _replace_symbols(connection: Connection, project: int, file: int, symbols: list[Any]) -> list[int]:
    """Bring a file's symbols to new ones; the place of each new one among the file's rows."""
    known = _keyed(connection, file)
    keys = _keys(zip(symbols[0], symbols[1], symbols[2], strict=True))
    places = _places(keys, known)
    kept = {known[key] for key in keys if key in known}
    base = file << ROW_BITS
    for place in set(known.values()) - kept:
        _drop(connection, base + place)
    outer: list[int | None] = symbols[10]
    parents = [None if parent is None else places[parent] for parent in outer]
    _update(
        connection,
        base,
        [(at, places[at], parents[at]) for at, key in enumerate(keys) if key in known],
        symbols,
    )
    _add(
        connection,
        project,
        base,
        [(at, places[at], parents[at]) for at, key in enumerate(keys) if key not in known],
        symbols,
    )
    return places


Key = tuple[str, str, str, int]


def _keys(facts: Iterable[tuple[str, str, str]]) -> list[Key]:
    """What makes a definition the same one: its names and kind, and its turn among those that share them."""
    seen: dict[tuple[str, str, str], int] = {}
    keys: list[Key] = []
    for fact in facts:
        seen[fact] = seen.get(fact, -1) + 1
        keys.append((*fact, seen[fact]))
    return keys


def _keyed(connection: Connection, file: int) -> dict[Key, int]:
    # In the order of the text, which is the order in which the extractor names them.
    query = """
        SELECT name, qualified, kind, id FROM symbol WHERE id BETWEEN ? AND ?
        ORDER BY start_byte, end_byte DESC, id
    """
    rows = list(connection.execute(query, rows_of(file)))
    base = file << ROW_BITS
    return {key: row[3] - base for key, row in zip(_keys(row[:3] for row in rows), rows, strict=True)}


def _places(keys: Sequence[Key], known: dict[Key, int]) -> list[int]:
    """A kept definition's place; the lowest free one for each that is new."""
    taken = {known[key] for key in keys if key in known}
    free = (place for place in range(len(keys) + len(taken) + 1) if place not in taken)
    return [known[key] if key in known else next(free) for key in keys]


def _drop(connection: Connection, symbol: int) -> None:
    connection.execute("DELETE FROM symbol WHERE id = ?", (symbol,))
    kind = SYMBOL_REFERENCES_SYMBOL
    connection.execute("DELETE FROM edge WHERE kind = ? AND src = ?", (kind, symbol))
    sources = connection.execute("SELECT src FROM edge WHERE kind = ? AND dst = ?", (kind, symbol))
    delete_edges(connection, kind, [(row[0], symbol) for row in list(sources)])


Placed = list[tuple[int, int, int | None]]
"""Where each is among the new symbols, its place in the file's rows, and that of its parent."""


def _update(connection: Connection, base: int, kept: Placed, symbols: list[Any]) -> None:
    rows = [
        (
            *(symbols[column][at] for column in range(3, 10)),
            None if parent is None else base + parent,
            symbols[11][at],
            None if symbols[12][at] is None else base + symbols[12][at],
            base + place,
        )
        for at, place, parent in kept
    ]
    connection.executemany(_SYMBOL, rows)


def _add(connection: Connection, project: int, base: int, added: Placed, symbols: list[Any]) -> None:
    for at, place, parent in added:
        columns = [[column[at]] for column in symbols]
        columns[10] = [None if parent is None else parent - place]
        columns[12] = [None if symbols[12][at] is None else symbols[12][at] - place]
        insert_symbols(connection, project, [(base + place, columns)])


def _renumbered(rows: FileRows, places: list[int]) -> FileRows:
    """The rows with their holders and chunks pointing at the symbols' places."""

    def moved(column: list[int | None]) -> list[int | None]:
        return [None if at is None else places[at] for at in column]

    references = [*rows.references[:3], moved(rows.references[3])]
    return rows._replace(references=references, chunks=[moved(rows.chunks[0]), *rows.chunks[1:]])


# --- edges


def _follow(connection: Connection, project: int, reach: _Reach) -> None:
    resolver = Resolver(connection, project)
    whole = dict.fromkeys((*reach.files, *_follow_imports(connection, project, resolver, reach)))
    families: dict[int, int] = {}
    for file in whole:
        _, families[file] = _path_and_family(connection, file)
        new = resolver.references_of(file, families[file], imported_by(connection, file))
        _write(connection, SYMBOL_REFERENCES_SYMBOL, edges_from(connection, file), new)
    for name, changed in sorted(reach.names.items()):
        for file, holders in _users(connection, resolver, reach, name, changed).items():
            if file not in whole:
                _follow_name(connection, resolver, name, file, holders)


def _follow_imports(connection: Connection, project: int, resolver: Resolver, reach: _Reach) -> list[int]:
    """Resolve the imports that a change touches; the files whose imports are others now."""
    query = "SELECT import FROM wanted WHERE project = ? AND stem = ?"
    asked = dict(reach.files)
    for stem in sorted(reach.stems):
        asked |= dict.fromkeys(file_of(row[0]) for row in connection.execute(query, (project, stem)))
    others: list[int] = []
    for file in asked:
        path, family = _path_and_family(connection, file)
        old = {(file, other) for other in imported_by(connection, file)}
        new = {(file, other) for other in resolver.imports_of(file, path, family)}
        if _write(connection, FILE_IMPORTS_FILE, old, new):
            others.append(file)
    return others


def _users(
    connection: Connection, resolver: Resolver, reach: _Reach, name: str, changed: set[int]
) -> dict[int, list[int]]:
    """The files in which the name may mean something else now, and the symbols there that use it."""
    if any(
        _is_rare(resolver, name, scope, gained) for (of, scope), gained in reach.gained.items() if of == name
    ):
        return resolver.users(name)
    importers = {importer for file in changed for importer in importers_of(connection, file)}
    return {file: resolver.holders(name, file) for file in sorted(importers)}


def _is_rare(resolver: Resolver, name: str, scope: int, gained: int) -> bool:
    # Before the change there were at least as many as now without those that were gained.
    return len(resolver.exported(name, scope, MOST + gained + 1)) <= MOST + gained


def _follow_name(
    connection: Connection, resolver: Resolver, name: str, file: int, holders: list[int]
) -> None:
    """Bring the edges that one name makes from an unchanged file up to date."""
    if not holders:
        return
    _, family = _path_and_family(connection, file)
    new = resolver.uses_of(name, file, holders, family, imported_by(connection, file))
    # The join's order is given: the planner knows too little to see that a symbol has few edges.
    query = """
        SELECT edge.src, edge.dst FROM edge CROSS JOIN symbol
        WHERE edge.kind = ? AND edge.src = ? AND symbol.id = edge.dst AND symbol.name = ?
    """
    old = {
        pair
        for holder in holders
        for pair in connection.execute(query, (SYMBOL_REFERENCES_SYMBOL, holder, name))
    }
    _write(connection, SYMBOL_REFERENCES_SYMBOL, old, new)


def _write(connection: Connection, kind: int, old: set[Pair], new: set[Pair]) -> bool:
    """Write what differs; whether anything does."""
    delete_edges(connection, kind, sorted(old - new))
    insert_edges(connection, kind, sorted(new - old))
    return old != new


def _path_and_family(connection: Connection, file: int) -> tuple[str, int]:
    path, language = next(connection.execute("SELECT path, language FROM file WHERE id = ?", (file,)))
    return path, family_of(language)
