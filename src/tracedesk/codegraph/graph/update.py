"""Edits into the graph, file by file: the disk decides what became of a path."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from tracedesk.codegraph.graph.change import apply
from tracedesk.codegraph.graph.ignore import Ignore
from tracedesk.codegraph.graph.index import is_large, language_for, rebuild, stopping, takes
from tracedesk.codegraph.graph.left_out import LeftOut, clear, left_out, marked, put, unseen
from tracedesk.codegraph.graph.limits import Limits, Skip
from tracedesk.codegraph.graph.reports import UpdateReport
from tracedesk.codegraph.graph.rows import FileRows, Same, Skipped, Task
from tracedesk.codegraph.graph.scan import ignore_of, name_flaw, project_root, relative, scan, shown
from tracedesk.codegraph.graph.schema import GraphError
from tracedesk.codegraph.graph.store import Project, Store, project_at
from tracedesk.codegraph.graph.version import put_version
from tracedesk.foreign import quoted
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.paths import Jail, PathRefused
from tracedesk.primitives.time import Clock, SystemClock

_LOCK_SECONDS: Final = 5.0
Known = tuple[bytes, str, str | None]
"""Content, language and hint of a file as the graph has it."""


class NotIndexed(GraphError):
    """A project that has no graph to update, or one of another extractor."""


@dataclass(slots=True)
class _Plan:
    """What became of the named paths."""

    present: dict[str, None] = field(default_factory=dict[str, None])
    absent: dict[str, None] = field(default_factory=dict[str, None])
    skipped: list[Skip] = field(default_factory=list[Skip])
    warnings: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    """Files that the graph leaves out, sorted."""
    settled: dict[str, None] = field(default_factory=dict[str, None])
    """Those of them that are looked at again, or gone."""
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])

    def settle(self, path: str) -> None:
        """Look again at a file, or at all below a folder."""
        below = "" if path == "." else f"{path}/"
        for first in (path, below):
            for known in islice(self.left, bisect_left(self.left, first), None):
                if not known.startswith(first):
                    break
                if known == path or known.startswith(below):
                    self.settled[known] = None


def update_files(
    store: Store,
    jail: Jail,
    root: str,
    added_or_modified: Sequence[str] = (),
    deleted: Sequence[str] = (),
    *,
    hints: Mapping[str, str] | None = None,
    cancelled: Callable[[], object] = lambda: None,
    workers: int | None = None,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> UpdateReport:
    """Bring the named files, and what lies below named folders, into the graph as they are on the disk."""
    real = project_root(jail, root)
    check = stopping(cancelled)
    with store.locks.held(real, "update", _LOCK_SECONDS, check):
        project = _project(store, real)
        update = _Update(
            store, jail, real, project, limits or Limits(), hints or {}, check, clock or SystemClock()
        )
        return update.run((*added_or_modified, *deleted), workers)


def _project(store: Store, root: str) -> Project:
    from tracedesk.codegraph.graph.languages import EXTRACTOR

    with store.writing() as connection:
        found = project_at(connection, root)
    if found is None:
        raise NotIndexed(f"{root} has no graph yet; call graph_index_project first")
    if found.extractor != EXTRACTOR:
        raise NotIndexed(f"the graph of {root} is of an older extractor; call graph_index_project once")
    return found


class _Update:
    def __init__(
        self,
        store: Store,
        jail: Jail,
        root: str,
        project: Project,
        limits: Limits,
        hints: Mapping[str, str],
        cancelled: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._store = store
        self._jail = jail
        self._root = root
        self._project = project
        self._limits = limits
        self._hints = hints
        self._cancelled = cancelled
        self._clock = clock
        self._changed: list[str] = []
        self._removed: list[str] = []
        self._same: list[str] = []
        self._version = project.graph_version
        self._is_whole = False

    def run(self, entries: Iterable[str], workers: int | None) -> UpdateReport:
        with self._store.writing() as connection:
            plan = self._plan(connection, entries)
            tasks = self._tasks(connection, plan)
        gathered: list[FileRows] = []
        gone = list(plan.absent)
        for outcomes in self._store.parsers.parsed(
            self._jail, self._root, tasks, self._limits, workers, self._cancelled
        ):
            gathered += [outcome for outcome in outcomes if isinstance(outcome, FileRows)]
            if is_large(gathered):
                return self._anew(plan, workers)
            self._same += [outcome.path for outcome in outcomes if isinstance(outcome, Same)]
            for outcome in outcomes:
                if isinstance(outcome, Skipped):
                    self._left_out(outcome, plan)
                    gone.append(outcome.path)
        self._apply(gathered, gone, plan)
        return self._report(plan)

    def _anew(self, plan: _Plan, workers: int | None) -> UpdateReport:
        """Too much for one short transaction: the graph is built anew beside the old one."""
        with self._store.reading() as connection:
            old = self._content(connection, self._project.id)
            left = left_out(connection, self._project.id)
        files = sorted((old.keys() | plan.present.keys()) - plan.absent.keys())
        hints = {path: known[2] for path, known in old.items() if known[2] is not None}
        report = rebuild(
            self._store,
            self._jail,
            self._root,
            files,
            {**hints, **self._hints},
            whole=self._is_whole,
            workers=workers,
            limits=self._limits,
            cancelled=self._cancelled,
            clock=self._clock,
        )
        new = self._rebuilt_content()
        self._keep_left_out([row for path, row in left.items() if path not in plan.settled])
        self._version = report.graph_version
        self._changed = [path for path, known in new.items() if known != old.get(path)]
        self._removed = [path for path in old if path not in new]
        self._same = [path for path in plan.present if path in new and new[path] == old.get(path)]
        plan.skipped.extend(skip for skip in report.skipped if skip.reason != "missing")
        return self._report(plan)

    def _keep_left_out(self, rows: Sequence[LeftOut]) -> None:
        """Files that were not named stay left out in the graph that was built anew."""
        with self._store.writing() as connection:
            project = project_at(connection, self._root)
            if project is not None:
                put(connection, project.id, rows)

    def _rebuilt_content(self) -> dict[str, Known]:
        with self._store.reading() as connection:
            project = project_at(connection, self._root)
            return {} if project is None else self._content(connection, project.id)

    def _content(self, connection: Connection, project: int) -> dict[str, Known]:
        query = "SELECT path, sha256, language, hint FROM file WHERE project = ? AND deleted = 0"
        return {
            path: (sha, language, hint) for path, sha, language, hint in connection.execute(query, (project,))
        }

    def _left_out(self, outcome: Skipped, plan: _Plan) -> None:
        if outcome.reason != "missing":
            skip = Skip(outcome.path, outcome.reason)
            plan.skipped.append(skip)
            self._mark(skip, plan)

    def _mark(self, skip: Skip, plan: _Plan) -> None:
        if (row := marked(self._root, skip)) is not None:
            plan.left_out.append(row)

    def _report(self, plan: _Plan) -> UpdateReport:
        return UpdateReport(
            root=self._root,
            graph_version=self._version,
            updated_files=sorted({*self._changed, *self._removed}),
            unchanged_files=sorted(self._same),
            deleted_files=sorted(self._removed),
            skipped=plan.skipped,
            warnings=plan.warnings,
        )

    # --- what is named

    def _plan(self, connection: Connection, entries: Iterable[str]) -> _Plan:
        plan = _Plan()
        ignore = ignore_of(self._jail, self._root)
        plan.left = list(left_out(connection, self._project.id))
        query = "SELECT whole FROM project WHERE id = ?"
        self._is_whole = bool(next(connection.execute(query, (self._project.id,)))[0])
        for entry in dict.fromkeys(entries):
            try:
                path = relative(self._jail, self._root, entry)
            except PathRefused as refused:
                plan.skipped.append(Skip(shown(entry), refused.reason))
                continue
            mode = _mode(os.path.join(self._root, path))
            if os.path.basename(path) == ".gitignore":
                self._plan_rules(connection, path, plan)
            plan.settle(path)
            if mode is None:
                self._plan_absent(connection, entry, path, plan)
            elif stat.S_ISDIR(mode):
                self._plan_folder(connection, path, plan)
            elif self._is_known(connection, path):
                plan.present[path] = None
            elif reason := self._left_aside(ignore, path, mode):
                plan.skipped.append(Skip(shown(entry), reason))
            else:
                plan.present[path] = None
        for path in plan.absent:
            plan.present.pop(path, None)
        return plan

    def _left_aside(self, ignore: Ignore, path: str, mode: int) -> str | None:
        """Why a file that is new to the graph is not one that an index of its folder would take."""
        if not stat.S_ISREG(mode):
            return "not_regular"
        known = path in self._hints or takes(path)
        return ignore.verdict(path) or name_flaw(path) or (None if known else "unknown_language")

    def _plan_absent(self, connection: Connection, entry: str, path: str, plan: _Plan) -> None:
        found = self._below(connection, path) + ([path] if self._is_known(connection, path) else [])
        plan.absent.update(dict.fromkeys(found))
        if not found:
            plan.warnings.append(f"{quoted(shown(entry))} is neither on the disk nor in the graph.")

    def _plan_rules(self, connection: Connection, path: str, plan: _Plan) -> None:
        """Ignore rules changed: what they leave out below them goes, and what they no longer do comes."""
        if self._is_whole:
            self._plan_folder(connection, os.path.dirname(path) or ".", plan)
        else:
            plan.warnings.append(
                f"{quoted(shown(path))} changed, but only some files of the project are indexed; call "
                "graph_index_project again to apply it."
            )

    def _plan_folder(self, connection: Connection, path: str, plan: _Plan) -> None:
        plan.settle(path)
        scanned = scan(self._jail, self._root, [path], takes, self._limits, self._cancelled)
        plan.present.update(dict.fromkeys(scanned.files))
        plan.skipped.extend(scanned.skipped)
        for skip in unseen(scanned.skipped):
            self._mark(skip, plan)
        plan.warnings.extend(scanned.warnings)
        found = set(scanned.files)
        for known in self._below(connection, "" if path == "." else path):
            if known not in found:
                # A file that was indexed by its own name stays, whatever a scan of its folder says.
                kept = not self._is_whole and _mode(os.path.join(self._root, known)) is not None
                (plan.present if kept else plan.absent)[known] = None

    def _below(self, connection: Connection, folder: str) -> list[str]:
        prefix = folder + "/" if folder else ""
        query = (
            "SELECT path FROM file WHERE project = ? AND path >= ? AND deleted = 0 AND substr(path, 1, ?) = ?"
        )
        if prefix:
            query += " AND path < ?"
        bindings = [self._project.id, prefix, len(prefix), prefix, *([folder + "0"] if prefix else [])]
        return [row[0] for row in connection.execute(query, bindings)]

    def _is_known(self, connection: Connection, path: str) -> bool:
        return self._known(connection, path) is not None

    def _known(self, connection: Connection, path: str) -> Known | None:
        query = "SELECT sha256, language, hint FROM file WHERE project = ? AND path = ? AND deleted = 0"
        return next(connection.execute(query, (self._project.id, path)), None)

    def _tasks(self, connection: Connection, plan: _Plan) -> list[Task]:
        return [self._task(path, self._known(connection, path)) for path in sorted(plan.present)]

    def _task(self, path: str, known: Known | None) -> Task:
        hint = self._hints.get(path, known[2] if known else None)
        language = language_for(path, hint)
        is_same = known is not None and known[1:] == (language, hint)
        return Task(path, language, hint, known[0] if known and is_same else None)

    # --- what is written

    def _apply(self, gathered: Sequence[FileRows], gone: Iterable[str], plan: _Plan) -> None:
        with self._store.writing() as connection:
            clear(connection, self._project.id, (*plan.settled, *plan.present))
            put(connection, self._project.id, plan.left_out)
            removed = sorted(path for path in set(gone) if self._is_known(connection, path))
            if not gathered and not removed:
                return
            apply(connection, self._project.id, gathered, removed)
            extractor, now = self._project.extractor, self._clock.now_ns()
            self._version = put_version(connection, self._project.id, self._root, extractor, now)
        self._changed += [rows.path for rows in gathered]
        self._removed += removed


def _mode(path: str) -> int | None:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return None
