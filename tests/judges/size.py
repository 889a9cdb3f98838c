"""The two sizes of a judge: short in `make judge`, long in `make prove`; one test serves both.

A test takes the fixture `size` and asks it for seconds, rounds or kills. A test that is parametrised by size
has the mark `sizes("seed", judge=[1], prove=[1, 2, 3])`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

SLACK: Final = 2.0
"""A timed bar fails a judge only beyond this factor: the judge may share its machine, a proof may not."""
PATIENCE: Final = 12
"""How many times longer than its judge a proof may run before it counts as hung."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size that this run has."""

    is_proof: bool

    def of(self, *, judge: T, prove: T) -> T:
        """The amount of work in this run."""
        return prove if self.is_proof else judge

    def most(self, bar: float) -> float:
        """The most that a timed figure may be: its bar in a proof, twice the bar in a judge."""
        return bar if self.is_proof else bar * SLACK

    def at_most(self, bar: float, figure: float, name: str) -> None:
        """Fail when a timed figure is above the most that it may be."""
        allowed = self.most(bar)
        assert figure <= allowed, f"{name}: {figure:g} is above {allowed:g} (the bar is {bar:g})"

    def at_least(self, bar: float, figure: float, name: str) -> None:
        """Fail when a timed figure is below its bar: exactly in a proof, below half of the bar in a judge."""
        allowed = bar if self.is_proof else bar / SLACK
        assert figure >= allowed, f"{name}: {figure:g} is below {allowed:g} (the bar is {bar:g})"


JUDGE: Final = Size(is_proof=False)
PROOF: Final = Size(is_proof=True)
