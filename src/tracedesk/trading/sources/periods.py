"""Which periods and intervals of a history go together, and what span of days a period names.

A period of days counts sessions; months and years go back from the clock's day in New York to the same day of
the month, which is included; `ytd` begins on January 1; `max` is everything.
"""

from __future__ import annotations

import calendar
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from tracedesk.errors import ToolError

PERIODS: Final = ("1d", "5d", "1mo", "3mo", "6mo", "1y", "2y", "5y", "10y", "ytd", "max")
INTERVALS: Final = (
    "1m", "2m", "5m", "15m", "30m", "60m", "90m", "1h", "1d", "5d", "1wk", "1mo", "3mo",
)  # fmt: skip
INTRADAY: Final = frozenset(INTERVALS[: INTERVALS.index("1d")])

_SESSIONS: Final = {"1d": 1, "5d": 5}
_MONTHS: Final = {"1mo": 1, "3mo": 3, "6mo": 6, "1y": 12, "2y": 24, "5y": 60, "10y": 120}
_TO_ONE_MONTH: Final = ("1d", "5d", "1mo")
_TO_TWO_YEARS: Final = ("1d", "5d", "1mo", "3mo", "6mo", "1y", "2y", "ytd")

ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "1m": ("1d", "5d"),
    "2m": _TO_ONE_MONTH,
    "5m": _TO_ONE_MONTH,
    "15m": _TO_ONE_MONTH,
    "30m": _TO_ONE_MONTH,
    "60m": _TO_TWO_YEARS,
    "90m": _TO_ONE_MONTH,
    "1h": _TO_TWO_YEARS,
    "1d": PERIODS,
    "5d": PERIODS[1:],
    "1wk": PERIODS[1:],
    "1mo": PERIODS[2:],
    "3mo": PERIODS[3:],
}
"""The periods that each interval may be asked for: minutes reach 60 days back, hours two years."""


def check(period: str, interval: str | None = None) -> str:
    """Return the interval of a pair that goes together; without one, 5m for a period of 1d, else 1d.

    Raises INVALID_INPUT with the pairs that do.
    """
    if period not in PERIODS:
        raise _refused("period", period, interval, f"period {period!r} is not one of {', '.join(PERIODS)}.")
    if interval is None:
        return "5m" if period == "1d" else "1d"
    if interval not in ALLOWED:
        known = ", ".join(INTERVALS)
        raise _refused("interval", period, interval, f"interval {interval!r} is not one of {known}.")
    if period not in ALLOWED[interval]:
        raise _unpaired(period, interval)
    return interval


def intervals_of(period: str) -> tuple[str, ...]:
    """Return the intervals that a period may be asked for in."""
    return tuple(interval for interval in INTERVALS if period in ALLOWED[interval])


def _unpaired(period: str, interval: str) -> ToolError:
    message = (
        f"interval {interval!r} does not go with period {period!r}. With that period use "
        f"{', '.join(intervals_of(period))}; with that interval use {', '.join(ALLOWED[interval])}."
    )
    return _refused("interval", period, interval, message)


def _refused(field: str, period: str, interval: str | None, message: str) -> ToolError:
    allowed = {name: list(periods) for name, periods in ALLOWED.items()}
    details = {
        "path": [field],
        "period": period,
        "interval": interval,
        "allowed": allowed,
        "retryable": False,
    }
    return ToolError("INVALID_INPUT", message, details)


def first_row(days: Sequence[int], period: str, today: date) -> int:
    """Return the index of the period's first row among sessions given as ordinals, oldest first."""
    if period == "max":
        return 0
    if period in _SESSIONS:
        return max(0, len(days) - _SESSIONS[period])
    return bisect_left(days, first_day(period, today).toordinal())


def first_day(period: str, today: date) -> date:
    """Return the day that a period of months, of years or of this year begins with."""
    return date(today.year, 1, 1) if period == "ytd" else _months_back(today, _MONTHS[period])


def _months_back(day: date, count: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 - count, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))
