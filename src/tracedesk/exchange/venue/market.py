"""One symbol while it trades: its book, its stops, its numbers and its recent prices."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from tracedesk.exchange.instruments import Filter
from tracedesk.exchange.units import ONE
from tracedesk.exchange.venue.engine import Engine, Half, Resting
from tracedesk.exchange.venue.events import Level, LevelsChanged, TouchChanged
from tracedesk.exchange.venue.filters import Filters
from tracedesk.exchange.venue.listings import Listing
from tracedesk.exchange.venue.live import Order
from tracedesk.exchange.venue.queue import QueueModel, RecordedLiquidity
from tracedesk.exchange.venue.store import Store
from tracedesk.exchange.venue.triggers import Triggers
from tracedesk.primitives.time import MINUTE, SECOND

FIRST_TRADE: Final = 1_000_000_000
FIRST_UPDATE: Final = 10_000_000_000
_BLOCK: Final = 1_000_000
_REMEMBERED: Final = 60
"""Minutes of prices that are kept for averages."""

Touch = tuple[Level | None, Level | None]


class Numbers:
    """Numbers that only grow, also over a crash: a block of them is reserved before one of it is given."""

    __slots__ = ("_name", "_reserved", "_store", "last")

    def __init__(self, store: Store, name: str, known: Mapping[str, int], first: int = 1) -> None:
        self._store = store
        self._name = name
        self._reserved = known.get(name, first - 1)
        self.last = self._reserved

    def take(self, count: int = 1) -> int:
        """The first of so many new numbers."""
        first, last = self.last + 1, self.last + count
        if last > self._reserved:
            self._store.set_counter(self._name, last + _BLOCK)
            self._reserved = last + _BLOCK
        self.last = last
        return first


class Averages:
    """Traded quantity and amount by second."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds: deque[list[int]] = deque()

    def add(self, ns: int, quantity: int, quote: int) -> None:
        second = ns // SECOND
        seconds = self._seconds
        if seconds and seconds[-1][0] == second:
            seconds[-1][1] += quantity
            seconds[-1][2] += quote
            return
        seconds.append([second, quantity, quote])
        while seconds[0][0] < second - _REMEMBERED * 60:
            seconds.popleft()

    def mean(self, ns: int, minutes: int) -> int | None:
        """The mean price by volume of the last minutes; `None` where nothing traded."""
        since = (ns - minutes * MINUTE) // SECOND
        quantity = amount = 0
        for second, traded, quote in reversed(self._seconds):
            if second < since:
                break
            quantity += traded
            amount += quote
        return amount * ONE // quantity if quantity else None


class Market:
    """A listed symbol and all that changes about it."""

    __slots__ = (
        "averages",
        "engine",
        "filters",
        "flow",
        "last_price",
        "listing",
        "prevented_id",
        "recorded",
        "resting",
        "status",
        "symbol",
        "touch",
        "trades",
        "triggers",
        "updates",
    )

    def __init__(
        self,
        listing: Listing,
        store: Store,
        known: Mapping[str, int],
        exchange_filters: Iterable[Filter],
        asset_limits: Mapping[str, int],
        queue: QueueModel = "risk-averse",
    ) -> None:
        self.listing = listing
        self.symbol = listing.instrument.symbol
        self.status = listing.instrument.status
        self.filters = Filters(listing.instrument, exchange_filters, asset_limits)
        self.engine = Engine()
        self.engine.rank = store.last_rank()
        self.triggers = Triggers()
        self.trades = Numbers(store, f"trade {self.symbol}", known, FIRST_TRADE)
        self.updates = Numbers(store, f"update {self.symbol}", known, FIRST_UPDATE)
        self.prevented_id = store.last_prevented(self.symbol)
        self.averages = Averages()
        self.last_price: int | None = None
        self.touch: Touch = (None, None)
        self.flow: dict[int, Resting] = {}
        """Orders of the background flow in the book."""
        self.recorded = RecordedLiquidity(self.engine, queue)
        """Quantities of a recording that is replayed."""
        self.resting: dict[int, Order] = {}
        """Users' orders in the book."""

    def average(self, ns: int, minutes: int) -> int | None:
        """The mean price of some minutes; the last price for none, or where nothing traded in them."""
        mean = self.averages.mean(ns, minutes) if minutes else None
        return self.last_price if mean is None else mean

    def restore(self, order: Order) -> None:
        """Put a stored order back where it was; orders come in the order of their places."""
        if not order.is_working:
            self.triggers.add(order)
            return
        (self.engine.bids if order.sign > 0 else self.engine.asks).add(order)
        self.resting[order.id] = order

    def crossed(self) -> list[Order]:
        """Users' orders that recorded quantities have crossed, best first."""
        return sorted(filter(self.engine.crosses, self.resting.values()), key=_place)

    def take_crossing(self, order: Order) -> int:
        """Take what crosses an order out of the book and return its quantity."""
        probe = Resting(0, order.sign, order.limit, order.remaining)
        self.engine.take(probe, -order.key)
        return order.remaining - probe.open

    def met_by(self, price: int, sign: int) -> list[Order]:
        """Users' bids (or asks) that a trade at this price would have met, best first."""
        limit = -price if sign > 0 else price
        return sorted(
            (each for each in self.resting.values() if each.sign == sign and each.key <= limit), key=_place
        )

    def quantity_ahead(self, order_id: int) -> int | None:
        """The quantity before a user's order at its price; `None` where it does not rest or has no queue."""
        order = self.resting.get(order_id)
        if order is None or not self.recorded.is_queued:
            return None
        return self.engine.quantity_ahead(order)

    def changes(self, ns: int) -> LevelsChanged | None:
        """The levels that changed since this was last asked."""
        bids, asks = _drain(self.engine.bids), _drain(self.engine.asks)
        count = len(bids) + len(asks)
        if not count:
            return None
        first = self.updates.take(count)
        return LevelsChanged(self.symbol, first, first + count - 1, bids, asks, ns)

    def touched(self, id: int, ns: int) -> TouchChanged | None:
        """The best bid and ask, if they changed since this was last asked."""
        touch = self.engine.touch()
        if touch == self.touch:
            return None
        self.touch = touch
        return TouchChanged(self.symbol, id, touch[0], touch[1], ns)


def _place(order: Order) -> tuple[int, int]:
    return order.key, order.rank


def _drain(half: Half) -> tuple[Level, ...]:
    if not half.touched:
        return ()
    found = tuple([(key if key > 0 else -key, half.quantity(key)) for key in half.touched])
    half.touched.clear()
    return found
