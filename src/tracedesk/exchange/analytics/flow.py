"""Who presses: order flow imbalance, toxicity, price impact, and a summary of a window."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

from tracedesk.exchange.analytics.exact import addable, ratio, real, shown, total, two_sided
from tracedesk.exchange.analytics.span import BINARY64, Evidence, Insufficient, Span, known
from tracedesk.exchange.series import Prints, Touches
from tracedesk.exchange.units import ONE
from tracedesk.primitives.time import SECOND

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tracedesk.exchange.series import Column

Direction = Literal["StrongBuy", "ModerateBuy", "Neutral", "ModerateSell", "StrongSell"]

BUCKETS: Final = 50
"""Equal-volume buckets of a VPIN unless told."""
_KYLE_INTERVALS: Final = 30
_OFI: Final = "Cont, Kukanov, Stoikov 2014: sum over every change of the touch; base units; exact"
_VPIN: Final = f"Easley, Lopez de Prado, O'Hara 2012: equal-volume buckets, aggressor as printed; {BINARY64}"
_KYLE: Final = (
    f"OLS with intercept of the change of the mid on signed volume per interval, classical SE; {BINARY64}"
)
_SUMMARY: Final = (
    "flow rates count changes of the touch by the sign of their OFI term (bid raised or enlarged, ask "
    "lifted or reduced = bid flow); direction by bid/ask ratio: > 2, 1.2-2, 0.8-1.2, 0.5-0.8, < 0.5; "
    f"delta = aggressive buys - sells; {BINARY64}"
)


# --- order flow imbalance


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Order flow imbalance of a window, in units of the base asset."""

    quantity: int
    evidence: Evidence

    def document(self) -> dict[str, Any]:
        return known(self.evidence, ofi=shown(self.quantity))


def contributions(touches: Touches) -> Column:
    """What each change of the touch adds to the imbalance; one row fewer than the touches."""
    bid, ask = touches.bid, touches.ask
    raised, lowered = bid[1:] >= bid[:-1], bid[1:] <= bid[:-1]
    offered, lifted = ask[1:] <= ask[:-1], ask[1:] >= ask[:-1]
    bids, asks = addable(touches.bid_quantity), addable(touches.ask_quantity)
    return raised * bids[1:] - lowered * bids[:-1] - offered * asks[1:] + lifted * asks[:-1]


def ofi(touches: Touches, span: Span) -> Imbalance | Insufficient:
    """The order flow imbalance of the window."""
    touches = two_sided(touches)
    if len(touches) < 2:
        return span.insufficient(_OFI, len(touches), {"touches": 2}, {"touches": len(touches)})
    return Imbalance(total(contributions(touches)), span.evidence(_OFI, len(touches) - 1))


# --- toxicity


@dataclass(frozen=True, slots=True)
class Toxicity:
    """Volume-synchronised probability of informed trading."""

    value: float
    buckets: int
    bucket_volume: int
    evidence: Evidence

    def document(self) -> dict[str, Any]:
        return known(
            self.evidence, vpin=self.value, buckets=self.buckets, bucket_volume=shown(self.bucket_volume)
        )


def signed(prints: Prints) -> Column:
    """Quantities, negative where the seller was the aggressor."""
    return prints.quantity * (1 - 2 * prints.maker)


def bucket_imbalances(quantities: Sequence[int], signs: Sequence[int], volume: int) -> list[int]:
    """|buys - sells| of each full bucket of `volume`; a print that fills one goes on in the next."""
    filled = list(accumulate(quantities))
    pressed = list(accumulate(q * s for q, s in zip(quantities, signs, strict=True)))
    found: list[int] = []
    before = 0
    for edge in range(volume, (filled[-1] if filled else 0) + 1, volume):
        at = bisect_left(filled, edge)
        here = pressed[at] - signs[at] * (filled[at] - edge)
        found.append(abs(here - before))
        before = here
    return found


def vpin(
    prints: Prints, span: Span, buckets: int = BUCKETS, bucket_volume: int | None = None
) -> Toxicity | Insufficient:
    """VPIN of the last `buckets` full buckets; without a bucket volume the window makes exactly `buckets`."""
    traded = total(prints.quantity)
    volume = bucket_volume or traded // buckets
    full = traded // volume if volume else 0
    if full < buckets or len(prints) < buckets:
        needed = {"prints": buckets, "buckets": buckets}
        return span.insufficient(_VPIN, len(prints), needed, {"prints": len(prints), "buckets": full})
    signs = (1 - 2 * prints.maker).tolist()
    imbalances = bucket_imbalances(prints.quantity.tolist(), signs, volume)[-buckets:]
    value = ratio(sum(imbalances), buckets * volume)
    return Toxicity(value, buckets, volume, span.evidence(_VPIN, len(prints)))


# --- price impact


@dataclass(frozen=True, slots=True)
class Impact:
    """Kyle's lambda: how far the price goes for one unit of signed volume."""

    slope: float
    standard_error: float
    r_squared: float
    intervals: int
    interval_ns: int
    evidence: Evidence

    def document(self) -> dict[str, Any]:
        return known(
            self.evidence,
            kyle_lambda=self.slope,
            standard_error=self.standard_error,
            r_squared=self.r_squared,
            n=self.intervals,
            interval_seconds=self.interval_ns / SECOND,
        )


