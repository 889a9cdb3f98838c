"""The `[fuzz]` table of tracedesk.toml: what the model cannot reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from tracedesk.config import FILE, BadSetting


class BadFuzzSetting(BadSetting):
    """A value of `[fuzz]` that cannot be used, with what fits."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"in {FILE}, {problem}")


@dataclass(frozen=True, slots=True)
class Fuzz:
    """Everything in `[fuzz]`, with its default."""

    roots: tuple[str, ...] = ()
    """Folders that `start_campaign` may name things in; none means the one where the desk was started."""
    ffi: bool = False
    """Whether a campaign that an agent starts may run programs (`allowFFI`)."""
    project_compilers: bool = False
    """Whether such a campaign may run a compiler that the project brings in its `node_modules`."""
    max_workers: int = 8
    """The most workers of a campaign that an agent starts."""

    def folders(self) -> tuple[Path, ...]:
        """The roots as they are."""
        return tuple(Path(root).expanduser() for root in self.roots) or (Path.cwd(),)


TABLE = Fuzz
"""The class whose fields the settings page explains."""


def read(table: Mapping[str, Any]) -> Fuzz:
    """The table of a file, checked."""
    known = {field.name for field in fields(Fuzz)}
    for name in table:
        if name not in known:
            raise BadFuzzSetting(f"[fuzz] has no setting {name!r}; there are {', '.join(sorted(known))}")
    roots: Any = table.get("roots", [])
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in cast("list[Any]", roots)):
        raise BadFuzzSetting("fuzz.roots must be a list of folders")
    for name in ("ffi", "project_compilers"):
        if not isinstance(table.get(name, False), bool):
            raise BadFuzzSetting(f"fuzz.{name} must be true or false")
    most: Any = table.get("max_workers", Fuzz().max_workers)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise BadFuzzSetting("fuzz.max_workers must be a whole number above 0")
    known_roots = tuple(cast("list[str]", roots))
    return Fuzz(known_roots, table.get("ffi", False), table.get("project_compilers", False), most)
