"""What is usual: medians and median deviations of what came before, which single bursts do not move."""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, sqrt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

TO_SIGMA: Final = 1.4826
"""Median absolute deviations of a normal distribution in one standard deviation."""


@dataclass(frozen=True, slots=True)
class Usual:
    """Median and robust standard deviation of a sample."""

    median: float
    sigma: float

    @classmethod
    def of(cls, sample: Reals, floor: float = 0.0) -> Usual:
        """Of a sample that is not empty; `floor` is the least deviation that is believed."""
        import numpy as np

        median = float(np.median(sample))
        return cls(median, max(floor, TO_SIGMA * float(np.median(np.abs(sample - median)))))

    def z(self, value: float) -> float:
        """How many deviations a value lies above the median; 0 where nothing ever varied and it does not."""
        if self.sigma == 0.0:
            return 0.0 if value == self.median else float("inf") * (1 if value > self.median else -1)
        return (value - self.median) / self.sigma


def confidence(z: float) -> float:
    """The share of a normal distribution that lies below `z` deviations."""
    return 0.5 * (1.0 + erf(z / sqrt(2.0)))
