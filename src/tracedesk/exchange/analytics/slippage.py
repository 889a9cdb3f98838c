"""What a market order of a size would cost in the book as it stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from tracedesk.exchange.analytics.exact import quotient, shown
from tracedesk.exchange.book.book import Book, Level
from tracedesk.exchange.units import ONE
from tracedesk.primitives import money

Side = Literal["BUY", "SELL"]
Trusted = tuple[int, int]

SIZES: Final = (10_000 * ONE, 25_000 * ONE, 50_000 * ONE)
"""Quote amounts that a look at the touch estimates."""
_METHOD: Final = (
    "walk the resting levels best first within the trusted prices; average price exact, half-even at 14 "
    "places; bps against the mid in binary64"
)


@dataclass(frozen=True, slots=True)
class Slippage:
    """The fill that the book would give now; less than asked where its depth does not suffice."""

    side: Side
    quote: int | None
    """The amount of quote asset asked for, in units; None where a quantity was."""
    quantity: int | None
    filled: int
    value: int
    """Price times quantity of what was filled, in units of 1e-16."""
    worst: int | None
    doubled_mid: int | None
    levels: int
    insufficient_depth: bool

    @property
    def average(self) -> Decimal | None:
        return quotient(self.value, self.filled) if self.filled else None

    @property
    def bps(self) -> float | None:
        """How much worse than the mid the average is."""
        if not self.filled or not self.doubled_mid:
            return None
        sign = 1 if self.side == "BUY" else -1
        # average/mid - 1 as one quotient of whole numbers.
        par = self.doubled_mid * self.filled
        return sign * 1e4 * ((2 * self.value - par) / par)

    def document(self) -> dict[str, Any]:
        return {**self.figures(), "method": _METHOD}

    def figures(self) -> dict[str, Any]:
        asked = {"quote": self.quote, "quantity": self.quantity}
        return {
            "side": self.side,
            **{f"target_{name}": shown(size) for name, size in asked.items() if size is not None},
            "filled_quantity": shown(self.filled),
            "filled_quote": money.to_text(quotient(self.value, ONE)),
            "average_price": None if self.average is None else money.to_text(self.average),
            "worst_price": None if self.worst is None else shown(self.worst),
            "slippage_bps": self.bps,
            "levels": self.levels,
            "insufficient_depth": self.insufficient_depth,
        }


def slippage(
    book: Book,
    side: Side,
    *,
    quote: int | None = None,
    quantity: int | None = None,
    trusted: Trusted | None = None,
) -> Slippage:
    """Walk the other side for an amount of quote asset or a quantity, both in units."""
    if (quote is None) == (quantity is None):
        raise ValueError("give either quote or quantity")
    levels = _within(_facing(book, side), trusted)
    budget = None if quote is None else quote * ONE
    filled, value, worst, used, missing = _walk(levels, budget, quantity)
    return Slippage(side, quote, quantity, filled, value, worst, _doubled_mid(book), used, missing)


def estimates(book: Book, trusted: Trusted | None = None) -> list[Slippage]:
    """Both sides for the customary amounts."""
    sides: tuple[Side, Side] = ("BUY", "SELL")
    return [slippage(book, side, quote=size, trusted=trusted) for side in sides for size in SIZES]


def _facing(book: Book, side: Side) -> list[Level]:
    """The levels that an order of `side` would meet, best first; what has no price is no offer."""
    levels = sorted(book.asks.items()) if side == "BUY" else sorted(book.bids.items(), reverse=True)
    return [level for level in levels if level[0] > 0]


def _within(levels: Iterable[Level], trusted: Trusted | None) -> Iterable[Level]:
    if trusted is None:
        return levels
    low, high = trusted
    return (level for level in levels if low <= level[0] <= high)


def _walk(
    levels: Iterable[Level], budget: int | None, wanted: int | None
) -> tuple[int, int, int | None, int, bool]:
    """Quantity, value, last price, levels used, and whether the levels ran out."""
    filled = value = used = 0
    worst: int | None = None
    for price, size in levels:
        whole = wanted - filled if wanted is not None else ((budget or 0) - value) // price
        take = min(size, whole)
        if take > 0:
            filled, value, worst, used = filled + take, value + take * price, price, used + 1
        if take == whole:
            return filled, value, worst, used, False
    return filled, value, worst, used, True


def _doubled_mid(book: Book) -> int | None:
    bid, ask = book.best_bid(), book.best_ask()
    return None if bid is None or ask is None else bid[0] + ask[0]
