"""Walls: levels far larger than their neighbours that have stood for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracedesk.exchange.analytics.baseline import Usual
from tracedesk.exchange.analytics.exact import real
from tracedesk.exchange.analytics.slippage import Trusted
from tracedesk.exchange.analytics.span import BINARY64, Evidence, Insufficient, Span, known
from tracedesk.exchange.book.book import Book, Level
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.series import Changes
from tracedesk.primitives.time import SECOND

DEPTH: Final = 100
"""Levels of each side that are looked at."""
NEIGHBOURS: Final = 10
"""Levels on either side of one that it is compared with."""
DEVIATIONS: Final = 8.0
PERSISTENCE: Final = 5 * SECOND
_LEAST: Final = 10
_FLOOR: Final = 0.1
"""The least deviation that is believed, as a share of the median."""


@dataclass(frozen=True, slots=True)
class Wall:
    """A level that stands out from those around it."""

    side: Literal["bid", "ask"]
    price: int
    quantity: int
    multiple: float
    """Times the median of its neighbours."""
    deviations: float
    stood_ns: int
    """How long it has been this large, as far as is known."""

    def document(self, instrument: Instrument) -> dict[str, Any]:
        return {
            "side": self.side,
            "price": instrument.price_text(self.price),
            "quantity": instrument.quantity_text(self.quantity),
            "multiple_of_median": self.multiple,
            "robust_deviations": self.deviations,
            "seconds_standing": self.stood_ns / SECOND,
        }


@dataclass(frozen=True, slots=True)
class Walls:
    """The walls of both sides, nearest first."""

    instrument: Instrument
    found: tuple[Wall, ...]
    evidence: Evidence

    def document(self) -> dict[str, Any]:
        return known(self.evidence, walls=[each.document(self.instrument) for each in self.found])


def walls(
    book: Book,
    changes: Changes,
    instrument: Instrument,
    span: Span,
    trusted: Trusted | None = None,
    *,
    deviations: float = DEVIATIONS,
    persistence_ns: int = PERSISTENCE,
) -> Walls | Insufficient:
    """Levels of the best hundred that stand out now and did for `persistence_ns`.

    `changes` are those of the covered window, which must reach to the book's present state.
    """
    method = (
        f"levels >= {deviations:g} robust deviations (MAD) above the median of the {2 * NEIGHBOURS} levels "
        f"around them, for >= {persistence_ns / SECOND:g} s; {BINARY64}"
    )
    bids, asks = (_trusted(side, trusted) for side in book.top(DEPTH))
    have = {"bids": len(bids), "asks": len(asks), "seconds": span.covered.seconds}
    if min(len(bids), len(asks)) < _LEAST or span.covered.to_ns - span.covered.from_ns < persistence_ns:
        needed = {"bids": _LEAST, "asks": _LEAST, "seconds": persistence_ns / SECOND}
        return span.insufficient(method, len(bids) + len(asks), needed, have)
    found = [
        wall
        for sign, side in ((1, bids), (-1, asks))
        for at in range(len(side))
        if (wall := _wall(sign, side, at, changes, span, deviations)) is not None
        and wall.stood_ns >= persistence_ns
    ]
    return Walls(instrument, tuple(found), span.evidence(method, len(bids) + len(asks)))


def _trusted(side: Sequence[Level], trusted: Trusted | None) -> list[Level]:
    if trusted is None:
        return list(side)
    return [level for level in side if trusted[0] <= level[0] <= trusted[1]]


def _wall(
    sign: int,
    side: Sequence[Level],
    at: int,
    changes: Changes,
    span: Span,
    deviations: float,
) -> Wall | None:
    import numpy as np

    price, quantity = side[at]
    around = [*side[max(0, at - NEIGHBOURS) : at], *side[at + 1 : at + 1 + NEIGHBOURS]]
    sizes = np.array([real(size) for _, size in around])
    median = float(np.median(sizes))
    usual = Usual.of(sizes, _FLOOR * median)
    z = usual.z(real(quantity))
    if z < deviations:
        return None
    enough = median + deviations * usual.sigma
    stood = _stood(changes, sign, price, enough, span)
    return Wall("bid" if sign == 1 else "ask", price, quantity, real(quantity) / median, z, stood)


def _stood(changes: Changes, sign: int, price: int, enough: float, span: Span) -> int:
    """Since when a level has had at least `enough`; since the beginning of what is known at most."""
    import numpy as np

    rows = np.flatnonzero((changes.side == sign) & (changes.price == price))
    since = span.covered.from_ns
    for row in rows[::-1].tolist():
        if real(int(changes.before[row])) < enough:
            since = max(since, int(changes.ns[row]))
            break
    return span.covered.to_ns - since
