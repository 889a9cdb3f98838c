"""The table of bars, docs/proof/bars.toml: each claim with its limit, its command and its rooms."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "proof"
TABLE: Final = FOLDER / "bars.toml"

BENCHMARK: Final = "python -m benchmarks."
TEST: Final = "tests/"


class UnknownBar(ValueError):
    """A figure was recorded for a bar that the table does not hold."""

    def __init__(self, bar: str) -> None:
        super().__init__(f"Unknown bar {bar!r}. Add it to docs/proof/bars.toml.")


@dataclass(frozen=True, slots=True)
class Bar:
    """One claim with its limit; `most` and `least` are exclusive."""

    id: str
    claim: str
    area: str
    command: str
    """A benchmark (`python -m benchmarks.wire`), or the test that records the figure."""
    rooms: tuple[str, ...]
    """Source folders and files whose code the figure is about."""
    most: float | None = None
    least: float | None = None
    at: tuple[str, ...] = ()
    """Path of the figure in the benchmark's JSON; one element is the name of a claim."""
    rivals: tuple[str, ...] = ()
    """Distributions whose versions a proof states."""
    checkout: str | None = None
    """The public repository, or the recordings, without which the figure cannot be measured."""

    @property
    def limit(self) -> str:
        """The bar as the page shows it."""
        return f"≤ {self.most:,g}" if self.most is not None else f"≥ {self.least:,g}"

    @property
    def proof(self) -> Path:
        return FOLDER / f"{self.id}.json"

    def is_met(self, figure: float) -> bool:
        return figure <= self.most if self.most is not None else figure >= _sure(self.least)


def _sure(least: float | None) -> float:
    assert least is not None
    return least


def read(table: Path = TABLE) -> dict[str, Bar]:
    """Every bar by its id, in the order of the page."""
    document = tomllib.loads(table.read_text(encoding="utf-8"))
    found: dict[str, Bar] = {}
    for measured in document["measurement"]:
        shared = {key: value for key, value in measured.items() if key != "bars"}
        for id, own in measured["bars"].items():
            if id in found:
                raise ValueError(f"bar {id} is in the table twice")
            found[id] = _bar(id, {**shared, **own})
    return found


def _bar(id: str, given: Mapping[str, Any]) -> Bar:
    if ("most" in given) == ("least" in given):
        raise ValueError(f"bar {id} needs either most or least")
    if not given.get("command") or not given.get("rooms"):
        raise ValueError(f"bar {id} needs a command, and rooms whose code it is about")
    lists: dict[str, Any] = {key: tuple(given[key]) for key in ("rooms", "at", "rivals") if key in given}
    return Bar(id, **{**given, **lists})


@cache
def every() -> Mapping[str, Bar]:
    return read()


def named(id: str) -> Bar:
    """The bar of that id; raises `UnknownBar`."""
    if id not in every():
        raise UnknownBar(id)
    return every()[id]


def checkouts() -> dict[str, str]:
    """Folders under `make prove CHECKOUTS=…` by name, each with the public repository or data it holds."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))["checkouts"]
