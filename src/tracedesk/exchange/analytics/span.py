"""What a figure rests on: the time asked for, the time known, the method and the number of observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.exchange.series import Covered
from tracedesk.primitives import time

BINARY64: Final = "sums exact in units of 1e-8, ratios and estimates in binary64"
"""How statistics are computed here; every method that has any ends with it."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time in UTC nanoseconds, both ends included."""

    from_ns: int
    to_ns: int

    @property
    def seconds(self) -> float:
        return (self.to_ns - self.from_ns) / time.SECOND

    def meet(self, other: Window | Covered) -> Window:
        """What both hold; empty, at one moment, where they do not touch."""
        low = max(self.from_ns, other.from_ns)
        return Window(low, max(low, min(self.to_ns, other.to_ns)))

    def document(self) -> dict[str, Any]:
        return {
            "from": time.format(self.from_ns),
            "to": time.format(self.to_ns),
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class Span:
    """The window somebody asked for and the part of it that is known."""

    requested: Window
    covered: Window
    known: Window
    """All that is known, also what came before the window: baselines lie there."""

    @classmethod
    def of(cls, from_ns: int, to_ns: int, *coverages: Covered | None) -> Span:
        """A window and what every one of `coverages` holds; None holds nothing. No coverage: all is known."""
        requested = Window(from_ns, to_ns)
        known = _common(coverages, to_ns) if coverages else requested
        return cls(requested, requested.meet(known), known)

    def evidence(self, method: str, sample_size: int) -> Evidence:
        return Evidence(self, method, sample_size)

    def insufficient(
        self, method: str, sample_size: int, needed: Mapping[str, float], have: Mapping[str, float]
    ) -> Insufficient:
        return Insufficient(self.evidence(method, sample_size), dict(needed), dict(have))


def _common(coverages: Sequence[Covered | None], to_ns: int) -> Window:
    held = [each for each in coverages if each is not None]
    if len(held) < len(coverages):
        return Window(to_ns, to_ns)
    low = max(each.from_ns for each in held)
    return Window(low, max(low, min(each.to_ns for each in held)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a result comes from."""

    span: Span
    method: str
    sample_size: int

    def document(self) -> dict[str, Any]:
        return {
            "window_requested": self.span.requested.document(),
            "window_covered": self.span.covered.document(),
            "method": self.method,
            "sample_size": self.sample_size,
        }


@dataclass(frozen=True, slots=True)
class Insufficient:
    """Too little is known to say anything; a result, not an error."""

    evidence: Evidence
    needed: dict[str, float] = field(default_factory=dict[str, float])
    have: dict[str, float] = field(default_factory=dict[str, float])

    def document(self) -> dict[str, Any]:
        return {
            "status": "insufficient_data",
            "needed": self.needed,
            "have": self.have,
            **self.evidence.document(),
        }


def known(evidence: Evidence, **figures: Any) -> dict[str, Any]:
    """The document of a result that could be computed."""
    return {"status": "ok", **figures, **evidence.document()}
