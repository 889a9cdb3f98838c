"""A project into the graph: changes are made in place; a new or much changed one is built beside the old.

Readers see the tree before or the tree after, never one between: changes in place are one transaction, and
what is built beside becomes the project's graph in one. A process that dies leaves the graph as it was, and
rows that the next index of the project removes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tracedesk.codegraph.graph.ahead import made_ahead
from tracedesk.codegraph.graph.change import apply
from tracedesk.codegraph.graph.garbage import fewer_collections
from tracedesk.codegraph.graph.left_out import LeftOut, marked, replace, unseen
from tracedesk.codegraph.graph.limits import Limits, Skip
from tracedesk.codegraph.graph.nodes import COUNTED, counts_of
from tracedesk.codegraph.graph.reports import IndexReport
from tracedesk.codegraph.graph.resolve import Pair, resolved
from tracedesk.codegraph.graph.rows import FileRows, Outcome, Same, Skipped, Task
from tracedesk.codegraph.graph.scan import Scan, project_root, relative, scan
from tracedesk.codegraph.graph.schema import (
    FILE_IMPORTS_FILE,
    SYMBOL_REFERENCES_SYMBOL,
    GraphError,
    create_fts,
    settle_fts,
)
from tracedesk.codegraph.graph.store import Project, Store, project_at
from tracedesk.codegraph.graph.version import put_version
from tracedesk.codegraph.graph.write import insert_edges, insert_files
from tracedesk.foreign import quoted
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives import json
from tracedesk.primitives.paths import Jail, PathRefused
from tracedesk.primitives.time import Clock, SystemClock

IN_PLACE_FILES: Final = 400
IN_PLACE_BYTES: Final = 8_000_000
"""A change up to this size is one short transaction; a larger one builds the graph anew."""

_BATCH_BYTES: Final = 4_000_000
_BATCH_FILES: Final = 250
_LOCK_SECONDS: Final = 10.0
_NAMED: Final = 10
_LONGEST_HINT: Final = 64
_MAY_BE_SILENT: Final = frozenset({"bash"})
"""A folder of scripts need not define anything."""


class Progress(Protocol):
    """Told how far an index is."""

    def __call__(self, done: float, total: float, message: str) -> object: ...


class NothingExtracted(GraphError):
    """A language's parser gave nothing for many files: an index of it would look complete and be empty."""

    def __init__(self, languages: Mapping[str, int]) -> None:
        what = ", ".join(f"{count} files of {language}" for language, count in sorted(languages.items()))
        super().__init__(
            f"not one symbol was found in {what}: its parser does not work here. Install the codegraph extra "
            "again and check it with `tracedesk doctor`; the graph was left as it was"
        )
        self.languages = dict(languages)


class NothingAccepted(GraphError):
    """No file that was named could be taken, or an index of the whole project would empty its graph."""

    def __init__(self, root: str, skipped: Sequence[Skip]) -> None:
        named = ", ".join(f"{quoted(skip.file)} ({skip.reason})" for skip in skipped[:_NAMED])
        why = f": {named}" if named else "; the folder has no file that the graph reads"
        super().__init__(
            f"nothing of {root} was accepted{why}. Name files or folders that are there, or `.` for the "
            "whole project; the graph was left as it was"
        )
        self.skipped = list(skipped)


class Cancelled(Exception):
    """Someone stopped the index or update; the graph is as it was."""


def stopping(cancelled: Callable[[], object]) -> Callable[[], None]:
    """A check that raises once `cancelled` says so."""

    def check() -> None:
        if cancelled():
            raise Cancelled("the index was cancelled; the graph is as it was")

    return check


