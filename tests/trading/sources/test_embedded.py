"""The embedded provider: real bars as they were known at the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import date
from decimal import Decimal
from typing import Any, TypeVar

import pytest

from tests.trading.sources.parts import NOW, at
from tracedesk.errors import ToolError
from tracedesk.market import calendar
from tracedesk.market.clock import LAST_NS
from tracedesk.primitives import json
from tracedesk.trading.sources.embedded import Embedded

T = TypeVar("T")

AAPL_SHA256 = "251d6a6f24efb6f09671b82ac810a4921fa04759f513a70eda91b6e6e23579fe"


def ask(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def test_inside_a_session_a_quote_is_its_open_and_after_it_its_close() -> None:
    inside = ask(Embedded().quotes(["AAPL"], NOW)).values["AAPL"]
    assert (inside.price, inside.previous_close) == (Decimal("593.65"), Decimal("585.28"))
    assert (inside.volume, inside.volume_day) == (13_975_700, date(2012, 11, 30))
    assert inside.as_of_ns == at("2012-12-03T14:30:00Z")
    after = ask(Embedded().quotes(["AAPL"], at("2012-12-03T21:00:00Z"))).values["AAPL"]
    assert (after.price, after.previous_close) == (Decimal("586.19"), Decimal("585.28"))
    assert after.as_of_ns == at("2012-12-03T21:00:00Z")


def test_the_body_holds_each_value_with_the_clock_and_the_digest_of_its_file() -> None:
    fetch = ask(Embedded().quotes(["MSFT", "AAPL"], NOW))
    body = json.loads(fetch.body)
    assert (body["provider"], body["clock"]) == ("embedded", "2012-12-03T15:30:00Z")
    assert body["dataset"]["sha256"]["AAPL.bars"] == AAPL_SHA256
    assert set(body["dataset"]["sha256"]) == {"AAPL.bars", "MSFT.bars", "actions.csv"}
    assert {symbol: row["price"] for symbol, row in body["symbols"].items()} == {
        symbol: quote.price for symbol, quote in fetch.values.items()
    }


def test_one_question_always_has_one_body() -> None:
    assert (
        ask(Embedded().quotes(["MSFT", "AAPL"], NOW)).body
        == ask(Embedded().quotes(["AAPL", "MSFT", "AAPL"], NOW)).body
    )


def test_equal_bars_make_equal_bodies_which_name_the_last_session() -> None:
    later, closed = at("2012-12-03T20:59:59Z"), at("2012-12-03T21:00:00Z")
    now, same, after = (ask(Embedded().daily(["IBM", "FB"], 253, when)).body for when in (NOW, later, closed))
    assert now == same != after
    assert (json.loads(now)["session"], json.loads(after)["session"]) == ("2012-11-30", "2012-12-03")
    now, same, after = (ask(Embedded().history("FB", "1mo", "1d", w)).body for w in (NOW, later, closed))
    assert now == same != after
    assert (json.loads(now)["session"], json.loads(now)["day"]) == ("2012-11-30", "2012-12-03")


def test_a_symbol_that_is_not_there_or_not_yet_is_denied_with_those_that_are() -> None:
    early = at("2004-01-05T15:00:00Z")
    fetch = ask(Embedded().quotes(["AAPL", "GOOG", "NOPE"], early))
    assert set(fetch.values) == {"AAPL"}
    assert {symbol: error.code for symbol, error in fetch.failures.items()} == {
        "GOOG": "INVALID_SYMBOL", "NOPE": "INVALID_SYMBOL",
    }  # fmt: skip
    assert "AAPL, IBM, MSFT" in fetch.failures["GOOG"].message
    assert b"GOOG" not in fetch.body


def test_outside_its_years_it_has_nothing_rather_than_an_old_price() -> None:
    for instant in (LAST_NS + 1, at("1999-01-04T15:00:00Z"), at("2030-01-02T15:00:00Z")):
        failure = ask(Embedded().quotes(["AAPL", "NOPE"], instant)).failures
        assert {error.code for error in failure.values()} == {"DATA_UNAVAILABLE"}
        assert "2013-03-0" in failure["AAPL"].message


def test_in_a_replay_a_share_that_has_ended_keeps_its_last_close() -> None:
    now, provider = at("2015-06-01T15:30:00Z"), Embedded(is_replay=True)
    quote = ask(provider.quotes(["AAPL"], now)).values["AAPL"]
    assert (quote.price, quote.as_of_ns) == (Decimal("430.47"), at("2013-03-01T21:00:00Z"))
    assert date.fromordinal(ask(provider.daily(["AAPL"], 5, now)).values["AAPL"].days[-1]) == date(2013, 3, 1)
    assert (
        ask(provider.quotes(["AAPL"], at("1999-01-04T15:00:00Z"))).failures["AAPL"].code == "DATA_UNAVAILABLE"
    )
    ended = ask(provider.history("AAPL", "1mo", "1d", now)).failures["AAPL"]
    assert "the last session known is 2013-03-01" in ended.message


def test_daily_columns_end_with_the_last_full_session_and_agree_with_the_body() -> None:
    fetch = ask(Embedded().daily(["AAPL", "FB"], 253, NOW))
    aapl = fetch.values["AAPL"]
    assert len(aapl.days) == len(aapl.adjusted) == len(aapl.volumes) == 253
    assert date.fromordinal(aapl.days[-1]) == date(2012, 11, 30)
    assert (aapl.adjusted[-1], aapl.volumes[-1]) == (585.28, 13_975_700)
    shown = json.loads(fetch.body)["symbols"]["AAPL"]
    assert shown["sessions"][-1] == "2012-11-30"
    assert [float(value) for value in shown["adjusted_close"]] == aapl.adjusted.tolist()
    assert len(fetch.values["FB"].days) < 253


def test_a_series_is_told_anew_once_a_session_closes() -> None:
    provider = Embedded()
    before = ask(provider.daily(["IBM"], 5, NOW)).values["IBM"]
    same = ask(provider.daily(["IBM"], 5, at("2012-12-03T20:59:59Z"))).values["IBM"]
    after = ask(provider.daily(["IBM"], 5, at("2012-12-03T21:00:00Z"))).values["IBM"]
    assert same == before
    assert date.fromordinal(after.days[-1]) == date(2012, 12, 3)


def test_on_its_first_day_a_share_has_a_quote_and_no_bars() -> None:
    listing = at("2012-05-18T15:30:00Z")
    assert ask(Embedded().quotes(["FB"], listing)).values["FB"].previous_close is None
    assert ask(Embedded().daily(["FB"], 5, listing)).failures["FB"].code == "DATA_UNAVAILABLE"
    assert ask(Embedded().history("FB", "max", "1d", listing)).failures["FB"].code == "DATA_UNAVAILABLE"


@pytest.mark.parametrize(
    ("period", "interval", "count", "first"),
    [
        ("1d", "1d", 1, date(2012, 11, 30)),
        ("5d", "1d", 5, date(2012, 11, 26)),
        ("1mo", "1d", 19, date(2012, 11, 5)),
        ("ytd", "1mo", 11, date(2012, 1, 3)),
        ("1y", "3mo", 4, date(2011, 10, 3)),
        ("3mo", "1wk", 13, date(2012, 9, 4)),
        ("max", "1d", 3209, date(2000, 3, 1)),
    ],
)
def test_a_history_spans_its_period(period: str, interval: str, count: int, first: date) -> None:
    bars = ask(Embedded().history("AAPL", period, interval, NOW)).values["AAPL"]
    assert (len(bars), bars[0].start_ns) == (count, calendar.open_ns(first))


def test_no_bar_tells_of_the_session_in_progress() -> None:
    bars = ask(Embedded().history("AAPL", "5d", "1d", NOW)).values["AAPL"]
    assert bars[-1].start_ns == calendar.open_ns(date(2012, 11, 30))
    later = ask(Embedded().history("AAPL", "5d", "1d", at("2012-12-03T21:00:00Z"))).values["AAPL"]
    assert later[-1].start_ns == calendar.open_ns(date(2012, 12, 3))


def test_the_week_of_a_split_does_not_look_like_a_fall() -> None:
    # Apple's shares were split 2:1 on Wednesday 2000-06-21.
    weeks = ask(Embedded().history("AAPL", "1mo", "1wk", at("2000-07-03T15:00:00Z"))).values["AAPL"]
    week = next(each for each in weeks if each.start_ns == calendar.open_ns(date(2000, 6, 19)))
    assert Decimal(40) < week.open < Decimal(52)
    assert week.high < Decimal(60)


def test_minutes_are_not_there_and_the_answer_says_what_is() -> None:
    error = ask(Embedded().history("AAPL", "5d", "5m", NOW)).failures["AAPL"]
    assert error.code == "DATA_UNAVAILABLE"
    assert "'1d'" in error.message


def test_a_pair_that_does_not_fit_is_the_asker_s_mistake() -> None:
    with pytest.raises(ToolError) as caught:
        ask(Embedded().history("AAPL", "1y", "1m", NOW))
    assert caught.value.code == "INVALID_INPUT"


def test_history_bodies_show_each_bar() -> None:
    fetch = ask(Embedded().history("AAPL", "5d", "1d", NOW))
    body = json.loads(fetch.body)
    assert (body["period"], body["interval"]) == ("5d", "1d")
    assert [row[4] for row in body["symbols"]["AAPL"]] == [bar.close for bar in fetch.values["AAPL"]]
