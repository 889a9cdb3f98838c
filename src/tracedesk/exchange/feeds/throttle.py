"""Telling of changes no more often than is useful; the last one is always told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tracedesk.exchange.client.waiting import ended
from tracedesk.primitives.supervision import Supervised
from tracedesk.primitives.time import Clock


class Throttle:
    """Calls its listeners at once, then at most once in `seconds` while changes go on."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._listeners: list[Callable[[], None]] = []
        self._telling = Supervised("notices of changes")
        self._next = clock.monotonic()
        self._later: asyncio.Task[None] | None = None

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Add a listener; what is returned takes it away."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def changed(self) -> None:
        """Something changed."""
        if self._later is not None or not self._listeners:
            return
        if self._clock.monotonic() >= self._next:
            self._tell()
        else:
            self._later = asyncio.create_task(self._tell_later())

    async def close(self) -> None:
        self._listeners.clear()
        if self._later is not None:
            await ended(self._later)

    def _tell(self) -> None:
        self._next = self._clock.monotonic() + self._seconds
        for listener in tuple(self._listeners):
            with self._telling.round():
                listener()

    async def _tell_later(self) -> None:
        try:
            await self._clock.sleep_until(self._next)
        finally:
            self._later = None
        self._tell()
