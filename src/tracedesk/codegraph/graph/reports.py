"""What an index or an update did, and what it could not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tracedesk.codegraph.graph.limits import Skip


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The graph of a project after an index."""

    root: str
    graph_version: str
    indexed_files: list[str]
    """Every file that the graph holds, sorted."""
    counts: dict[str, int]
    coverage: dict[str, Any]
    whole: bool
    """Whether the project itself was named, and not some of its files."""
    changed: int
    """Files that were read anew; the others had the same content."""
    removed: list[str] = field(default_factory=list[str])
    skipped: list[Skip] = field(default_factory=list[Skip])
    warnings: list[str] = field(default_factory=list[str])

    def document(self) -> dict[str, Any]:
        return {
            "root": self.root,
            "graph_version": self.graph_version,
            "indexed_files": self.indexed_files,
            "counts": self.counts,
            "coverage": self.coverage,
            "whole": self.whole,
            "changed": self.changed,
            "removed": self.removed,
            "skipped": [skip.document() for skip in self.skipped],
            "warnings": self.warnings,
        }


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update changed; `updated_files` has every path whose part of the graph is another now."""

    root: str
    graph_version: str
    updated_files: list[str]
    unchanged_files: list[str]
    deleted_files: list[str]
    skipped: list[Skip] = field(default_factory=list[Skip])
    warnings: list[str] = field(default_factory=list[str])
