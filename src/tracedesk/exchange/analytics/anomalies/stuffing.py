"""Quote stuffing: a flood of updates that takes itself back.

The rate alone says little: ordinary seconds reach fifteen times the median when prices move. But then the
book is another one afterwards. Of stuffed updates next to nothing lasts, they bring no prints, and they go on
for more than a second. In any market the share that lasts falls as the rate rises, because updates begin to
meet the same levels; so what lasted is compared with what this market keeps at that rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tracedesk.exchange.analytics.anomalies.anomaly import Anomaly, Severity, runs
from tracedesk.exchange.analytics.baseline import Usual, confidence
from tracedesk.exchange.analytics.seconds import Seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

RATE: Final = 2.5
"""Times the median rate of updates, in each second."""
TOGETHER: Final = 2
"""Seconds in a row that are judged as one: three seconds of stuffing fill at least two whole ones."""
DEVIATIONS: Final = 2.5
"""Robust deviations of the logarithm of lasting changes below what is usual at the rate, on average."""
_LEAST_SIGMA: Final = 0.15
_PRINTED: Final = 75
"""The percentile of prints per update in the baseline that a flood does not exceed."""
_BEYOND: Final = 0.5
"""How much of the slope is believed at rates beyond those of the baseline."""
_PLAIN: Final = 4
"""The part of the baseline, one in so many seconds, that must not have been found to be stuffed itself."""
METHOD: Final = (
    f"stuffing: >= {TOGETHER} s in a row with >= {RATE:g}x the median update rate that changed the book less "
    f"than usual at their rate (mean z <= -{DEVIATIONS:g} of the log of lasting changes, Theil-Sen line "
    f"over the busier half of the baseline, median/MAD), prints per update within its {_PRINTED}th percentile"
)


def stuffing(seconds: Seconds, scored: range, baseline_s: int) -> list[Anomaly]:
    """Runs of stuffed seconds among those scored, each against the `baseline_s` seconds before it."""
    walk = _Walk(seconds, baseline_s)
    for at in scored[: len(scored) - TOGETHER + 1]:
        walk.score(at)
    return [_anomaly(seconds, walk.scores, run, baseline_s) for run in runs(walk.scores)]


class _Walk:
    """Goes through the seconds in order, so that what was found before does not count as usual."""

    def __init__(self, seconds: Seconds, baseline_s: int) -> None:
        import numpy as np

        self.scores: dict[int, float] = {}
        """The seconds found, with how many deviations less than usual lasted."""
        self._updates = np.maximum(seconds.updates, 1).astype(np.float64)
        self._lasting = np.maximum(seconds.lasting, 0.5)
        self._prints = seconds.prints
        self._plain = np.ones(len(seconds), dtype=np.bool_)
        self._baseline_s = baseline_s

    def score(self, at: int) -> None:
        """Judge the seconds that begin at an index."""
        import numpy as np

        before, here = slice(at - self._baseline_s, at), slice(at, at + TOGETHER)
        updates, past = self._updates[here], self._updates[before]
        if updates.min() < RATE * float(np.median(past)):
            return
        printed = float(np.percentile(self._prints[before] / past, _PRINTED))
        if self._prints[here].sum() > printed * updates.sum():
            return
        kept = self._kept(before)
        z = float(np.log(kept.at(updates) / self._lasting[here]).mean()) / kept.sigma
        if z >= DEVIATIONS:
            # An episode begins and ends within seconds that it fills in part.
            self._plain[at - 1 : at + TOGETHER + 1] = False
            self.scores |= {each: max(z, self.scores.get(each, z)) for each in range(at, at + TOGETHER)}

    def _kept(self, before: slice) -> _Kept:
        plain = self._plain[before]
        # Where nearly all of the time was unusual, that is what is usual now.
        rows = plain if _PLAIN * int(plain.sum()) >= self._baseline_s else slice(None)
        return _Kept.of(self._updates[before][rows], self._lasting[before][rows])


@dataclass(frozen=True, slots=True)
class _Kept:
    """How many changes last in a market by its rate: a line between the logarithms of both."""

    slope: float
    offset: float
    sigma: float
    highest: float
    """The highest rate that is known."""

    @classmethod
    def of(cls, updates: Reals, lasting: Reals) -> _Kept:
        """The robust line through the busier half of some seconds."""
        import numpy as np

        busy = updates >= np.median(updates)
        rate, kept = np.log(updates[busy]), np.log(lasting[busy])
        one, other = np.triu_indices(len(rate), 1)
        apart = rate[other] != rate[one]
        run, rise = (rate[other] - rate[one])[apart], (kept[other] - kept[one])[apart]
        # More updates change no less of the book, and no more than they are.
        slope = min(1.0, max(0.0, float(np.median(rise / run)))) if len(run) else 1.0
        usual = Usual.of(kept - slope * rate, _LEAST_SIGMA)
        return cls(slope, usual.median, usual.sigma, float(updates.max()))

    def at(self, updates: Reals) -> Reals:
        """The changes that usually last at some rates."""
        import numpy as np

        known = np.log(np.minimum(updates, self.highest))
        beyond = np.log(updates) - known
        return np.exp(self.offset + self.slope * (known + _BEYOND * beyond))


def _anomaly(seconds: Seconds, scores: dict[int, float], run: list[int], baseline_s: int) -> Anomaly:
    import numpy as np

    first, count = run[0], len(run)
    updates = int(seconds.updates[run].sum())
    rate, usual = updates / count, float(np.median(seconds.updates[first - baseline_s : first]))
    lasted = int(seconds.lasting[run].sum()) / updates
    details = {
        "update_rate": rate,
        "usual_update_rate": usual,
        "lasting_share": lasted,
        "fill_rate": 100.0 * int(seconds.prints[run].sum()) / updates,
        "z": max(scores[at] for at in run),
    }
    multiple = rate / max(usual, 1.0)
    return Anomaly(
        "QuoteStuffing",
        _severity(multiple),
        confidence(details["z"]),
        seconds.window(first, count),
        f"Pattern consistent with quote stuffing: {rate:.0f} updates/s ({multiple:.1f}x usual) for "
        f"{count} s, of which {100 * lasted:.0f} % changed the book.",
        details=details,
    )


def _severity(multiple: float) -> Severity:
    return "Critical" if multiple >= 15 else "High" if multiple >= 8 else "Medium"
