"""The deep book: over a thousand small orders a side behind the market makers' rings, seldom moved.

Binance shows 1,000 to 5,000 levels a side. In its recordings of BTCUSDT and ETHUSDT of 8 August 2024 the
levels from the 300th on are worth 70 dollars in the median, with a deviation of the logarithm of 2.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from tracedesk.exchange.local.flow.character import Character
from tracedesk.exchange.local.flow.floor import Side, Sight
from tracedesk.exchange.venue.events import Traded

STEPS: Final = 1_100
"""Orders a side; some stand at one price with a ring's."""
_NEAREST: Final = 40
_FURTHEST: Final = 300
"""Distances from the fair price in 1e-4 of it; a coarse tick takes the ladder further out."""
_WORTH: Final = 70.0
_SPREAD: Final = 2.8
_MOST: Final = 1_000.0
"""How many times the median an order is worth at most."""
_MOVED: Final = 0.02
"""Orders that move per order that market makers move."""
_SOUND: Final = 8
"""Steps in a row that stand on their own side, after which the rest is taken to."""
_HASTENED: Final = 4
"""Steps of a side that move at once when the fair price has passed them: a jump is no burst of messages."""
_BASIS: Final = 10_000


@dataclass(slots=True)
class Step:
    """A place for one order."""

    side: Side
    number: int
    order: int = 0
    price: int = 0
    left: int = 0


class Ladder:
    """The deep orders of one symbol, each at a price of its own; they have a chance of their own."""

    def __init__(self, sight: Sight, character: Character, random: Random) -> None:
        self._sight = sight
        self._worth = _WORTH * character.size
        self._random = random
        self._sides = [[Step(side, n) for n in range(STEPS)] for side in ("BUY", "SELL")]
        self._taken: dict[int, Step] = {}
        self._by_order: dict[int, Step] = {}
        self._gone: list[Step] = []
        """Steps whose order was filled: it is placed anew once the taking order is done."""

    def open(self) -> None:
        """Lay out all orders, from the outside in."""
        for side in self._sides:
            for step in reversed(side):
                self._place(step)

    def move_some(self) -> None:
        """Move an order now and then; called for each order that market makers move."""
        if self._random.random() < _MOVED:
            side = self._sides[int(self._random.random() * 2)]
            self._move(side[int(self._random.random() * STEPS)])

    def reprice(self) -> None:
        """The fair price moved: a few orders that stand on its wrong side are placed anew."""
        for side in self._sides:
            sound = moved = 0
            for step in side:
                if self._is_sound(step):
                    sound += 1
                else:
                    sound, moved = 0, moved + 1
                    self._move(step)
                if sound == _SOUND or moved == _HASTENED:
                    break

    def refill(self) -> None:
        """Place orders that were filled anew."""
        gone, self._gone = self._gone, []
        for step in gone:
            if not step.order:
                self._place(step)

    def filled(self, event: Traded) -> None:
        """A trade was made: it may have filled an order."""
        order = event.buyer_order_id if event.buyer_is_maker else event.seller_order_id
        step = self._by_order.get(order)
        if step is None:
            return
        step.left -= event.quantity
        if step.left <= 0:
            self._forget(step)
            self._gone.append(step)

    def _is_sound(self, step: Step) -> bool:
        reserve = self._sight.reserve
        return step.price <= reserve if step.side == "BUY" else step.price >= reserve

    def _move(self, step: Step) -> None:
        if step.order:
            self._sight.floor.flow_cancel(self._sight.symbol, step.order)
            self._forget(step)
        self._place(step)

    def _forget(self, step: Step) -> None:
        self._by_order.pop(step.order, None)
        self._taken.pop(step.price, None)
        step.order = 0

    def _place(self, step: Step) -> None:
        """Put an order to its step, or beyond it where another one stands."""
        sight, outwards = self._sight, -1 if step.side == "BUY" else 1
        price = self._price(step, outwards)
        while price in self._taken:
            price += outwards * sight.tick
        if price <= 0:
            return
        times = min(self._random.lognormvariate(0.0, _SPREAD), _MOST)
        step.price = price
        step.left = sight.quantity(self._worth * times)
        step.order = sight.floor.flow_limit(sight.symbol, step.side, price, step.left)
        self._taken[price] = self._by_order[step.order] = step

    def _price(self, step: Step, outwards: int) -> int:
        """A price in the step's stretch of the ladder."""
        sight = self._sight
        reach = sight.reserve * (_FURTHEST - _NEAREST) // _BASIS
        stretch = max(reach // STEPS, sight.tick)
        away = sight.reserve * _NEAREST // _BASIS + step.number * stretch
        away += int(self._random.random() * stretch)
        return sight.down(sight.reserve + outwards * away)
