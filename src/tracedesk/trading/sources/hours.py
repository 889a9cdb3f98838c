"""Sessions that daily bars are of: those of the exchange, or the days of a market that never closes."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final, Protocol

from tracedesk.market import calendar, eastern
from tracedesk.primitives.time import DAY

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_ONE_DAY: Final = timedelta(days=1)


class Hours(Protocol):
    """The sessions of a market, each named by its day."""

    @property
    def first(self) -> date:
        """The first day that can be judged."""
        ...

    def start_ns(self, day: date) -> int:
        """Return the instant at which the day's session begins."""
        ...

    def end_ns(self, day: date) -> int:
        """Return the instant from which the day's bar is known."""
        ...

    def day_of(self, ns: int) -> date:
        """Return the market's date of an instant."""
        ...

    def session_at(self, ns: int) -> date | None:
        """Return the session in progress at the instant."""
        ...

    def ended_by(self, ns: int) -> date | None:
        """Return the last session that has ended at the instant."""
        ...

    def following(self, day: date) -> date:
        """Return the first session after the day."""
        ...

    def closed_for(self, day: date) -> str | None:
        """Return why the day has no session, if it has none."""
        ...


class Exchange:
    """The sessions of the New York Stock Exchange."""

    first = calendar.FIRST

    def start_ns(self, day: date) -> int:
        return calendar.open_ns(day)

    def end_ns(self, day: date) -> int:
        return calendar.close_ns(day)

    def day_of(self, ns: int) -> date:
        return eastern.to_day(ns)

    def session_at(self, ns: int) -> date | None:
        return calendar.session_at(ns)

    def ended_by(self, ns: int) -> date | None:
        return calendar.closed_by(ns)

    def following(self, day: date) -> date:
        return calendar.next_session(day)

    def closed_for(self, day: date) -> str | None:
        return calendar.closed_for(day)


class UtcDays:
    """Every day from midnight to midnight UTC."""

    first = calendar.FIRST

    def start_ns(self, day: date) -> int:
        return (day.toordinal() - _EPOCH_DAY) * DAY

    def end_ns(self, day: date) -> int:
        return self.start_ns(day) + DAY

    def day_of(self, ns: int) -> date:
        return date.fromordinal(_EPOCH_DAY + ns // DAY)

    def session_at(self, ns: int) -> date:
        return self.day_of(ns)

    def ended_by(self, ns: int) -> date:
        return self.day_of(ns) - _ONE_DAY

    def following(self, day: date) -> date:
        return day + _ONE_DAY

    def closed_for(self, day: date) -> str | None:
        return None


EXCHANGE: Final[Hours] = Exchange()
UTC_DAYS: Final[Hours] = UtcDays()
