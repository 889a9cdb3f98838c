"""The exchange's sessions: the rules, the days that broke them, and the edges of the calendar."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.market import calendar, eastern
from tracedesk.market.calendar import NotASession, OutsideCalendar
from tracedesk.primitives import time
from tracedesk.primitives.time import MINUTE

ALL = calendar.sessions(calendar.FIRST, calendar.LAST)
DAYS = st.dates(calendar.FIRST, calendar.LAST)
INSTANTS = st.integers(calendar.open_ns(ALL[0]), calendar.close_ns(ALL[-2]))


def digest(rows: Iterable[tuple[date, int, int]]) -> str:
    """The SHA-256 of every session with its open and close, one line each."""
    lines = (f"{day} {time.format(opened)} {time.format(closed)}\n" for day, opened, closed in rows)
    return hashlib.sha256("".join(lines).encode("ascii")).hexdigest()


def sha256_on_record() -> str:
    """The digest that the judge also takes from exchange_calendars."""
    return (Path(__file__).parent / "calendar.sha256").read_text(encoding="ascii").strip()


def test_all_sessions_opens_and_closes_have_the_judged_digest() -> None:
    rows = [(day, calendar.open_ns(day), calendar.close_ns(day)) for day in ALL]
    assert digest(rows) == sha256_on_record()


def test_there_are_9569_sessions_of_which_80_close_early() -> None:
    hours = Counter((calendar.close_ns(day) - calendar.open_ns(day)) // MINUTE for day in ALL)
    assert hours == {390: 9489, 210: 76, 270: 4}


@pytest.mark.parametrize(
    ("day", "reason"),
    [
        (date(2012, 12, 1), "weekend"),
        (date(1997, 1, 20), None),
        (date(1998, 1, 19), "Martin Luther King Jr. Day"),
        (date(2021, 6, 18), None),
        (date(2022, 6, 20), "Juneteenth"),
        (date(2013, 3, 29), "Good Friday"),
        (date(2010, 12, 31), None),
        (date(2012, 1, 2), "New Year's Day"),
        (date(2020, 7, 3), "Independence Day"),
        (date(2001, 9, 14), "attacks of September 11"),
        (date(2001, 9, 17), None),
        (date(2012, 10, 30), "Hurricane Sandy"),
        (date(2025, 1, 9), "funeral of Jimmy Carter"),
    ],
)
def test_a_closed_day_says_why(day: date, reason: str | None) -> None:
    assert calendar.closed_for(day) == reason
    assert calendar.is_session(day) is (reason is None)


@pytest.mark.parametrize(
    ("session", "closes"),
    [
        (date(2012, 12, 3), "2012-12-03T21:00:00Z"),
        (date(2012, 12, 24), "2012-12-24T18:00:00Z"),
        (date(2012, 7, 3), "2012-07-03T17:00:00Z"),
        (date(2002, 7, 5), "2002-07-05T17:00:00Z"),
        (date(2013, 7, 3), "2013-07-03T17:00:00Z"),
        (date(1992, 11, 27), "1992-11-27T19:00:00Z"),
        (date(1991, 11, 29), "1991-11-29T21:00:00Z"),
        (date(2003, 12, 26), "2003-12-26T18:00:00Z"),
        (date(2014, 12, 26), "2014-12-26T21:00:00Z"),
    ],
)
def test_a_session_closes_at_16_00_unless_it_is_a_short_day(session: date, closes: str) -> None:
    assert time.format(calendar.close_ns(session)) == closes


@pytest.mark.parametrize(
    "session",
    [
        date(1990, 12, 27),
        date(1991, 1, 17),
        date(1991, 2, 25),
        date(1994, 2, 11),
        date(1995, 12, 18),
        date(1996, 1, 8),
        date(1997, 10, 27),
        date(2001, 9, 17),
        date(2001, 10, 8),
        date(2002, 9, 11),
        date(2003, 3, 20),
        date(2004, 6, 7),
        date(2005, 6, 1),
        date(2006, 12, 27),
    ],
)
def test_delays_and_halts_on_the_day_itself_do_not_change_a_sessions_hours(session: date) -> None:
    assert calendar.open_ns(session) == eastern.to_ns(session, calendar.OPEN)
    assert calendar.close_ns(session) == eastern.to_ns(session, calendar.CLOSE)


@given(DAYS, DAYS)
def test_sessions_of_a_range_are_the_days_that_are_sessions(first: date, last: date) -> None:
    days = (date.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1))
    assert calendar.sessions(first, last) == tuple(filter(calendar.is_session, days))


@given(st.dates(date(1990, 1, 3), date(2027, 12, 30)))
def test_next_and_previous_sessions_have_no_session_between(day: date) -> None:
    before, after = calendar.previous_session(day), calendar.next_session(day)
    between = calendar.sessions(before + timedelta(days=1), after - timedelta(days=1))
    assert between == ((day,) if calendar.is_session(day) else ())


@given(INSTANTS)
def test_an_instant_is_in_a_session_from_its_open_until_before_its_close(ns: int) -> None:
    session = calendar.session_at(ns)
    assert calendar.is_open(ns) is (session is not None)
    if session is not None:
        assert calendar.open_ns(session) <= ns < calendar.close_ns(session)
    else:
        assert calendar.next_open(ns) < calendar.next_close(ns)


@given(INSTANTS)
def test_the_last_open_and_close_are_the_latest_that_have_passed(ns: int) -> None:
    opened, closed = calendar.opened_by(ns), calendar.closed_by(ns)
    assert opened is not None
    assert calendar.open_ns(opened) <= ns < calendar.next_open(ns)
    assert closed is None or calendar.close_ns(closed) <= ns < calendar.next_close(ns)
    assert (opened != closed) is calendar.is_open(ns)


@pytest.mark.parametrize("session", [date(2012, 12, 3), date(2012, 12, 24), date(2012, 6, 15)])
def test_the_open_belongs_to_the_session_and_the_close_does_not(session: date) -> None:
    opens, closes = calendar.open_ns(session), calendar.close_ns(session)
    assert [calendar.session_at(ns) for ns in (opens - 1, opens, closes - 1, closes)] == [
        None,
        session,
        session,
        None,
    ]


@pytest.mark.parametrize("day", [date(1989, 12, 31), date(2028, 1, 1)])
def test_a_day_outside_the_calendar_is_refused_with_its_bounds(day: date) -> None:
    for ask in (calendar.is_session, calendar.next_session, calendar.open_ns):
        with pytest.raises(OutsideCalendar, match="use a day from 1990-01-01 to 2027-12-31"):
            ask(day)
    with pytest.raises(OutsideCalendar):
        calendar.sessions(min(day, calendar.FIRST), max(day, calendar.LAST))
    with pytest.raises(OutsideCalendar):
        calendar.session_at(eastern.to_ns(day))


def test_what_would_lie_past_the_calendars_ends_is_refused() -> None:
    with pytest.raises(OutsideCalendar):
        calendar.next_session(date(2027, 12, 31))
    with pytest.raises(OutsideCalendar):
        calendar.previous_session(date(1990, 1, 2))
    assert calendar.opened_by(calendar.open_ns(date(1990, 1, 2)) - 1) is None


def test_the_hours_of_a_closed_day_are_refused_with_the_reason() -> None:
    for hours in (calendar.open_ns, calendar.close_ns, calendar.closes_early_for):
        with pytest.raises(NotASession, match=r"2012-12-25 is not a session \(Christmas Day\)"):
            hours(date(2012, 12, 25))