@dataclass(slots=True)
class _Run:
    """One index of one project."""

    store: Store
    jail: Jail
    root: str
    limits: Limits
    workers: int | None
    progress: Progress
    cancelled: Callable[[], None]
    clock: Clock
    extractor: str
    scanned: Scan
    hints: Mapping[str, str]
    is_whole: bool
    """Whether the project itself was named, and not some of its files."""
    known: dict[str, tuple[bytes, str, str | None, int]] = field(default_factory=dict[str, Any])
    accepted: list[str] = field(default_factory=list[str])
    seen: int = 0
    changed: int = 0
    touched: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Files with the same content and a new time of writing."""
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    written: dict[str, int] | None = None
    """Nodes and edges of a graph that is built beside, counted as they are written."""

    def tasks(self, paths: Iterable[str], *, afresh: bool) -> list[Task]:
        return [self._task(path, afresh) for path in paths]

    def _task(self, path: str, afresh: bool) -> Task:
        hint = self.hints.get(path)
        language = language_for(path, hint)
        known = None if afresh else self.known.get(path)
        is_same = known is not None and known[1:3] == (language, hint)
        return Task(path, language, hint, known[0] if known and is_same else None)

    def outcomes(self, tasks: Sequence[Task]) -> Generator[list[FileRows]]:
        """The rows of the files that are not in the graph as they are.

        A thread listens to the parsers: they would wait while rows are written.
        """

        def parsed(check: Callable[[], None]) -> Iterator[list[Outcome]]:
            def cancelled() -> None:
                check()
                self.cancelled()

            return self.store.parsers.parsed(
                self.jail, self.root, tasks, self.limits, self.workers, cancelled
            )

        with made_ahead(parsed) as parts:
            for found in parts:
                rows = [outcome for outcome in map(self._sorted, found) if outcome is not None]
                self.seen += len(found)
                self.progress(self.seen, len(self.scanned.files), "parsing")
                if rows:
                    yield rows

    def _sorted(self, outcome: Outcome) -> FileRows | None:
        if isinstance(outcome, Skipped):
            self.scanned.skip(outcome.path, outcome.reason)
            self.leave_out(Skip(outcome.path, outcome.reason))
            return None
        self.accepted.append(outcome.path)
        if isinstance(outcome, Same):
            if outcome.mtime_ns != self.known[outcome.path][3]:
                self.touched.append((outcome.mtime_ns, outcome.path))
            return None
        self.changed += 1
        return outcome

    def leave_out(self, skip: Skip) -> None:
        """Remember a file that is not taken, as it is now."""
        if (row := marked(self.root, skip)) is not None:
            self.left_out.append(row)

    def _count_unparsed(self) -> None:
        """Say of each extension without a grammar how many files are text alone."""
        from tracedesk.codegraph.graph.languages import extension_of, is_unparsed

        kinds = Counter(
            extension_of(path)
            for path in self.accepted
            if is_unparsed(path, language_for(path, self.hints.get(path)))
        )
        for kind, count in sorted(kinds.items()):
            self.scanned.skip(f"*.{kind} ({count} files)" if kind else f"({count} files)", "text_only")

    def report(self, connection: Connection, project: int, version: str, removed: list[str]) -> IndexReport:
        self._count_unparsed()
        warnings = list(self.scanned.warnings)
        if self.scanned.unnamed:
            warnings.append(f"{self.scanned.unnamed} more files were skipped than are named.")
        return IndexReport(
            root=self.root,
            graph_version=version,
            indexed_files=sorted(self.accepted),
            counts={**(self.written or counts_of(connection, project)), "other_files": self.scanned.others},
            coverage=coverage_of(connection, project),
            whole=self.is_whole,
            changed=self.changed,
            removed=removed,
            skipped=self.scanned.skipped,
            warnings=warnings,
        )


def index_project(
    store: Store,
    jail: Jail,
    root: str,
    files: Sequence[str],
    hints: Mapping[str, str] | None = None,
    *,
    progress: Progress = lambda done, total, message: None,
    cancelled: Callable[[], object] = lambda: None,
    workers: int | None = None,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> IndexReport:
    """Index the files of a project; the accepted ones are then exactly what its graph holds.

    A folder stands for what is below it, no files at all for the whole root. To stop, `cancelled` raises
    or says so; the graph then stays as it was.
    """
    from tracedesk.codegraph.graph.languages import EXTRACTOR

    limits = limits or Limits()
    real = project_root(jail, root)
    check = stopping(cancelled)
    with (
        store.locks.held(real, "index", _LOCK_SECONDS, check),
        store.parsers.expecting(len(files), workers),
    ):
        progress(0, 0, "scanning")
        scanned = scan(jail, real, files, takes, limits, check)
        run = _Run(
            store,
            jail,
            real,
            limits,
            workers,
            progress,
            check,
            clock or SystemClock(),
            EXTRACTOR,
            scanned,
            hints_of(jail, real, hints or {}, scanned),
            is_whole=set(files) <= {".", "./"},
        )
        return _indexed(run)


def takes(path: str) -> bool:
    """Whether a file found in a folder is read: one of a known language, or that may be source of another."""
    from tracedesk.codegraph.graph.languages import DATA, extension_of, language_of

    return language_of(path) is not None or extension_of(path) not in {*DATA, ""}


def language_for(path: str, hint: str | None) -> str:
    """The language a file is read as; text where nothing is known of it."""
    from tracedesk.codegraph.graph.languages import language_of

    return language_of(path, hint) or "text"


def hints_of(jail: Jail, root: str, hints: Mapping[str, str], scanned: Scan) -> dict[str, str]:
    """The hints by the real paths of their files; unknown languages are kept as text, with a warning."""
    from tracedesk.codegraph.graph.languages import language_of

    told: dict[str, str] = {}
    for path, hint in hints.items():
        try:
            told[relative(jail, root, path)] = hint[:_LONGEST_HINT]
        except PathRefused as refused:
            scanned.skip(path, refused.reason)
        if language_of(path, hint) is None:
            scanned.warnings.append(
                f"language_hints: {hint[:40]!r} is not a known language; {quoted(path)} is kept as text."
            )
    return told


def _sweep(run: _Run) -> None:
    """Remove what an index that did not end has built."""
    with run.store.writing() as connection:
        query = "UPDATE project SET state = 'obsolete' WHERE root = ? AND state = 'building'"
        connection.execute(query, (run.root,))
    run.store.sweep(run.root)


def _indexed(run: _Run) -> IndexReport:
    _sweep(run)
    try:
        with run.store.writing() as connection:
            current = project_at(connection, run.root)
            if current is not None and current.extractor == run.extractor:
                run.known = _known(connection, current.id)
        if not run.known or current is None:
            return _rebuilt(run, run.outcomes(run.tasks(run.scanned.files, afresh=True)))
        return _brought(run, current)
    except BaseException:
        _sweep(run)
        raise


def rebuild(
    store: Store,
    jail: Jail,
    root: str,
    files: list[str],
    hints: Mapping[str, str],
    *,
    whole: bool,
    workers: int | None,
    limits: Limits,
    cancelled: Callable[[], None],
    clock: Clock,
) -> IndexReport:
    """Build a project's graph of these files anew beside the old one; for who holds its lock."""
    from tracedesk.codegraph.graph.languages import EXTRACTOR

    def silent(done: float, total: float, message: str) -> None:
        pass

    scanned = Scan(root, files)
    run = _Run(store, jail, root, limits, workers, silent, cancelled, clock, EXTRACTOR, scanned, hints, whole)
    _sweep(run)
    try:
        return _rebuilt(run, run.outcomes(run.tasks(files, afresh=True)))
    except BaseException:
        _sweep(run)
        raise


