"""All detectors over one window, each second against the time before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tracedesk.exchange.analytics.anomalies import crash, icebergs, spoofing, stuffing
from tracedesk.exchange.analytics.anomalies.anomaly import Anomaly
from tracedesk.exchange.analytics.exact import two_sided
from tracedesk.exchange.analytics.seconds import Seconds, depths, seconds, whole
from tracedesk.exchange.analytics.span import BINARY64, Evidence, Insufficient, Span, Window, known
from tracedesk.exchange.book.book import Book
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.series import Changes, Prints, Touches
from tracedesk.primitives.time import SECOND

BASELINE_S: Final = 600
"""Seconds that each second is compared with unless told."""
LEAST_BASELINE_S: Final = 60
_METHOD: Final = "; ".join((stuffing.METHOD, spoofing.METHOD, icebergs.METHOD, crash.METHOD, BINARY64))


@dataclass(frozen=True, slots=True)
class Anomalies:
    """What was found in the seconds that could be scored; their number is the sample size."""

    instrument: Instrument
    found: tuple[Anomaly, ...]
    scored: Window
    baseline_s: int
    evidence: Evidence

    @property
    def flagged(self) -> int:
        """Scored seconds that some anomaly touches."""
        first, end = whole(self.scored)
        touched = {
            second
            for each in self.found
            for second in range(each.window.from_ns // SECOND, each.window.to_ns // SECOND + 1)
        }
        return len(touched & set(range(first, end)))

    def document(self) -> dict[str, Any]:
        return known(
            self.evidence,
            symbol=self.instrument.symbol,
            anomalies=[each.document(self.instrument) for each in self.found],
            seconds_scored=self.evidence.sample_size,
            seconds_flagged=self.flagged,
            baseline_seconds=self.baseline_s,
        )


def detect(
    touches: Touches,
    prints: Prints,
    changes: Changes,
    book: Book,
    instrument: Instrument,
    span: Span,
    baseline_s: int = BASELINE_S,
) -> Anomalies | Insufficient:
    """Score each whole second of the window that has `baseline_s` known seconds before it.

    The series hold the window and the baseline before it, as far as `span` says they are known. `book` is
    the book after the last change.
    """
    if baseline_s < LEAST_BASELINE_S:
        raise ValueError(f"a baseline needs at least {LEAST_BASELINE_S} seconds")
    touches = two_sided(touches)
    counted = seconds(changes, prints, span.known)
    scored = _scored(counted, span.requested, baseline_s)
    if not scored:
        have = {"seconds": len(counted)}
        return span.insufficient(_METHOD, 0, {"seconds": baseline_s + 1}, have)
    window = counted.window(scored.start, len(scored))
    found = [
        *stuffing.stuffing(counted, scored, baseline_s),
        *spoofing.spoofing(touches, prints, changes, instrument, window, baseline_s),
        *icebergs.icebergs(touches, prints, changes, instrument, window, baseline_s),
        *_crash_risk(counted, touches, changes, book, scored, baseline_s),
    ]
    found.sort(key=lambda each: (each.window.from_ns, each.kind, each.prices))
    return Anomalies(instrument, tuple(found), window, baseline_s, span.evidence(_METHOD, len(scored)))


def _scored(counted: Seconds, requested: Window, baseline_s: int) -> range:
    """Indices of the requested seconds that a whole baseline precedes."""
    first, end = whole(requested)
    low = max(baseline_s, first - counted.first)
    return range(low, max(low, min(len(counted), end - counted.first)))


def _crash_risk(
    counted: Seconds, touches: Touches, changes: Changes, book: Book, scored: range, baseline_s: int
) -> list[Anomaly]:
    import numpy as np

    ends = (counted.first + 1 + np.arange(len(counted), dtype=np.int64)) * SECOND - 1
    resting = depths(book, changes, touches, ends, crash.REACH_BPS)
    return crash.crash_risk(counted, touches, resting, scored, baseline_s)
