"""Whether anybody uses an exchange: requests, sockets and questions count for as long as they last."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tracedesk.primitives.time import Clock


class Use:
    """The use of one exchange, on a clock that only runs forward."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._users = 0
        self._last = clock.monotonic()

    @contextmanager
    def busy(self) -> Generator[None]:
        """Somebody uses it while the body runs."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._last = self._clock.monotonic()

    def idle(self) -> float:
        """For how many seconds nobody has; to the microsecond, so that what is left can be waited for."""
        return 0.0 if self._users else round(self._clock.monotonic() - self._last, 6)

    async def ends(self, seconds: float) -> None:
        """Return once nobody has used it for so long."""
        while (left := seconds - self.idle()) > 0:
            await self._clock.sleep_until(self._clock.monotonic() + left)
