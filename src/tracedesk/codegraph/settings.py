"""The `[codegraph]` table of tracedesk.toml: what an agent may have indexed, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from tracedesk.config import FILE, BadSetting


class BadCodegraphSetting(BadSetting):
    """A value of `[codegraph]` that cannot be used, with what fits."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"in {FILE}, {problem}")


@dataclass(frozen=True, slots=True)
class Codegraph:
    """Everything in `[codegraph]`, with its default."""

    roots: tuple[str, ...] = ()
    """Folders whose projects may be indexed and shown (also `--root`, `TRACEDESK_CODEGRAPH_ROOTS`); none
    means the one where the desk was started."""
    max_file_bytes: int = 1_000_000
    """A larger file is skipped, and said so."""
    max_files: int = 200_000
    """The most files of one project."""
    max_line: int = 5_000
    """A file with a longer line, in characters, is taken for generated text and skipped."""
    parse_seconds: float = 2.0
    """The time one file may take to parse."""
    workers: int = 0
    """Processes that parse during a full index; 0 takes the cores, at most 4."""

    def folders(self) -> tuple[Path, ...]:
        """The roots as they are."""
        return tuple(Path(root).expanduser() for root in self.roots) or (Path.cwd(),)


TABLE = Codegraph
"""The class whose fields the settings page explains."""


def read(table: Mapping[str, Any]) -> Codegraph:
    """The table of a file, checked."""
    known = {field.name for field in fields(Codegraph)}
    for name in table:
        if name not in known:
            raise BadCodegraphSetting(
                f"[codegraph] has no setting {name!r}; there are {', '.join(sorted(known))}"
            )
    given = {name: _checked(name, value) for name, value in table.items()}
    return Codegraph(**given)


def _checked(name: str, value: Any) -> Any:
    if name == "roots":
        return _roots(value)
    if name == "parse_seconds":
        return _seconds(value)
    least = 0 if name == "workers" else 1
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadCodegraphSetting(f"codegraph.{name} must be a whole number of at least {least}")
    return value


def _roots(value: Any) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list | tuple) else [None]
    roots = tuple(root for root in items if isinstance(root, str) and root)
    if len(roots) != len(items):
        raise BadCodegraphSetting("codegraph.roots must be a list of folders")
    return roots


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise BadCodegraphSetting("codegraph.parse_seconds must be a number above 0")
    return float(value)
