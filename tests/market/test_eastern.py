"""New York's wall time, without a time zone database."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.market import eastern
from tracedesk.primitives import time
from tracedesk.primitives.time import HOUR, MINUTE

DAYS = st.dates(date(1990, 1, 1), date(2027, 12, 31))


@pytest.mark.parametrize(
    ("year", "begins", "ends"),
    [
        (1990, "1990-04-01T07:00:00Z", "1990-10-28T06:00:00Z"),
        (2006, "2006-04-02T07:00:00Z", "2006-10-29T06:00:00Z"),
        (2007, "2007-03-11T07:00:00Z", "2007-11-04T06:00:00Z"),
        (2026, "2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z"),
    ],
)
def test_summer_time_follows_the_law_of_its_year(year: int, begins: str, ends: str) -> None:
    assert tuple(map(time.format, eastern.summer(year))) == (begins, ends)


@given(DAYS, st.integers(3 * HOUR, 24 * HOUR - 1))
def test_a_wall_time_lies_on_its_own_day_four_or_five_hours_behind_utc(day: date, of_day: int) -> None:
    ns = eastern.to_ns(day, of_day)
    assert eastern.to_day(ns) == day
    assert ns - time.parse(day.isoformat()).ns - of_day in (4 * HOUR, 5 * HOUR)


@given(DAYS)
def test_a_day_begins_at_its_midnight_and_not_before(day: date) -> None:
    midnight = eastern.to_ns(day)
    assert eastern.to_day(midnight) == day
    assert eastern.to_day(midnight - 1).toordinal() == day.toordinal() - 1


def test_an_hour_that_occurs_twice_is_taken_the_first_time() -> None:
    assert time.format(eastern.to_ns(date(2012, 11, 4), 90 * MINUTE)) == "2012-11-04T05:30:00Z"


def test_an_hour_that_is_skipped_is_counted_as_if_clocks_had_not_moved() -> None:
    assert time.format(eastern.to_ns(date(2012, 3, 11), 150 * MINUTE)) == "2012-03-11T07:30:00Z"


@pytest.mark.parametrize(
    ("month", "weekday", "nth", "day"), [(12, 0, -1, 31), (5, 0, -1, 28), (11, 3, 4, 22), (1, 6, 1, 7)]
)
def test_the_nth_weekday_of_a_month_is_found_from_either_end(
    month: int, weekday: int, nth: int, day: int
) -> None:
    assert eastern.nth_weekday(2018, month, weekday, nth) == date(2018, month, day)
