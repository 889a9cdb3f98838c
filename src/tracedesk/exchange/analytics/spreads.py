"""What trading costs: quoted, effective and realised spread, and what illiquidity shows in prints alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from tracedesk.exchange.analytics.exact import total, two_sided
from tracedesk.exchange.analytics.span import BINARY64, Evidence, Insufficient, Span, known
from tracedesk.exchange.series import Prints, Touches
from tracedesk.exchange.units import ONE
from tracedesk.primitives.time import SECOND

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

HORIZON: Final = 5 * SECOND
"""How long after a print the mid is read for the realised spread."""
_BPS: Final = 1e4
_AMIHUD_INTERVALS: Final = 10
_ROLL_PRINTS: Final = 30
_SPREADS: Final = (
    "quoted: time-weighted ask - bid; effective: 2 * side * (price - mid before the print); realised: the "
    f"same with the mid after the horizon; both weighted by quantity; bps of the mid; {BINARY64}"
)
_AMIHUD: Final = f"Amihud 2002: mean of |return| / quote volume over intervals with prints; {BINARY64}"
_ROLL: Final = (
    f"Roll 1984: 2 * sqrt(-cov(dp, dp before)) of print prices; undefined where cov >= 0; {BINARY64}"
)


@dataclass(frozen=True, slots=True)
class Cost:
    """A spread as a price difference and in basis points of the mid."""

    price: float
    bps: float

    def document(self) -> dict[str, float]:
        return {"price": self.price, "bps": self.bps}


@dataclass(frozen=True, slots=True)
class Spreads:
    """The three spreads of a window; realised is None where no print is older than the horizon."""

    quoted: Cost
    effective: Cost | None
    realised: Cost | None
    horizon_ns: int
    prints: int
    evidence: Evidence

    def document(self) -> dict[str, Any]:
        return known(
            self.evidence,
            quoted_spread=self.quoted.document(),
            effective_spread=self.effective.document() if self.effective else None,
            realised_spread=self.realised.document() if self.realised else None,
            horizon_seconds=self.horizon_ns / SECOND,
            trades=self.prints,
        )


def spreads(
    touches: Touches, prints: Prints, span: Span, horizon_ns: int = HORIZON
) -> Spreads | Insufficient:
    """Quoted spread of the window, and what takers paid and makers kept."""
    import numpy as np

    touches = two_sided(touches)
    if len(touches) < 2 or touches.ns[-1] == touches.ns[0]:
        return span.insufficient(_SPREADS, len(touches), {"touches": 2}, {"touches": len(touches)})
    before = np.searchsorted(touches.ns, prints.ns, side="left") - 1
    seen = before >= 0
    judged = seen & (prints.ns + horizon_ns <= span.covered.to_ns)
    after = np.searchsorted(touches.ns, prints.ns + horizon_ns, side="right") - 1
    return Spreads(
        _quoted(touches),
        _paid(touches, prints, before, before, seen),
        _paid(touches, prints, after, before, judged),
        horizon_ns,
        int(seen.sum()),
        span.evidence(_SPREADS, len(touches) + int(seen.sum())),
    )


def _quoted(touches: Touches) -> Cost:
    import numpy as np

    # The last touch stands for no known time, so it weighs nothing.
    held = np.diff(touches.ns).astype(np.float64)
    gap = (touches.ask - touches.bid)[:-1] / ONE
    mid = (touches.ask + touches.bid)[:-1] / (2.0 * ONE)
    return Cost(float(np.average(gap, weights=held)), float(np.average(gap / mid * _BPS, weights=held)))


def _paid(
    touches: Touches,
    prints: Prints,
    at: NDArray[np.int64],
    base: NDArray[np.int64],
    chosen: NDArray[np.bool_],
) -> Cost | None:
    """Twice the signed distance of prints from the mid `at` a touch, in bps of the mid at `base`."""
    import numpy as np

    if not prints.quantity[chosen].any():
        return None
    doubled = touches.ask + touches.bid
    side = 1 - 2 * prints.maker[chosen]
    gap = side * (2 * prints.price[chosen] - doubled[at[chosen]]) / ONE
    mid = doubled[base[chosen]] / (2.0 * ONE)
    weight = prints.quantity[chosen].astype(np.float64)
    return Cost(float(np.average(gap, weights=weight)), float(np.average(gap / mid * _BPS, weights=weight)))


# --- from prints alone


@dataclass(frozen=True, slots=True)
class Illiquidity:
    """Amihud's measure: relative price change for one million of the quote asset."""

    per_million: float
    intervals: int
    interval_ns: int
    evidence: Evidence

    def document(self) -> dict[str, Any]:
        return known(
            self.evidence,
            amihud_per_million=self.per_million,
            n=self.intervals,
            interval_seconds=self.interval_ns / SECOND,
        )


def amihud(prints: Prints, span: Span, interval_ns: int = SECOND) -> Illiquidity | Insufficient:
    """Mean ratio of absolute return to quote volume; returns go from last print to last print."""
    closes, volumes = _closes(prints, interval_ns)
    if len(closes) < _AMIHUD_INTERVALS + 1:
        have = {"intervals": max(0, len(closes) - 1)}
        return span.insufficient(_AMIHUD, len(prints), {"intervals": _AMIHUD_INTERVALS}, have)
    returns = [abs(late / early - 1.0) for early, late in pairwise(closes)]
    ratios = [change / (volume / ONE**2) for change, volume in zip(returns, volumes[1:], strict=True)]
    value = 1e6 * sum(ratios) / len(ratios)
    return Illiquidity(value, len(ratios), interval_ns, span.evidence(_AMIHUD, len(prints)))


def _closes(prints: Prints, interval_ns: int) -> tuple[list[int], list[int]]:
    """Last price and quote volume (1e-16) of each interval that has prints."""
    closes: dict[int, int] = {}
    volumes: dict[int, int] = {}
    rows = zip(prints.ns.tolist(), prints.price.tolist(), prints.quantity.tolist(), strict=True)
    for ns, price, quantity in rows:
        if not quantity:
            continue
        at = ns // interval_ns
        closes[at] = price
        volumes[at] = volumes.get(at, 0) + price * quantity
    return list(closes.values()), list(volumes.values())


@dataclass(frozen=True, slots=True)
class ImpliedSpread:
    """Roll's spread; None where successive price changes do not reverse."""

    price: float | None
    covariance: float
    evidence: Evidence

    def document(self) -> dict[str, Any]:
        return known(self.evidence, roll_spread=self.price, covariance=self.covariance)


def roll(prints: Prints, span: Span) -> ImpliedSpread | Insufficient:
    """The spread that the bounce of print prices implies."""
    if len(prints) < _ROLL_PRINTS:
        return span.insufficient(_ROLL, len(prints), {"prints": _ROLL_PRINTS}, {"prints": len(prints)})
    moves = prints.price[1:] - prints.price[:-1]
    late, early = moves[1:], moves[:-1]
    count = len(late)
    # The product of sums is exact; only the covariance itself is rounded.
    products = sum(a * b for a, b in zip(late.tolist(), early.tolist(), strict=True))
    covariance = (products * count - total(late) * total(early)) / (count * (count - 1) * ONE**2)
    price = 2.0 * sqrt(-covariance) if covariance < 0 else None
    return ImpliedSpread(price, covariance, span.evidence(_ROLL, len(prints)))
