"""Bars: look-ups by date, exact prices, and adjusted closes that know only what the bars hold."""

from __future__ import annotations

from datetime import date
from decimal import Decimal, localcontext
from itertools import pairwise
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.market.rows import bars_of, flat
from tracedesk.market import ADJUSTED_PLACES, Bar, Bars, Dividend, Split, calendar
from tracedesk.market.dataset import EMBEDDED, FIRST_SESSION, LAST_SESSION

DAYS = st.dates(date(2000, 1, 1), date(2013, 12, 31))
SYMBOLS = st.sampled_from(sorted(EMBEDDED))


def test_a_bar_has_the_figures_of_its_session_in_exact_decimals() -> None:
    assert EMBEDDED["AAPL"].on(date(2013, 3, 1)) == Bar(
        session=date(2013, 3, 1),
        open=Decimal("438.00"),
        high=Decimal("438.1799"),
        low=Decimal("429.98"),
        close=Decimal("430.47"),
        volume=19_730_300,
        adjusted_close=Decimal("430.47"),
    )


def test_whole_cents_are_written_with_two_places_and_others_with_four() -> None:
    bar = EMBEDDED["AAPL"][-1]
    assert (str(bar.open), str(bar.high), str(bar.low)) == ("438.00", "438.1799", "429.98")


@given(SYMBOLS, DAYS, DAYS)
def test_a_range_holds_exactly_the_sessions_between_its_days(symbol: str, first: date, last: date) -> None:
    bars = EMBEDDED[symbol]
    expected = [day for day in bars.days if first.toordinal() <= day <= last.toordinal()]
    assert [bar.session.toordinal() for bar in bars.between(first, last)] == expected


@given(SYMBOLS, DAYS)
def test_a_day_has_a_bar_exactly_when_it_is_among_the_sessions(symbol: str, day: date) -> None:
    bars = EMBEDDED[symbol]
    found = bars.on(day)
    assert (found is not None) is (day.toordinal() in set(bars.days))
    assert found is None or (found.session == day and bars.open_on(day) == found.open)


def test_iteration_indices_and_the_latest_agree() -> None:
    bars = EMBEDDED["FB"]
    every = tuple(bars)
    assert len(bars) == len(every) == 196
    assert bars.latest(3) == every[-3:] == (bars[-3], bars[-2], bars[-1])
    assert bars.latest(0) == ()
    assert bars.latest(10_000) == every
    with pytest.raises(IndexError):
        bars[196]
    with pytest.raises(ValueError, match="must not be negative"):
        bars.latest(-1)


def test_columns_are_read_only() -> None:
    bars = EMBEDDED["FB"]
    for column in (bars.days, bars.closes, bars.volumes, bars.adjusted_closes):
        assert column.readonly
        assert len(column) == len(bars)
    assert bars.adjusted_closes[-1] == bars.closes[-1] * 10**8


def test_bars_until_a_session_hold_no_later_row_or_action() -> None:
    bars = EMBEDDED["AAPL"].until(date(2005, 2, 25))
    assert bars[-1].session == date(2005, 2, 25)
    assert bars.actions == (Split(date(2000, 6, 21), 2, 1),)
    assert len(EMBEDDED["AAPL"].until(None)) == 0
    assert list(EMBEDDED["AAPL"].until(date(1999, 1, 4))) == []


@given(SYMBOLS, st.dates(FIRST_SESSION, LAST_SESSION))
def test_the_last_bars_adjusted_close_is_always_its_close(symbol: str, day: date) -> None:
    for bar in EMBEDDED[symbol].until(day).latest(1):
        assert bar.adjusted_close == bar.close


# --- adjustment ---------------------------------------------------------------------------------

THREE_DAYS = calendar.sessions(date(2010, 3, 1), date(2010, 3, 3))


def _adjusted(bars: Bars) -> list[Decimal]:
    return [bar.adjusted_close for bar in bars]


def test_a_split_divides_the_closes_before_its_ex_date() -> None:
    rows = [flat(day, close) for day, close in zip(THREE_DAYS, (90, 30, 31), strict=True)]
    bars = bars_of("X", rows, [Split(THREE_DAYS[1], 3, 1)])
    assert _adjusted(bars) == [30, 30, 31]


def test_a_dividend_lowers_the_closes_before_its_ex_date_by_the_ex_dates_close() -> None:
    rows = [flat(day, close) for day, close in zip(THREE_DAYS, (100, 98, 99), strict=True)]
    bars = bars_of("X", rows, [Dividend(THREE_DAYS[1], Decimal("2.00"))])
    assert _adjusted(bars) == [98, 98, 99]


def test_an_adjusted_close_is_rounded_once_whatever_the_decimal_context() -> None:
    rows = [flat(day, close) for day, close in zip(THREE_DAYS, (100, 100, 100), strict=True)]
    actions = [Split(THREE_DAYS[1], 3, 1), Dividend(THREE_DAYS[2], Decimal("0.01"))]
    with localcontext() as context:
        context.prec = 3
        first = bars_of("X", rows, actions)[0].adjusted_close
    # 100 / 3 * 100 / 100.01
    assert first == Decimal("33.330000333300")
    assert -int(first.as_tuple().exponent) == ADJUSTED_PLACES


def test_an_action_without_a_bar_on_its_ex_date_is_refused() -> None:
    bars = bars_of("X", [flat(THREE_DAYS[0], 10)], [Split(THREE_DAYS[1], 2, 1)])
    with pytest.raises(ValueError, match="X has no bar on 2010-03-02"):
        list(bars)


def test_a_cut_before_an_ex_date_gives_closes_that_do_not_know_of_it() -> None:
    before, after = (EMBEDDED["MSFT"].until(day) for day in (date(2003, 2, 14), date(2003, 2, 18)))
    assert before[-1].adjusted_close == before[-1].close == Decimal("48.30")
    assert after[-2].adjusted_close == Decimal("24.15")


# --- risk figures that five outside libraries agree on, over the last 252 returns ---------------

REFERENCE = {
    "AAPL": (0.0315495764823122, 0.380483897843531, -0.4611312001971),
    "IBM": (0.0156866765776189, 0.122375099679994, 0.33622831927459),
    "MSFT": (0.0218413978494538, 0.179675869495137, -0.415384301209747),
}


@pytest.mark.parametrize("symbol", REFERENCE)
def test_returns_of_adjusted_closes_give_the_risk_figures_of_outside_libraries(symbol: str) -> None:
    closes = EMBEDDED[symbol].adjusted_closes.tolist()[-253:]
    returns = [now / past - 1 for past, now in pairwise(closes)]
    loss = -sorted(returns)[12]
    sharpe = fmean(returns) / stdev(returns) * 252**0.5
    assert (loss, _drawdown(closes), sharpe) == pytest.approx(REFERENCE[symbol], rel=1e-12)


def _drawdown(closes: list[int]) -> float:
    peak, worst = 0, 0.0
    for close in closes:
        peak = max(peak, close)
        worst = max(worst, 1 - close / peak)
    return worst
