"""Subscriptions to resources: what must be followed for them, and notices that are not too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.caller import Caller

if TYPE_CHECKING:
    from tracedesk.exchange.link import Site
    from tracedesk.exchange.provider import Provider
    from tracedesk.hooks import Watcher

APART: Final = 1.0
"""Seconds between two notices of one subscription."""
_MARKET: Final = "binance://market/"


@dataclass(slots=True, eq=False)
class Watch:
    """One client's subscription to one resource."""

    watcher: Watcher
    symbol: str | None
    holder: str
    site: Site | None = None
    stop: Callable[[], None] | None = None
    due: asyncio.TimerHandle | None = None
    last: float = float("-inf")
    telling: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def is_market(self) -> bool:
        return self.watcher.uri.startswith(_MARKET)


class Watches:
    """All subscriptions of this desk."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._by_watcher: dict[Any, Watch] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._by_watcher)

    async def begin(self, watcher: Watcher, symbol: str | None) -> None:
        """Follow what a resource shows; raises `ToolError` when that cannot be."""
        watch = Watch(watcher, symbol, f"watch:{next(self._numbers)}")
        if Caller.of_scope(watcher.scope, watcher.principal).is_known:
            self._provider.leases.trust(watch.holder)
        await self._follow(watch)
        self._by_watcher[watcher] = watch

    def end(self, watcher: Watcher) -> None:
        watch = self._by_watcher.pop(watcher, None)
        if watch is not None:
            self._let_go(watch)
            self._provider.leases.end(watch.holder)

    def close(self) -> None:
        for watcher in tuple(self._by_watcher):
            self.end(watcher)

    def move(self, scope: str) -> None:
        """A scope uses another account, or none: its pages follow the new one as soon as there is one."""
        for watch in self._by_watcher.values():
            if watch.watcher.scope == scope and not watch.is_market:
                self._pause(watch)

    def lose(self, holders: set[str]) -> None:
        """Room was needed: these markets are followed again as soon as there is some."""
        for watch in self._by_watcher.values():
            if watch.is_market and watch.holder in holders:
                self._pause(watch)

    def _pause(self, watch: Watch) -> None:
        self._let_go(watch)
        watch.stop = watch.due = watch.site = None

    async def renew(self) -> None:
        """Follow again what was lost with a site or account that has moved.

        A fault of one keeps no other from it; the first is raised when all have been tried.
        """
        current, faults = self._provider.link.current, list[Exception]()
        for watch in [w for w in self._by_watcher.values() if w.site is not current]:
            try:
                await self._follow(watch)
            except ToolError:
                continue  # the venue is away; the next look tries again
            except Exception as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    async def _follow(self, watch: Watch) -> None:
        site = await self._provider.link.site()
        if watch.is_market:
            assert watch.symbol is not None
            market = await self._provider.leases.acquire(site, watch.symbol, watch.holder)
            watch.stop = market.listen(lambda _: self._changed(watch))
        else:
            if watch.symbol is not None:
                await site.feeds.listing.instrument(watch.symbol)
            watcher = watch.watcher
            caller = Caller.of_scope(watcher.scope, watcher.principal, may_read=watcher.may_read)
            account = await self._provider.account(caller)
            feed = await site.feeds.account(account.credentials, watch.holder)
            watch.stop = feed.listen(lambda _: self._changed(watch))
        watch.site = site

    def _let_go(self, watch: Watch) -> None:
        if watch.stop is not None:
            watch.stop()
        if watch.due is not None:
            watch.due.cancel()
        if watch.site is not None and watch.site is self._provider.link.current:
            watch.site.feeds.release_all(watch.holder)

    def _changed(self, watch: Watch) -> None:
        """Tell the client, now or when the last notice is long enough ago."""
        if watch.due is None:
            loop = asyncio.get_running_loop()
            watch.due = loop.call_at(max(loop.time(), watch.last + APART), self._tell, watch)

    def _tell(self, watch: Watch) -> None:
        loop = asyncio.get_running_loop()
        watch.due, watch.last = None, loop.time()
        task = loop.create_task(watch.watcher.notify())
        watch.telling.add(task)
        task.add_done_callback(watch.telling.discard)
