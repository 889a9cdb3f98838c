"""A market in motion: whatever acts in it acts in time, and its data is published on time."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from tracedesk.exchange.local.market import Markets

PULSE_NS: Final = 100_000_000
"""How often timed streams are published."""
GRAIN: Final = 0.01
"""The shortest sleep in seconds; what falls due within it is done together."""
LATE_NS: Final = 2_000_000_000
"""Where the clock is further off than this, it was stopped or set: the source goes on from its time."""


class Source(Protocol):
    """What makes a market move: seeded agents, or a recording."""

    def due(self) -> int | None:
        """When something happens next; `None` when nothing does any more."""
        ...

    def act(self, now_ns: int) -> None:
        """Do what falls due by then."""
        ...

    def resume(self, now_ns: int) -> None:
        """Go on from now after the clock was stopped or set."""
        ...


class Told(Protocol):
    """A clock that is told the time."""

    def now_ns(self) -> int: ...

    def hold(self, ns: int) -> None: ...


class Trading:
    """One source, the markets it moves, and the beat of their streams."""

    def __init__(self, source: Source, markets: Markets, now_ns: int) -> None:
        self._source = source
        self._markets = markets
        self._pulse = (now_ns // PULSE_NS + 1) * PULSE_NS
        self.moves = 0
        """How often the source acted."""

    def step(self, now_ns: int) -> None:
        """Do all that falls due by now, in its order."""
        if abs(now_ns - self.due()) > LATE_NS:
            self._resume(now_ns)
        while (moment := self.due()) <= now_ns:
            self._do(moment)

    def _resume(self, now_ns: int) -> None:
        self._pulse = now_ns // PULSE_NS * PULSE_NS + PULSE_NS
        if self._source.due() is not None:
            self._source.resume(now_ns)

    def simulate(self, clock: Told, until_ns: int) -> None:
        """Run through a time as fast as it goes, setting the clock to each moment of it."""
        while (moment := self.due()) <= until_ns:
            clock.hold(max(moment, clock.now_ns()))
            self._do(moment)
        clock.hold(until_ns)

    def due(self) -> int:
        """When something happens or is published next."""
        due = self._source.due()
        return self._pulse if due is None else min(due, self._pulse)

    def _do(self, moment: int) -> None:
        if moment >= self._pulse:
            self._markets.pulse(self._pulse)
            self._pulse += PULSE_NS
        else:
            self._source.act(moment)
            self.moves += 1

    async def run(self, clock: Paced, stopping: asyncio.Event) -> None:
        """Keep step with a clock until told to stop."""
        ending = asyncio.ensure_future(stopping.wait())
        try:
            while not stopping.is_set():
                self.step(clock.now_ns())
                ahead = clock.ahead(self.due())
                waiting = asyncio.ensure_future(clock.sleep_until(clock.monotonic() + max(ahead, GRAIN)))
                await asyncio.wait((waiting, ending), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
        finally:
            ending.cancel()


class Paced(Protocol):
    """A clock whose time may run faster than seconds pass."""

    def now_ns(self) -> int: ...

    def monotonic(self) -> float: ...

    def ahead(self, ns: int) -> float:
        """Seconds until it shows that time."""
        ...

    async def sleep_until(self, deadline: float) -> None: ...
