"""Edges from names: which file an import means, and which definitions a reference means.

A reference means the definitions of its name in its own file; else those in files that its file imports;
else, when there are at most `MOST` of them in the project, the exported ones of its language family. The
answer depends only on what files hold, never on the order in which they came, so a graph that was updated
file by file has the edges of one that was built at once.
"""

from __future__ import annotations

import posixpath
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from tracedesk.codegraph.graph.modules import Candidate, Want, family_of, may_fit, meant, trail_of, wants
from tracedesk.codegraph.graph.schema import (
    FILE_IMPORTS_FILE,
    ROW_BITS,
    SYMBOL_REFERENCES_SYMBOL,
    rows_of,
)
from tracedesk.journal.sqlite import Connection

MOST: Final = 3
"""A name with more exported definitions in the project than this says nothing about which one is meant."""

MOST_NEAR: Final = 4
"""The same among the definitions of one file, or of the files it imports."""

Pair = tuple[int, int]

_IN_FILE: Final = "id BETWEEN ? AND ?"
_FEW: Final = 32
_CACHED: Final = 65_536


class Resolver:
    """Resolves names of one project over what a connection sees; forget it when the rows change."""

    def __init__(self, connection: Connection, project: int) -> None:
        self._connection = connection
        self.project = project
        self.candidates = lru_cache(_CACHED)(self._candidates)
        self.candidates_for = lru_cache(_CACHED)(self._candidates_for)
        self.meant_from = lru_cache(_CACHED)(self._meant_from)
        self.exported_in = lru_cache(_CACHED)(self._exported_in)
        self.everywhere = lru_cache(_CACHED)(self._everywhere)
        self.exported = lru_cache(_CACHED)(self._exported)

    # --- imports

    def imports_of(self, file: int, path: str, family: int) -> set[int]:
        """The files that a file imports."""
        query = f"SELECT {_listed('module', 'names')} FROM import WHERE {_IN_FILE}"
        folder = posixpath.dirname(path)
        found: set[int] = set()
        for module, names in zip(*self._columns(query, rows_of(file)), strict=True):
            for want in wants(family, path, module, names.split()):
                files = self.meant_from(want, folder, family)
                if path in [candidate.path for candidate in files]:
                    files = meant(want, folder, family, self.candidates_for(want), but=path)
                found.update([candidate.id for candidate in files])
        return found

    def _meant_from(self, want: Want, folder: str, family: int) -> list[Candidate]:
        return meant(want, folder, family, self.candidates_for(want))

    def _candidates_for(self, want: Want) -> Sequence[Candidate]:
        """The files that a want may mean from some folder: it is asked from many, and most fit from none."""
        by_trail = self.candidates(want.stem)
        if want.exact:
            return by_trail.get(want.tail, ())
        return [found for trail, files in by_trail.items() if may_fit(want, trail) for found in files]

    def _candidates(self, stem: str) -> dict[str, list[Candidate]]:
        """The files with a stem, by their trails."""
        found: dict[str, list[Candidate]] = {}
        query = "SELECT id, path, language FROM file WHERE project = ? AND stem = ? AND deleted = 0"
        for id, path, language in self._connection.execute(query, (self.project, stem)):
            family = family_of(language)
            trail = trail_of(path, family)
            found.setdefault(trail, []).append(Candidate(id, path, trail, family))
        return found

    # --- references

    def references_of(self, file: int, family: int, imported: Iterable[int]) -> set[Pair]:
        """The edges from the symbols of a file."""
        query = f"SELECT {_listed('name', 'holder')} FROM reference WHERE {_IN_FILE} AND holder IS NOT NULL"
        names, holders = self._columns(query, rows_of(file))
        if not names:
            return set()
        local, parents = self._local(file)
        near = self._near(imported, family, set(names) - local.keys())
        # What a name means is the same for all that use it, but where the file defines it more than once.
        known: dict[str, Sequence[int]] = {name: here for name, here in local.items() if len(here) == 1}
        edges: set[Pair] = set()
        for name, holder in zip(names, holders, strict=True):
            targets = known.get(name)
            if targets is None:
                if (here := local.get(name)) is not None:
                    targets = _own(here, parents, holder)
                else:
                    targets = known[name] = self._afar(name, near, family)
            for target in targets:
                if target != holder:
                    edges.add((holder, target))
        return edges

    def _afar(self, name: str, near: dict[str, list[int]], family: int) -> Sequence[int]:
        """What a name means that its file does not define."""
        among = near.get(name)
        if among is None:
            return self.everywhere(name, family)
        return among if len(among) <= MOST_NEAR else ()

    def holders(self, name: str, file: int) -> list[int]:
        """The symbols of a file that use a name."""
        query = """
            SELECT DISTINCT holder FROM reference WHERE project = ? AND name = ? AND holder BETWEEN ? AND ?
        """
        return [row[0] for row in self._connection.execute(query, (self.project, name, *rows_of(file)))]

    def users(self, name: str) -> dict[int, list[int]]:
        """Every file in which a symbol uses a name, with those symbols."""
        query = """
            SELECT DISTINCT holder FROM reference WHERE project = ? AND name = ? AND holder IS NOT NULL
        """
        found: dict[int, list[int]] = {}
        for (holder,) in self._connection.execute(query, (self.project, name)):
            found.setdefault(file_of(holder), []).append(holder)
        return found

    def uses_of(
        self, name: str, file: int, holders: Sequence[int], family: int, imported: Iterable[int]
    ) -> set[Pair]:
        """The edges that one name makes from the symbols of a file that use it."""
        here, parents = self._named_in(name, file, family, holders)
        if here:
            return {(h, t) for h in holders for t in _own(here, parents, h) if t != h}
        among = self._among(name, family, set(imported))
        if among:
            targets: Sequence[int] = among if len(among) <= MOST_NEAR else ()
        else:
            targets = self.everywhere(name, family)
        return {(holder, target) for holder in holders for target in targets if target != holder}

    def _among(self, name: str, family: int, files: set[int]) -> list[int]:
        """The exported definitions of a name in some files."""
        few = self.exported(name, family, _FEW + 1)
        if len(few) <= _FEW:
            return [id for id in few if file_of(id) in files]
        return [id for file in sorted(files) for id in self.named_in_scope(name, file, family)]

    def _local(self, file: int) -> tuple[dict[str, list[int]], dict[int, int | None]]:
        local: dict[str, list[int]] = {}
        query = f"SELECT {_listed('id', 'name', 'parent')} FROM symbol WHERE {_IN_FILE}"
        ids, names, outer = self._columns(query, rows_of(file))
        for id, name in zip(ids, names, strict=True):
            local.setdefault(name, []).append(id)
        return local, dict(zip(ids, outer, strict=True))

    def _named_in(
        self, name: str, file: int, family: int, holders: Iterable[int]
    ) -> tuple[list[int], dict[int, int | None]]:
        here = [id for scope in (0, family) for id in self.named_in_scope(name, file, scope)]
        if len(here) < 2:
            return here, {}
        query = "SELECT parent FROM symbol WHERE id = ?"
        asked = {*here, *holders}
        return here, {id: next(self._connection.execute(query, (id,)))[0] for id in asked}

    def _near(self, imported: Iterable[int], family: int, names: set[str]) -> dict[str, list[int]]:
        """Of some names the exported definitions in the files that are imported."""
        near: dict[str, list[int]] = {}
        for other in sorted(set(imported)):
            exported = self.exported_in(other, family)
            for name in exported.keys() & names:
                near.setdefault(name, []).extend(exported[name])
        return near

    def _exported_in(self, file: int, family: int) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        query = f"SELECT {_listed('name', 'id')} FROM symbol WHERE {_IN_FILE} AND scope = ?"
        names, ids = self._columns(query, (*rows_of(file), family))
        for name, id in zip(names, ids, strict=True):
            found.setdefault(name, []).append(id)
        return found

    def _columns(self, query: str, bindings: Sequence[Any]) -> list[list[Any]]:
        """The columns of a file's rows, as one row of lists.

        Row by row, the interpreter's lock would be handed over for each.
        """
        return [orjson.loads(column) for column in next(self._connection.execute(query, bindings))]

    def named_in_scope(self, name: str, file: int, family: int) -> list[int]:
        query = "SELECT id FROM symbol WHERE project = ? AND name = ? AND scope = ? AND id BETWEEN ? AND ?"
        rows = self._connection.execute(query, (self.project, name, family, *rows_of(file)))
        return [row[0] for row in rows]

    def _everywhere(self, name: str, family: int) -> tuple[int, ...]:
        found = self.exported(name, family, MOST + 1)
        return found if len(found) <= MOST else ()

    def _exported(self, name: str, family: int, most: int) -> tuple[int, ...]:
        """Up to so many exported definitions of a name in a language family."""
        query = "SELECT id FROM symbol WHERE project = ? AND name = ? AND scope = ? LIMIT ?"
        rows = self._connection.execute(query, (self.project, name, family, most))
        return tuple(row[0] for row in rows)


