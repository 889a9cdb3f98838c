"""Market makers: rings of resting orders around the price they hold for fair, moved again and again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Final

from tracedesk.exchange.local.flow.character import RINGS, Character, Ring
from tracedesk.exchange.local.flow.floor import Side, Sight
from tracedesk.exchange.venue.events import Traded

HURRY: Final = (0.02, 0.35)
"""Seconds within which an order that was overtaken or filled is moved."""
_NS: Final = 1_000_000_000
_BASIS: Final = 10_000


@dataclass(slots=True)
class Quote:
    """A place for one order on one side."""

    side: Side
    ring: Ring
    order: int = 0
    """The order that rests, 0 for none."""
    price: int = 0
    left: int = 0
    urgent: bool = False
    """Whether it waits to be moved soon."""


class Makers:
    """All market makers of one symbol."""

    def __init__(self, sight: Sight, character: Character, random: Random) -> None:
        self._sight = sight
        self._character = character
        self._random = random
        self._rings: list[list[Quote]] = [
            [Quote(side, ring) for side in ("BUY", "SELL") for _ in range(ring.orders)] for ring in RINGS
        ]
        self._shares = [ring.share for ring in RINGS]
        self._by_order: dict[int, Quote] = {}
        self._urgent: deque[tuple[int, Quote]] = deque()

    def open(self) -> None:
        """Lay out the whole book, from the outside in."""
        for ring in reversed(self._rings):
            for quote in ring:
                self._place(quote)

    def move_one(self) -> None:
        """Move an order somewhere in its ring."""
        ring = self._random.choices(self._rings, self._shares)[0]
        self._move(ring[int(self._random.random() * len(ring))])

    def reprice(self, now_ns: int) -> None:
        """The fair price moved: orders on its wrong side are in danger, those at the touch out of place."""
        reserve = self._sight.reserve
        for quote in self._rings[0]:
            self._hasten(quote, now_ns)
        for ring in self._rings[1:3]:
            for quote in ring:
                if quote.order and (quote.price > reserve if quote.side == "BUY" else quote.price < reserve):
                    self._hasten(quote, now_ns)

    def due(self) -> int | None:
        """When the next hurried move is to be made."""
        return self._urgent[0][0] if self._urgent else None

    def move_urgent(self, now_ns: int) -> None:
        while self._urgent and self._urgent[0][0] <= now_ns:
            _, quote = self._urgent.popleft()
            quote.urgent = False
            self._move(quote)

    def shift(self, ns: int) -> None:
        """Put all hurried moves off by so much."""
        self._urgent = deque((due + ns, quote) for due, quote in self._urgent)

    def filled(self, event: Traded, now_ns: int) -> None:
        """A trade was made: where it filled a quote, a new one follows soon."""
        order = event.buyer_order_id if event.buyer_is_maker else event.seller_order_id
        quote = self._by_order.get(order)
        if quote is None:
            return
        quote.left -= event.quantity
        if quote.left <= 0:
            del self._by_order[order]
            quote.order = 0
            self._hasten(quote, now_ns)

    def _hasten(self, quote: Quote, now_ns: int) -> None:
        if quote.urgent:
            return
        quote.urgent = True
        low, high = HURRY
        due = now_ns + int((low + (high - low) * self._random.random() ** 2) * _NS)
        at = len(self._urgent)
        while at and self._urgent[at - 1][0] > due:
            at -= 1
        self._urgent.insert(at, (due, quote))

    def _move(self, quote: Quote) -> None:
        if quote.order:
            self._by_order.pop(quote.order, None)
            self._sight.floor.flow_cancel(self._sight.symbol, quote.order)
            quote.order = 0
        self._place(quote)

    def _place(self, quote: Quote) -> None:
        price = self._price(quote)
        ring = quote.ring
        times = min(self._random.lognormvariate(0.0, ring.spread), ring.most)
        quantity = self._sight.quantity(ring.size * self._character.size * times)
        if price <= 0:
            return
        quote.price, quote.left = price, quantity
        quote.order = self._sight.floor.flow_limit(self._sight.symbol, quote.side, price, quantity)
        self._by_order[quote.order] = quote

    def _price(self, quote: Quote) -> int:
        """A price in the quote's ring that does not cross the other side."""
        sight = self._sight
        away = int(self._distance(quote.ring) * sight.reserve / _BASIS)
        fair = sight.down(sight.reserve)
        if quote.side == "BUY":
            price = sight.down(fair - away)
            return min(price, sight.ask[0] - sight.tick) if sight.ask else price
        price = sight.down(fair + sight.tick + away)
        return max(price, sight.bid[0] + sight.tick) if sight.bid else price

    def _distance(self, ring: Ring) -> float:
        if ring.steep:
            return ring.nearest + self._random.expovariate(2.0 / (ring.nearest + ring.furthest))
        return ring.nearest + (ring.furthest - ring.nearest) * self._random.random()
