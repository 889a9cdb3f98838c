"""The venue's time, as far as this machine can tell it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_low

from tracedesk.primitives.time import MILLISECOND, Clock


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer of the venue's clock, and when it was asked for and received here."""

    asked_ns: int
    received_ns: int
    server_ms: int

    @property
    def offset_ns(self) -> int:
        """How far the venue is ahead, if the answer was made half-way between."""
        return self.server_ms * MILLISECOND - (self.asked_ns + self.received_ns) // 2


class ServerTime:
    """This machine's wall clock, corrected by the median of several samples."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offset_ns = 0
        self.measured_ns: int | None = None
        """When the offset was last found; None before the first time."""

    @property
    def offset_ms(self) -> int:
        return self.offset_ns // MILLISECOND

    def measured(self, samples: list[Sample]) -> None:
        """Take over the offset that the samples agree on; one slow answer among them does no harm."""
        self.offset_ns = median_low(sample.offset_ns for sample in samples)
        self.measured_ns = self._clock.now_ns()

    def now_ns(self) -> int:
        return self._clock.now_ns() + self.offset_ns

    def now_ms(self) -> int:
        return self.now_ns() // MILLISECOND