def _known(connection: Connection, project: int) -> dict[str, tuple[bytes, str, str | None, int]]:
    query = "SELECT path, sha256, language, hint, mtime_ns FROM file WHERE project = ? AND deleted = 0"
    return {
        path: (sha, language, hint, mtime)
        for path, sha, language, hint, mtime in connection.execute(query, (project,))
    }


# --- in place


def is_large(gathered: Sequence[FileRows]) -> bool:
    """Whether a change is too much for one short transaction."""
    return len(gathered) > IN_PLACE_FILES or sum(rows.size for rows in gathered) > IN_PLACE_BYTES


def _brought(run: _Run, project: Project) -> IndexReport:
    """Bring a graph to the files as they are now, in one transaction when they are few."""
    gathered: list[FileRows] = []
    with closing(run.outcomes(run.tasks(run.scanned.files, afresh=False))) as outcomes:
        for rows in outcomes:
            gathered += rows
            if is_large(gathered):
                return _rebuilt(run, _again(run, gathered, outcomes))
    _refuse_emptiness(run, bool(run.known))
    with run.store.writing() as connection:
        removed = sorted(run.known.keys() - set(run.accepted))
        apply(connection, project.id, gathered, removed)
        query = "UPDATE file SET mtime_ns = ? WHERE project = ? AND path = ?"
        connection.executemany(query, [(mtime, project.id, path) for mtime, path in run.touched])
        return _finish(run, connection, project.id, removed)


