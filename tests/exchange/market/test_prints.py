"""Trades one by one and by taking order."""

from __future__ import annotations

from tests.exchange.market.support import Bench
from tracedesk.exchange.local.market.prints import Kept, Print


def test_trades_of_one_taker_at_one_price_are_one_aggregate() -> None:
    bench = Bench()
    bench.listen("btcusdt@aggTrade")
    bench.trade("50000", "1", taker=7)
    bench.trade("50000", "2", taker=7)
    bench.trade("50001", "4", taker=7)
    bench.trade("50001", "8", taker=8)
    bench.levels(1, 1, ["49999@1"])
    rows = [(row["p"], row["q"], row["f"], row["l"]) for row in bench.data("btcusdt@aggTrade")]
    assert rows == [
        ("50000.00000000", "3.00000000", 1, 2),
        ("50001.00000000", "4.00000000", 3, 3),
        ("50001.00000000", "8.00000000", 4, 4),
    ]
    assert [row["a"] for row in bench.market.agg_trades()] == [1, 2, 3]


def test_an_aggregate_is_told_at_once_when_its_order_has_taken_all() -> None:
    bench = Bench()
    bench.listen("btcusdt@aggTrade")
    bench.trade("50000", "1", taker=7)
    assert bench.data("btcusdt@aggTrade") == []
    bench.levels(1, 1, [], ["50000@0"])
    assert len(bench.data("btcusdt@aggTrade")) == 1


def test_aggregates_are_found_by_id_and_by_time() -> None:
    bench = Bench()
    for number in range(5):
        bench.trade("50000", "1", taker=number)
        bench.clock.advance(1)
    rows = bench.market.agg_trades()
    times = [row["T"] for row in rows]
    assert [row["a"] for row in bench.market.agg_trades(from_id=3)] == [3, 4, 5]
    assert [row["a"] for row in bench.market.agg_trades(start=times[1], end=times[2])] == [2, 3]
    assert [row["a"] for row in bench.market.agg_trades(start=times[1], limit=1)] == [2]
    assert [row["a"] for row in bench.market.agg_trades(limit=2)] == [4, 5]


def test_old_trades_are_found_by_id_until_they_are_forgotten() -> None:
    kept: Kept[Print] = Kept(most=10)
    for number in range(100):
        kept.add(Print(number, 1, 1, number, False))
    assert [row.id for row in kept.from_id(95, 3)] == [95, 96, 97]
    assert [row.id for row in kept.newest(2)] == [98, 99]
    assert 10 <= len(kept) < 20
    assert kept.from_id(0, 1)[0].id == 100 - len(kept)


def test_a_trade_is_shown_with_what_was_paid() -> None:
    bench = Bench()
    bench.trade("61837.63", "0.00016", sold=True)
    assert bench.market.trades() == [
        {
            "id": 1,
            "price": "61837.63000000",
            "qty": "0.00016000",
            "quoteQty": "9.89402080",
            "time": 1_767_225_600_000,
            "isBuyerMaker": True,
            "isBestMatch": True,
        }
    ]
    assert bench.market.historical_trades(from_id=1, unit="us")[0]["time"] == 1_767_225_600_000_000
