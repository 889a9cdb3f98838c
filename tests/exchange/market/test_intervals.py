"""When candles open and close."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.exchange.local.market.intervals import DAY, HOUR, INTERVALS, following, opening
from tracedesk.primitives import time

MOMENTS = st.integers(0, 4_102_444_800_000)
OFFSETS = st.sampled_from([0, 8 * HOUR, -12 * HOUR, 5 * HOUR + 45 * 60_000])


def ms(text: str) -> int:
    return time.parse(text).ns // 1_000_000


def test_all_sixteen_intervals_of_the_venue_are_known() -> None:
    names = "1s 1m 3m 5m 15m 30m 1h 2h 4h 6h 8h 12h 1d 3d 1w 1M"
    assert list(INTERVALS) == names.split()


@given(MOMENTS, st.sampled_from(INTERVALS), OFFSETS)
def test_an_instant_lies_in_the_interval_that_it_opens(moment: int, interval: str, offset: int) -> None:
    opened = opening(moment, interval, offset)
    closes = following(opened, interval, offset)
    assert opened <= moment < closes
    assert opening(closes, interval, offset) == closes
    assert opening(closes - 1, interval, offset) == opened


@pytest.mark.parametrize(
    ("interval", "opened", "closes"),
    [
        ("1w", "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z"),
        ("1M", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"),
        ("1d", "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"),
        ("12h", "2026-02-28T12:00:00Z", "2026-03-01T00:00:00Z"),
    ],
)
def test_weeks_open_on_monday_and_months_on_their_first_day(interval: str, opened: str, closes: str) -> None:
    assert opening(ms("2026-02-28T23:59:59Z"), interval) == ms(opened)
    assert following(ms(opened), interval) == ms(closes)


def test_december_is_followed_by_january() -> None:
    assert following(ms("2026-12-01T00:00:00Z"), "1M") == ms("2027-01-01T00:00:00Z")


def test_a_day_of_another_zone_opens_at_its_own_midnight() -> None:
    opened = opening(ms("2026-02-28T17:00:00Z"), "1d", 8 * HOUR)
    assert opened == ms("2026-02-28T16:00:00Z")
    assert following(opened, "1d", 8 * HOUR) == opened + DAY
