"""The replay clock: where it begins, that it only moves forward, and what a move crosses."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import BOUND
from tracedesk.market import ClockError, Dividend, Move, ReplayClock, View, calendar, dataset
from tracedesk.market.clock import FIRST_NS, LAST_NS, START_NS
from tracedesk.primitives import time
from tracedesk.primitives.time import DAY, HOUR, MINUTE, SECOND, Clock

INSTANTS = st.integers(FIRST_NS, LAST_NS)


def test_a_new_replay_begins_inside_a_session_with_every_symbol_and_sessions_ahead() -> None:
    clock = ReplayClock()
    assert time.format(clock.now_ns()) == "2012-12-03T15:30:00Z"
    view = View(clock)
    assert view.session == date(2012, 12, 3)
    assert view.symbols() == ("AAPL", "FB", "GOOG", "IBM", "MSFT")
    assert min(len(view.bars(symbol)) for symbol in view.symbols()) > 100
    ahead = Move(START_NS, LAST_NS)
    assert len(ahead.opened) == 60
    assert [day for day in ahead.closed if calendar.closes_early_for(day)] == [date(2012, 12, 24)]
    later = [a for bars in dataset.EMBEDDED.values() for a in bars.actions if a.ex_date in ahead.opened]
    assert [type(action) for action in later] == [Dividend] * 3


def test_the_replay_spans_the_data_and_a_session_in_progress_always_has_bars() -> None:
    assert calendar.opened_by(FIRST_NS) == dataset.FIRST_SESSION
    assert calendar.opened_by(LAST_NS) == calendar.closed_by(LAST_NS) == dataset.LAST_SESSION
    assert calendar.session_at(LAST_NS + 1) == date(2013, 3, 4)


def test_it_is_a_clock_as_every_part_of_the_desk_takes_one() -> None:
    clock: Clock = ReplayClock()
    assert clock.monotonic() == 0.0


def test_moves_are_returned_as_values_and_join_without_a_gap() -> None:
    clock = ReplayClock()
    moves = [clock.advance(HOUR), clock.set(START_NS + DAY), clock.to_close(), clock.to_open()]
    assert moves[0] == Move(START_NS, START_NS + HOUR)
    assert [move.to_ns for move in moves[:-1]] == [move.from_ns for move in moves[1:]]
    assert clock.now_ns() == moves[-1].to_ns == calendar.open_ns(date(2012, 12, 5))
    assert clock.monotonic() == (clock.now_ns() - START_NS) / SECOND


def test_it_never_moves_back() -> None:
    clock = ReplayClock()
    for back in (lambda: clock.set(START_NS - 1), lambda: clock.advance(-1)):
        with pytest.raises(ClockError, match="stands at 2012-12-03T15:30:00Z and moves forward only"):
            back()
    assert clock.set(START_NS) == Move(START_NS, START_NS)
    assert clock.now_ns() == START_NS


def test_it_does_not_leave_the_replay() -> None:
    clock = ReplayClock(LAST_NS)
    with pytest.raises(
        ClockError, match=r"is outside the replay; it runs from 2000-03-01T14:30:00Z to 2013-"
    ):
        clock.advance(1)
    with pytest.raises(ClockError, match="outside the replay"):
        clock.to_close()
    with pytest.raises(ClockError, match="outside the replay"):
        ReplayClock(FIRST_NS - 1)
    assert clock.now_ns() == LAST_NS


def test_a_planned_move_is_applied_only_where_it_begins() -> None:
    clock = ReplayClock()
    planned = Move(clock.now_ns(), calendar.next_close(clock.now_ns()))
    assert clock.now_ns() == START_NS
    assert clock.apply(planned) == planned
    with pytest.raises(ClockError, match="begins at 2012-12-03T15:30:00Z, but the clock stands at"):
        clock.apply(planned)


def test_a_move_over_a_weekend_and_a_short_day_names_the_sessions_it_opened_and_closed() -> None:
    move = Move(calendar.open_ns(date(2012, 12, 21)), calendar.open_ns(date(2012, 12, 26)))
    assert move.opened == (date(2012, 12, 24), date(2012, 12, 26))
    assert move.closed == (date(2012, 12, 21), date(2012, 12, 24))


def test_a_move_within_a_session_crosses_nothing() -> None:
    move = Move(START_NS, START_NS + 5 * HOUR)
    assert (move.opened, move.closed) == ((), ())


@given(INSTANTS, INSTANTS)
def test_a_move_crosses_each_open_and_close_after_its_start_and_up_to_its_end(one: int, other: int) -> None:
    move = Move(min(one, other), max(one, other))
    days = calendar.sessions(dataset.FIRST_SESSION, dataset.LAST_SESSION)
    assert move.opened == tuple(d for d in days if move.from_ns < calendar.open_ns(d) <= move.to_ns)
    assert move.closed == tuple(d for d in days if move.from_ns < calendar.close_ns(d) <= move.to_ns)


@given(INSTANTS, INSTANTS, INSTANTS)
def test_two_moves_cross_together_what_one_crosses(a: int, b: int, c: int) -> None:
    first, middle, last = sorted((a, b, c))
    whole, parts = Move(first, last), (Move(first, middle), Move(middle, last))
    assert whole.opened == parts[0].opened + parts[1].opened
    assert whole.closed == parts[0].closed + parts[1].closed


def test_threads_that_move_it_at_once_leave_moves_that_join() -> None:
    clock = ReplayClock()
    with ThreadPoolExecutor(8) as pool:
        moves = sorted(pool.map(clock.advance, [MINUTE] * 400), key=lambda m: m.from_ns)
    assert [move.from_ns for move in moves] == [START_NS + n * MINUTE for n in range(400)]
    assert clock.now_ns() == START_NS + 400 * MINUTE


def test_a_sleeper_wakes_when_the_clock_is_moved_past_its_deadline() -> None:
    async def scene() -> float:
        clock = ReplayClock()
        async with asyncio.timeout(BOUND):
            sleeper = asyncio.create_task(clock.sleep_until(60.0))
            await asyncio.sleep(0)
            clock.advance(MINUTE)
            await sleeper
        return clock.monotonic()

    assert asyncio.run(scene()) == 60.0
