"""A market fed by hand, and what its streams say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.local.market import Markets, Message
from tracedesk.exchange.local.market.prints import Print
from tracedesk.exchange.units import units
from tracedesk.exchange.venue import listings
from tracedesk.primitives.time import MILLISECOND, SECOND, ManualClock

START: Final = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z, a Thursday."""
INSTRUMENT: Final[Instrument] = listings.default()[0].instrument


class Bench:
    """BTCUSDT alone, on a clock that is moved by hand."""

    def __init__(self, start_ns: int = START) -> None:
        self.clock = ManualClock(start_ns)
        self.markets = Markets([INSTRUMENT], self.clock)
        self.market = self.markets.of("BTCUSDT")
        self.said: list[Message] = []
        self._trade = 0

    def listen(self, *streams: str) -> None:
        for stream in streams:
            self.markets.subscribe(stream, self.said.append)

    def trade(self, price: str, quantity: str, *, sold: bool = False, taker: int | None = None) -> Print:
        """A trade now; `sold` says that the seller took."""
        self._trade += 1
        made = Print(self._trade, units(price), units(quantity), self.clock.now_ns(), sold, taker)
        self.market.traded(made)
        return made

    def levels(self, first: int, last: int, bids: Iterable[str] = (), asks: Iterable[str] = ()) -> None:
        """Levels written as `price@quantity`."""
        self.market.levels(first, last, [level(text) for text in bids], [level(text) for text in asks])

    def advance(self, seconds: float) -> None:
        """Let time pass in steps of 100 ms, publishing what falls due."""
        for _ in range(round(seconds * 10)):
            self.clock.advance(ns=100 * MILLISECOND)
            self.markets.pulse(self.clock.now_ns())

    def data(self, stream: str) -> list[Any]:
        return [message.data() for message in self.said if message.stream == stream]


def level(text: str) -> tuple[int, int]:
    price, _, quantity = text.partition("@")
    return units(price), units(quantity)
