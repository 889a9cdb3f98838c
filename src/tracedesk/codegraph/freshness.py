"""Freshness of a graph: whether the files of its project are still as it read them."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.codegraph.graph.ignore import Ignore
from tracedesk.codegraph.graph.index import takes
from tracedesk.codegraph.graph.left_out import left_out_at
from tracedesk.codegraph.graph.limits import SNIFFED, Limits
from tracedesk.codegraph.graph.reading import read_source
from tracedesk.codegraph.graph.scan import ignore_of, name_flaw
from tracedesk.codegraph.graph.store import Project
from tracedesk.foreign import listed
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.paths import HOME_FILES, Jail, PathRefused
from tracedesk.primitives.time import format

SECONDS: Final = 0.1
"""The longest that an answer waits for it."""
NAMED: Final = 20
_AT_ONCE: Final = 256
_MOST_ADDED: Final = 1_000
_MOST_SNIFFED: Final = 50
"""New files of which the first bytes are read: pictures and the like are none that an index takes."""

_FILES: Final = (
    "SELECT path, size, mtime_ns, sha256 FROM file WHERE project = ? AND deleted = 0 ORDER BY path"
)


def freshness(
    connection: Connection,
    project: Project,
    jail: Jail,
    limits: Limits,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Compare the files of a project with its graph, for a bounded time."""
    until = clock() + SECONDS
    rows = list(connection.execute(_FILES, (project.id,)))
    changed: list[str] = []
    checked = 0
    for at in range(0, len(rows), _AT_ONCE):
        if clock() > until:
            break
        some = rows[at : at + _AT_ONCE]
        changed += [row[0] for row in some if _differs(jail, project.root, limits, row)]
        checked += len(some)
    is_done = checked == len(rows)
    if is_done and len(rows) < limits.files and _is_whole(connection, project):
        seen = _Seen(connection, project, {row[0] for row in rows}, limits)
        added, is_done = _added(jail, project, seen, lambda: clock() > until)
        changed += added
    state = "stale" if changed else "fresh" if is_done else "unknown"
    return {
        "state": state,
        "updated_at": format(project.updated_ns),
        "changed": changed[:NAMED],
        "changed_files": len(changed),
        "checked_files": checked,
    }


def warning(found: dict[str, Any]) -> Iterator[str]:
    """Say that an answer is older than the files."""
    if found["state"] == "stale":
        named = listed(found["changed"][:3])
        yield (
            f"{found['changed_files']} files are newer than the graph ({named}); this answer does not know "
            "them. Call graph_update_files with their paths."
        )


def outdated(project: Project) -> Iterator[str]:
    """A warning where an earlier version made the graph."""
    from tracedesk.codegraph.graph.languages import EXTRACTOR

    if project.extractor != EXTRACTOR:
        yield (
            f"The graph of {project.root} was made by another version of tracedesk, and some of its "
            "documentation is not searched. Call graph_index_project once with files ['.'] to make it anew."
        )


def _is_whole(connection: Connection, project: Project) -> bool:
    """Whether the graph is of the project itself, and not of some files that were named."""
    return bool(next(connection.execute("SELECT whole FROM project WHERE id = ?", (project.id,)))[0])


def _differs(jail: Jail, root: str, limits: Limits, row: tuple[str, int, int, bytes]) -> bool:
    path, size, mtime_ns, sha256 = row
    try:
        info = os.lstat(f"{root}/{path}")
    except OSError:
        return True
    if (info.st_size, info.st_mtime_ns) == (size, mtime_ns):
        return False
    if info.st_size != size:
        return True
    # Written anew with the same content, as a checkout does.
    source = read_source(jail, root, path, limits)
    return isinstance(source, str) or hashlib.sha256(source.data).digest() != sha256


@dataclass(frozen=True, slots=True)
class _Seen:
    """Files that the graph has, and files that it looked at and left out."""

    connection: Connection
    project: Project
    known: set[str]
    limits: Limits

    def is_new(self, path: str) -> bool:
        """True for a file that the graph has not and an index might take: not left out as it is now."""
        try:
            info = os.lstat(f"{self.project.root}/{path}")
        except OSError:
            return False
        row = left_out_at(self.connection, self.project.id, path)
        if row is None or (row.size, row.mtime_ns) != (info.st_size, info.st_mtime_ns):
            return stat.S_ISREG(info.st_mode)
        return row.reason == "too_large" and info.st_size <= self.limits.file_bytes


def _added(jail: Jail, project: Project, seen: _Seen, is_late: Callable[[], bool]) -> tuple[list[str], bool]:
    """Files that an index would take, in folders that changed since it; and whether those are all."""
    folders = {""} | {folder for path in seen.known for folder in _above(path)}
    ignore = ignore_of(jail, project.root)
    left = sorted(folders, reverse=True)
    found: list[str] = []
    sniffed = 0
    while left and len(found) < _MOST_ADDED and not is_late():
        folder = left.pop()
        for path, is_folder in _entries(project, folder, is_known=folder in folders):
            if is_folder and path not in folders and not ignore.leaves_out_folder(path):
                left.append(path)
            elif not is_folder and path not in seen.known and _is_taken(path, ignore):
                if not seen.is_new(path):
                    continue
                sniffed += 1
                if sniffed > _MOST_SNIFFED or not _is_binary(jail, project.root, path):
                    found.append(path)
    return sorted(found), not left


def _above(path: str) -> Iterator[str]:
    while path := os.path.dirname(path):
        yield path


def _entries(project: Project, folder: str, *, is_known: bool) -> Iterator[tuple[str, bool]]:
    """What is in a folder, unless the graph knows the folder and nothing came to it since."""
    place = os.path.join(project.root, folder)
    try:
        if is_known and os.lstat(place).st_mtime_ns <= project.indexed_ns:
            return
        with os.scandir(place) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink()) for entry in entries
            ]
    except OSError:
        return
    if {name for name, _, _ in found}.issuperset(HOME_FILES):
        return
    for name, is_folder, is_link in found:
        if not is_link:
            yield (f"{folder}/{name}" if folder else name), is_folder


def _is_binary(jail: Jail, root: str, path: str) -> bool:
    try:
        with jail.open_read(root, path) as file:
            return b"\0" in file.read(SNIFFED)
    except (PathRefused, OSError):
        return False


def _is_taken(path: str, ignore: Ignore) -> bool:
    return takes(path) and ignore.verdict(path) is None and name_flaw(path) is None
