"""Where agents trade: what they need of the venue, and what they see of one market."""

from __future__ import annotations

from typing import Literal, Protocol

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.units import ONE

Side = Literal["BUY", "SELL"]
Level = tuple[int, int]


class Floor(Protocol):
    """The venue as the background flow uses it."""

    def flow_limit(self, symbol: str, side: Side, price: int, quantity: int) -> int:
        """Place an order that may rest, and return its id."""
        ...

    def flow_market(self, symbol: str, side: Side, quantity: int) -> object:
        """Take at any price."""
        ...

    def flow_cancel(self, symbol: str, order_id: int) -> bool:
        """Take an order back; false where it is gone already."""
        ...


class Sight:
    """One market as its agents see it: the touch, the steps, and what one is worth."""

    __slots__ = ("ask", "bid", "dollars", "floor", "instrument", "reserve", "step", "symbol", "tick")

    def __init__(self, floor: Floor, instrument: Instrument) -> None:
        self.floor = floor
        self.instrument = instrument
        self.symbol = instrument.symbol
        self.tick = instrument.tick or 1
        self.step = instrument.step or 1
        self.bid: Level | None = None
        self.ask: Level | None = None
        self.reserve = 0
        """The price that market makers hold for fair, in units."""
        self.dollars = ONE
        """What one of the quote asset is worth, in units."""

    def down(self, price: int) -> int:
        return price // self.tick * self.tick

    def quantity(self, dollars: float) -> int:
        """How many are worth so much, in whole steps and at least one."""
        per_unit = self.reserve * self.dollars // ONE
        wanted = round(dollars * ONE) * ONE // max(per_unit, 1)
        return max(wanted // self.step, 1) * self.step

    @property
    def mid(self) -> int:
        """The middle of the touch, or what is held for fair while a side is empty."""
        return (self.bid[0] + self.ask[0]) // 2 if self.bid and self.ask else self.reserve
