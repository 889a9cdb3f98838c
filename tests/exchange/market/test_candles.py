"""Candles against a plain recount of the trades."""

from __future__ import annotations

from dataclasses import asdict

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.market.support import START, Bench
from tracedesk.exchange.local.market.candles import Candle, Candles, joined
from tracedesk.exchange.local.market.intervals import HOUR, INTERVALS, following
from tracedesk.exchange.local.market.prints import Print

STEPS = st.lists(
    st.tuples(st.integers(0, 200_000), st.integers(1, 50), st.integers(1, 9), st.booleans()),
    min_size=1,
    max_size=40,
)
"""Milliseconds since the last trade, price, quantity, and whether the buyer made."""


def prints(steps: list[tuple[int, int, int, bool]]) -> list[Print]:
    ms, made = START // 1_000_000, list[Print]()
    for number, (gap, price, quantity, maker) in enumerate(steps, 1):
        ms += gap
        made.append(Print(number, price, quantity, ms * 1_000_000, maker))
    return made


def recounted(trades: list[Print], interval: str, opened: int, before: int, offset: int = 0) -> Candle:
    closes = following(opened, interval, offset)
    inside = [t for t in trades if opened <= t.time_ns // 1_000_000 < closes]
    if not inside:
        return Candle.flat(opened, closes, before)
    bought = [t for t in inside if not t.buyer_is_maker]
    prices = [t.price for t in inside]
    return Candle(
        opened,
        closes,
        prices[0],
        max(prices),
        min(prices),
        prices[-1],
        sum(t.quantity for t in inside),
        sum(t.price * t.quantity for t in inside),
        len(inside),
        sum(t.quantity for t in bought),
        sum(t.price * t.quantity for t in bought),
        inside[0].id,
        inside[-1].id,
    )


@given(STEPS, st.sampled_from(INTERVALS))
@settings(deadline=None)
def test_every_candle_equals_a_recount_and_no_interval_is_left_out(
    steps: list[tuple[int, int, int, bool]], interval: str
) -> None:
    trades = prints(steps)
    candles = Candles()
    for made in trades:
        candles.add(made)
    rows = list(candles.series(interval))
    before = trades[0].price
    for row, later in zip(rows, [*rows[1:], None], strict=True):
        assert row == recounted(trades, interval, row.opened, before)
        assert later is None or later.opened == row.closes
        before = row.close
    assert rows[-1].closes > trades[-1].time_ns // 1_000_000


@given(STEPS, st.sampled_from(["3m", "1h", "12h", "1d", "1w", "1M"]), st.sampled_from([8 * HOUR, -11 * HOUR]))
@settings(deadline=None)
def test_candles_of_another_zone_equal_a_recount_by_its_clock(
    steps: list[tuple[int, int, int, bool]], interval: str, offset: int
) -> None:
    trades = prints(steps)
    candles = Candles()
    for made in trades:
        candles.add(made)
    before = trades[0].price
    for row in candles.zoned(interval, offset):
        assert row == recounted(trades, interval, row.opened, before, offset)
        before = row.close


@given(STEPS)
@settings(deadline=None, max_examples=30)
def test_a_past_of_minutes_makes_the_same_longer_candles_as_its_trades(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    lived, told = Candles(), Candles()
    for made in prints(steps):
        lived.add(made)
    told.begin(lived.series("1m"), ())
    for interval in INTERVALS[1:]:
        assert list(map(asdict, told.series(interval))) == list(map(asdict, lived.series(interval)))


def test_joining_nothing_makes_nothing() -> None:
    assert joined((), "1h") == []


def test_time_without_trades_is_told_as_flat_candles() -> None:
    bench = Bench()
    bench.trade("50000", "1")
    bench.advance(3.5)
    rows = bench.market.klines("1s")
    assert [row[8] for row in rows] == [1, 0, 0, 0]
    assert rows[2][1:6] == ["50000.00000000"] * 4 + ["0.00000000"]


def test_a_long_silence_is_filled_no_further_than_candles_are_kept() -> None:
    bench = Bench()
    bench.trade("50000", "1")
    bench.clock.advance(30 * 86_400)
    rows = bench.market.klines("1s", limit=1000)
    assert len(rows) == 1000
    assert rows[-1][6] >= bench.clock.now_ns() // 1_000_000
    assert len(bench.market.candles.series("1s")) == 7_200


def test_klines_from_a_start_are_the_earliest_and_else_the_latest() -> None:
    bench = Bench()
    for _ in range(6):
        bench.trade("50000", "1")
        bench.clock.advance(60)
    times = [row[0] for row in bench.market.klines("1m")]
    market = bench.market
    assert [row[0] for row in market.klines("1m", limit=2)] == times[-2:]
    assert [row[0] for row in market.klines("1m", start=times[1], limit=2)] == times[1:3]
    assert [row[0] for row in market.klines("1m", end=times[3], limit=2)] == times[2:4]
    assert [row[0] for row in market.klines("1m", start=times[1] + 1, end=times[3])] == times[2:4]
