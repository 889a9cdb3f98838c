"""Windows of the past as tickers show them."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.market.support import Bench, level
from tracedesk.exchange.local.market.intervals import HOUR, MINUTE
from tracedesk.exchange.local.market.prints import Print
from tracedesk.exchange.local.market.windows import round_half_even
from tracedesk.exchange.units import ONE, text

STEPS = st.lists(
    st.tuples(st.integers(0, 7_200), st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=40
)
"""Seconds since the last trade, price, quantity."""


@given(STEPS, st.sampled_from([MINUTE, 7 * MINUTE, HOUR, 23 * HOUR, 24 * HOUR, 7 * 24 * HOUR]))
@settings(deadline=None, max_examples=60)
def test_a_rolling_window_equals_a_recount_from_the_minute_it_opens(
    steps: list[tuple[int, int, int]], length: int
) -> None:
    bench = Bench()
    trades: list[Print] = []
    for gap, price, quantity in steps:
        bench.clock.advance(gap)
        trades.append(bench.trade(str(price), str(quantity)))
    said = bench.market.ticker(length)
    now = bench.clock.now_ns() // 1_000_000
    assert said["openTime"] % MINUTE == 0
    assert now - length - MINUTE < said["openTime"] <= now - length
    inside = [made for made in trades if made.time_ns // 1_000_000 >= said["openTime"]]
    volume = sum(made.quantity for made in inside)
    assert said["count"] == len(inside)
    assert said["volume"] == text(volume)
    assert said["quoteVolume"] == text(sum(made.quote for made in inside) // ONE)
    assert said["highPrice"] == text(max(made.price for made in inside))
    assert said["lowPrice"] == text(min(made.price for made in inside))
    assert (said["firstId"], said["lastId"]) == (inside[0].id, inside[-1].id)
    assert said["weightedAvgPrice"] == text(sum(made.quote for made in inside) // volume)


def test_the_day_ticker_has_every_field_of_the_venue() -> None:
    bench = Bench()
    bench.trade("99", "1")
    bench.clock.advance(26 * 3600)
    bench.trade("100", "2")
    bench.clock.advance(60)
    bench.trade("103", "1", sold=True)
    bench.market.touch(5, level("102@3"), level("103@4"))
    assert bench.market.ticker_24hr() == {
        "symbol": "BTCUSDT",
        "priceChange": "3.00000000",
        "priceChangePercent": "3.000",
        "weightedAvgPrice": "101.00000000",
        "prevClosePrice": "99.00000000",
        "lastPrice": "103.00000000",
        "lastQty": "1.00000000",
        "bidPrice": "102.00000000",
        "bidQty": "3.00000000",
        "askPrice": "103.00000000",
        "askQty": "4.00000000",
        "openPrice": "100.00000000",
        "highPrice": "103.00000000",
        "lowPrice": "100.00000000",
        "volume": "3.00000000",
        "quoteVolume": "303.00000000",
        "openTime": bench.clock.now_ns() // 1_000_000 - 86_400_000,
        "closeTime": bench.clock.now_ns() // 1_000_000,
        "firstId": 2,
        "lastId": 3,
        "count": 2,
    }
    mini = set(bench.market.ticker_24hr(mini=True))
    assert "priceChange" not in mini
    assert {"openPrice", "count", "closeTime"} <= mini


def test_ticker_streams_have_the_fields_of_the_venue_in_its_order() -> None:
    bench = Bench()
    bench.listen("btcusdt@ticker", "btcusdt@miniTicker", "btcusdt@ticker_1h", "btcusdt@avgPrice")
    bench.trade("100", "2")
    bench.advance(1)
    [day] = bench.data("btcusdt@ticker")
    [mini] = bench.data("btcusdt@miniTicker")
    [hour] = bench.data("btcusdt@ticker_1h")
    [average] = bench.data("btcusdt@avgPrice")
    assert "".join(day) == "eEspPwxcQbBaAohlvqOCFLn"
    assert "".join(mini) == "eEscohlvq"
    assert "".join(hour) == "eEspPohlcwvqOCFLn"
    assert "".join(average) == "eEsiwT"
    assert (day["e"], mini["e"], hour["e"]) == ("24hrTicker", "24hrMiniTicker", "1hTicker")
    assert (average["i"], average["w"], average["T"]) == ("5m", "100.00000000", 1_767_225_600_000)


def test_tickers_are_sent_once_a_second_and_only_when_something_is_new() -> None:
    bench = Bench()
    arrays = ("!miniTicker@arr", "!miniTicker@arr@1000ms")
    bench.listen("btcusdt@miniTicker", *arrays, "!ticker_4h@arr")
    bench.trade("100", "1")
    bench.advance(5)
    assert len(bench.data("btcusdt@miniTicker")) == 1
    for name in arrays:
        assert [[each["s"] for each in said] for said in bench.data(name)] == [["BTCUSDT"]]
    assert bench.data("!ticker_4h@arr")[0][0]["e"] == "4hTicker"
    bench.trade("100", "1")
    bench.advance(1)
    assert len(bench.data("btcusdt@miniTicker")) == 2


def test_the_trading_day_begins_at_the_zones_midnight() -> None:
    bench = Bench()
    bench.trade("100", "1")
    bench.clock.advance(17 * 3600)
    bench.trade("110", "1")
    assert bench.market.trading_day()["count"] == 2
    assert bench.market.trading_day(8 * HOUR)["count"] == 1


def test_the_average_price_looks_back_five_minutes() -> None:
    bench = Bench()
    bench.trade("100", "1")
    bench.clock.advance(301)
    assert bench.market.avg_price()["price"] == "100.00000000"
    bench.trade("200", "1")
    bench.trade("203", "2")
    said = bench.market.avg_price()
    assert (said["mins"], said["price"]) == (5, "202.00000000")
    assert said["closeTime"] == bench.clock.now_ns() // 1_000_000


def test_a_market_without_trades_has_a_ticker_of_nothing() -> None:
    bench = Bench()
    said = bench.market.ticker_24hr()
    assert (said["count"], said["lastPrice"], said["priceChangePercent"]) == (0, "0.00000000", "0.000")
    assert bench.market.price() == {"symbol": "BTCUSDT", "price": "0.00000000"}
    json.dumps(said)


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6))
def test_percentages_are_rounded_half_to_even(numerator: int, denominator: int) -> None:
    from fractions import Fraction

    assert round_half_even(numerator, denominator) == round(Fraction(numerator, denominator))
