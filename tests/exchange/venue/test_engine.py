"""The bare book: price before time, and the same fills as an engine that others wrote."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tracedesk.exchange.venue.engine import ANY_PRICE, BUY, SELL, Engine, Prevented, Queued, Resting
from tracedesk.exchange.venue.orders import Prevention

Order = tuple[int, int, int]


def _orders(seed: int, count: int, width: int) -> Iterator[Order]:
    """Random limit orders around a middle that drifts."""
    dice = random.Random(seed)
    middle = 10_000
    for _ in range(count):
        middle += dice.choice((-1, 0, 0, 1))
        yield dice.choice((BUY, SELL)), middle + dice.randint(-width, width), dice.randint(1, 20)


@pytest.mark.parametrize("width", [60, 1000])
def test_fills_equal_those_of_lightmatchingengine_on_50_000_random_orders(width: int) -> None:
    rival: Any = import_module("lightmatchingengine.lightmatchingengine").LightMatchingEngine()
    engine = Engine()
    dice = random.Random(width)
    resting: list[Resting] = []
    fills = cancels = 0
    for id, (sign, price, quantity) in enumerate(_orders(7, 50_000, width), 1):
        order = Resting(id, sign, price, quantity)
        ours = [(maker.id, at, part) for maker, at, part in engine.limit(order)]
        _, trades = rival.add_order("X", price, quantity, 1 if sign > 0 else 2)
        # It reports the taker's own side first, level by level, and then the makers'.
        theirs = [(each.order_id, each.trade_price, each.trade_qty) for each in trades if each.order_id != id]
        assert ours == theirs
        fills += len(ours)
        if order.open:
            resting.append(order)
        if dice.random() < 0.2 and resting:
            chosen = resting.pop(dice.randrange(max(0, len(resting) - 50), len(resting)))
            if chosen.open:
                engine.cancel(chosen)
                assert rival.cancel_order(chosen.id, "X") is not None
                cancels += 1
    assert fills > 10_000
    assert cancels > 1_000
    assert engine.depth() == _depth_of(rival)


def _depth_of(rival: Any) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    book = rival.order_books["X"]
    bids = [
        (price, sum(each.leaves_qty for each in book.bids[price]))
        for price in sorted(book.bids, reverse=True)
    ]
    asks = [(price, sum(each.leaves_qty for each in book.asks[price])) for price in sorted(book.asks)]
    return bids, asks


def test_the_better_price_trades_first_and_at_one_price_the_older_order() -> None:
    engine = Engine()
    for id, price in ((1, 101), (2, 100), (3, 100)):
        engine.limit(Resting(id, SELL, price, 5))
    found = engine.limit(Resting(4, BUY, 101, 12))
    assert [(maker.id, price, quantity) for maker, price, quantity in found] == [
        (2, 100, 5),
        (3, 100, 5),
        (1, 101, 2),
    ]


def test_an_iceberg_shows_one_part_at_a_time_and_queues_again_after_each() -> None:
    engine = Engine()
    iceberg = Queued(1, SELL, 100, 25, shown=10)
    engine.rest(iceberg)
    engine.limit(Resting(2, SELL, 100, 10))
    assert engine.depth()[1] == [(100, 20)]
    found = engine.take(Resting(3, BUY, 0, 27))
    assert [(maker.id, quantity) for maker, _, quantity in found] == [(1, 10), (2, 10), (1, 7)]
    assert (iceberg.open, iceberg.hidden) == (3, 5)
    assert engine.depth()[1] == [(100, 3)]


def test_a_level_full_of_cancelled_orders_does_not_grow() -> None:
    engine = Engine()
    engine.limit(Resting(0, BUY, 100, 1))
    for id in range(1, 10_000):
        order = Resting(id, BUY, 100, 1)
        engine.limit(order)
        engine.cancel(order)
    assert len(engine.bids.levels[-100].queue) < 200


def test_levels_that_were_emptied_far_from_the_touch_are_forgotten() -> None:
    engine = Engine()
    engine.limit(Resting(0, BUY, 1_000_000, 1))
    for id in range(1, 20_000):
        order = Resting(id, BUY, id, 1)
        engine.limit(order)
        engine.cancel(order)
    assert len(engine.bids.levels) < 5_000
    assert engine.touch() == ((1_000_000, 1), None)
    assert sorted(engine.bids.heap) == sorted(engine.bids.levels)


MODES: tuple[Prevention, ...] = ("NONE", "EXPIRE_TAKER", "EXPIRE_MAKER", "EXPIRE_BOTH", "DECREMENT")


@pytest.mark.parametrize("mode", MODES)
def test_what_is_foreseen_is_what_trades(mode: Prevention) -> None:
    dice = random.Random(3)
    for _ in range(300):
        engine = Engine()
        for id in range(1, 12):
            owner, shown = dice.choice("abc"), dice.choice((0, 0, 2))
            engine.rest(Queued(id, SELL, dice.randint(100, 104), dice.randint(1, 9), owner, shown))
        taker = Queued(99, BUY, dice.choice((102, 104)), dice.randint(1, 40), "a")
        limit = dice.choice((-taker.key, ANY_PRICE))
        foreseen = list(engine.foresee(BUY, taker.open, limit, "a", mode))
        steps = engine.take(taker, limit) if mode == "NONE" else engine.take_guarded(taker, mode, limit)
        traded = [(step[1], step[2]) for step in steps if not isinstance(step, Prevented)]
        assert foreseen == traded


def test_a_trade_from_outside_takes_from_an_order_behind_others_and_an_iceberg_goes_on() -> None:
    engine = Engine()
    first, iceberg = Queued(1, BUY, 100, 5), Queued(2, BUY, 100, 12, shown=4)
    engine.rest(first)
    engine.rest(iceberg)
    engine.hit(iceberg, 6)
    assert (iceberg.open, iceberg.hidden) == (4, 2)
    assert engine.depth()[0] == [(100, 9)]
    found = engine.take(Resting(3, SELL, 0, 100))
    assert [(maker.id, quantity) for maker, _, quantity in found] == [(1, 5), (2, 4), (2, 2)]