def _again(
    run: _Run, gathered: list[FileRows], outcomes: Iterator[list[FileRows]]
) -> Generator[list[FileRows]]:
    """Everything for a graph that is built anew after all: what was read, and then what was the same."""
    yield gathered
    read = {rows.path for rows in gathered}
    for rows in outcomes:
        read |= {each.path for each in rows}
        yield rows
    same = [path for path in run.accepted if path not in read]
    run.accepted = [path for path in run.accepted if path in read]
    run.seen -= len(same)
    yield from run.outcomes(run.tasks(same, afresh=True))


# --- beside


def _rebuilt(run: _Run, outcomes: Generator[list[FileRows]]) -> IndexReport:
    """Build the project's graph beside the one that readers see, then take its place."""
    with fewer_collections():
        return _built(run, outcomes)


def _built(run: _Run, outcomes: Generator[list[FileRows]]) -> IndexReport:
    with run.store.writing() as connection:
        query = "INSERT INTO project(root, state, extractor) VALUES(?, 'building', ?) RETURNING id"
        project: int = next(connection.execute(query, (run.root, run.extractor)))[0]
        create_fts(connection, project)
    written: dict[str, int] = dict.fromkeys(COUNTED, 0)
    with closing(outcomes):
        for batch in _batches(outcomes):
            with run.store.writing() as connection:
                insert_files(connection, project, batch)
            _count(written, batch)
    _refuse_emptiness(run, _has_files(run))
    _build_edges(run, project, written)
    run.written = written
    with run.store.writing() as connection:
        removed = _replace(run, connection, project)
        report = _finish(run, connection, project, removed)
    run.store.sweep(run.root)
    return report


def _count(written: dict[str, int], batch: Sequence[FileRows]) -> None:
    written["files"] += len(batch)
    for rows in batch:
        written["symbols"] += len(rows.symbols[0])
        written["chunks"] += len(rows.chunks[0])
        written["references"] += len(rows.references[0])
        written["imports"] += len(rows.imports[0])


def _batches(outcomes: Iterator[list[FileRows]]) -> Iterator[list[FileRows]]:
    batch: list[FileRows] = []
    size = 0
    for rows in outcomes:
        batch += rows
        size += sum(each.size for each in rows)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


_EDGES: Final = {
    FILE_IMPORTS_FILE: "file_imports_file",
    SYMBOL_REFERENCES_SYMBOL: "symbol_references_symbol",
}
_RESOLVING: Final = {FILE_IMPORTS_FILE: "resolving imports", SYMBOL_REFERENCES_SYMBOL: "resolving references"}


def _build_edges(run: _Run, project: int, written: dict[str, int]) -> None:
    """Write the edges while a thread works out the next; the full text is settled before the first."""
    total = len(run.scanned.files)

    def resolving(_: object) -> Iterator[tuple[int, list[Pair]]]:
        with run.store.reading() as connection:
            yield from resolved(connection, project)

    run.progress(total, total, _RESOLVING[FILE_IMPORTS_FILE])
    with made_ahead(resolving) as batches:
        with run.store.writing() as connection:
            settle_fts(connection, project)
        for kind, pairs in batches:
            run.cancelled()
            run.progress(total, total, _RESOLVING[kind])
            with run.store.writing() as connection:
                insert_edges(connection, kind, pairs)
            written[_EDGES[kind]] += len(pairs)


