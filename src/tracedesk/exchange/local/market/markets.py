"""The data of all markets: where events of the venue go in and streams come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.local.market import windows
from tracedesk.exchange.local.market.channels import WINDOWS, UnknownStream, split
from tracedesk.exchange.local.market.intervals import DAY
from tracedesk.exchange.local.market.market import SLOW_NS, MarketData, after
from tracedesk.exchange.local.market.messages import Message, Sink, Unit
from tracedesk.exchange.local.market.prints import Print
from tracedesk.exchange.venue.events import Event, LevelsChanged, TouchChanged, Traded
from tracedesk.primitives.time import Clock

MINIS: Final = ("!miniTicker@arr", "!miniTicker@arr@1000ms")
"""The second name is the first one with its speed, which clients append."""
_ROLLING: Final = {f"!ticker_{name}@arr": name for name in WINDOWS}


class Markets:
    """The public data of an exchange."""

    def __init__(self, instruments: Iterable[Instrument], clock: Clock) -> None:
        self._markets = {each.symbol: MarketData(each, clock) for each in instruments}
        self._arrays: dict[str, list[Sink]] = {}
        self._told: dict[tuple[str, str], int] = {}
        self._slow_at = after(clock.now_ns(), SLOW_NS)

    def __iter__(self) -> Iterator[MarketData]:
        return iter(self._markets.values())

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(self._markets)

    def of(self, symbol: str) -> MarketData:
        """The market of a symbol; `KeyError` where there is none."""
        return self._markets[symbol]

    def hear(self, event: Event) -> None:
        """Take an event of the venue; those of accounts are not for the public."""
        if isinstance(event, LevelsChanged):
            self._markets[event.symbol].levels(event.first_id, event.last_id, event.bids, event.asks)
        elif isinstance(event, TouchChanged):
            self._markets[event.symbol].touch(event.id, event.bid, event.ask)
        elif isinstance(event, Traded):
            self._markets[event.symbol].traded(_print(event))

    def pulse(self, now_ns: int) -> None:
        """Publish what falls due by now."""
        for market in self._markets.values():
            market.pulse(now_ns)
        if now_ns >= self._slow_at:
            self._slow_at = after(now_ns, SLOW_NS)
            for name in tuple(self._arrays):
                self._tell_array(name, now_ns)

    def subscribe(self, name: str, sink: Sink) -> Callable[[], None]:
        """Send a stream to a sink until the returned function is called."""
        if name in MINIS or name in _ROLLING:
            return self._subscribe_array(name, sink)
        symbol, channel = split(name)
        market = self._markets.get(symbol)
        if market is None:
            raise UnknownStream(name)
        return market.subscribers.add(name.partition("@")[2], channel, sink)

    def _subscribe_array(self, name: str, sink: Sink) -> Callable[[], None]:
        sinks = self._arrays.setdefault(name, [])
        sinks.append(sink)

        def remove() -> None:
            if sink in sinks:
                sinks.remove(sink)

        return remove

    def _tell_array(self, name: str, ns: int) -> None:
        builds = [build for market in self._markets.values() if (build := self._figure(name, market, ns))]
        if not builds:
            return
        message = Message(name, lambda unit: [build(unit) for build in builds])
        for sink in tuple(self._arrays[name]):
            sink(message)

    def _figure(self, name: str, market: MarketData, ns: int) -> Callable[[Unit], Any] | None:
        """What an array says of a market, where anything is new."""
        key = (name, market.symbol)
        if self._told.get(key) == market.news:
            return None
        self._told[key] = market.news
        window_name = _ROLLING.get(name)
        window = market.window(DAY if window_name is None else WINDOWS[window_name], ns)
        if window_name is None:
            return lambda unit: windows.mini_event(window, unit)
        return lambda unit: windows.rolling_event(window, window_name, unit)


def _print(event: Traded) -> Print:
    taker = event.seller_order_id if event.buyer_is_maker else event.buyer_order_id
    return Print(event.id, event.price, event.quantity, event.ns, event.buyer_is_maker, taker)
