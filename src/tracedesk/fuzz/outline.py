"""What a source says about itself: its functions, and the statements at which control can go two ways.

It is read from the text alone, so that codes with or without a syntax tree are explained alike.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["if", "for", "while", "do", "require", "assert", "ternary"]


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a source, the end not included."""

    start: int
    end: int

    def holds(self, offset: int) -> bool:
        return self.start <= offset < self.end


@dataclass(frozen=True, slots=True)
class Routine:
    """A function, constructor or modifier with a body."""

    contract: str
    name: str
    start: int
    body: Range
    is_modifier: bool = False

    @property
    def qualified(self) -> str:
        return f"{self.contract}.{self.name}" if self.contract else self.name


@dataclass(frozen=True, slots=True)
class Decision:
    """A statement or expression with two ways on."""

    kind: Kind
    start: int
    end: int
    condition: Range | None = None
    """Of a loop, which some compilers name instead of the loop."""
    chosen: Range | None = None
    """Where control is when the condition held."""
    otherwise: Range | None = None


@dataclass(frozen=True)
class Outline:
    """The routines and decisions of one source, in order."""

    routines: tuple[Routine, ...]
    decisions: tuple[Decision, ...]

    @cached_property
    def by_start(self) -> dict[int, Decision]:
        return {decision.start: decision for decision in self.decisions}

    @cached_property
    def by_condition(self) -> dict[tuple[int, int], Decision]:
        loops = (decision for decision in self.decisions if decision.condition is not None)
        return {(loop.condition.start, loop.condition.end): loop for loop in loops if loop.condition}

    @cached_property
    def by_header(self) -> dict[int, Routine]:
        return {routine.start: routine for routine in self.routines}

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        return tuple(routine.start for routine in self.routines)

    def routine_at(self, offset: int) -> Routine | None:
        """The routine, header or body, that holds a byte; routines never nest."""
        number = bisect_right(self._starts, offset) - 1
        if number < 0 or offset >= self.routines[number].body.end:
            return None
        return self.routines[number]
