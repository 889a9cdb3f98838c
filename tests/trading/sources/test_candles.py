"""Daily candles made into longer ones."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from tracedesk.market import Split, calendar
from tracedesk.trading.sources.candles import first_needed, gather, tidy
from tracedesk.trading.sources.seam import Candle


def _day(session: date, base: int, volume: int = 100) -> Candle:
    opening, high, low, close = (Decimal(f"{base + step}.00") for step in (0, 2, -1, 1))
    adjusted = Decimal(f"{base}.125")
    return Candle(calendar.open_ns(session), opening, high, low, close, volume, adjusted)


def _days(first: date, last: date) -> list[Candle]:
    return [_day(session, 10 + at) for at, session in enumerate(calendar.sessions(first, last))]


def test_a_week_has_the_first_open_the_extremes_the_last_close_and_all_the_volume() -> None:
    (week,) = gather(_days(date(2012, 11, 26), date(2012, 11, 30)), "1wk")
    assert week.start_ns == calendar.open_ns(date(2012, 11, 26))
    assert (week.open, week.high, week.low, week.close) == tuple(map(Decimal, ("10", "16", "9", "15")))
    assert (week.volume, week.adjusted_close) == (500, Decimal("14.125"))


def test_a_week_month_or_quarter_counts_once_its_last_session_has_closed() -> None:
    # Good Friday 2012 was April 6, so that week ended on Thursday.
    assert len(gather(_days(date(2012, 4, 2), date(2012, 4, 4)), "1wk")) == 0
    assert len(gather(_days(date(2012, 4, 2), date(2012, 4, 5)), "1wk")) == 1
    assert len(gather(_days(date(2012, 3, 1), date(2012, 3, 29)), "1mo")) == 0
    assert len(gather(_days(date(2012, 3, 1), date(2012, 3, 30)), "1mo")) == 1
    assert len(gather(_days(date(2012, 1, 3), date(2012, 3, 29)), "3mo")) == 0
    assert len(gather(_days(date(2012, 1, 3), date(2012, 6, 29)), "3mo")) == 2


def test_the_last_week_of_a_year_is_one_week() -> None:
    weeks = gather(_days(date(2012, 12, 24), date(2013, 1, 4)), "1wk")
    assert [week.volume for week in weeks] == [400, 400]


def test_fives_are_counted_back_from_the_newest_and_a_rest_is_left_out() -> None:
    daily = _days(date(2012, 11, 1), date(2012, 11, 30))
    fives = gather(daily, "5d")
    assert len(fives) == len(daily) // 5 == 4
    assert (fives[-1].close, fives[-1].start_ns) == (daily[-1].close, daily[-5].start_ns)


def test_a_span_with_a_split_is_told_in_the_shares_of_its_end() -> None:
    before, after = _day(date(2012, 11, 26), 100), _day(date(2012, 11, 30), 50)
    split = Split(date(2012, 11, 28), new=2, old=1)
    (week,) = gather([before, after], "1wk", [split])
    assert (week.open, week.high, week.low) == tuple(map(Decimal, ("50.00", "52.00", "49.00")))
    assert week.volume == 300
    assert gather([before, after], "1d", [split]) == (before, after)


def test_a_span_that_reaches_into_the_period_is_taken_whole() -> None:
    days = [s.toordinal() for s in calendar.sessions(date(2012, 10, 1), date(2012, 12, 14))]
    today = date(2012, 12, 15)
    first = {
        i: date.fromordinal(days[first_needed(days, "1mo", i, today)]) for i in ("1d", "1wk", "1mo", "3mo")
    }
    assert first == {
        "1d": date(2012, 11, 15),
        "1wk": date(2012, 11, 12),
        "1mo": date(2012, 11, 1),
        "3mo": date(2012, 10, 1),
    }


def test_a_tidy_price_has_two_places_at_least() -> None:
    assert [str(tidy(Decimal(text))) for text in ("5", "5.1000", "5.1230", "100")] == [
        "5.00", "5.10", "5.123", "100.00",
    ]  # fmt: skip


def test_days_are_restated_once_by_one_exact_factor() -> None:
    splits = [Split(date(2012, 11, 28), new=3, old=2), Split(date(2012, 11, 29), new=7, old=3)]
    (first, second) = gather(
        [_day(date(2012, 11, 27), 10), _day(date(2012, 11, 28), 10)], "1d", splits, "splits"
    )
    # 10 × 2/3 × 3/7 is 20/7, and 10 × 3/7 is 30/7: nothing is rounded between the two.
    assert (str(first.open), str(second.open)) == ("2.857142857143", "4.285714285714")
    assert (first.volume, second.volume) == (350, 233)


def test_a_span_of_restated_days_is_in_the_shares_of_the_clock() -> None:
    daily = [_day(date(2012, 11, 26), 100), _day(date(2012, 11, 30), 50), _day(date(2012, 12, 3), 50)]
    splits = [Split(date(2012, 11, 28), new=2, old=1), Split(date(2012, 12, 4), new=5, old=1)]
    (week,) = gather(daily, "1wk", splits, "splits")
    assert (week.open, week.high, week.low, week.close) == tuple(map(Decimal, ("10", "10.4", "9.8", "10.2")))
    assert week.volume == 1500
