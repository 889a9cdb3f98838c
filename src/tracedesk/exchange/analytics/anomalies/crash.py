"""Flash-crash risk: the spread opens and what rested near the mid is gone, both far from usual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tracedesk.exchange.analytics.anomalies.anomaly import Anomaly, runs
from tracedesk.exchange.analytics.baseline import Usual, confidence
from tracedesk.exchange.analytics.seconds import Depths, Seconds
from tracedesk.exchange.series import Touches
from tracedesk.primitives.time import SECOND

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

SPREAD: Final = 3.0
"""Times the median spread."""
DRAINED: Final = 0.8
"""Share of the median depth of a side that is missing."""
DEVIATIONS: Final = 4.0
REACH_BPS: Final = 10.0
METHOD: Final = (
    f"flash-crash risk: seconds whose mean spread is >= {SPREAD:g}x the median (z >= {DEVIATIONS:g}) while "
    f">= {100 * DRAINED:g} % of a side's median depth within {REACH_BPS:g} bps of the mid is gone"
)


@dataclass(frozen=True, slots=True)
class _Second:
    multiple: float
    z: float
    drained: float


def crash_risk(
    seconds: Seconds, touches: Touches, resting: Depths, scored: range, baseline_s: int
) -> list[Anomaly]:
    """Runs of seconds in which a side of the book nearly vanished and the spread opened."""
    import numpy as np

    spread = spreads(touches, seconds)
    sides = [np.array(side, dtype=np.float64) for side in (resting.bids, resting.asks)]
    found = {
        at: risk
        for at in scored
        if (risk := _risk(at, spread, sides, slice(at - baseline_s, at))) is not None
    }
    return [_anomaly(seconds, [found[at] for at in run], run) for run in runs(found)]


def spreads(touches: Touches, seconds: Seconds) -> Reals:
    """The time-weighted spread of each second, in units."""
    import numpy as np

    edges = (seconds.first + np.arange(len(seconds) + 1, dtype=np.int64)) * SECOND
    if not len(touches):
        return np.zeros(len(seconds))
    gap = (touches.ask - touches.bid).astype(np.float64)
    # The integral of the spread up to any moment, read off at the edges.
    held = np.concatenate(([0.0], np.cumsum(gap[:-1] * np.diff(touches.ns))))
    at = np.maximum(np.searchsorted(touches.ns, edges, side="right") - 1, 0)
    integral = held[at] + gap[at] * (edges - touches.ns[at])
    return np.diff(integral) / SECOND


def _risk(at: int, spread: Reals, sides: list[Reals], before: slice) -> _Second | None:
    usual = Usual.of(spread[before])
    drained = max(_drained(side, at, before) for side in sides)
    if usual.median <= 0 or drained < DRAINED or spread[at] < SPREAD * usual.median:
        return None
    z = usual.z(float(spread[at]))
    return _Second(float(spread[at]) / usual.median, min(z, 40.0), drained) if z >= DEVIATIONS else None


def _drained(side: Reals, at: int, before: slice) -> float:
    """The share of a side's usual depth that is missing."""
    usual = Usual.of(side[before]).median
    return 1.0 - float(side[at]) / usual if usual > 0 else 0.0


def _anomaly(seconds: Seconds, risks: list[_Second], run: list[int]) -> Anomaly:
    worst = max(risks, key=lambda risk: risk.drained)
    multiple = max(risk.multiple for risk in risks)
    updates = int(seconds.updates[run].sum())
    lasting = int(seconds.lasting[run].sum())
    return Anomaly(
        "FlashCrashRisk",
        "Critical" if worst.drained >= 0.9 else "High",
        confidence(max(risk.z for risk in risks)),
        seconds.window(run[0], len(run)),
        f"{100 * worst.drained:.0f} % of a side's usual depth within {REACH_BPS:g} bps is gone and the "
        f"spread is {multiple:.1f}x usual for {len(run)} s.",
        details={
            "liquidity_drain_pct": 100 * worst.drained,
            "spread_multiple": multiple,
            "cancellation_rate": 100.0 * (1.0 - lasting / updates) if updates > lasting else 0.0,
        },
    )
