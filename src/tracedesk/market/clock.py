"""The replay clock: where in the past the desk stands; it moves forward only, and each move is a value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from threading import Lock

from tracedesk.market import calendar, dataset, eastern
from tracedesk.primitives.time import HOUR, MINUTE, ManualClock, format

START_NS = eastern.to_ns(date(2012, 12, 3), 10 * HOUR + 30 * MINUTE)
"""Monday 2012-12-03, 10:30 in New York, where a new replay begins.

The market is open, every embedded symbol has more than a hundred bars behind it, and 60 sessions lie ahead,
with an early close, four holidays and three dividends among them.
"""
FIRST_NS = calendar.open_ns(dataset.FIRST_SESSION)
LAST_NS = calendar.open_ns(calendar.next_session(dataset.LAST_SESSION)) - 1
"""The last instant before a session without bars, so that a session in progress always has one."""


class ClockError(ValueError):
    """The replay clock cannot be where it was asked to be."""


@dataclass(frozen=True, slots=True)
class Move:
    """A step of the replay clock, in UTC nanoseconds."""

    from_ns: int
    to_ns: int

    def __post_init__(self) -> None:
        if self.to_ns < self.from_ns:
            raise ClockError(
                f"the replay clock stands at {format(self.from_ns)} and moves forward only; "
                f"{format(self.to_ns)} is before it"
            )

    @property
    def opened(self) -> tuple[date, ...]:
        """The sessions whose open was crossed or reached, in order."""
        return _after(calendar.opened_by(self.from_ns), calendar.opened_by(self.to_ns))

    @property
    def closed(self) -> tuple[date, ...]:
        """The sessions whose close was crossed or reached, in order."""
        return _after(calendar.closed_by(self.from_ns), calendar.closed_by(self.to_ns))


def _after(before: date | None, last: date | None) -> tuple[date, ...]:
    if last is None or before == last:
        return ()
    return calendar.sessions(calendar.FIRST if before is None else before + timedelta(days=1), last)


class ReplayClock:
    """A clock that stands in the past until it is moved; `set` and `apply` may be called from any thread."""

    def __init__(self, at_ns: int = START_NS, *, first_ns: int = FIRST_NS, last_ns: int = LAST_NS) -> None:
        """Stand at the instant; the bounds are those of the embedded bars unless others are given."""
        self._first_ns = first_ns
        self._last_ns = last_ns
        self._check(at_ns)
        self._clock = ManualClock(at_ns)
        self._lock = Lock()

    def now_ns(self) -> int:
        """Return where the clock stands, in UTC nanoseconds."""
        return self._clock.now_ns()

    def monotonic(self) -> float:
        """Return the seconds that the clock has moved so far."""
        return self._clock.monotonic()

    async def sleep_until(self, deadline: float) -> None:
        """Return once moves have brought `monotonic()` to the deadline."""
        await self._clock.sleep_until(deadline)

    def set(self, to_ns: int) -> Move:
        """Move to an instant that is not before the present one."""
        with self._lock:
            return self._apply(Move(self.now_ns(), to_ns))

    def advance(self, ns: int) -> Move:
        """Move forward by a duration."""
        with self._lock:
            return self._apply(Move(self.now_ns(), self.now_ns() + ns))

    def to_open(self) -> Move:
        """Move to the next open."""
        with self._lock:
            return self._apply(Move(self.now_ns(), calendar.next_open(self.now_ns())))

    def to_close(self) -> Move:
        """Move to the next close: that of the session in progress, else that of the next one."""
        with self._lock:
            return self._apply(Move(self.now_ns(), calendar.next_close(self.now_ns())))

    def apply(self, move: Move) -> Move:
        """Make a move that was planned, and perhaps recorded, before; it begins where the clock stands."""
        with self._lock:
            return self._apply(move)

    def _apply(self, move: Move) -> Move:
        now = self.now_ns()
        if move.from_ns != now:
            raise ClockError(
                f"the move begins at {format(move.from_ns)}, but the clock stands at {format(now)}"
            )
        self._check(move.to_ns)
        self._clock.advance(ns=move.to_ns - now)
        return move

    def _check(self, ns: int) -> None:
        if not self._first_ns <= ns <= self._last_ns:
            raise ClockError(
                f"{format(ns)} is outside the replay; it runs from {format(self._first_ns)} "
                f"to {format(self._last_ns)}"
            )
