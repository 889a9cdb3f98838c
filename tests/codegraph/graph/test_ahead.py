"""Items made ahead: in order, bounded, with what goes wrong, and never longer than they are wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support import BOUND
from tracedesk.codegraph.graph.ahead import made_ahead


def test_items_come_in_order_from_another_thread() -> None:
    def make(_: object) -> Iterator[tuple[int, int]]:
        for number in range(50):
            yield number, threading.get_ident()

    with made_ahead(make) as items:
        found = list(items)
    assert [number for number, _ in found] == list(range(50))
    assert threading.get_ident() not in {thread for _, thread in found}


def test_what_goes_wrong_is_raised_behind_what_was_made() -> None:
    def make(_: object) -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    found: list[int] = []
    with pytest.raises(ValueError, match="broken"), made_ahead(make) as items:
        found += items
    assert found == [1]


def test_no_more_is_made_than_a_few_items_ahead() -> None:
    made: list[int] = []
    is_full = threading.Event()

    def make(_: object) -> Iterator[int]:
        for number in range(1_000):
            made.append(number)
            if number == 5:
                is_full.set()
            yield number

    with made_ahead(make) as items:
        assert next(items) == 0
        assert is_full.wait(BOUND)
        assert len(made) == 6


def test_a_thread_that_nobody_listens_to_has_ended_and_closed_what_it_used() -> None:
    closed = threading.Event()

    def make(_: object) -> Iterator[int]:
        try:
            yield from range(1_000_000)
        finally:
            closed.set()

    def take_one() -> None:
        with made_ahead(make) as items:
            next(items)
            raise RuntimeError("enough")

    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="enough"):
        take_one()
    assert closed.is_set()
    assert set(threading.enumerate()) <= before


def test_work_between_items_ends_where_it_asks() -> None:
    has_begun = threading.Event()

    def make(check: Callable[[], None]) -> Iterator[int]:
        has_begun.set()
        while True:
            check()
        yield 1

    before = set(threading.enumerate())
    with made_ahead(make):
        assert has_begun.wait(BOUND)
    assert set(threading.enumerate()) <= before
