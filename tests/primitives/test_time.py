import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.primitives import time
from tracedesk.primitives.time import (
    DAY,
    EARLIEST,
    HOUR,
    LATEST,
    MINUTE,
    SECOND,
    Clock,
    ManualClock,
    SystemClock,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
instants = st.integers(EARLIEST, LATEST)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01 00:00:00Z", 0),
        ("1970-01-01T00:00Z", 0),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1970-01-01T05:30:00+05:30", 0),
        ("1969-12-31T19:00:00-0500", 0),
        ("1970-01-02T00:00:00+23:59", MINUTE),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:00.5Z", SECOND // 2),
        ("1970-01-01T00:00:00.123456789+00:00", 123_456_789),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2024-02-29T12:00:00Z", 1_709_208_000 * SECOND),
        ("1677-09-21T00:12:43.145224192Z", EARLIEST),
        ("2262-04-11T23:47:16.854775807Z", LATEST),
    ],
)
def test_a_time_with_a_zone_is_taken_exactly(text: str, ns: int) -> None:
    assert time.parse(text) == time.Instant(ns, "exact")
    assert time.parse(text, edge="end").ns == ns
    assert not time.parse(text).zone_assumed


def test_a_time_without_a_zone_is_utc_and_says_so() -> None:
    instant = time.parse("2024-03-01T09:30:00.25")
    assert instant.ns == time.parse("2024-03-01T09:30:00.25Z").ns
    assert instant.zone_assumed


def test_a_date_alone_begins_or_ends_its_day() -> None:
    start, end = time.parse("2024-02-29"), time.parse("2024-02-29", edge="end")
    assert time.format(start.ns) == "2024-02-29T00:00:00Z"
    assert time.format(end.ns) == "2024-02-29T23:59:59.999999999Z"
    assert end.ns + 1 == time.parse("2024-03-01").ns
    assert start.form == end.form == "date"
    assert not start.zone_assumed


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2024", "2024-03", "20240301", "2024-3-1", "2024-W10-1", "2024-060", "1709208000",
        "01/03/2024",
        "2024-03-01T", "2024-03-01T09", "2024-03-01T0930Z", "2024-03-01T09:30:00,5Z", "2024-03-01T09:30:00.Z",
        "2024-03-01T09:30:00 Z", "2024-03-01T09:30:00+05", "2024-03-01T09:30:00+5:00",
        "2024-03-01T09:30:00UTC",
        "2024-03-01T09:30:00Z\n", " 2024-03-01", "2024-03-01Z", "+2024-03-01",
        "２０２４-03-01", "2024-03-01T09:3٠:00Z",
        "2023-02-29", "2024-13-01", "2024-00-10", "0000-01-01", "2024-04-31T00:00:00Z",
        "2024-03-01T24:00:00Z", "2024-03-01T23:60:00Z", "2024-03-01T23:59:61Z",
        "2024-03-01T09:30:00+24:00", "2024-03-01T09:30:00-05:60",
        "2024-03-01\x00", pytest.param("T" * 100_000, id="long"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 2024-03-01T09:30:00Z") as refusal:
        time.parse(text)
    assert len(str(refusal.value)) < 400


def test_a_leap_second_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"leap second.*use second 59 or 00"):
        time.parse("2016-12-31T23:59:60Z")


def test_more_than_nine_fractional_digits_are_refused_not_rounded() -> None:
    with pytest.raises(ValueError, match="10 fractional digits; use at most 9"):
        time.parse("2024-03-01T09:30:00.0000000001Z")


@pytest.mark.parametrize("text", ["9999-12-31", "0001-01-01", "2262-04-11T23:47:16.854775808Z", "1677-09-21"])
def test_times_beyond_64_bit_nanoseconds_are_refused_with_the_range(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"out of range; use a time from 1677-09-21T00:12:43\.145224192Z to 2262"
    ):
        time.parse(text)


def test_the_last_day_has_no_end_that_can_be_stored() -> None:
    assert time.parse("2262-04-11").ns < LATEST
    with pytest.raises(ValueError, match="out of range"):
        time.parse("2262-04-11", edge="end")


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (1_000, "1970-01-01T00:00:00.000001Z"),
        (1_000_000, "1970-01-01T00:00:00.001Z"),
        (SECOND // 10, "1970-01-01T00:00:00.100Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (DAY + HOUR, "1970-01-02T01:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc_with_the_shortest_exact_fraction(ns: int, text: str) -> None:
    assert time.format(ns) == text


@pytest.mark.parametrize("ns", [10**20 * SECOND, -(10**19) * SECOND])
def test_formatting_refuses_years_that_iso_8601_cannot_write(ns: int) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        time.format(ns)


@given(instants)
def test_a_written_time_reads_back_as_itself(ns: int) -> None:
    assert time.parse(time.format(ns)) == time.Instant(ns, "exact")


@given(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), st.integers(-1439, 1439))
def test_any_offset_names_the_same_instant_as_the_datetime_module(local: datetime, minutes: int) -> None:
    sign = "-" if minutes < 0 else "+"
    offset = f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    expected = (local.replace(tzinfo=UTC) - timedelta(minutes=minutes) - EPOCH) // timedelta(microseconds=1)
    assert time.parse(local.isoformat() + offset).ns == expected * 1_000


