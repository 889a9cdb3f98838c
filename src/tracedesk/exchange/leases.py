"""Who follows which market: held while a scope uses it, let go when it idles or ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.accounts import Account
from tracedesk.exchange.link import Link, Site
from tracedesk.primitives.time import Clock

if TYPE_CHECKING:
    from tracedesk.exchange.feeds.account import Account as AccountFeed
    from tracedesk.exchange.feeds.market import Market

IDLE: Final = 600.0
"""Seconds without use after which a scope follows a market or account no longer."""
WARM: Final = "warm"
"""Who follows the markets of the settings."""
READY: Final = 5.0
"""Seconds that a market gets to be complete."""


class Leases:
    """Markets and accounts that are followed for scopes; the venue is subscribed once for all of them."""

    def __init__(self, link: Link, clock: Clock, on_loss: Callable[[set[str]], None]) -> None:
        self._link = link
        self._clock = clock
        self._on_loss = on_loss
        self._trusted = {WARM}
        self._markets: dict[tuple[str, str], float] = {}
        self._accounts: dict[tuple[str, str], tuple[float, Account]] = {}

    async def market(self, symbol: str, scope: str, patience: float = READY) -> Market:
        """The market of a symbol, perhaps not synced yet; raises INVALID_SYMBOL or LIMIT_EXCEEDED."""
        site = await self._link.site()
        market = await self.acquire(site, symbol, scope)
        self._markets[scope, market.symbol] = self._clock.monotonic()
        if not market.sync.synced:
            await market.ready(patience)
        return market

    def trust(self, holder: str) -> None:
        """Strangers make room for this one."""
        self._trusted.add(holder)

    async def acquire(self, site: Site, symbol: str, holder: str) -> Market:
        """Follow a market; where there is no room, one that only strangers follow is given up for others."""
        try:
            return await site.feeds.acquire(symbol, holder)
        except ToolError as full:
            if full.code != "LIMIT_EXCEEDED" or holder not in self._trusted or not self._give_up_one(site):
                raise
        return await site.feeds.acquire(symbol, holder)

    def _give_up_one(self, site: Site) -> bool:
        strange = (market for market in site.feeds.markets() if not market.holders & self._trusted)
        market = next(strange, None)
        if market is None:
            return False
        lost = set(market.holders)
        for holder in lost:
            site.feeds.release(market.symbol, holder)
            self._markets.pop((holder, market.symbol), None)
        self._on_loss(lost)
        return True

    async def account(self, account: Account, scope: str, patience: float = READY) -> AccountFeed:
        """The followed account, with what is known of it."""
        feed = await account.site.feeds.account(account.credentials, scope)
        self._accounts[scope, account.name] = (self._clock.monotonic(), account)
        await feed.ready(patience)
        return feed

    def end(self, scope: str) -> None:
        """Let go of everything a scope followed."""
        self._trusted.discard(scope)
        self._markets = {key: used for key, used in self._markets.items() if key[0] != scope}
        self.leave_accounts(scope)
        if self._link.current is not None:
            self._link.current.feeds.release_all(scope)

    def leave_accounts(self, scope: str) -> None:
        """Let go of the accounts a scope followed."""
        for key in [key for key in self._accounts if key[0] == scope]:
            self._leave(key)

    def _leave(self, key: tuple[str, str]) -> None:
        _, account = self._accounts.pop(key)
        account.site.feeds.release_account(account.credentials, key[0])

    def sweep(self) -> None:
        """Let go of what has not been used for long."""
        oldest = self._clock.monotonic() - IDLE
        site = self._link.current
        for scope, symbol in [key for key, used in self._markets.items() if used < oldest]:
            del self._markets[scope, symbol]
            if site is not None:
                site.feeds.release(symbol, scope)
        for key in [key for key, (used, _) in self._accounts.items() if used < oldest]:
            self._leave(key)
