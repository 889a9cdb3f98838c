"""From raw likeness to a score that means something: the same score says as much in every history.

The table is fitted by `benchmarks/codegraph_attempts.py --fit` on pairs of attempts at the same ticket and on
random pairs, in histories other than those that are reported: isotonic, so that order is kept.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Final

TABLE: Final[tuple[tuple[float, float], ...]] = (
    (0.0, 0.0),
    (0.05, 0.02),
    (0.1, 0.0483),
    (0.15, 0.0912),
    (0.2, 0.1104),
    (0.25, 0.1627),
    (0.3, 0.2),
    (0.4, 0.277),
    (0.5, 0.515),
    (0.6, 0.6725),
    (0.7, 0.7563),
    (0.8, 0.7891),
    (0.9, 0.8701),
    (1.0, 1.0),
)
"""Raw likeness and score, both rising from 0 to 1; between two rows it is a line."""


REFERENCE: Final = 0.3
"""The likeness, in the table, of what random pairs seldom reach; its score is the default least score."""
_ALL: Final = 1 - 1e-12


def mass(raw: float) -> float:
    """A likeness as what can be added up and compared by division: minus the logarithm of what it misses."""
    return -math.log1p(-min(raw, _ALL))


def likeness(heavy: float) -> float:
    """The likeness that has a mass."""
    return -math.expm1(-heavy)


def relative(raw: float, level: float) -> float:
    """A likeness as it would be in a history whose random pairs seldom reach `REFERENCE`, not `level`."""
    if raw >= 1.0:
        return 1.0
    return likeness(mass(raw) * mass(REFERENCE) / mass(level))


def calibrated(raw: float) -> float:
    """The score of a raw likeness, both in [0, 1]."""
    if raw >= 1.0:
        return TABLE[-1][1]
    place = bisect_right(TABLE, (max(0.0, raw), 2.0))
    (low, before), (high, after) = TABLE[place - 1], TABLE[place]
    return before + (after - before) * (max(0.0, raw) - low) / (high - low)
