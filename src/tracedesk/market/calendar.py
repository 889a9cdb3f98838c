"""The New York Stock Exchange's sessions from 1990 to 2027, as rules and the few days that broke them.

Days are New York dates, instants UTC nanoseconds. At its open a session is open, at its close it is closed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

from tracedesk.market import eastern
from tracedesk.market.eastern import nth_weekday
from tracedesk.primitives.time import HOUR, MINUTE

FIRST = date(1990, 1, 1)
LAST = date(2027, 12, 31)

OPEN = 9 * HOUR + 30 * MINUTE
CLOSE = 16 * HOUR
EARLY_CLOSE = 13 * HOUR
EARLY_CLOSE_BEFORE_1993 = 14 * HOUR

MONDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY = 0, 3, 4, 5, 6
_ONE_DAY = timedelta(days=1)


class OutsideCalendar(ValueError):
    """The day or instant is one that the calendar does not cover."""

    def __init__(self, day: date) -> None:
        super().__init__(f"{day} is outside the exchange calendar; use a day from {FIRST} to {LAST}")


class NotASession(ValueError):
    """The exchange was closed on the day."""

    def __init__(self, day: date, reason: str) -> None:
        super().__init__(f"{day} is not a session ({reason}); use next_session or previous_session")


# --- the rules ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holiday:
    """A yearly closing: its name, the first year it was kept, and its day in a year, if any."""

    name: str
    since: int
    day: Callable[[int], date | None]


def _nearest_weekday(day: date) -> date:
    return day + timedelta(days={SATURDAY: -1, SUNDAY: 1}.get(day.weekday(), 0))


def _new_year(year: int) -> date | None:
    # A New Year's Day on a Saturday is not moved: its Friday belongs to the old year's accounts.
    day = date(year, 1, 1)
    return None if day.weekday() == SATURDAY else _nearest_weekday(day)


def _good_friday(year: int) -> date:
    """Two days before Gregorian Easter, by the computus of Meeus, Jones and Butcher."""
    century, in_century = divmod(year, 100)
    shift = (century + 8) // 25
    moon = (19 * (year % 19) + century - century // 4 - (century - shift + 1) // 3 + 15) % 30
    sunday = (32 + 2 * (century % 4) + 2 * (in_century // 4) - moon - in_century % 4) % 7
    late = (year % 19 + 11 * moon + 22 * sunday) // 451
    month, day = divmod(moon + sunday - 7 * late + 114, 31)
    return date(year, month, day + 1) - 2 * _ONE_DAY


def _thanksgiving(year: int) -> date:
    return nth_weekday(year, 11, THURSDAY, 4)


HOLIDAYS = (
    Holiday("New Year's Day", 1990, _new_year),
    Holiday("Martin Luther King Jr. Day", 1998, lambda year: nth_weekday(year, 1, MONDAY, 3)),
    Holiday("Washington's Birthday", 1990, lambda year: nth_weekday(year, 2, MONDAY, 3)),
    Holiday("Good Friday", 1990, _good_friday),
    Holiday("Memorial Day", 1990, lambda year: nth_weekday(year, 5, MONDAY, -1)),
    Holiday("Juneteenth", 2022, lambda year: _nearest_weekday(date(year, 6, 19))),
    Holiday("Independence Day", 1990, lambda year: _nearest_weekday(date(year, 7, 4))),
    Holiday("Labor Day", 1990, lambda year: nth_weekday(year, 9, MONDAY, 1)),
    Holiday("Thanksgiving Day", 1990, _thanksgiving),
    Holiday("Christmas Day", 1990, lambda year: _nearest_weekday(date(year, 12, 25))),
)


def _christmas_eve(year: int) -> date | None:
    day = date(year, 12, 24)
    return day if day.weekday() <= THURSDAY else None


def _beside_independence_day(year: int) -> date | None:
    holiday = date(year, 7, 4)
    if holiday.weekday() == THURSDAY:
        # The Friday after was the short day until 2012; since 2013 it is the Wednesday before.
        return holiday + _ONE_DAY if year < 2013 else holiday - _ONE_DAY
    return holiday - _ONE_DAY if MONDAY < holiday.weekday() <= FRIDAY else None


EARLY_CLOSES = (
    Holiday("Christmas Eve", 1990, _christmas_eve),
    Holiday("day after Thanksgiving", 1992, lambda year: _thanksgiving(year) + _ONE_DAY),
    Holiday("beside Independence Day", 1995, _beside_independence_day),
)


# --- the days that broke them -------------------------------------------------------------------

CLOSINGS = {
    date(1994, 4, 27): "funeral of Richard Nixon",
    date(2001, 9, 11): "attacks of September 11",
    date(2001, 9, 12): "attacks of September 11",
    date(2001, 9, 13): "attacks of September 11",
    date(2001, 9, 14): "attacks of September 11",
    date(2004, 6, 11): "funeral of Ronald Reagan",
    date(2007, 1, 2): "funeral of Gerald Ford",
    date(2012, 10, 29): "Hurricane Sandy",
    date(2012, 10, 30): "Hurricane Sandy",
    date(2018, 12, 5): "funeral of George H. W. Bush",
    date(2025, 1, 9): "funeral of Jimmy Carter",
}

SHORT_DAYS = {
    date(1997, 12, 26): "day after Christmas",
    date(1999, 12, 31): "eve of 2000",
    date(2003, 12, 26): "day after Christmas",
}


# --- days ---------------------------------------------------------------------------------------


def is_session(day: date) -> bool:
    """Return whether the exchange traded, or will trade, on the day."""
    return closed_for(day) is None


def closed_for(day: date) -> str | None:
    """Return why the exchange is closed on the day, or None for a session."""
    _check(day)
    return "weekend" if day.weekday() >= SATURDAY else _closings(day.year).get(day)


def closes_early_for(session: date) -> str | None:
    """Return why the session is a short one, or None for a full one."""
    _check_session(session)
    return _short_days(session.year).get(session)


def next_session(day: date) -> date:
    """Return the first session after the day."""
    return _step(day, _ONE_DAY)


def previous_session(day: date) -> date:
    """Return the last session before the day."""
    return _step(day, -_ONE_DAY)


def sessions(first: date, last: date) -> tuple[date, ...]:
    """Return the sessions from the first day to the last, both included."""
    _check(first)
    _check(last)
    days = [day for year in range(first.year, last.year + 1) for day in _sessions(year)]
    return tuple(days[bisect_left(days, first) : bisect_right(days, last)])


def _step(day: date, step: timedelta) -> date:
    _check(day)
    day += step
    while not is_session(day):
        day += step
    return day


@cache
def _sessions(year: int) -> tuple[date, ...]:
    start, end = date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal()
    closed = _closings(year)
    days = map(date.fromordinal, range(start, end + 1))
    return tuple(day for day in days if day.weekday() < SATURDAY and day not in closed)


@cache
def _closings(year: int) -> dict[date, str]:
    return _days_of(HOLIDAYS, year) | {day: name for day, name in CLOSINGS.items() if day.year == year}


@cache
def _short_days(year: int) -> dict[date, str]:
    return _days_of(EARLY_CLOSES, year) | {day: name for day, name in SHORT_DAYS.items() if day.year == year}


def _days_of(rules: tuple[Holiday, ...], year: int) -> dict[date, str]:
    kept = ((rule.day(year), rule.name) for rule in rules if rule.since <= year)
    return {day: name for day, name in kept if day is not None}


def _check(day: date) -> None:
    if not FIRST <= day <= LAST:
        raise OutsideCalendar(day)


def _check_session(day: date) -> None:
    reason = closed_for(day)
    if reason is not None:
        raise NotASession(day, reason)


# --- instants -----------------------------------------------------------------------------------


def open_ns(session: date) -> int:
    """Return the instant at which the session opens."""
    _check_session(session)
    return eastern.to_ns(session, OPEN)


def close_ns(session: date) -> int:
    """Return the instant at which the session closes."""
    if closes_early_for(session) is None:
        return eastern.to_ns(session, CLOSE)
    return eastern.to_ns(session, EARLY_CLOSE if session.year >= 1993 else EARLY_CLOSE_BEFORE_1993)


def is_open(ns: int) -> bool:
    """Return whether the exchange is open at the instant."""
    return session_at(ns) is not None


def session_at(ns: int) -> date | None:
    """Return the session in progress at the instant, or None while the exchange is closed."""
    day = eastern.to_day(ns)
    if is_session(day) and open_ns(day) <= ns < close_ns(day):
        return day
    return None


def opened_by(ns: int) -> date | None:
    """Return the last session that has opened at the instant, or None before the calendar's first."""
    return _latest(ns, open_ns)


def closed_by(ns: int) -> date | None:
    """Return the last session that has closed at the instant, or None before the calendar's first."""
    return _latest(ns, close_ns)


def next_open(ns: int) -> int:
    """Return the first open after the instant."""
    return _following(ns, open_ns)


def next_close(ns: int) -> int:
    """Return the first close after the instant: that of the session in progress, if there is one."""
    return _following(ns, close_ns)


def _following(ns: int, edge: Callable[[date], int]) -> int:
    day = eastern.to_day(ns)
    ahead = is_session(day) and ns < edge(day)
    return edge(day if ahead else next_session(day))


def _latest(ns: int, edge: Callable[[date], int]) -> date | None:
    day = eastern.to_day(ns)
    _check(day)
    while not (is_session(day) and edge(day) <= ns):
        day -= _ONE_DAY
        if day < FIRST:
            return None
    return day
