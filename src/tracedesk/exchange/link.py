"""The way to the venue: found or started when first needed, and found again when it has moved."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.credentials.keys import Keys
from tracedesk.exchange.settings import Exchange
from tracedesk.hosts import HostError, HostGone, HostInfo
from tracedesk.primitives.time import Clock

if TYPE_CHECKING:
    from tracedesk.exchange.client.client import Client
    from tracedesk.exchange.client.venue import Endpoints
    from tracedesk.exchange.feeds.feeds import Feeds

_LOOK_AGAIN: Final = 2.0
"""Seconds for which the local exchange is believed to be where it was."""
_TRIES: Final = 80
"""How often an exchange that is just ending is looked for again."""
_AGAIN: Final = 0.1
"""Seconds between the tries."""
_STOPPING: Final = "HOST_STOPPING"
"""How a host refuses that is about to end."""


class _Leaving(Exception):
    """The local exchange that was found ends, perhaps because nobody had used it."""


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A venue that is spoken to: its addresses, the client and the markets that are followed."""

    endpoints: Endpoints
    client: Client
    feeds: Feeds


class Link:
    """The one site of a desk."""

    def __init__(self, home: Path, settings: Exchange, clock: Clock) -> None:
        self._home = home
        self._settings = settings
        self._clock = clock
        self._site: Site | None = None
        self._looked = float("-inf")
        self._host: HostInfo | None = None
        self._finding = asyncio.Lock()
        self._starting: asyncio.Task[HostInfo] | None = None

    @property
    def current(self) -> Site | None:
        """The site, if it was needed yet."""
        return self._site

    @property
    def host(self) -> HostInfo | None:
        """The process of the local exchange that was spoken to last."""
        return self._host

    async def site(self) -> Site:
        """The venue's site; the local exchange is started when there is none."""
        if self._site is not None and not self._is_due():
            return self._site
        async with self._finding:
            if self._site is None or self._is_due():
                await self._find()
        assert self._site is not None
        return self._site

    def _is_due(self) -> bool:
        return self._is_local and self._clock.monotonic() - self._looked >= _LOOK_AGAIN

    @property
    def _is_local(self) -> bool:
        return self._settings.venue == "sim" and not self._settings.addresses.given

    @property
    def is_asleep(self) -> bool:
        """Whether the venue is a local exchange that does not run."""
        return self._is_local and self.run() is None

    def run(self) -> HostInfo | None:
        """The process of the local exchange that runs now, whoever started it."""
        from tracedesk.exchange.local.launch import running

        return running(self._home) if self._is_local else None

    async def _find(self) -> None:
        self._looked = self._clock.monotonic()
        if self._site is not None and self._is_where_it_was():
            return
        found = await self._endpoints()
        if self._site is not None:
            if self._site.endpoints == found:
                return
            await self._leave()
        self._site = self._open(found)

    def _is_where_it_was(self) -> bool:
        """Whether the local exchange is still the process that was spoken to."""
        return self._host is not None and self.run() == self._host

    async def _endpoints(self) -> Endpoints:
        from tracedesk.exchange.client import venue

        given = self._settings.addresses
        if given.given:
            return venue.Endpoints(self._settings.venue, given.rest, given.streams, given.ws_api)
        if self._is_local:
            return venue.Endpoints.sim(await self.ask("address"))
        return venue.TESTNET if self._settings.venue == "testnet" else venue.LIVE

    def _open(self, endpoints: Endpoints) -> Site:
        from tracedesk.exchange.client.client import Client
        from tracedesk.exchange.feeds.feeds import Feeds

        client = Client(endpoints, clock=self._clock)
        feeds = Feeds(client, capacity=self._settings.max_markets)
        return Site(endpoints, client, feeds)

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """An answer of the local exchange's own socket, which only its owner can reach."""
        try:
            for _ in range(_TRIES):
                with contextlib.suppress(_Leaving):
                    return await self._asked(method, params or {})
                await asyncio.sleep(_AGAIN)
            return await self._asked(method, params or {})
        except (HostError, _Leaving) as problem:
            raise ToolError(
                "VENUE_UNAVAILABLE",
                f"The local exchange does not answer: {problem}. Look at `tracedesk exchange status`.",
                {"venue": "sim"},
            ) from None

    async def _asked(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the exchange that runs, or one that is started; raises `_Leaving` where that one just ends."""
        from tracedesk.hosts import HostClient

        info = self._host = self.run() or await self._started()
        try:
            async with await HostClient.connect(info) as host:
                return await host.call(method, params)
        except HostGone as gone:
            raise _Leaving(str(gone)) from None
        except ToolError as problem:
            if problem.code != _STOPPING:
                raise
            raise _Leaving(problem.message) from None

    async def _started(self) -> HostInfo:
        """The exchange, started once for all who ask; it goes on when they have no more time."""
        from tracedesk.exchange.local.launch import ensure

        if self._starting is None or self._starting.done():
            self._starting = asyncio.ensure_future(ensure(self._home, self._settings.sim))
            self._starting.add_done_callback(_heed)
        return await asyncio.shield(self._starting)

    async def sim_keys(self, account: str) -> Keys:
        """The keys of an account of the local exchange, which is opened when it is new."""
        made = await self.ask("account", {"name": account})
        return Keys(made["api_key"], secret=made["secret"])

    async def quantity_ahead(self, symbol: str, order_id: int) -> str | None:
        """The quantity before an order in its queue at the local exchange; `None` where it is unknown."""
        if not self._is_local:
            return None
        try:
            return (await self.ask("queue", {"symbol": symbol, "order_id": order_id}))["quantity_ahead"]
        except ToolError:  # the exchange has just ended, or is older than the question
            return None

    async def close(self) -> None:
        """Leave the site, and give up the start of an exchange that is not ready."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await self._leave()

    async def _leave(self) -> None:
        if self._site is not None:
            site, self._site = self._site, None
            await site.feeds.close()
            await site.client.close()


def _heed(done: asyncio.Task[HostInfo]) -> None:
    """Retrieve a failure that nobody waits for any more, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()