def kyle(touches: Touches, prints: Prints, span: Span, interval_ns: int = SECOND) -> Impact | Insufficient:
    """Regress the change of the mid on the signed volume of each interval of the covered window."""
    touches = two_sided(touches)
    count = (span.covered.to_ns - span.covered.from_ns) // interval_ns
    moves, volumes = _per_interval(touches, prints, span.covered.from_ns, interval_ns, count)
    spread_out = len(moves) > 2 and bool((volumes != volumes[0]).any())
    if len(moves) < _KYLE_INTERVALS or not spread_out:
        have = {"intervals": len(moves), "prints": len(prints)}
        return span.insufficient(_KYLE, len(moves), {"intervals": _KYLE_INTERVALS, "prints": 2}, have)
    slope, error, fit = _regress(volumes, moves)
    return Impact(slope, error, fit, len(moves), interval_ns, span.evidence(_KYLE, len(moves)))


def _per_interval(
    touches: Touches, prints: Prints, start: int, interval_ns: int, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mid changes and signed volumes of the intervals whose two ends have a touch."""
    import numpy as np

    edges = start + interval_ns * np.arange(count + 1, dtype=np.int64)
    at = np.searchsorted(touches.ns, edges, side="right") - 1
    known_from = int(np.searchsorted(at, 0, side="left"))
    # Twice the mid is whole, so differences are exact before they become binary64.
    doubled = (touches.bid + touches.ask)[at[known_from:]]
    sums = [0, *accumulate(signed(prints).tolist())]
    cuts = [sums[cut] for cut in np.searchsorted(prints.ns, edges[known_from:], side="right").tolist()]
    volumes = [real(late - early) for early, late in pairwise(cuts)]
    return np.diff(doubled) / (2.0 * ONE), np.array(volumes)


def _regress(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """Slope, its standard error and R squared of y on x."""
    dx, dy = x - x.mean(), y - y.mean()
    across, along = float(dx @ dy), float(dx @ dx)
    slope = across / along
    left = float(((dy - slope * dx) ** 2).sum())
    spread = float(dy @ dy)
    return slope, (left / (len(x) - 2) / along) ** 0.5, 1.0 - left / spread if spread else 0.0


# --- summary


@dataclass(frozen=True, slots=True)
class OrderFlow:
    """Buying against selling over a window."""

    bid_events: int
    ask_events: int
    buys: int
    sells: int
    buy_prints: int
    sell_prints: int
    imbalance: int
    toxicity: Toxicity | Insufficient
    evidence: Evidence

    @property
    def seconds(self) -> float:
        return self.evidence.span.covered.seconds

    @property
    def direction(self) -> Direction:
        return direction(self.bid_events, self.ask_events)

    @property
    def delta(self) -> int:
        """Aggressive buys less aggressive sells."""
        return self.buys - self.sells

    def document(self) -> dict[str, Any]:
        bid, ask = self.bid_events / self.seconds, self.ask_events / self.seconds
        return known(
            self.evidence,
            bid_flow_rate=bid,
            ask_flow_rate=ask,
            net_flow=bid - ask,
            flow_direction=self.direction,
            cumulative_delta=shown(self.delta),
            buy_volume=shown(self.buys),
            sell_volume=shown(self.sells),
            buy_trades=self.buy_prints,
            sell_trades=self.sell_prints,
            ofi=shown(self.imbalance),
            vpin=self.toxicity.value if isinstance(self.toxicity, Toxicity) else None,
        )


def direction(bid_events: int, ask_events: int) -> Direction:
    """The band of the bid/ask ratio, compared as whole numbers."""
    if bid_events > 2 * ask_events:
        return "StrongBuy"
    if 5 * bid_events > 6 * ask_events:
        return "ModerateBuy"
    if 5 * bid_events >= 4 * ask_events:
        return "Neutral"
    return "ModerateSell" if 2 * bid_events >= ask_events else "StrongSell"


def order_flow(touches: Touches, prints: Prints, span: Span) -> OrderFlow | Insufficient:
    """Flow rates, their direction and what was traded in the window."""
    touches = two_sided(touches)
    size = max(0, len(touches) - 1)
    if size == 0 or span.covered.seconds < 1:
        have = {"touches": len(touches), "seconds": span.covered.seconds}
        return span.insufficient(_SUMMARY, size, {"touches": 2, "seconds": 1}, have)
    terms = contributions(touches)
    bought = prints.maker == 0
    return OrderFlow(
        bid_events=int((terms > 0).sum()),
        ask_events=int((terms < 0).sum()),
        buys=total(prints.quantity[bought]),
        sells=total(prints.quantity[~bought]),
        buy_prints=int(bought.sum()),
        sell_prints=int((~bought).sum()),
        imbalance=total(terms),
        toxicity=vpin(prints, span),
        evidence=span.evidence(_SUMMARY, size + len(prints)),
    )


def rolling(touches: Touches, events: int) -> list[float]:
    """The imbalance of every stretch of `events` changes, oldest first."""
    sums = [0, *accumulate(contributions(touches).tolist())]
    return [real(late - early) for early, late in zip(sums, sums[events:], strict=False)]
