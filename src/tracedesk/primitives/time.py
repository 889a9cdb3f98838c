"""UTC instants as integer nanoseconds, their ISO 8601 text, and clocks that can be replaced."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Literal, Protocol

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EARLIEST = -(2**63)
"""1677-09-21T00:12:43.145224192Z, the first instant a 64-bit nanosecond column can hold."""
LATEST = 2**63 - 1
"""2262-04-11T23:47:16.854775807Z, the last such instant."""

Edge = Literal["start", "end"]
Form = Literal["exact", "naive", "date"]

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATE_TIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]"
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_REMEDY = "write it like 2024-03-01T09:30:00Z, 2024-03-01T09:30:00.5-05:00 or 2024-03-01"


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment in UTC nanoseconds, and how it was written."""

    ns: int
    form: Form

    @property
    def zone_assumed(self) -> bool:
        """Whether a time of day came without a zone and was taken as UTC, which deserves a warning."""
        return self.form == "naive"


def parse(text: str, *, edge: Edge = "start") -> Instant:
    """Return the instant of an ISO 8601 text; a date alone is the first or last nanosecond of that UTC day.

    Times must lie between EARLIEST and LATEST, because stores keep them as 64-bit integers.
    """
    if _DATE.fullmatch(text):
        start = _day(text)
        return _instant(start if edge == "start" else start + DAY - 1, "date", text)
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise _refused(text, "is not a time")
    zone = match["zone"]
    ns = _day(match["day"]) + _time_of_day(match, text) - _offset(zone, text)
    return _instant(ns, "exact" if zone else "naive", text)


def format(ns: int) -> str:
    """Return the instant as ISO 8601 in UTC with the shortest exact fraction of 0, 3, 6 or 9 digits."""
    days, rest = divmod(ns, DAY)
    seconds, fraction = divmod(rest, SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_date_text(days)}T{hour:02}:{minute:02}:{second:02}{_fraction_text(fraction)}Z"


def month(ns: int) -> str:
    """Return the month of a moment, in UTC, as `2026-11`."""
    return _month(ns // (3_600 * SECOND))


@lru_cache(maxsize=8)
def _month(hour: int) -> str:
    return time.strftime("%Y-%m", time.gmtime(hour * 3_600))


def _date_text(days: int) -> str:
    try:
        return date.fromordinal(_EPOCH_DAY + days).isoformat()
    except (ValueError, OverflowError):
        raise ValueError(
            "the instant lies outside the years 1 to 9999; give nanoseconds since 1970"
        ) from None


def _fraction_text(ns: int) -> str:
    if not ns:
        return ""
    if ns % MILLISECOND == 0:
        return f".{ns // MILLISECOND:03}"
    if ns % MICROSECOND == 0:
        return f".{ns // MICROSECOND:06}"
    return f".{ns:09}"


def _day(text: str) -> int:
    try:
        return (date.fromisoformat(text).toordinal() - _EPOCH_DAY) * DAY
    except ValueError:
        raise _refused(text, "is not a day of the calendar") from None


def _time_of_day(match: re.Match[str], text: str) -> int:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if second == 60:
        raise ValueError(f"{text!r} names a leap second, which has no UTC nanosecond; use second 59 or 00")
    if hour > 23 or minute > 59 or second > 59:
        raise _refused(text, "is not a time of day")
    return hour * HOUR + minute * MINUTE + second * SECOND + _fraction(match["fraction"] or "", text)


def _fraction(digits: str, text: str) -> int:
    if len(digits) > 9:
        raise ValueError(f"{_shown(text)} has {len(digits)} fractional digits; use at most 9 (nanoseconds)")
    return int(digits.ljust(9, "0"))


def _offset(zone: str | None, text: str) -> int:
    if zone is None or zone in "Zz":
        return 0
    hour, minute = int(zone[1:3]), int(zone[-2:])
    if hour > 23 or minute > 59:
        raise _refused(text, "has an impossible offset")
    return (-1 if zone[0] == "-" else 1) * (hour * HOUR + minute * MINUTE)


def _instant(ns: int, form: Form, text: str) -> Instant:
    if not EARLIEST <= ns <= LATEST:
        raise ValueError(f"{text!r} is out of range; use a time from {format(EARLIEST)} to {format(LATEST)}")
    return Instant(ns, form)


def _refused(text: str, problem: str) -> ValueError:
    return ValueError(f"{_shown(text)} {problem}; {_REMEDY}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


class Clock(Protocol):
    """Where code takes the time from, so that tests and replays can decide it."""

    def now_ns(self) -> int:
        """Return the wall clock in UTC nanoseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        ...

    async def sleep_until(self, deadline: float) -> None:
        """Return once ``monotonic()`` has reached the deadline."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ns(self) -> int:
        """Return the wall clock in UTC nanoseconds."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        return time.monotonic()

    async def sleep_until(self, deadline: float) -> None:
        """Return once ``monotonic()`` has reached the deadline."""
        import asyncio

        await asyncio.sleep(max(0.0, deadline - self.monotonic()))


@dataclass(order=True, slots=True)
class Timer:
    """A callback waiting for a deadline of a manual clock."""

    due_ns: int
    order: int
    callback: Callable[[], object] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Keep the callback from being called."""
        self.cancelled = True


class ManualClock:
    """A clock that moves only when told to, firing what falls due on the way."""

    def __init__(self, now_ns: int = 0) -> None:
        self._wall_ns = now_ns
        self._elapsed_ns = 0
        self._timers: list[Timer] = []
        self._scheduled = 0

    def now_ns(self) -> int:
        """Return the wall clock in UTC nanoseconds."""
        return self._wall_ns

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed_ns / SECOND

    def set(self, now_ns: int) -> None:
        """Step the wall clock alone, either way, as an operator would; deadlines do not move."""
        self._wall_ns = now_ns

    def advance(self, seconds: float = 0.0, *, ns: int = 0) -> None:
        """Move both clocks forward, calling each due callback at its own deadline, earliest first."""
        target = self._elapsed_ns + round(seconds * SECOND) + ns
        if target < self._elapsed_ns:
            raise ValueError("a clock advances forward only; use set() to step the wall clock back")
        while self._timers and self._timers[0].due_ns <= target:
            self._fire(heapq.heappop(self._timers))
        self._move_to(target)

    def call_at(self, deadline: float, callback: Callable[[], object]) -> Timer:
        """Call back when ``monotonic()`` reaches the deadline; one in the past is due at the next advance."""
        self._scheduled += 1
        timer = Timer(round(deadline * SECOND), self._scheduled, callback)
        heapq.heappush(self._timers, timer)
        return timer

    async def sleep_until(self, deadline: float) -> None:
        """Return once ``advance`` has reached the deadline."""
        import asyncio

        if deadline <= self.monotonic():
            return
        loop = asyncio.get_running_loop()
        reached = asyncio.Event()
        timer = self.call_at(deadline, lambda: loop.call_soon_threadsafe(reached.set))
        try:
            await reached.wait()
        finally:
            timer.cancel()

    def _fire(self, timer: Timer) -> None:
        if timer.cancelled:
            return
        self._move_to(max(timer.due_ns, self._elapsed_ns))
        timer.callback()

    def _move_to(self, elapsed_ns: int) -> None:
        # A callback may itself have advanced the clock past this point.
        step = max(0, elapsed_ns - self._elapsed_ns)
        self._elapsed_ns += step
        self._wall_ns += step
