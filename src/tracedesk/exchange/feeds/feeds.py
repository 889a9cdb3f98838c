"""The markets and accounts that someone watches now: opened for the first, closed after the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.waiting import ended
from tracedesk.exchange.feeds.account import Account
from tracedesk.exchange.feeds.listing import Listing
from tracedesk.exchange.feeds.market import Market

CAPACITY: Final = 20
"""Markets watched at once at most."""
GRACE: Final = 60.0
"""Seconds that a market stays open after the last holder let it go."""
DEPTH: Final = 1_000
"""Levels a side of a snapshot."""
THROTTLE: Final = 0.25
"""Seconds between two tellings of a change."""


class Feeds:
    """Public markets shared by all holders, accounts only by holders of the same credentials."""

    def __init__(
        self,
        client: Client,
        *,
        capacity: int = CAPACITY,
        grace: float = GRACE,
        depth_limit: int = DEPTH,
        throttle: float = THROTTLE,
    ) -> None:
        self.client = client
        self.listing = Listing(client.public, client.clock)
        self._clock = client.clock
        self._capacity = capacity
        self._grace = grace
        self._depth_limit = depth_limit
        self._throttle = throttle
        self._markets: dict[str, Market] = {}
        self._parting: dict[str, asyncio.Task[None]] = {}
        """Markets that nobody holds, closing when their grace is over."""
        self._accounts: dict[str, Account] = {}
        self._closing: set[asyncio.Task[None]] = set()

    # --- markets

    async def acquire(self, symbol: str, holder: str) -> Market:
        """Watch a market for `holder` until it is released; more than once is the same as once."""
        instrument = await self.listing.instrument(symbol)
        await self.client.public.know_time()
        market = self._markets.get(instrument.symbol)
        if market is None:
            self._make_room(instrument.symbol)
            market = Market(instrument, self.client, depth_limit=self._depth_limit, throttle=self._throttle)
            self._markets[instrument.symbol] = market
            market.start()
        market.holders.add(holder)
        self._stay(instrument.symbol)
        return market

    def release(self, symbol: str, holder: str) -> None:
        """Let a market go; the last one starts its grace."""
        market = self._markets.get(symbol.upper())
        if market is None or holder not in market.holders:
            return
        market.holders.discard(holder)
        if not market.holders:
            self._parting[market.symbol] = asyncio.create_task(self._part(market.symbol))

    def release_all(self, holder: str) -> None:
        """Let go of everything that `holder` has, accounts too."""
        for symbol in tuple(self._markets):
            self.release(symbol, holder)
        for account in tuple(self._accounts.values()):
            self.release_account(account.credentials, holder)

    @asynccontextmanager
    async def held(self, symbol: str, holder: str) -> AsyncGenerator[Market, None]:
        """A market for as long as the block runs."""
        market = await self.acquire(symbol, holder)
        try:
            yield market
        finally:
            self.release(market.symbol, holder)

    def market(self, symbol: str) -> Market | None:
        """A market that is open now, whoever holds it."""
        return self._markets.get(symbol.upper())

    def markets(self) -> list[Market]:
        return list(self._markets.values())

    def _stay(self, symbol: str) -> None:
        parting = self._parting.pop(symbol, None)
        if parting is not None:
            parting.cancel()

    async def _part(self, symbol: str) -> None:
        await self._clock.sleep_until(self._clock.monotonic() + self._grace)
        self._close(symbol)

    def _close(self, symbol: str) -> None:
        self._parting.pop(symbol, None)
        market = self._markets.pop(symbol)
        self._run(market.stop())

    def _make_room(self, symbol: str) -> None:
        """Close what nobody holds, oldest first, where there is no room; refuse where all are held."""
        if len(self._markets) < self._capacity:
            return
        if not self._parting:
            watched = ", ".join(sorted(self._markets))
            message = (
                f"symbol {symbol}: {self._capacity} symbols are watched already ({watched}). "
                "Let one go: end a subscription to its resource, or close a session that watches it."
            )
            raise ToolError(
                "LIMIT_EXCEEDED", message, {"limit": self._capacity, "watched": sorted(self._markets)}
            )
        oldest = next(iter(self._parting))
        parting = self._parting[oldest]
        self._close(oldest)
        parting.cancel()

    # --- accounts

    async def account(self, credentials: Credentials, holder: str) -> Account:
        """The account of these credentials, for `holder` until it is released."""
        account = self._accounts.get(credentials.fingerprint)
        if account is None:
            account = Account(credentials, self.client, throttle=self._throttle)
            self._accounts[credentials.fingerprint] = account
            account.start()
        account.holders.add(holder)
        return account

    def release_account(self, credentials: Credentials, holder: str) -> None:
        """Let an account go; the last one closes it at once, and the key is forgotten."""
        account = self._accounts.get(credentials.fingerprint)
        if account is None or holder not in account.holders:
            return
        account.holders.discard(holder)
        if not account.holders:
            del self._accounts[credentials.fingerprint]
            self.client.forget(credentials)
            self._run(account.stop())

    # --- the whole

    def status(self) -> dict[str, Any]:
        """How everything is doing, without a word about whose accounts they are."""
        streams = self.client.streams.status
        return {
            "venue": self.client.endpoints.name,
            "connected": streams.connected,
            "reconnects": streams.reconnects,
            "rollovers": streams.rollovers,
            "malformed_frames": streams.malformed,
            "last_error": streams.last_error or self.listing.last_error,
            "clock_offset_ms": self.client.time.offset_ms if self.client.time.measured_ns else None,
            "limits": self.client.limits.document(),
            "markets": [market.status().document() for market in self._markets.values()],
            "accounts": len(self._accounts),
        }

    async def close(self) -> None:
        """Close everything that is open; the client stays."""
        await ended(*self._parting.values())
        self._parting.clear()
        markets, accounts = list(self._markets.values()), list(self._accounts.values())
        self._markets.clear()
        self._accounts.clear()
        await asyncio.gather(*(each.stop() for each in (*markets, *accounts)), *self._closing)

    def _run(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
