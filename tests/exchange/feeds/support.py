"""Feeds on the local exchange, all on one manual clock and real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.exchange.local.support import Bench, bench, eventually
from tracedesk.exchange.book.sync import levels
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.venue import Endpoints
from tracedesk.exchange.feeds.feeds import Feeds
from tracedesk.exchange.feeds.market import Market
from tracedesk.exchange.local.exchange import LocalExchange

TURNS = 100
"""Of the loop that both ends share; an event needs a few from the venue's book to the feed's."""


@dataclass(slots=True)
class Local:
    """The exchange, and feeds of it."""

    bench: Bench
    client: Client
    feeds: Feeds

    @property
    def exchange(self) -> LocalExchange:
        return self.bench.exchange

    @property
    def credentials(self) -> Credentials:
        return Credentials.of(self.bench.key.api_key, self.bench.key.material)

    async def until(self, holds: Callable[[], bool], step: float = 0.1) -> None:
        """Let time pass in steps until something holds; the number of steps is bounded."""
        for _ in range(600):
            if holds():
                return
            self.bench.advance(step)
            await self.work()
        await eventually(holds)

    async def work(self) -> None:
        """Let both ends do what they have to do now: turns of their loop, however long these take."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def market(self, symbol: str = "BTCUSDT", holder: str = "h") -> Market:
        market = await self.feeds.acquire(symbol, holder)
        await self.until(lambda: market.sync.synced)
        return market

    def venue_book(self, symbol: str = "BTCUSDT") -> tuple[int, dict[int, int], dict[int, int]]:
        """The exchange's own book: its last update and both sides."""
        told: dict[str, Any] = self.exchange.market.of(symbol).depth(5000)
        return told["lastUpdateId"], dict(levels(told["bids"])), dict(levels(told["asks"]))


@asynccontextmanager
async def local(**settings: Any) -> AsyncGenerator[Local, None]:
    async with bench() as given:
        endpoints = Endpoints.sim(given.address.document())
        client = Client(endpoints, clock=given.clock, random=Random(3))
        feeds = Feeds(client, **settings)
        try:
            yield Local(given, client, feeds)
        finally:
            await feeds.close()
            await client.close()
