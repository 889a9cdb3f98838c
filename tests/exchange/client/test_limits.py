"""Limits: whatever is asked, the venue never counts more than it allows."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tracedesk.exchange.client.clock import Sample, ServerTime
from tracedesk.exchange.client.errors import RateLimited
from tracedesk.exchange.client.limits import Limits, Reservation
from tracedesk.primitives.time import MILLISECOND, MINUTE, SECOND, ManualClock

_RULES = [{"rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1, "limit": 100}]


class Counting:
    """The venue's side of a limit: counts by the minutes of its clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._minute = -1
        self.used = 0

    def take(self, weight: int) -> int:
        minute = self._clock.now_ns() // MINUTE
        self.used = weight if minute != self._minute else self.used + weight
        self._minute = minute
        return self.used


def _limits(clock: ManualClock) -> Limits:
    limits = Limits(clock, ServerTime(clock))
    limits.published(_RULES)
    return limits


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 20), st.booleans()), max_size=60))
def test_the_venue_never_counts_more_than_its_limit(steps: list[tuple[int, int, bool]]) -> None:
    clock = ManualClock(1_760_000_000 * SECOND)
    limits, venue = _limits(clock), Counting(clock)
    waiting: list[Reservation] = []
    for weight, seconds, answered in steps:
        clock.advance(seconds)
        try:
            held = asyncio.run(limits.admit(weight, orders=0, account=None, patience=0.0))
        except RateLimited:
            continue
        used = venue.take(weight)
        assert used <= 100
        if answered:
            limits.answered(held, {"X-MBX-USED-WEIGHT-1M": str(used)}, None)
        else:
            waiting.append(held)
    for held in waiting:
        held.settle(sent=True)
    assert limits.used_weight >= 0


def test_a_count_of_the_minute_that_has_ended_does_not_block_the_next() -> None:
    clock = ManualClock(1_760_000_000 * SECOND)
    limits = _limits(clock)
    held = asyncio.run(limits.admit(50, orders=0, account=None, patience=0.0))
    clock.advance(60.0)
    limits.answered(held, {"X-MBX-USED-WEIGHT-1M": "100"}, None)
    assert limits.used_weight <= 50


def test_what_was_never_sent_costs_nothing() -> None:
    limits = _limits(ManualClock(1_760_000_000 * SECOND))
    held = asyncio.run(limits.admit(80, orders=0, account=None, patience=0.0))
    assert limits.used_weight == 80
    held.settle(sent=False)
    assert limits.used_weight == 0


@given(
    st.integers(-100_000, 100_000), st.lists(st.integers(0, 400), min_size=5, max_size=5), st.integers(0, 4)
)
def test_the_offset_is_right_to_half_the_usual_delay_though_one_answer_is_absurd(
    ahead: int, delays: list[int], odd: int
) -> None:
    clock = ManualClock(1_760_000_000 * SECOND)
    time = ServerTime(clock)
    samples: list[Sample] = []
    for number, delay in enumerate(delays):
        asked = clock.now_ns()
        clock.advance(delay / 1000)
        at = 0 if number == odd else asked // MILLISECOND + delay + ahead
        samples.append(Sample(asked, clock.now_ns(), at))
    time.measured(samples)
    assert abs(time.offset_ms - ahead) <= 201
    assert time.now_ms() == clock.now_ns() // MILLISECOND + time.offset_ms


def test_room_is_kept_back_for_what_cancels_orders() -> None:
    clock = ManualClock(1_760_000_000 * SECOND)
    limits = _limits(clock)

    def admitted(weight: int, *, essential: bool) -> bool:
        try:
            asyncio.run(
                limits.admit(weight, orders=0, account=None, patience=0.0, essential=essential)
            ).settle(sent=True)
        except RateLimited:
            return False
        return True

    assert admitted(95, essential=False)
    assert not admitted(1, essential=False)
    assert admitted(5, essential=True)
    assert not admitted(1, essential=True)
