"""The local exchange: a venue, its market data, its keys and limits, on one clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.local import errors
from tracedesk.exchange.local.auth import Keys
from tracedesk.exchange.local.faults import Faults
from tracedesk.exchange.local.limits import Limits
from tracedesk.exchange.local.market import MarketData, Markets
from tracedesk.exchange.local.use import Use
from tracedesk.exchange.venue.events import BalancesChanged, Deposited, Event, Reported
from tracedesk.exchange.venue.venue import Venue
from tracedesk.primitives.time import MILLISECOND, Clock

AccountEvent = Reported | BalancesChanged | Deposited
AccountSink = Callable[[AccountEvent], None]
"""Takes an event of an account at once; it must neither block nor raise."""

DEEPEST: Final = 5_000


class Connection(Protocol):
    """A socket that the exchange holds open."""

    async def shut_down(self) -> None:
        """Say that the server goes, and close."""
        ...

    def cut(self) -> None:
        """Close at once, without a word."""
        ...


class LocalExchange:
    """Everything behind the wire; `make_app` puts it on one."""

    def __init__(
        self,
        venue: Venue,
        market: Markets,
        clock: Clock,
        keys: Keys | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.venue = venue
        self.market = market
        self.clock = clock
        self.keys = keys if keys is not None else Keys()
        self.limits = limits if limits is not None else Limits(clock)
        self.faults = Faults()
        self.use = Use(clock)
        self.sockets: set[Connection] = set()
        self._listeners: defaultdict[str, list[AccountSink]] = defaultdict(list)
        self._stale: dict[str, dict[str, Any]] = {}
        venue.listen(self._hear)

    # --- time -----------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """The time that the exchange believes in, which a fault may have set wrong."""
        return self.clock.now_ns() + self.faults.skew_ns

    def now_ms(self) -> int:
        return self.now_ns() // MILLISECOND

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + seconds)

    # --- markets --------------------------------------------------------------------------------

    def instruments(self) -> list[Instrument]:
        return [self.instrument(symbol) for symbol in self.venue.listings]

    def instrument(self, symbol: str) -> Instrument:
        """A symbol with the status it has now."""
        listing = self.venue.listings.get(symbol)
        if listing is None:
            raise errors.invalid_symbol()
        return replace(listing.instrument, status=self.venue.status(symbol))

    def snapshot(self, market: MarketData, limit: int) -> dict[str, Any]:
        """The book, or an old one while that fault is set."""
        symbol = market.instrument.symbol
        if self.faults.strike("stale_snapshot", symbol):
            old = self._stale.setdefault(symbol, market.depth(DEEPEST))
            return {**old, "bids": old["bids"][:limit], "asks": old["asks"][:limit]}
        self._stale.pop(symbol, None)
        return market.depth(limit)

    # --- accounts -------------------------------------------------------------------------------

    def listen(self, account: str, sink: AccountSink) -> Callable[[], None]:
        """Tell a sink what happens to an account, until the returned function is called."""
        self._listeners[account].append(sink)
        return lambda: self._listeners[account].remove(sink)

    def _hear(self, event: Event) -> None:
        if not isinstance(event, Reported | BalancesChanged | Deposited):
            return
        if isinstance(event, Reported) and _is_first_fill(event):
            self.limits.first_fill(event.account, maker=event.is_maker)
        for sink in tuple(self._listeners.get(event.account, ())):
            sink(event)

    # --- sockets --------------------------------------------------------------------------------

    async def shut_down(self) -> None:
        """Tell every socket that the server goes, and close it."""
        for socket in tuple(self.sockets):
            await socket.shut_down()

    def cut(self) -> None:
        """Cut every socket, as a broken network does."""
        for socket in tuple(self.sockets):
            socket.cut()


def _is_first_fill(event: Reported) -> bool:
    return event.execution == "TRADE" and event.order.executed == event.last_quantity