def _listed(*columns: str) -> str:
    return ", ".join([f"json_group_array({column})" for column in columns])


def _own(here: Sequence[int], parents: dict[int, int | None], holder: int) -> Sequence[int]:
    """Of several definitions in one file the holder's neighbours, or all when they are few."""
    if len(here) == 1:
        return here
    around = parents.get(holder)
    beside = [id for id in here if parents[id] == around]
    if beside and around is not None:
        return beside if len(beside) <= MOST_NEAR else ()
    return here if len(here) <= MOST_NEAR else ()


def resolved(connection: Connection, project: int) -> Generator[tuple[int, list[Pair]]]:
    """Every edge of a project that has none, some at a time with their kind; those of imports come first."""
    resolver = Resolver(connection, project)
    files = _files(connection, project)
    imports = {id: sorted(resolver.imports_of(id, path, family)) for id, path, family in files}
    for pairs in _batches(((id, other) for other in imports[id]) for id, _, _ in files):
        yield FILE_IMPORTS_FILE, pairs
    for pairs in _batches(sorted(resolver.references_of(id, family, imports[id])) for id, _, family in files):
        yield SYMBOL_REFERENCES_SYMBOL, pairs


def _batches(edges: Iterable[Iterable[Pair]]) -> Generator[list[Pair]]:
    pairs: list[Pair] = []
    for some in edges:
        pairs += some
        if len(pairs) >= _BATCH:
            yield pairs
            pairs = []
    if pairs:
        yield pairs


_BATCH: Final = 20_000


def _files(connection: Connection, project: int) -> list[tuple[int, str, int]]:
    query = "SELECT id, path, language FROM file WHERE project = ? AND deleted = 0 ORDER BY id"
    return [(id, path, family_of(language)) for id, path, language in connection.execute(query, (project,))]


def imported_by(connection: Connection, file: int) -> list[int]:
    """The files that a file imports, by its edges."""
    query = "SELECT dst FROM edge WHERE kind = ? AND src = ?"
    return [row[0] for row in connection.execute(query, (FILE_IMPORTS_FILE, file))]


def importers_of(connection: Connection, file: int) -> list[int]:
    """The files that import a file, by their edges."""
    query = "SELECT src FROM edge WHERE kind = ? AND dst = ?"
    return [row[0] for row in connection.execute(query, (FILE_IMPORTS_FILE, file))]


def edges_from(connection: Connection, file: int) -> set[Pair]:
    """The reference edges from the symbols of a file."""
    query = "SELECT src, dst FROM edge WHERE kind = ? AND src BETWEEN ? AND ?"
    return set(connection.execute(query, (SYMBOL_REFERENCES_SYMBOL, *rows_of(file))))


def file_of(row: int) -> int:
    return row >> ROW_BITS
