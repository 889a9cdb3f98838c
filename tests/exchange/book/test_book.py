from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.exchange.book.book import Book

PRICES = st.integers(1, 30)
QUANTITIES = st.integers(0, 3)
UPDATES = st.lists(st.tuples(st.booleans(), PRICES, QUANTITIES), max_size=80)


def test_an_empty_book_has_no_touch_and_is_not_crossed() -> None:
    book = Book()
    assert book.best_bid() is None
    assert book.best_ask() is None
    assert book.top(5) == ([], [])
    assert not book.crossed


def test_removing_the_best_level_shows_the_next() -> None:
    book = Book()
    book.apply([(99, 5), (98, 7)], [(101, 1), (103, 2)])
    assert (book.best_bid(), book.best_ask()) == ((99, 5), (101, 1))
    book.apply([(99, 0)], [(101, 0)])
    assert (book.best_bid(), book.best_ask()) == ((98, 7), (103, 2))


def test_removing_a_level_that_is_not_there_changes_nothing() -> None:
    book = Book()
    book.apply([(99, 5)], [])
    book.apply([(98, 0)], [(105, 0)])
    assert (book.bids, book.asks) == ({99: 5}, {})


def test_the_top_is_best_first_on_both_sides() -> None:
    book = Book()
    book.apply([(97, 1), (99, 2), (98, 3)], [(103, 4), (101, 5), (102, 6)])
    assert book.top(2) == ([(99, 2), (98, 3)], [(101, 5), (102, 6)])
    assert book.top(10) == ([(99, 2), (98, 3), (97, 1)], [(101, 5), (102, 6), (103, 4)])


def test_a_kept_top_is_not_shown_after_an_update() -> None:
    book = Book()
    book.apply([(99, 2)], [(101, 1)])
    book.top(5)
    book.apply([(100, 9)], [])
    assert book.top(1) == ([(100, 9)], [(101, 1)])


def test_whoever_changes_a_top_does_not_change_the_book() -> None:
    book = Book()
    book.apply([(99, 2)], [(101, 1)])
    book.top(5)[0].clear()
    assert book.top(5)[0] == [(99, 2)]


def test_a_bid_at_the_ask_crosses_the_book() -> None:
    book = Book()
    book.apply([(99, 2)], [(100, 1)])
    assert not book.crossed
    book.apply([(100, 1)], [])
    assert book.crossed
    book.clear()
    assert not book.crossed


@given(updates=UPDATES, read_every=st.integers(1, 7))
def test_the_touch_and_the_top_are_those_of_a_plain_dictionary(
    updates: list[tuple[bool, int, int]], read_every: int
) -> None:
    book = Book()
    model: dict[bool, dict[int, int]] = {True: {}, False: {}}
    for number, (is_bid, price, quantity) in enumerate(updates):
        model[is_bid][price] = quantity
        if not quantity:
            del model[is_bid][price]
        book.apply([(price, quantity)] if is_bid else [], [] if is_bid else [(price, quantity)])
        if number % read_every == 0:
            bids = sorted(model[True].items(), reverse=True)
            asks = sorted(model[False].items())
            assert book.best_bid() == (bids[0] if bids else None)
            assert book.best_ask() == (asks[0] if asks else None)
            assert book.top(3) == (bids[:3], asks[:3])
    assert (book.bids, book.asks) == (model[True], model[False])


@pytest.mark.parametrize("seed", range(6))
def test_a_deep_book_is_right_while_the_market_wanders(seed: int) -> None:
    """Deep enough that most levels are far from the best, with runs that clear away all that is near."""
    chance = random.Random(seed)
    book = Book()
    bids: dict[int, int] = {}
    asks: dict[int, int] = {}
    middle = 5_000
    for number in range(6_000):
        middle += chance.choice((-3, -1, 0, 1, 3))
        distance = int(chance.expovariate(1 / 300))
        quantity = chance.choice((0, 0, 1, 2, 5))
        for side, put, price in (
            (bids, book.set_bid, middle - 1 - distance),
            (asks, book.set_ask, middle + distance),
        ):
            put(price, quantity)
            side[price] = quantity
            if not quantity:
                del side[price]
        if number % 500 == 499:  # everything near the best goes at once
            gone = [(price, 0) for price in sorted(bids, reverse=True)[:150]]
            book.apply(gone, [])
            for price, _ in gone:
                del bids[price]
        if number % chance.randint(1, 5) == 0:
            assert book.best_bid() == (max(bids.items()) if bids else None)
            assert book.best_ask() == (min(asks.items()) if asks else None)
        if number % 50 == 0:
            for levels in (1, 70, 2_000):
                assert book.top(levels) == (
                    sorted(bids.items(), reverse=True)[:levels],
                    sorted(asks.items())[:levels],
                )
    assert (book.bids, book.asks) == (bids, asks)
