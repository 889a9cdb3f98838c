"""What several of these tests need: an instant, a scripted provider, and a loop that turns a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from tests.support import BOUND
from tracedesk.errors import ToolError
from tracedesk.payloads import Payloads
from tracedesk.primitives import json, time
from tracedesk.primitives.time import ManualClock
from tracedesk.trading.settings import Providers
from tracedesk.trading.sources.gate import Gate, Got
from tracedesk.trading.sources.seam import Fetch, Quote, network_error, rate_limited, unavailable

T = TypeVar("T")

NOW: Final = time.parse("2012-12-03T15:30:00Z").ns
"""Monday 2012-12-03, 10:30 in New York: an hour into the session."""


def at(text: str) -> int:
    return time.parse(text).ns


def got(answer: Got[T] | ToolError) -> Got[T]:
    assert isinstance(answer, Got), answer
    return answer


def refused(answer: Any) -> ToolError:
    assert isinstance(answer, ToolError), answer
    return answer


class Scripted:
    """A provider of quotes that does the next act of its script at each request; the last is repeated."""

    kinds = ("quotes",)

    def __init__(self, name: str, *script: Any, local: bool = False) -> None:
        self.name = name
        self.local = local
        self.script: list[Any] = list(script)
        self.asked: list[list[str]] = []

    async def quotes(self, symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        self.asked.append(list(symbols))
        act = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(act, ToolError):
            raise act
        if isinstance(act, Fetch):
            return cast("Fetch[Quote]", act)
        return await cast("Awaitable[Fetch[Quote]]", act(symbols, now_ns))


async def all_good(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
    """A quote of 10.00 for each symbol."""
    return priced(symbols, now_ns, "10.00")


def held(release: asyncio.Event) -> Scripted:
    """A provider whose answers are good, and wait for the release."""

    async def slow(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        await release.wait()
        return await all_good(symbols, now_ns)

    return Scripted("far", slow)


def priced(symbols: Sequence[str], now_ns: int, price: str) -> Fetch[Quote]:
    body = json.dumps({"symbols": {symbol: {"price": Decimal(price)} for symbol in symbols}})
    return Fetch({symbol: Quote(symbol, Decimal(price), now_ns) for symbol in symbols}, {}, body)


class WatchedClock(ManualClock):
    """A manual clock that tells how long its sleepers sleep, so that it is moved on when they do."""

    def __init__(self, now_ns: int = 0) -> None:
        super().__init__(now_ns)
        self._deadlines: list[float] = []

    async def sleep_until(self, deadline: float) -> None:
        self._deadlines.append(deadline)
        try:
            await super().sleep_until(deadline)
        finally:
            self._deadlines.remove(deadline)

    async def asleep(self, seconds: float) -> None:
        """Return once someone sleeps so long from now."""
        await settle(lambda: self.monotonic() + seconds in self._deadlines)


async def settle(done: Callable[[], bool]) -> None:
    """Let the loop run until something holds; other threads may have to run too."""
    async with asyncio.timeout(BOUND):
        while not done():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def turning(clock: ManualClock, work: Awaitable[T], step: float = 0.25) -> T:
    """Await something while the clock is moved on in steps, as long as it takes."""
    task = asyncio.ensure_future(work)
    async with asyncio.timeout(BOUND):
        while not task.done():
            await asyncio.sleep(0.001)
            clock.advance(step)
    return task.result()


DOWN = network_error("far", "refused")
BUSY = rate_limited("far", 7)
NOTHING = unavailable("A", "a quote", "Ask elsewhere.")


def gate(
    folder: Path, clock: ManualClock, *providers: Any, system_clock: bool = False, **settings: Any
) -> Gate:
    names = tuple(provider.name for provider in providers)
    kinds: dict[str, Any] = {"quotes": names, "history": (), "news": (), "fundamentals": ()}
    chosen = Providers(**{**kinds, **settings})
    made = {provider.name: provider for provider in providers}
    return Gate(made, chosen, Payloads(folder / "payloads"), clock, system_clock=system_clock)
