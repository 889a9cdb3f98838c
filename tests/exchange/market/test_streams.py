"""Names of streams, and what is told under them."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tests.exchange.market.support import Bench
from tracedesk.exchange.local.market import INTERVALS, Message, UnknownStream
from tracedesk.exchange.local.market.channels import Channel, split
from tracedesk.exchange.local.market.intervals import HOUR
from tracedesk.exchange.venue.events import LevelsChanged, TouchChanged, Traded


@pytest.mark.parametrize(
    "name",
    [
        "btcusdt",
        "btcusdt@",
        "@trade",
        "BTCUSDT@trade",
        "btcusdt@depth7",
        "btcusdt@depth@50ms",
        "btcusdt@kline_7m",
        "btcusdt@kline_1m@+09:00",
        "btcusdt@ticker_2h",
        "ethusdt@trade",
        "!ticker@arr",
    ],
)
def test_a_name_that_is_no_stream_is_refused(name: str) -> None:
    with pytest.raises(UnknownStream, match="no stream"):
        Bench().markets.subscribe(name, print)


def test_names_say_symbol_channel_and_speed() -> None:
    assert split("btcusdt@depth20@100ms") == ("BTCUSDT", Channel("partial", 20, True))
    assert split("btcusdt@depth@1000ms") == ("BTCUSDT", Channel("depth", 0, False))
    east = Channel("kline", interval="1d", offset=8 * HOUR)
    assert split("btcusdt@kline_1d@+08:00") == ("BTCUSDT", east)


def test_a_trade_is_told_as_the_venue_tells_it() -> None:
    bench = Bench()
    bench.listen("btcusdt@trade")
    bench.trade("61837.63", "0.02", sold=True)
    [message] = bench.said
    assert message.stream == "btcusdt@trade"
    expected = {
        "e": "trade",
        "E": 1_767_225_600_000,
        "s": "BTCUSDT",
        "t": 1,
        "p": "61837.63000000",
        "q": "0.02000000",
        "T": 1_767_225_600_000,
        "m": True,
        "M": True,
    }
    assert json.loads(message.body()) == expected
    assert list(json.loads(message.body())) == list(expected)
    assert json.loads(message.body("us"))["T"] == 1_767_225_600_000_000
    assert message.body() is message.body()


def test_a_kline_is_told_every_two_seconds_and_once_more_when_it_closes() -> None:
    bench = Bench()
    bench.listen("btcusdt@kline_1m")
    bench.trade("100", "2")
    bench.advance(60)
    told = [event["k"] for event in bench.data("btcusdt@kline_1m")]
    assert [k["x"] for k in told].count(True) == 1
    closed = next(k for k in told if k["x"])
    assert "".join(closed) == "tTsifLochlvnxqVQB"
    assert (closed["t"], closed["T"]) == (1_767_225_600_000, 1_767_225_659_999)
    assert (closed["n"], closed["q"], closed["V"]) == (1, "200.00000000", "2.00000000")
    assert 28 <= len(told) <= 32


@pytest.mark.parametrize(("interval", "closed"), [("1m", 2), ("1s", 100), ("1h", 0)])
def test_candles_that_closed_while_nothing_was_published_are_told_after_it(
    interval: str, closed: int
) -> None:
    bench = Bench()
    bench.listen(f"btcusdt@kline_{interval}")
    bench.trade("100", "2")
    bench.advance(50)
    bench.said.clear()
    bench.clock.advance(120.0)  # the process stood still
    bench.advance(1)
    told = [event["k"] for event in bench.data(f"btcusdt@kline_{interval}") if event["k"]["x"]]
    assert len(told) == closed
    assert [late["t"] - early["T"] for early, late in pairwise(told)] == [1] * (closed - 1 if closed else 0)


def test_seconds_are_told_closed_one_after_the_other() -> None:
    bench = Bench()
    bench.listen("btcusdt@kline_1s")
    bench.trade("100", "2")
    bench.advance(4)
    told = [event["k"] for event in bench.data("btcusdt@kline_1s")]
    assert [k["x"] for k in told] == [True] * 4
    assert [k["t"] - told[0]["t"] for k in told] == [0, 1000, 2000, 3000]
    assert (told[1]["f"], told[1]["L"], told[1]["n"]) == (-1, -1, 0)


def test_every_interval_has_a_stream_in_both_zones() -> None:
    bench = Bench()
    for interval in INTERVALS:
        bench.listen(f"btcusdt@kline_{interval}", f"btcusdt@kline_{interval}@+08:00")
    bench.trade("100", "2")
    bench.advance(2)
    assert {message.stream for message in bench.said} == {
        f"btcusdt@kline_{interval}{zone}" for interval in INTERVALS for zone in ("", "@+08:00")
    }
    [utc] = bench.data("btcusdt@kline_1d")
    [east] = bench.data("btcusdt@kline_1d@+08:00")
    assert utc["k"]["t"] - east["k"]["t"] == 8 * HOUR


def test_who_unsubscribes_hears_nothing_more_and_others_do() -> None:
    bench = Bench()
    first: list[Message] = []
    second: list[Message] = []
    stop = bench.markets.subscribe("btcusdt@trade", first.append)
    bench.markets.subscribe("btcusdt@trade", second.append)
    bench.trade("100", "1")
    stop()
    stop()
    bench.trade("100", "1")
    assert (len(first), len(second)) == (1, 2)


def test_a_sink_may_unsubscribe_while_it_is_told() -> None:
    bench = Bench()
    heard: list[object] = []

    def once(message: object) -> None:
        heard.append(message)
        stop()

    stop = bench.markets.subscribe("btcusdt@trade", once)
    bench.listen("btcusdt@trade")
    bench.trade("100", "1")
    bench.trade("100", "1")
    assert (len(heard), len(bench.said)) == (1, 2)


def test_events_of_the_venue_reach_their_market() -> None:
    bench = Bench()
    bench.listen("btcusdt@trade", "btcusdt@bookTicker", "btcusdt@depth@100ms", "btcusdt@aggTrade")
    now = bench.clock.now_ns()
    bench.markets.hear(Traded("BTCUSDT", 9, 100, 5, True, 1, 2, now))
    bench.markets.hear(LevelsChanged("BTCUSDT", 3, 4, ((99, 1),), ((101, 0),), now))
    bench.markets.hear(TouchChanged("BTCUSDT", 4, (99, 1), None, now))
    bench.advance(0.1)
    told = [message.stream.partition("@")[2] for message in bench.said]
    assert told == ["trade", "aggTrade", "bookTicker", "depth@100ms"]
    assert bench.market.last_trade_id == 9
