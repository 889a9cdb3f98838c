"""The touch and what rests behind it: imbalance, weighted mid, and the figures of level 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import exp
from typing import Any, Final

from tracedesk.exchange.analytics import slippage
from tracedesk.exchange.analytics.exact import ratio
from tracedesk.exchange.analytics.slippage import Slippage, Trusted
from tracedesk.exchange.analytics.span import BINARY64
from tracedesk.exchange.book.book import Book, Level
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.series import Touches
from tracedesk.exchange.units import ONE, SCALE
from tracedesk.primitives import money

TOP: Final = 20
"""Levels of each side that the imbalance behind the touch takes in."""
REACH_BPS: Final = 5.0
"""The distance from the mid at which a quantity counts 1/e in the weighted imbalance."""
_METHOD: Final = (
    "imbalance = (bids - asks) / (bids + asks) at the touch, over the best 20 levels, and weighted by "
    "exp(-distance from mid / 5 bps); weighted mid = (bid * ask size + ask * bid size) / (sizes); "
    f"spread in bps of the mid; slippage of the average price against the mid; {BINARY64}"
)


def imbalance(book: Book, levels: int = 1) -> float | None:
    """(bids - asks) / (bids + asks) of the best levels, in [-1, 1]; None for a book with an empty side."""
    bids, asks = book.top(levels)
    if not bids or not asks:
        return None
    bought, sold = _quantity(bids), _quantity(asks)
    return ratio(bought - sold, bought + sold)


def weighted_imbalance(book: Book, levels: int = TOP, reach_bps: float = REACH_BPS) -> float | None:
    """The imbalance of the best levels, each counting less the farther it lies from the mid."""
    bids, asks = book.top(levels)
    if not bids or not asks:
        return None
    doubled = bids[0][0] + asks[0][0]
    bought, sold = (_nearness(side, doubled, reach_bps) for side in (bids, asks))
    # A book that lies too far from its own mid to count at all leans nowhere.
    return (bought - sold) / (bought + sold) if bought + sold else 0.0


def weighted_mid(book: Book) -> float | None:
    """The mid drawn towards the side with less resting, from the sizes at the touch."""
    bid, ask = book.best_bid(), book.best_ask()
    return None if bid is None or ask is None else _between(*bid, *ask)


def weighted_mids(touches: Touches) -> list[float]:
    """The weighted mid of each touch; touches with nothing on both sides cannot be."""
    columns = (touches.bid, touches.bid_quantity, touches.ask, touches.ask_quantity)
    return [_between(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _between(bid: int, bid_quantity: int, ask: int, ask_quantity: int) -> float:
    return (bid * ask_quantity + ask * bid_quantity) / ((bid_quantity + ask_quantity) * ONE)


def _quantity(levels: Sequence[Level]) -> int:
    return sum(quantity for _, quantity in levels)


def _nearness(levels: Sequence[Level], doubled_mid: int, reach_bps: float) -> float:
    weights = (exp(-abs(2 * price - doubled_mid) / doubled_mid * 1e4 / reach_bps) for price, _ in levels)
    return sum(weight * quantity for weight, (_, quantity) in zip(weights, levels, strict=True))


# --- level 1


@dataclass(frozen=True, slots=True)
class TopOfBook:
    """Best bid and ask with what follows from them."""

    instrument: Instrument
    bid: Level
    ask: Level
    weighted_mid: float
    imbalance: float
    imbalance_top: float
    imbalance_weighted: float
    bid_depth: int
    ask_depth: int
    slippage: tuple[Slippage, ...]

    @property
    def mid(self) -> Decimal:
        """The exact mid; half a unit needs one more place."""
        return money.trim(money.from_units((self.bid[0] + self.ask[0]) * 5, SCALE + 1))

    @property
    def spread_bps(self) -> float:
        return 1e4 * ratio(2 * (self.ask[0] - self.bid[0]), self.ask[0] + self.bid[0])

    def document(self) -> dict[str, Any]:
        shown = self.instrument
        return {
            "status": "ok",
            "symbol": shown.symbol,
            "best_bid": shown.price_text(self.bid[0]),
            "best_bid_size": shown.quantity_text(self.bid[1]),
            "best_ask": shown.price_text(self.ask[0]),
            "best_ask_size": shown.quantity_text(self.ask[1]),
            "mid_price": money.to_text(self.mid),
            "spread": shown.price_text(self.ask[0] - self.bid[0]),
            "spread_bps": self.spread_bps,
            "weighted_mid": self.weighted_mid,
            "imbalance": self.imbalance,
            "imbalance_top20": self.imbalance_top,
            "imbalance_weighted": self.imbalance_weighted,
            "bid_volume": shown.quantity_text(self.bid_depth),
            "ask_volume": shown.quantity_text(self.ask_depth),
            "slippage": [each.figures() for each in self.slippage],
            "method": _METHOD,
        }


@dataclass(frozen=True, slots=True)
class NoTouch:
    """A book without a bid or without an ask."""

    symbol: str
    bids: int
    asks: int

    def document(self) -> dict[str, Any]:
        have = {"bids": self.bids, "asks": self.asks}
        return {
            "status": "insufficient_data",
            "symbol": self.symbol,
            "needed": {"bids": 1, "asks": 1},
            "have": have,
            "method": _METHOD,
        }


def top_of_book(book: Book, instrument: Instrument, trusted: Trusted | None = None) -> TopOfBook | NoTouch:
    """The figures of level 1, and what the customary sizes would cost."""
    bids, asks = book.top(TOP)
    if not bids or not asks:
        return NoTouch(instrument.symbol, len(bids), len(asks))
    return TopOfBook(
        instrument,
        bids[0],
        asks[0],
        weighted_mid=_between(*bids[0], *asks[0]),
        imbalance=imbalance(book) or 0.0,
        imbalance_top=imbalance(book, TOP) or 0.0,
        imbalance_weighted=weighted_imbalance(book) or 0.0,
        bid_depth=_quantity(bids),
        ask_depth=_quantity(asks),
        slippage=tuple(slippage.estimates(book, trusted)),
    )
