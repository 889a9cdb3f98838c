"""A clock that can run through a past before it joins the present."""

from __future__ import annotations

from tracedesk.primitives.time import Clock, SystemClock


class Warp:
    """The time of an exchange: another clock's, or what it is told while it catches up or replays."""

    def __init__(self, base: Clock | None = None) -> None:
        self._base = base or SystemClock()
        self._held: int | None = None
        self._from = self._to = 0
        self._speed = 1.0

    def now_ns(self) -> int:
        if self._held is not None:
            return self._held
        passed = self._base.now_ns() - self._from
        return self._to + (passed if self._speed == 1.0 else int(passed * self._speed))

    def monotonic(self) -> float:
        return self._base.monotonic()

    async def sleep_until(self, deadline: float) -> None:
        await self._base.sleep_until(deadline)

    def ahead(self, ns: int) -> float:
        """Seconds until it shows that time."""
        return (ns - self.now_ns()) / (1e9 * self._speed)

    def hold(self, ns: int) -> None:
        """Stand still at that instant."""
        self._held = ns

    def release(self) -> None:
        """Show the other clock's time again."""
        self._held = None

    def run_from(self, ns: int, speed: float = 1.0) -> None:
        """Count on from that instant, so many times as fast as the other clock."""
        self._from, self._to, self._speed = self._base.now_ns(), ns, speed
        self._held = None
