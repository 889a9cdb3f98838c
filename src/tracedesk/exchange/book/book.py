"""The resting orders of a market, by price: two dictionaries of whole numbers, and the best price of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Level = tuple[int, int]
"""A price and the quantity that rests there, in units."""

_NEAR: Final = 64
"""Levels nearest to the best price that are also kept apart, where the next best is looked for."""
_MANY: Final = 4 * _NEAR
_BEYOND: Final = 2**63
"""Above every price; negative, below every one."""


class Book:
    """Bids and asks.

    The best price is only looked for when it was removed and is asked for, and then among the few levels
    that are near: a look through a whole side would cost as much as a hundred updates.
    """

    __slots__ = (
        "_ask",
        "_best_ask",
        "_best_bid",
        "_bid",
        "_high",
        "_low",
        "_near_asks",
        "_near_bids",
        "asks",
        "bids",
    )

    def __init__(self) -> None:
        self.bids: dict[int, int] = {}
        self.asks: dict[int, int] = {}
        self.clear()

    def clear(self) -> None:
        self.bids.clear()
        self.asks.clear()
        self._near_bids: dict[int, int] = {}
        """The bids from `_low` up."""
        self._near_asks: dict[int, int] = {}
        self._low = -_BEYOND
        self._high = _BEYOND
        self._bid = -_BEYOND
        """No bid is above this; the best one lies here unless it was removed."""
        self._ask = _BEYOND
        self._best_bid: Level | None = None
        """The best bid; None until it is looked for."""
        self._best_ask: Level | None = None

    # --- updates

    def apply(self, bids: Iterable[Level], asks: Iterable[Level]) -> None:
        """Set the quantity of each price; a quantity of 0 removes the level."""
        for price, quantity in bids:
            self.set_bid(price, quantity)
        for price, quantity in asks:
            self.set_ask(price, quantity)

    def set_bid(self, price: int, quantity: int) -> None:
        if quantity:
            self.bids[price] = quantity
            if price >= self._low:
                self._near_bids[price] = quantity
                if price >= self._bid:
                    self._bid = price
                    self._best_bid = (price, quantity)
                elif len(self._near_bids) > _MANY:
                    self._sort_bids()
        else:
            self.bids.pop(price, None)
            if price >= self._low:
                self._near_bids.pop(price, None)
                if price == self._bid:
                    self._best_bid = None

    def set_ask(self, price: int, quantity: int) -> None:
        if quantity:
            self.asks[price] = quantity
            if price <= self._high:
                self._near_asks[price] = quantity
                if price <= self._ask:
                    self._ask = price
                    self._best_ask = (price, quantity)
                elif len(self._near_asks) > _MANY:
                    self._sort_asks()
        else:
            self.asks.pop(price, None)
            if price <= self._high:
                self._near_asks.pop(price, None)
                if price == self._ask:
                    self._best_ask = None

    # --- questions

    def best_bid(self) -> Level | None:
        return self._best_bid or self._find_bid()

    def best_ask(self) -> Level | None:
        return self._best_ask or self._find_ask()

    @property
    def crossed(self) -> bool:
        """Whether someone would buy for at least what another asks, which no open market shows."""
        bid, ask = self.best_bid(), self.best_ask()
        return bid is not None and ask is not None and bid[0] >= ask[0]

    def top(self, levels: int) -> tuple[list[Level], list[Level]]:
        """The best `levels` of each side, best first."""
        bids = self._near_bids if levels <= len(self._near_bids) else self.bids
        asks = self._near_asks if levels <= len(self._near_asks) else self.asks
        return sorted(bids.items(), reverse=True)[:levels], sorted(asks.items())[:levels]

    # --- the best, once it was removed

    def _find_bid(self) -> Level | None:
        if not self.bids:
            return None
        if not self._near_bids:
            self._sort_bids()
        price = self._bid = max(self._near_bids)
        self._best_bid = price, self.bids[price]
        return self._best_bid

    def _find_ask(self) -> Level | None:
        if not self.asks:
            return None
        if not self._near_asks:
            self._sort_asks()
        price = self._ask = min(self._near_asks)
        self._best_ask = price, self.asks[price]
        return self._best_ask

    def _sort_bids(self) -> None:
        near = sorted(self.bids.items())[-_NEAR:]
        self._near_bids = dict(near)
        self._low = near[0][0] if len(near) < len(self.bids) else -_BEYOND

    def _sort_asks(self) -> None:
        near = sorted(self.asks.items())[:_NEAR]
        self._near_asks = dict(near)
        self._high = near[-1][0] if len(near) < len(self.asks) else _BEYOND