@given(st.lists(instants, min_size=2, max_size=2))
def test_text_order_is_time_order_only_after_parsing(pair: list[int]) -> None:
    assert [time.parse(time.format(ns)).ns for ns in sorted(pair)] == sorted(pair)


def test_both_clocks_satisfy_the_protocol() -> None:
    clocks: list[Clock] = [SystemClock(), ManualClock()]
    assert all(clock.monotonic() >= 0 for clock in clocks)
    assert time.format(SystemClock().now_ns()).endswith("Z")


def test_the_system_clock_returns_at_once_from_a_deadline_that_has_passed() -> None:
    clock = SystemClock()
    asyncio.run(clock.sleep_until(clock.monotonic() - 1))


def test_a_manual_clock_moves_only_when_advanced() -> None:
    clock = ManualClock(now_ns=5 * SECOND)
    assert (clock.now_ns(), clock.monotonic()) == (5 * SECOND, 0.0)
    clock.advance(30)
    clock.advance(ns=1)
    assert (clock.now_ns(), clock.monotonic()) == (35 * SECOND + 1, 30.000000001)


def test_setting_the_wall_clock_leaves_deadlines_where_they_were() -> None:
    clock, fired = ManualClock(), list[str]()
    clock.call_at(10, lambda: fired.append("due"))
    clock.set(100 * SECOND)
    assert (clock.now_ns(), clock.monotonic(), fired) == (100 * SECOND, 0.0, [])


def test_a_manual_clock_does_not_advance_backwards() -> None:
    with pytest.raises(ValueError, match="forward only"):
        ManualClock().advance(-1)


def test_callbacks_fire_in_deadline_order_and_see_their_own_time() -> None:
    clock, seen = ManualClock(), list[tuple[str, float]]()
    for name, deadline in (("late", 20), ("first", 10), ("second", 10), ("beyond", 31)):
        clock.call_at(deadline, lambda name=name: seen.append((name, clock.monotonic())))
    clock.advance(30)
    assert seen == [("first", 10.0), ("second", 10.0), ("late", 20.0)]
    assert clock.monotonic() == 30.0
    clock.advance(1)
    assert seen[-1] == ("beyond", 31.0)


def test_a_callback_may_schedule_another_within_the_same_advance() -> None:
    clock, ticks = ManualClock(), list[float]()

    def tick() -> None:
        ticks.append(clock.monotonic())
        clock.call_at(clock.monotonic() + 1, tick)

    clock.call_at(1, tick)
    clock.advance(3.5)
    assert ticks == [1.0, 2.0, 3.0]


def test_a_cancelled_callback_is_never_called() -> None:
    clock, fired = ManualClock(), list[str]()
    clock.call_at(1, lambda: fired.append("cancelled")).cancel()
    clock.advance(5)
    assert fired == []


def test_a_deadline_already_past_is_due_at_the_next_advance_without_turning_time_back() -> None:
    clock, seen = ManualClock(), list[float]()
    clock.advance(10)
    clock.call_at(3, lambda: seen.append(clock.monotonic()))
    clock.advance()
    assert seen == [10.0]


def test_a_callback_that_advances_the_clock_itself_does_not_turn_it_back() -> None:
    clock = ManualClock()
    clock.call_at(1, lambda: clock.advance(10))
    clock.advance(2)
    assert clock.monotonic() == 11.0


def test_a_sleeper_wakes_when_its_deadline_is_reached_and_not_before() -> None:
    async def story() -> list[str]:
        clock, events = ManualClock(), list[str]()

        async def sleeper() -> None:
            await clock.sleep_until(30)
            events.append("woken")

        task = asyncio.create_task(sleeper())
        await asyncio.sleep(0)
        clock.advance(29.999)
        await asyncio.sleep(0)
        events.append("still asleep")
        clock.advance(0.001)
        await task
        return events

    assert asyncio.run(story()) == ["still asleep", "woken"]


def test_a_cancelled_sleeper_leaves_no_callback_behind() -> None:
    async def story() -> None:
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep_until(5))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        clock.advance(10)
        await clock.sleep_until(10)

    asyncio.run(story())


def test_advancing_from_another_thread_wakes_the_loop() -> None:
    async def story() -> None:
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep_until(1))
        await asyncio.sleep(0)
        await asyncio.to_thread(clock.advance, 1)
        await task

    asyncio.run(story())


@pytest.mark.parametrize(
    ("text", "month"),
    [
        ("2026-10-31T23:59:59.999999999Z", "2026-10"),
        ("2026-11-01T00:00:00Z", "2026-11"),
        ("2026-11-01T00:30:00+01:00", "2026-10"),
        ("1969-12-31T23:59:59Z", "1969-12"),
    ],
)
def test_a_month_is_that_of_utc_to_the_nanosecond(text: str, month: str) -> None:
    assert time.month(time.parse(text).ns) == month
