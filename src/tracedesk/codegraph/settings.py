"""The `[codegraph]` table of tracedesk.toml: what an agent may have indexed, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracedesk import tables
from tracedesk.roots import assumed
from tracedesk.tables import BadTable


class BadCodegraphSetting(BadTable):
    """A value of `[codegraph]` that cannot be used, with what fits."""


@dataclass(frozen=True, slots=True)
class Codegraph:
    """Everything in `[codegraph]`, with its default."""

    roots: tuple[str, ...] = tables.list_of("folders")
    """Folders whose projects may be indexed and shown (also `--root`, `TRACEDESK_CODEGRAPH_ROOTS`); none
    means the one where the desk was started, if it lies in a project."""
    max_file_bytes: int = 1_000_000
    """A larger file is skipped, and said so."""
    max_files: int = 200_000
    """The most files of one project."""
    max_line: int = 5_000
    """A file with a longer line, in characters, is taken for generated text and skipped."""
    parse_seconds: float = 2.0
    """The time one file may take to parse."""
    workers: int = 0
    """Processes that parse during a full index; 0 takes all cores but one, at most 4."""

    def folders(self) -> tuple[Path, ...]:
        """The roots as they are; none where none is named and the desk was not started in a project."""
        return assumed(Path(root).expanduser() for root in self.roots)


TABLE = Codegraph
"""The class whose fields the settings page explains."""


def read(table: Mapping[str, Any]) -> Codegraph:
    """The table of a file, checked."""
    found = tables.read(Codegraph, table, "codegraph", BadCodegraphSetting)
    if not all(found.roots):
        raise BadCodegraphSetting("codegraph.roots must be a list of folders")
    for name in ("max_file_bytes", "max_files", "max_line", "parse_seconds"):
        if not getattr(found, name):
            raise BadCodegraphSetting(f"codegraph.{name} must be a number above 0")
    return found
