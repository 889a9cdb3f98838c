"""New York wall time by the federal rules since 1987, so that no time zone database is needed."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache

from tracedesk.primitives.time import DAY, HOUR

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_STANDARD = 5 * HOUR
_SUMMER = 4 * HOUR
_NEW_RULE = 2007
"""The first year of the Energy Policy Act's longer summer time."""


def to_ns(day: date, of_day_ns: int = 0) -> int:
    """Return the UTC instant of a New York wall time.

    An hour that occurs twice is taken in summer time, one that is skipped as if the clocks had not moved.
    """
    wall = (day.toordinal() - _EPOCH_DAY) * DAY + of_day_ns
    return wall + (_SUMMER if _is_summer(wall + _SUMMER) else _STANDARD)


def to_day(ns: int) -> date:
    """Return the New York date of a UTC instant."""
    wall = ns - (_SUMMER if _is_summer(ns) else _STANDARD)
    return date.fromordinal(_EPOCH_DAY + wall // DAY)


def summer(year: int) -> tuple[int, int]:
    """Return the UTC instants at which New York's summer time begins and ends, both at 02:00 wall time."""
    if year >= _NEW_RULE:
        first, last = nth_weekday(year, 3, 6, 2), nth_weekday(year, 11, 6, 1)
    else:
        first, last = nth_weekday(year, 4, 6, 1), nth_weekday(year, 10, 6, -1)
    return _utc(first, 2 * HOUR + _STANDARD), _utc(last, 2 * HOUR + _SUMMER)


def nth_weekday(year: int, month: int, weekday: int, nth: int) -> date:
    """Return the nth given weekday of a month (Monday is 0), counted from the end when nth is negative."""
    if nth < 0:
        after = date(year + month // 12, month % 12 + 1, 1)
        return nth_weekday(after.year, after.month, weekday, 1) + timedelta(weeks=nth)
    first = date(year, month, 1)
    return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (nth - 1))


def _is_summer(ns: int) -> bool:
    first, last = _summer(date.fromordinal(_EPOCH_DAY + ns // DAY).year)
    return first <= ns < last


_summer = cache(summer)


def _utc(day: date, ns: int) -> int:
    return (day.toordinal() - _EPOCH_DAY) * DAY + ns
