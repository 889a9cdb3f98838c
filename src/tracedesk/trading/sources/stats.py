"""How the providers do: requests, errors, what was kept, and how long answers took."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, Final

from tracedesk.primitives.time import Clock, format

RECENT: Final = 1_000
"""Requests that the percentiles look back on."""


class Tally:
    """One provider and one kind of question."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._longest = 0.0
        self._success_ns: int | None = None
        self._error: tuple[int, str] | None = None
        self.calls = 0
        self.hits = 0
        self.misses = 0
        self.errors: Counter[str] = Counter()

    def asked(self, seconds: float) -> None:
        """Count a request that was made, however it ended."""
        self.calls += 1
        self._recent.append(seconds)
        self._longest = max(self._longest, seconds)

    def succeeded(self) -> None:
        """Note that the provider had something."""
        self._success_ns = self._clock.now_ns()

    def failed(self, code: str) -> None:
        """Count an error: of a whole request, or of one symbol in it."""
        self.errors[code] += 1
        self._error = (self._clock.now_ns(), code)

    def row(self) -> dict[str, Any]:
        """The tally as JSON values; latencies are in milliseconds, null before the first request."""
        return {
            "calls": self.calls,
            "errors": dict(sorted(self.errors.items())),
            "cache": {"hits": self.hits, "misses": self.misses},
            "latency_ms": {
                "p50": self._percentile(50),
                "p95": self._percentile(95),
                "max": round(self._longest * 1000, 3) if self.calls else None,
            },
            "last_success": None if self._success_ns is None else format(self._success_ns),
            "last_error": None
            if self._error is None
            else {"at": format(self._error[0]), "code": self._error[1]},
        }

    def _percentile(self, percent: int) -> float | None:
        """The nearest rank among the recent requests."""
        if not self._recent:
            return None
        ranked = sorted(self._recent)
        return round(ranked[max(0, -(-len(ranked) * percent // 100) - 1)] * 1000, 3)


class Stats:
    """The tallies of all providers since the desk opened."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tallies: dict[tuple[str, str], Tally] = {}

    def of(self, provider: str, kind: str) -> Tally:
        """The tally of a provider and a kind, begun when first asked for."""
        key = (provider, kind)
        found = self._tallies.get(key)
        if found is None:
            found = self._tallies[key] = Tally(self._clock)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Every tally, in order of provider and kind."""
        tallies = sorted(self._tallies.items())
        return [{"provider": name, "kind": kind, **tally.row()} for (name, kind), tally in tallies]
