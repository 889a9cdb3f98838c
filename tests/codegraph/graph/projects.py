"""Projects on the disk, their graphs, and graphs as values that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from tracedesk.codegraph.graph.index import index_project
from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.parse import parse
from tracedesk.codegraph.graph.pool import Parsing
from tracedesk.codegraph.graph.reports import IndexReport, UpdateReport
from tracedesk.codegraph.graph.rows import Outcome, Task
from tracedesk.codegraph.graph.schema import chunk_fts, file_fts, name_fts, symbol_fts
from tracedesk.codegraph.graph.store import Store
from tracedesk.codegraph.graph.update import update_files
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.paths import Jail


class Here:
    """Parses in this process: for tests that make many small graphs of harmless files."""

    def expecting(self, files: int, workers: int | None) -> AbstractContextManager[None]:
        return nullcontext()

    def parsed(
        self,
        jail: Jail,
        root: str,
        tasks: Sequence[Task],
        limits: Limits,
        workers: int | None,
        cancelled: Callable[[], None],
    ) -> Iterator[list[Outcome]]:
        for at in range(0, len(tasks), 5):
            cancelled()
            yield parse(jail, root, limits, tasks[at : at + 5])

    def close(self) -> None:
        pass


class Desk:
    """A project's folder, a home with a graph, and both together."""

    def __init__(self, folder: Path, parsers: Parsing | None = None) -> None:
        self.root = folder / "project"
        self.root.mkdir(parents=True)
        self.home = folder / "home"
        self.home.mkdir()
        self.jail = Jail([folder])
        self.store = Store(self.home / "graph.db", parsers or Here())

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def index(self, files: Sequence[str] = (), **options: Any) -> IndexReport:
        return index_project(self.store, self.jail, str(self.root), files, **options)

    def update(
        self, changed: Sequence[str] = (), deleted: Sequence[str] = (), **options: Any
    ) -> UpdateReport:
        return update_files(self.store, self.jail, str(self.root), changed, deleted, **options)

    def graph(self) -> dict[str, Any]:
        return graph(self.store, str(self.root))

    def rebuilt(self) -> dict[str, Any]:
        """The graph of the same files, built at once in a new home."""
        beside = Store(self.home / "rebuilt.db", Here())
        try:
            index_project(beside, self.jail, str(self.root), [])
            return graph(beside, str(self.root))
        finally:
            beside.close()
            for path in self.home.glob("rebuilt.db*"):
                path.unlink()

    def edges(self) -> set[tuple[str, str]]:
        """Reference edges as `file:symbol` pairs."""
        found = self.graph()["references to symbols"]
        return {(f"{a[0]}:{a[1]}", f"{b[0]}:{b[1]}") for a, b in found}

    def imports(self) -> set[tuple[str, str]]:
        return set(self.graph()["imports of files"])

    def skipped(self, report: IndexReport | UpdateReport) -> dict[str, str]:
        return {skip.file: skip.reason for skip in report.skipped}


def graph(store: Store, root: str, *, words: bool = True) -> dict[str, Any]:
    """Everything that readers can see of a project's graph, by content instead of row ids."""
    with store.reading() as connection:
        rows = list(
            connection.execute(
                "SELECT id, graph_version, extractor FROM project WHERE root = ? AND state = 'current'",
                (root,),
            )
        )
        if not rows:
            return {}
        project, version, extractor = rows[0]
        return {"version": version, "extractor": extractor, **_nodes(connection, project, words)}


