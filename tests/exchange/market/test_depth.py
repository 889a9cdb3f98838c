"""Depth streams: whoever follows them has the book."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.market.support import Bench
from tracedesk.exchange.book.book import Book
from tracedesk.exchange.book.sync import Depth, Sync
from tracedesk.exchange.units import ONE, units

CHANGES = st.lists(
    st.tuples(st.booleans(), st.integers(1, 40), st.integers(0, 5), st.integers(0, 250)), max_size=120
)
"""Side, price, quantity, and milliseconds until the next one."""


def pairs(rows: list[list[str]]) -> list[tuple[int, int]]:
    return [(units(price), units(quantity)) for price, quantity in rows]


@given(CHANGES, st.sampled_from(["btcusdt@depth@100ms", "btcusdt@depth"]), st.integers(0, 60))
@settings(deadline=None, max_examples=60)
def test_a_book_kept_by_snapshot_and_diffs_is_the_published_one(
    changes: list[tuple[bool, int, int, int]], stream: str, fetched: int
) -> None:
    bench = Bench()
    sync = Sync(bench.clock)
    bench.listen(stream)
    sync.opened()

    def hear() -> None:
        for message in bench.said:
            sync.offer(Depth.of(message.data()))
        bench.said.clear()

    for number, (is_bid, price, quantity, gap) in enumerate(changes, 1):
        change = [(price * ONE, quantity * ONE)]
        bench.market.levels(number, number, change if is_bid else [], [] if is_bid else change)
        bench.clock.advance(ns=gap * 1_000_000)
        bench.markets.pulse(bench.clock.now_ns())
        hear()
        if number == fetched:
            book = bench.market.depth(5000)
            sync.snapshot(book["lastUpdateId"], pairs(book["bids"]), pairs(book["asks"]))
    bench.advance(1.1)
    hear()
    published = bench.market.depth_feed.book
    if sync.synced and not sync.book.crossed:
        assert sync.book.bids == published.bids
        assert sync.book.asks == published.asks
        assert sync.resyncs == 0


def ids(events: list[Any]) -> list[tuple[int, int]]:
    return [(event["U"], event["u"]) for event in events]


def test_batches_follow_each_other_without_a_gap_in_both_speeds() -> None:
    bench = Bench()
    bench.listen("btcusdt@depth@100ms", "btcusdt@depth")
    for number in range(1, 31):
        bench.levels(number, number, [f"{50000 + number % 3}@{number}"])
        bench.advance(0.1)
    fast, slow = ids(bench.data("btcusdt@depth@100ms")), ids(bench.data("btcusdt@depth"))
    assert fast == [(number, number) for number in range(1, 31)]
    assert slow[0][0] == 1
    assert [first for first, _ in slow[1:]] == [last + 1 for _, last in slow[:-1]]
    assert len(slow) == 3


def test_a_batch_says_only_the_newest_quantity_of_each_level_from_the_touch_outwards() -> None:
    bench = Bench()
    bench.listen("btcusdt@depth@100ms")
    bench.levels(1, 2, ["100@1", "99@5"], ["101@1"])
    bench.levels(3, 5, ["100@0"], ["102@7", "101@3"])
    bench.advance(0.1)
    assert bench.data("btcusdt@depth@100ms") == [
        {
            "e": "depthUpdate",
            "E": 1_767_225_600_100,
            "s": "BTCUSDT",
            "U": 1,
            "u": 5,
            "b": [("100.00000000", "0.00000000"), ("99.00000000", "5.00000000")],
            "a": [("101.00000000", "3.00000000"), ("102.00000000", "7.00000000")],
        }
    ]


def test_nothing_is_sent_while_nothing_changes() -> None:
    bench = Bench()
    bench.listen("btcusdt@depth@100ms", "btcusdt@depth", "btcusdt@depth5", "btcusdt@bookTicker")
    bench.advance(3)
    assert bench.said == []


def test_partial_depth_is_the_top_of_the_book() -> None:
    bench = Bench()
    bench.listen("btcusdt@depth5@100ms", "btcusdt@depth10")
    bench.levels(1, 16, [f"{100 - n}@{n}" for n in range(1, 9)], [f"{100 + n}@{n}" for n in range(1, 9)])
    bench.advance(1)
    [five] = bench.data("btcusdt@depth5@100ms")
    [ten] = bench.data("btcusdt@depth10")
    assert five["lastUpdateId"] == 16
    assert [price for price, _ in five["bids"]] == [f"{100 - n}.00000000" for n in range(1, 6)]
    assert len(ten["asks"]) == 8
    assert five["asks"] == ten["asks"][:5]


def test_a_touch_is_told_the_moment_it_changes() -> None:
    bench = Bench()
    bench.listen("btcusdt@bookTicker")
    bench.market.touch(4, (100 * ONE, ONE), None)
    assert bench.data("btcusdt@bookTicker") == [
        {
            "u": 4,
            "s": "BTCUSDT",
            "b": "100.00000000",
            "B": "1.00000000",
            "a": "0.00000000",
            "A": "0.00000000",
        }
    ]
    assert bench.market.book_ticker()["bidPrice"] == "100.00000000"


def test_a_whole_book_replaces_what_was_there() -> None:
    bench = Bench()
    bench.levels(1, 1, ["100@1"])
    bench.market.begin_book(9, [(99 * ONE, ONE)], [])
    assert bench.market.depth()["bids"] == [("99.00000000", "1.00000000")]
    assert isinstance(bench.market.depth_feed.book, Book)