def _replace(run: _Run, connection: Connection, project: int) -> list[str]:
    """Take the place of the graph that was; files that it had and this one has not stay as tombstones."""
    old = project_at(connection, run.root)
    if old is None:
        return []
    query = """
        INSERT INTO file(project, path, language, hint, sha256, leaf, size, mtime_ns, lines, doc, problem,
          stem, deleted)
        SELECT ?1, path, language, hint, sha256, leaf, size, mtime_ns, lines, doc, problem, stem, 1
        FROM file AS gone
        WHERE project = ?2 AND NOT EXISTS(SELECT 1 FROM file WHERE project = ?1 AND path = gone.path)
    """
    connection.execute(query, (project, old.id))
    gone = """
        SELECT path FROM file WHERE project = ? AND deleted = 1
        AND path IN (SELECT path FROM file WHERE project = ? AND deleted = 0)
    """
    removed = sorted(row[0] for row in connection.execute(gone, (project, old.id)))
    connection.execute("UPDATE project SET state = 'obsolete' WHERE id = ?", (old.id,))
    return removed


# --- both


def _has_files(run: _Run) -> bool:
    query = (
        "SELECT 1 FROM file JOIN project ON project.id = file.project WHERE root = ? AND state = 'current'"
    )
    with run.store.reading() as connection:
        return next(connection.execute(f"{query} AND deleted = 0 LIMIT 1", (run.root,)), None) is not None


def _refuse_emptiness(run: _Run, has_files: bool) -> None:
    if not run.accepted and (has_files or not run.is_whole):
        raise NothingAccepted(run.root, run.scanned.skipped)


def _finish(run: _Run, connection: Connection, project: int, removed: list[str]) -> IndexReport:
    """Refuse an empty graph that looks complete; else give it its version and make it the project's."""
    _refuse_silence(connection, project, run.limits)
    now = run.clock.now_ns()
    version = put_version(connection, project, run.root, run.extractor, now)
    for skip in unseen(run.scanned.skipped):
        run.leave_out(skip)
    replace(connection, project, run.left_out)
    report = run.report(connection, project, version, removed)
    query = "UPDATE project SET state = 'current', indexed_ns = ?, whole = ? WHERE id = ?"
    connection.execute(query, (now, int(run.is_whole), project))
    body = json.dumps(report.document()).decode()
    connection.execute("INSERT OR REPLACE INTO report VALUES(?, ?)", (project, body))
    return report


_LANGUAGES: Final = """
SELECT language, count(*), sum(size > 0), sum(problem IS NOT NULL), sum(lines),
  sum(EXISTS(SELECT 1 FROM symbol WHERE symbol.id BETWEEN file.id << 20 AND (file.id << 20) | 1048575))
FROM file WHERE project = ? AND deleted = 0 GROUP BY language ORDER BY language
"""


def _refuse_silence(connection: Connection, project: int, limits: Limits) -> None:
    from tracedesk.codegraph.graph.languages import SUPPORTED

    silent = {
        language: filled
        for language, _, filled, _, _, speaking in connection.execute(_LANGUAGES, (project,))
        if language in SUPPORTED
        and language not in _MAY_BE_SILENT
        and filled > limits.silent_files
        and not speaking
    }
    if silent:
        raise NothingExtracted(silent)


def coverage_of(connection: Connection, project: int) -> dict[str, Any]:
    """How much of a project the graph understands, by language."""
    from tracedesk.codegraph.graph.languages import SUPPORTED

    return {
        language: {
            "files": files,
            "lines": lines,
            "with_symbols": speaking,
            "with_problems": problems,
            "parsed": language in SUPPORTED,
        }
        for language, files, _, problems, lines, speaking in connection.execute(_LANGUAGES, (project,))
    }


__all__ = ["IndexReport", "NothingExtracted", "Skip", "index_project"]