def _nodes(connection: Connection, project: int, words: bool) -> dict[str, Any]:
    files = {
        id: (path, *rest)
        for id, path, *rest in connection.execute(
            """SELECT id, path, language, hint, sha256, size, lines, doc, problem, stem
            FROM file WHERE project = ? AND deleted = 0""",
            (project,),
        )
    }
    paths = {id: facts[0] for id, facts in files.items()}
    symbols = {
        row[0]: (paths[row[0] >> 20], *row[1:-1])
        for row in connection.execute(
            """SELECT id, qualified, kind, start_byte, end_byte, start, "end", name, signature, doc, exported,
            scope, parent FROM symbol WHERE project = ?""",
            (project,),
        )
    }
    parents = dict(connection.execute("SELECT id, parent FROM symbol WHERE project = ?", (project,)))
    seen: dict[str, Any] = {
        "files": sorted(files.values(), key=repr),
        "symbols": sorted(((facts, symbols.get(parents[id])) for id, facts in symbols.items()), key=repr),
        "references": sorted(
            (
                (paths[id >> 20], name, kind, line, symbols.get(holder))
                for id, name, kind, line, holder in connection.execute(
                    "SELECT id, name, kind, line, holder FROM reference WHERE project = ?", (project,)
                )
            ),
            key=repr,
        ),
        "references to symbols": sorted(
            (
                (symbols.get(src), symbols.get(dst))
                for src, dst in connection.execute("SELECT src, dst FROM edge WHERE kind = 1")
                if src in symbols or dst in symbols
            ),
            key=repr,
        ),
        "imports of files": sorted(
            (str(paths.get(src)), str(paths.get(dst)))
            for src, dst in connection.execute("SELECT src, dst FROM edge WHERE kind = 2")
            if src in paths or dst in paths
        ),
        **_contents(connection, paths, symbols),
    }
    query = "SELECT path, reason, size, mtime_ns FROM left_out WHERE project = ? ORDER BY path"
    seen["left out"] = list(connection.execute(query, (project,)))
    if words:
        seen["words"] = sorted(_words(connection, project, paths))
    return seen


def _contents(connection: Connection, paths: Mapping[int, str], symbols: Mapping[int, Any]) -> dict[str, Any]:
    shown: dict[int, list[Any]] = {}
    for id, chunk in connection.execute("SELECT id, chunk FROM symbol WHERE chunk IS NOT NULL"):
        if id in symbols:
            shown.setdefault(chunk, []).append(symbols[id])
    for chunk in shown:
        shown[chunk].sort(key=repr)
    return {
        "imports": sorted(
            (paths[id >> 20], module, names, line)
            for id, module, names, line in connection.execute("SELECT id, module, names, line FROM import")
            if id >> 20 in paths
        ),
        "wanted": sorted(
            (paths[wanting >> 20], stem)
            for stem, wanting in connection.execute("SELECT stem, import FROM wanted")
            if wanting >> 20 in paths
        ),
        "chunks": sorted(
            (
                (paths[id >> 20], symbols.get(symbol), *rest, shown.get(id, ()))
                for id, symbol, *rest in connection.execute(
                    'SELECT id, symbol, start, "end", key, text FROM chunk'
                )
                if id >> 20 in paths
            ),
            key=repr,
        ),
    }


def _words(connection: Connection, project: int, paths: Mapping[int, str]) -> Iterable[tuple[Any, ...]]:
    rows = {
        chunk_fts: dict(connection.execute('SELECT id, start || "-" || "end" FROM chunk')),
        symbol_fts: dict(connection.execute("SELECT id, start_byte || qualified FROM symbol")),
    }
    for table, by in ((file_fts, 0), (name_fts, 0), (chunk_fts, 20), (symbol_fts, 20)):
        name = table(project)
        connection.execute(
            f"CREATE VIRTUAL TABLE temp.seen_{name} USING fts5vocab(main, '{name}', 'instance')"
        )
        for term, doc, column, offset in connection.execute(
            f"SELECT term, doc, col, offset FROM temp.seen_{name}"
        ):
            where = paths[doc >> by] if by == 0 else f"{paths[doc >> by]}:{rows[table][doc]}"
            yield table.__name__, term, where, column, offset


def dangling(store: Store) -> list[str]:
    """Rows of any project that point at nothing, or that nothing owns."""
    owned = [
        ("symbol", "id >> 20", "file"),
        ("reference", "id >> 20", "file"),
        ("chunk", "id >> 20", "file"),
        ("import", "id >> 20", "file"),
        ("wanted", "import", "import"),
        ("symbol", "parent", "symbol"),
        ("symbol", "chunk", "chunk"),
        ("reference", "holder", "symbol"),
        ("chunk", "symbol", "symbol"),
        ("edge WHERE kind = 1", "src", "symbol"),
        ("edge WHERE kind = 1", "dst", "symbol"),
        ("edge WHERE kind = 2", "src", "file"),
        ("edge WHERE kind = 2", "dst", "file"),
        ("file", "project", "project"),
    ]
    queries = {
        f"{rows}: {column} names no {owner}": (
            f"SELECT count(*) FROM (SELECT {column} AS id FROM {rows}) "
            f"WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM {owner})"
        )
        for rows, column, owner in owned
    }
    with store.reading() as connection:
        return [what for what, query in queries.items() if next(connection.execute(query))[0]]
