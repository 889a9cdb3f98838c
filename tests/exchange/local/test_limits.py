"""Weights, orders, raw requests and bans, on a clock that the test moves."""

from __future__ import annotations

import pytest

from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.limits import CONNECTIONS, KEPT_BACK, PATIENCE, RULES, Limits, Rule
from tracedesk.primitives.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND, ManualClock

HOME = "127.0.0.1"
START = 1_700_000_000 * SECOND // MINUTE * MINUTE + 20 * SECOND


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def limits(clock: ManualClock) -> Limits:
    return Limits(clock)


def _refusal(limits: Limits, address: str = HOME) -> Refused:
    with pytest.raises(Refused) as refused:
        limits.admit(address)
    return refused.value


def test_weight_is_counted_per_address_within_the_minute_of_the_clock(
    limits: Limits, clock: ManualClock
) -> None:
    limits.charge(HOME, 250)
    limits.charge("::1", 5)
    assert [count for _, count in limits.weights(HOME)] == [250]
    clock.advance(39.9)
    assert [count for _, count in limits.weights(HOME)] == [250]
    clock.advance(0.1)
    assert [count for _, count in limits.weights(HOME)] == [0]


def test_spent_weight_is_refused_with_429_until_the_minute_is_over(
    limits: Limits, clock: ManualClock
) -> None:
    limits.charge(HOME, 5_999)
    limits.admit(HOME)
    limits.charge(HOME, 1)
    refusal = _refusal(limits)
    assert (refusal.code, refusal.status, refusal.retry_after_s) == (-1003, 429, 40)
    assert refusal.message == (
        "Too much request weight used; current limit is 6000 request weight per 1 MINUTE. "
        "Please use WebSocket Streams for live updates to avoid polling the API."
    )
    limits.admit("::1")
    clock.advance(40)
    limits.admit(HOME)


def test_who_goes_on_asking_is_banned_longer_each_time(limits: Limits, clock: ManualClock) -> None:
    lengths: list[int] = []
    for _ in range(13):
        limits.charge(HOME, 6_000)
        for _ in range(PATIENCE):
            assert _refusal(limits).status == 429
        banned = _refusal(limits)
        assert (banned.code, banned.status) == (-1003, 418)
        assert banned.retry_after_s is not None
        until = (clock.now_ns() + banned.retry_after_s * SECOND) // MILLISECOND
        assert f"IP banned until {until}." in banned.message
        lengths.append(banned.retry_after_s)
        clock.advance(banned.retry_after_s - 1)
        assert _refusal(limits).status == 418
        clock.advance(1)
        limits.admit(HOME)
    assert lengths[:3] == [120, 240, 480]
    assert lengths == sorted(lengths)
    assert lengths[-1] == 3 * DAY // SECOND


def test_raw_requests_are_limited_too(clock: ManualClock) -> None:
    limits = Limits(clock, (Rule("RAW_REQUESTS", "MINUTE", 5, 3),))
    for _ in range(3):
        limits.admit(HOME)
    assert _refusal(limits).status == 429


def test_orders_are_counted_per_account_and_interval(limits: Limits, clock: ManualClock) -> None:
    for _ in range(100):
        limits.admit_order("ann")
        limits.count_order("ann")
    with pytest.raises(Refused) as refused:
        limits.admit_order("ann")
    assert (refused.value.code, refused.value.status, refused.value.retry_after_s) == (-1015, 429, 10)
    assert refused.value.message == "Too many new orders; current limit is 100 orders per 10 SECOND."
    limits.admit_order("bob")
    clock.advance(10)
    limits.admit_order("ann")
    assert [(rule.letters, count) for rule, count in limits.orders("ann")] == [("10S", 0), ("1D", 100)]


def test_orders_that_begin_to_trade_leave_the_count_but_give_no_credit(limits: Limits) -> None:
    for _ in range(3):
        limits.count_order("ann")
    limits.first_fill("ann", maker=False)
    assert [count for _, count in limits.orders("ann")] == [2, 2]
    limits.first_fill("ann", maker=True)
    limits.count_order("ann")
    assert [count for _, count in limits.orders("ann")] == [1, 1]


def test_connection_attempts_are_limited(limits: Limits, clock: ManualClock) -> None:
    for _ in range(CONNECTIONS.limit):
        limits.connect(HOME)
    with pytest.raises(Refused) as refused:
        limits.connect(HOME)
    assert (refused.value.code, refused.value.status) == (-1034, 429)
    clock.advance(5 * MINUTE / SECOND)
    limits.connect(HOME)


def test_rules_are_published_as_the_venue_writes_them() -> None:
    assert RULES[0].document() == {
        "rateLimitType": "REQUEST_WEIGHT",
        "interval": "MINUTE",
        "intervalNum": 1,
        "limit": 6000,
    }
    assert RULES[1].document(7)["count"] == 7


def test_the_longest_ban_does_not_outlast_three_days(limits: Limits, clock: ManualClock) -> None:
    bans = [limits.ban(HOME) for _ in range(60)]
    assert bans[-1] - clock.now_ns() == 72 * HOUR


def test_what_is_kept_back_for_cancelling_is_bounded_too(clock: ManualClock) -> None:
    limits = Limits(clock, (Rule("REQUEST_WEIGHT", "MINUTE", 1, 1),))
    limits.charge(HOME, 1)
    for _ in range(KEPT_BACK.limit):
        limits.admit(HOME, "alice")
    with pytest.raises(Refused):
        limits.admit(HOME, "alice")
    limits.admit(HOME, "bob")


def test_unban_ends_bans_and_counts_anew(limits: Limits) -> None:
    limits.ban(HOME)
    assert limits.unban() == [HOME]
    limits.admit(HOME)
    assert limits.unban() == []
