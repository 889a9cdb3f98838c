"""Watching a project: looked at again and again, and brought up to date where it changed."""

from __future__ import annotations

import os
from typing import Any

from tracedesk.codegraph import indexing
from tracedesk.codegraph.desk import Atlas, as_tool_errors
from tracedesk.codegraph.graph.index import takes
from tracedesk.codegraph.graph.scan import scan
from tracedesk.jobs import Listener, in_thread

Seen = dict[str, tuple[int, int]]
"""Size and time of writing of every file."""


class Watch:
    """One project under watch. A look costs one walk through its folders and no reading."""

    def __init__(self, atlas: Atlas, root: str, seen: Seen, version: str) -> None:
        self._atlas = atlas
        self._root = root
        self._seen = seen
        self.version = version

    @classmethod
    async def begin(cls, atlas: Atlas, root: str, listener: Listener) -> Watch:
        """Look first and index then: what changes in between is found by the next look."""
        real = atlas.root(root)
        seen = await in_thread(lambda: _look(atlas, real))
        indexed = await indexing.index(atlas, {"project_root": real, "files": []}, listener)
        return cls(atlas, real, seen, indexed.body["graph_version"])

    @property
    def files(self) -> int:
        return len(self._seen)

    async def look(self) -> dict[str, Any] | None:
        """Bring the graph up to what changed since the last look; None when nothing did."""
        now = await in_thread(lambda: _look(self._atlas, self._root))
        changed = [path for path, facts in now.items() if self._seen.get(path) != facts]
        gone = [path for path in self._seen if path not in now]
        if not changed and not gone:
            return None
        report = await indexing.brought(self._atlas, self._root, changed, gone, indexing.Silent())
        self._seen = now
        if not report.updated_files:
            return None
        self.version = report.graph_version
        return {
            "updated_files": report.updated_files,
            "deleted_files": report.deleted_files,
            "graph_version": report.graph_version,
        }


def _look(atlas: Atlas, root: str) -> Seen:
    with as_tool_errors(root):
        found = scan(atlas.jail, root, [], takes, atlas.limits)
    seen: Seen = {}
    for path in found.files:
        try:
            facts = os.lstat(os.path.join(root, path))
        except OSError:
            continue  # it went between the walk and now
        seen[path] = (facts.st_size, facts.st_mtime_ns)
    return seen
