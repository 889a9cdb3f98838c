"""The `[fuzz]` table of tracedesk.toml: what the model cannot reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tracedesk import tables
from tracedesk.fuzz.limits import Limits
from tracedesk.roots import assumed
from tracedesk.tables import BadTable


class BadFuzzSetting(BadTable):
    """A value of `[fuzz]` that cannot be used, with what fits."""


@dataclass(frozen=True, slots=True)
class Fuzz:
    """Everything in `[fuzz]`, with its default."""

    roots: tuple[str, ...] = tables.list_of("folders")
    """Folders that `start_campaign` may name things in (also `--root`, `TRACEDESK_FUZZ_ROOTS`); none means
    the one where the desk was started, if it lies in a project."""
    ffi: bool = False
    """Whether a campaign that an agent starts may run programs (`allowFFI`)."""
    project_compilers: bool = False
    """Whether such a campaign may run a compiler that the project brings in its `node_modules`."""
    max_workers: int = 8
    """The most workers of a campaign that an agent starts."""
    limits: Limits = field(default_factory=Limits)
    """Limits of each campaign and its compilers."""

    def folders(self) -> tuple[Path, ...]:
        """The roots as they are; none where none is named and the desk was not started in a project."""
        return assumed(Path(root).expanduser() for root in self.roots)


TABLE = Fuzz
"""The class whose fields the settings page explains."""


def read(table: Mapping[str, Any]) -> Fuzz:
    """The table of a file, checked."""
    found = tables.read(Fuzz, table, "fuzz", BadFuzzSetting)
    if found.max_workers < 1:
        raise BadFuzzSetting("fuzz.max_workers must be a whole number above 0")
    for name, value in asdict(found.limits).items():
        if value < 1:
            raise BadFuzzSetting(f"fuzz.limits.{name} must be a whole number above 0")
    return found
