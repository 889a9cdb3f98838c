"""Periods and intervals: which go together, and what days they span."""

from __future__ import annotations

from datetime import date

import pytest

from tracedesk.errors import ToolError
from tracedesk.trading.sources.periods import (
    ALLOWED,
    INTERVALS,
    PERIODS,
    check,
    first_day,
    first_row,
    intervals_of,
)

ALLOWED_OF_PERIOD = {
    "1d": "1m 2m 5m 15m 30m 60m 90m 1h 1d",
    "5d": "1m 2m 5m 15m 30m 60m 90m 1h 1d 5d 1wk",
    "1mo": "2m 5m 15m 30m 60m 90m 1h 1d 5d 1wk 1mo",
    "3mo": "60m 1h 1d 5d 1wk 1mo 3mo",
    "6mo": "60m 1h 1d 5d 1wk 1mo 3mo",
    "1y": "60m 1h 1d 5d 1wk 1mo 3mo",
    "2y": "60m 1h 1d 5d 1wk 1mo 3mo",
    "5y": "1d 5d 1wk 1mo 3mo",
    "10y": "1d 5d 1wk 1mo 3mo",
    "ytd": "60m 1h 1d 5d 1wk 1mo 3mo",
    "max": "1d 5d 1wk 1mo 3mo",
}


@pytest.mark.parametrize("period", PERIODS)
def test_a_period_goes_with_these_intervals_and_no_other(period: str) -> None:
    good = ALLOWED_OF_PERIOD[period].split()
    assert [interval for interval in INTERVALS if _fits(period, interval)] == good
    assert list(intervals_of(period)) == good


def _fits(period: str, interval: str) -> bool:
    try:
        return check(period, interval) == interval
    except ToolError:
        return False


def test_without_an_interval_a_day_is_shown_in_five_minutes_and_the_rest_in_days() -> None:
    assert {period: check(period) for period in PERIODS} == {**dict.fromkeys(PERIODS, "1d"), "1d": "5m"}


def test_a_refusal_lists_the_pairs_that_fit() -> None:
    with pytest.raises(ToolError) as caught:
        check("1y", "1m")
    assert "With that period use 60m, 1h, 1d, 5d, 1wk, 1mo, 3mo" in caught.value.message
    assert "with that interval use 1d, 5d" in caught.value.message
    assert caught.value.details is not None
    assert caught.value.details["allowed"] == {name: list(some) for name, some in ALLOWED.items()}


@pytest.mark.parametrize(("period", "interval"), [("1w", None), ("", "1d"), ("1d", "3m"), ("5d", "")])
def test_a_name_that_is_none_is_refused_with_those_there_are(period: str, interval: str | None) -> None:
    with pytest.raises(ToolError, match="is not one of") as caught:
        check(period, interval)
    assert caught.value.code == "INVALID_INPUT"


@pytest.mark.parametrize(
    ("period", "today", "first"),
    [
        ("1mo", date(2013, 3, 1), date(2013, 2, 1)),
        ("1mo", date(2013, 3, 31), date(2013, 2, 28)),
        ("1mo", date(2012, 3, 31), date(2012, 2, 29)),
        ("3mo", date(2013, 1, 15), date(2012, 10, 15)),
        ("1y", date(2012, 2, 29), date(2011, 2, 28)),
        ("10y", date(2012, 12, 3), date(2002, 12, 3)),
        ("ytd", date(2012, 12, 3), date(2012, 1, 1)),
    ],
)
def test_months_go_back_to_the_same_day_or_the_last_of_a_shorter_month(
    period: str, today: date, first: date
) -> None:
    assert first_day(period, today) == first


def test_days_count_sessions_and_max_is_everything() -> None:
    days = [date(2012, 11, day).toordinal() for day in (26, 27, 28, 29, 30)] + [date(2012, 12, 3).toordinal()]
    today = date(2012, 12, 4)
    assert [first_row(days, period, today) for period in ("1d", "5d", "1mo", "max")] == [5, 1, 0, 0]
    assert first_row([], "5d", today) == 0
