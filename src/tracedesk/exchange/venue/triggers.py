"""Stops that wait for a price, and trailing stops that follow it."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final

from tracedesk.exchange.venue.live import Order

_WHOLE: Final = 10_000
"""Basis points in one."""


def rises(order: Order) -> bool:
    """Whether the stop price lies above the market: it is met by a price at or over it."""
    is_stop = order.asked.type in ("STOP_LOSS", "STOP_LOSS_LIMIT")
    return is_stop == (order.sign > 0)


def is_met(order: Order, price: int) -> bool:
    stop = order.asked.stop_price or 0
    return price >= stop if rises(order) else price <= stop


class Triggers:
    """The waiting orders of one symbol; `observe` each trade, and take what it set off from `fired`."""

    __slots__ = ("_falling", "_following", "_gone", "_rising", "fired")

    def __init__(self) -> None:
        self.fired: deque[Order] = deque()
        # Orders that were cancelled stay in the heaps until they are half of them, or a price reaches them.
        self._gone: set[int] = set()
        self._rising: list[tuple[int, int, Order]] = []
        self._falling: list[tuple[int, int, Order]] = []
        self._following: dict[int, Order] = {}

    @property
    def is_armed(self) -> bool:
        return bool(self._following) or len(self._rising) + len(self._falling) > len(self._gone)

    def add(self, order: Order) -> None:
        stop = order.asked.stop_price or 0
        if order.asked.trailing_delta is not None:
            self._following[order.id] = order
        elif rises(order):
            heappush(self._rising, (stop, order.id, order))
        else:
            heappush(self._falling, (-stop, order.id, order))

    def discard(self, order: Order) -> None:
        """Forget an order that was cancelled."""
        if self._following.pop(order.id, None) is None:
            self._gone.add(order.id)
            if 2 * len(self._gone) >= len(self._rising) + len(self._falling):
                self._sweep()

    def _sweep(self) -> None:
        for heap in (self._rising, self._falling):
            heap[:] = [each for each in heap if each[1] not in self._gone]
            heapify(heap)
        self._gone.clear()

    def observe(self, price: int, ns: int) -> list[Order]:
        """Fire what a trade at this price sets off; the trailing orders it moved."""
        while self._rising and self._rising[0][0] <= price:
            self._fire(heappop(self._rising)[2])
        while self._falling and -self._falling[0][0] >= price:
            self._fire(heappop(self._falling)[2])
        return [order for order in tuple(self._following.values()) if self._follow(order, price, ns)]

    def _fire(self, order: Order) -> None:
        self._gone.discard(order.id)
        if order.is_open:
            self.fired.append(order)

    def _follow(self, order: Order, price: int, ns: int) -> bool:
        """Let a trailing order see a price; whether it changed by it."""
        if not order.extreme:
            if order.asked.stop_price and not is_met(order, price):
                return False
            order.extreme, order.trailing_ns = price, ns
            return True
        delta = order.asked.trailing_delta or 0
        if order.sign > 0:
            moved, fires = price < order.extreme, price * _WHOLE >= order.extreme * (_WHOLE + delta)
        else:
            moved, fires = price > order.extreme, price * _WHOLE <= order.extreme * (_WHOLE - delta)
        if moved:
            order.extreme = price
        elif fires:
            del self._following[order.id]
            self._fire(order)
        return moved
