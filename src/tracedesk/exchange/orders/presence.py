"""When somebody last called: at this desk, and at any other on its home."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from tracedesk.primitives.time import Clock

_FILE: Final = "exchange.heard"
_APART_S: Final = 1.0
"""How old the mark on the disk may be while calls come: a call costs no write of its own."""


class Presence:
    """Seconds on the machine's clock that only runs forward, which all processes read alike."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self._path = home / "run" / _FILE
        self._clock = clock
        self._own = self._marked = clock.monotonic()

    def touch(self, *, tell: bool) -> None:
        """Somebody has called; `tell` leaves a mark for the other desks."""
        self._own = self._clock.monotonic()
        if tell and self._own - self._marked >= _APART_S:
            self._marked = self._own
            with suppress(OSError):  # a full disk makes the others' timers run out, which is the safe side
                self._path.parent.mkdir(exist_ok=True, mode=0o700)
                self._path.write_text(repr(self._own), encoding="ascii")

    def silent(self) -> float:
        """How long nobody has called; what is marked may be a second older than the call was."""
        now = self._clock.monotonic()
        return now - max(self._own, self._elsewhere(now))

    def _elsewhere(self, now: float) -> float:
        try:
            found = float(self._path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return self._own
        # A mark from before the machine was started again may lie ahead of its clock, and means nothing.
        return found if found <= now else self._own
