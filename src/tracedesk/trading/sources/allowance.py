"""How many requests a provider is sent a minute."""

from __future__ import annotations

from typing import Final

from tracedesk.primitives.time import Clock

_MINUTE: Final = 60.0


class Allowance:
    """A bucket that holds a minute's requests and fills evenly; an allowance of 0 lets none through."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._left = self._most
        self._at = clock.monotonic()

    def take(self, requests: int = 1) -> float:
        """Take the requests and return 0, or take none and return the seconds until there are enough.

        More than a minute's requests at once need the whole bucket.
        """
        if not self._most:
            return _MINUTE
        now = self._clock.monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._most / _MINUTE)
        self._at = now
        need = min(float(requests), self._most)
        if self._left >= need:
            self._left -= need
            return 0.0
        return round((need - self._left) * _MINUTE / self._most, 3) or 0.001
