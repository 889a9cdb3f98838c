"""A market's health from 0 to 100: how steady its spread, how deep, how balanced, how lively it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracedesk.exchange.analytics.anomalies import crash
from tracedesk.exchange.analytics.baseline import Usual
from tracedesk.exchange.analytics.exact import two_sided
from tracedesk.exchange.analytics.flow import contributions
from tracedesk.exchange.analytics.seconds import Seconds, depths, seconds, whole
from tracedesk.exchange.analytics.span import BINARY64, Evidence, Insufficient, Span, known
from tracedesk.exchange.book.book import Book
from tracedesk.exchange.series import Changes, Prints, Touches
from tracedesk.primitives.time import SECOND

Part = Literal["spread_stability", "liquidity_depth", "flow_balance", "update_rate"]
Band = Literal["Excellent", "Good", "Fair", "Poor", "Critical"]

WEIGHTS: Final[Mapping[Part, float]] = {
    "spread_stability": 0.25,
    "liquidity_depth": 0.35,
    "flow_balance": 0.25,
    "update_rate": 0.15,
}
BASELINE_S: Final = 600
LEAST_S: Final = 60
_BANDS: Final[tuple[tuple[int, Band], ...]] = ((80, "Excellent"), (60, "Good"), (40, "Fair"), (20, "Poor"))
_STEADY_BPS: Final = 1.0
"""Spreads are compared with at least this: a tick more on a spread of one tick harms nobody."""
_SLOW: Final = 0.5
_FAST: Final = 3.0
_FLOOD: Final = 10.0
_METHOD: Final = (
    "0.25 spread stability (robust deviation of the spread per second against its median, at least "
    f"{_STEADY_BPS:g} bps) + 0.35 depth (the thinner side within {crash.REACH_BPS:g} bps of the mid against "
    "its baseline median) + 0.25 flow balance (1 - |bid - ask events| / all) + 0.15 update rate (full from "
    f"{_SLOW:g}x to {_FAST:g}x the baseline median, none at 0 or {_FLOOD:g}x); Excellent needs every "
    f"part >= 50; {BINARY64}"
)
_ADVICE: Final[Mapping[Part, tuple[str, str]]] = {
    "spread_stability": ("The spread jumps.", "Use limit orders; a market order may meet a wide spread."),
    "liquidity_depth": ("Less rests near the mid than usual.", "Split orders or wait for depth to return."),
    "flow_balance": ("Flow is one-sided.", "Expect drift; do not fade it without a reason of your own."),
    "update_rate": (
        "Updates come unusually slowly or fast.",
        "Check the age of the data before acting on it.",
    ),
}


@dataclass(frozen=True, slots=True)
class Health:
    """The score with its parts, each from 0 to 100."""

    parts: Mapping[Part, float]
    evidence: Evidence

    @property
    def score(self) -> int:
        return round(sum(WEIGHTS[name] * value for name, value in self.parts.items()))

    @property
    def band(self) -> Band:
        return band(self.score, min(self.parts.values()))

    def document(self) -> dict[str, Any]:
        return known(
            self.evidence,
            score=self.score,
            components={name: round(value) for name, value in self.parts.items()},
            interpretation=self.band,
            recommendations=[
                {"component": name, "issue": _ADVICE[name][0], "recommendation": _ADVICE[name][1]}
                for name, value in self.parts.items()
                if value < 50
            ],
        )


def band(score: float, weakest: float) -> Band:
    """The word for a score; a weak part keeps it from the best one."""
    for least, name in _BANDS:
        if score >= least:
            return "Good" if name == "Excellent" and weakest < 50 else name
    return "Critical"


def health(
    touches: Touches,
    prints: Prints,
    changes: Changes,
    book: Book,
    span: Span,
    baseline_s: int = BASELINE_S,
) -> Health | Insufficient:
    """Score the window against up to `baseline_s` seconds before its end.

    The series hold the window and the baseline before it, as far as `span` says they are known. `book` is
    the book after the last change.
    """
    touches = two_sided(touches)
    counted = seconds(changes, prints, span.known)
    if len(counted) < LEAST_S or len(touches) < 2:
        have = {"seconds": len(counted), "touches": len(touches)}
        return span.insufficient(_METHOD, len(counted), {"seconds": LEAST_S, "touches": 2}, have)
    since = max(0, len(counted) - baseline_s)
    recent = slice(min(len(counted) - 1, max(since, whole(span.requested)[0] - counted.first)), None)
    parts: dict[Part, float] = {
        "spread_stability": _steadiness(touches, counted, recent),
        "liquidity_depth": _depth(book, changes, touches, counted, slice(since, None), recent),
        "flow_balance": _balance(touches, counted, recent),
        "update_rate": _liveliness(counted, slice(since, None), recent),
    }
    return Health(parts, span.evidence(_METHOD, len(counted) - since))


def _clamp(share: float) -> float:
    return 100.0 * min(1.0, max(0.0, share))


def _steadiness(touches: Touches, counted: Seconds, recent: slice) -> float:
    usual = Usual.of(crash.spreads(touches, counted)[recent])
    mid = float(touches.bid[-1] + touches.ask[-1]) / 2
    return _clamp(1.0 - usual.sigma / max(usual.median, mid * _STEADY_BPS / 1e4))


def _depth(
    book: Book, changes: Changes, touches: Touches, counted: Seconds, known_part: slice, recent: slice
) -> float:
    import numpy as np

    ends = (counted.first + 1 + np.arange(len(counted), dtype=np.int64)) * SECOND - 1
    rested = depths(book, changes, touches, ends, crash.REACH_BPS)
    shares: list[float] = []
    for side in (rested.bids, rested.asks):
        column = np.array(side, dtype=np.float64)
        usual = float(np.median(column[known_part]))
        shares.append(float(np.median(column[recent])) / usual if usual else 0.0)
    return _clamp(min(shares))


def _balance(touches: Touches, counted: Seconds, recent: slice) -> float:
    terms = contributions(touches)[touches.ns[1:] >= counted.window(recent.start).from_ns]
    bids, asks = int((terms > 0).sum()), int((terms < 0).sum())
    return _clamp(1.0 - abs(bids - asks) / (bids + asks)) if bids + asks else 0.0


def _liveliness(counted: Seconds, known_part: slice, recent: slice) -> float:
    import numpy as np

    usual = float(np.median(counted.updates[known_part]))
    return _clamp(_pace(float(np.median(counted.updates[recent])) / usual)) if usual else 0.0


def _pace(multiple: float) -> float:
    if multiple <= _FAST:
        return multiple / _SLOW
    return (_FLOOD - multiple) / (_FLOOD - _FAST)
