"""The view: what is known at an instant, and that nothing of it depends on what came after."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.market.rows import Row, bars_of, flat
from tracedesk.market import Action, Bars, Dividend, NoBars, ReplayClock, Split, View, calendar
from tracedesk.market.clock import FIRST_NS, LAST_NS, START_NS
from tracedesk.market.dataset import EMBEDDED, FIRST_SESSION, LAST_SESSION
from tracedesk.primitives import time
from tracedesk.primitives.time import ManualClock

SESSIONS = calendar.sessions(FIRST_SESSION, LAST_SESSION)
ASKED = (*EMBEDDED, "TSLA")


def at(text: str) -> View:
    """A view of the embedded market at an instant."""
    return View(ManualClock(time.parse(text).ns))


# --- quotes -------------------------------------------------------------------------------------


def test_inside_a_session_the_quote_is_its_open_against_the_close_before() -> None:
    quote = View(ReplayClock()).quote("AAPL")
    assert (quote.session, quote.basis) == (date(2012, 12, 3), "open")
    assert time.format(quote.as_of_ns) == "2012-12-03T14:30:00Z"
    assert (quote.price, quote.previous_close) == (Decimal("593.65"), Decimal("585.28"))
    assert (quote.change, quote.change_percent) == (Decimal("8.37"), Decimal("1.4301"))
    assert quote.volume is None


@pytest.mark.parametrize("instant", ["2012-12-03T14:30:00Z", "2012-12-03T20:59:59.999999999Z"])
def test_the_quote_stands_from_the_open_until_the_close(instant: str) -> None:
    assert at(instant).quote("AAPL").price == Decimal("593.65")


@pytest.mark.parametrize("instant", ["2012-12-03T21:00:00Z", "2012-12-04T14:29:59.999999999Z"])
def test_after_the_close_and_before_the_next_open_the_quote_is_the_close(instant: str) -> None:
    quote = at(instant).quote("AAPL")
    assert (quote.session, quote.basis) == (date(2012, 12, 3), "close")
    assert (quote.price, quote.previous_close) == (Decimal("586.19"), Decimal("585.28"))
    assert time.format(quote.as_of_ns) == "2012-12-03T21:00:00Z"
    assert quote.volume == 13010000


def test_over_a_weekend_the_quote_is_fridays_close() -> None:
    assert at("2012-12-02T12:00:00Z").quote("IBM").session == date(2012, 11, 30)


@pytest.mark.parametrize("instant", ["2005-02-28T15:00:00Z", "2005-02-28T22:00:00Z"])
def test_on_a_splits_ex_date_the_previous_close_is_in_the_new_shares(instant: str) -> None:
    quote = at(instant).quote("AAPL")
    assert quote.previous_close == Decimal("44.4950")
    assert abs(quote.change or 0) < 1


def test_before_the_ex_date_opens_the_split_has_not_happened() -> None:
    view = at("2005-02-28T14:00:00Z")
    assert view.quote("AAPL").price == Decimal("88.99")
    assert view.actions("AAPL")[-1].ex_date == date(2000, 6, 21)


def test_on_a_symbols_first_session_there_is_a_price_and_no_change() -> None:
    view = at("2012-05-18T15:00:00Z")
    quote = view.quote("FB")
    assert (quote.price, quote.previous_close) == (Decimal("42.05"), None)
    assert (quote.change, quote.change_percent) == (None, None)
    assert len(view.bars("FB")) == 0
    assert at("2012-05-18T21:00:00Z").quote("FB").change is None


def test_a_split_that_leaves_no_whole_price_is_rounded_to_four_places() -> None:
    days = calendar.sessions(date(2010, 3, 1), date(2010, 3, 2))
    bars = bars_of("X", [flat(days[0], 100), flat(days[1], 33)], [Split(days[1], 3, 1)])
    view = View(ManualClock(calendar.open_ns(days[1])), {"X": bars})
    assert view.quote("X").previous_close == Decimal("33.3333")


def test_a_clock_past_the_data_sees_the_last_close_and_no_open() -> None:
    view = at("2026-11-13T16:00:00Z")
    assert view.is_open
    quote = view.quote("MSFT")
    assert (quote.session, quote.basis, quote.price) == (LAST_SESSION, "close", Decimal("27.95"))


# --- what is known ------------------------------------------------------------------------------


def test_a_sessions_bar_is_known_at_its_close_and_not_before() -> None:
    session = date(2012, 12, 24)
    closes = calendar.close_ns(session)
    assert View(ManualClock(closes - 1)).bars("IBM").on(session) is None
    bar = View(ManualClock(closes)).bars("IBM").on(session)
    assert bar is not None
    assert bar.adjusted_close == bar.close


def test_an_action_is_known_when_its_ex_date_opens_and_adjusts_when_it_has_closed() -> None:
    session, before = date(2013, 2, 6), date(2013, 2, 5)
    inside, after = (View(ManualClock(ns)) for ns in (calendar.open_ns(session), calendar.close_ns(session)))
    paid = Dividend(session, Decimal("0.85"))
    assert inside.actions("IBM")[-1] == after.actions("IBM")[-1] == paid
    assert paid not in inside.bars("IBM").actions
    known = [view.bars("IBM").on(before) for view in (inside, after)]
    assert [bar and bar.adjusted_close == bar.close for bar in known] == [True, False]


def test_a_symbol_not_yet_listed_is_as_unknown_as_one_that_never_is() -> None:
    view = at("2003-06-02T15:00:00Z")
    assert view.symbols() == ("AAPL", "IBM", "MSFT")
    for symbol in ("GOOG", "TSLA"):
        for ask in (view.bars, view.quote, view.actions):
            with pytest.raises(
                NoBars, match=f"no bars of '{symbol}' up to 2003-06-02T15:00:00Z, but of AAPL, I"
            ):
                ask(symbol)


def test_a_view_stays_at_its_instant_when_the_clock_moves_on() -> None:
    clock = ReplayClock()
    view = View(clock)
    before = view.quote("AAPL")
    clock.to_close()
    assert view.quote("AAPL") == before
    assert View(clock).quote("AAPL") != before


# --- nothing depends on what came after ---------------------------------------------------------

Market = Mapping[str, Bars]


@cache
def _hours() -> tuple[list[int], list[int]]:
    return [calendar.open_ns(day) for day in SESSIONS], [calendar.close_ns(day) for day in SESSIONS]


@cache
def _rows(symbol: str) -> tuple[Row, ...]:
    units = [[int(p.scaleb(4)) for p in (b.open, b.high, b.low, b.close)] for b in EMBEDDED[symbol]]
    days = EMBEDDED[symbol].days
    volumes = EMBEDDED[symbol].volumes
    return tuple((d, o, h, lo, c, v) for d, (o, h, lo, c), v in zip(days, units, volumes, strict=True))


def _split_at(symbol: str, ns: int) -> tuple[list[Row], list[Row], list[Row]]:
    """The rows that are complete at the instant, the one in progress, and those to come."""
    rows = _rows(symbol)
    opens, closes = _hours()
    skipped = len(SESSIONS) - len(rows)
    closed = max(0, bisect_right(closes, ns) - skipped)
    opened = max(0, bisect_right(opens, ns) - skipped)
    return list(rows[:closed]), list(rows[closed:opened]), list(rows[opened:])


def truncated(ns: int) -> Market:
    """The market as if it had ended at the instant; of the session in progress, only the open is left."""
    return {symbol: _truncated(symbol, ns) for symbol in EMBEDDED}


def _truncated(symbol: str, ns: int) -> Bars:
    complete, current, _ = _split_at(symbol, ns)
    known = [(day, opened, 1, 1, 1, 1) for day, opened, *_ in current]
    last = (complete + current)[-1][0] if complete + current else 0
    seen = [action for action in EMBEDDED[symbol].actions if action.ex_date.toordinal() <= last]
    return bars_of(symbol, complete + known, seen)


def corrupted(ns: int, seed: int) -> Market:
    """The market with another future: rows changed and dropped, actions changed, dropped and invented."""
    chance = random.Random(seed)
    return {symbol: _corrupted(symbol, ns, chance) for symbol in EMBEDDED}


def _corrupted(symbol: str, ns: int, chance: random.Random) -> Bars:
    complete, current, later = _split_at(symbol, ns)
    current = [_noise(chance, day, opened) for day, opened, *_ in current]
    later = [_noise(chance, day, chance.randrange(1, 10**7)) for day, *_ in later if chance.random() < 0.9]
    past = {day for day, *_ in complete + current}
    seen = [action for action in EMBEDDED[symbol].actions if action.ex_date.toordinal() in past]
    days = sorted(chance.sample([day for day, *_ in later], min(len(later), 5)))
    return bars_of(symbol, complete + current + later, [*seen, *(_invented(day, chance) for day in days)])


def _noise(chance: random.Random, day: int, opened: int) -> Row:
    high, low, close, volume = (chance.randrange(1, 10**7) for _ in range(4))
    return day, opened, high, low, close, volume


def _invented(day: int, chance: random.Random) -> Action:
    ex_date = date.fromordinal(day)
    if chance.random() < 0.5:
        return Split(ex_date, chance.randrange(2, 20), 1)
    return Dividend(ex_date, Decimal(chance.randrange(1, 999)).scaleb(-2))


def answers(view: View, day: date, count: int) -> Iterator[Any]:
    """What every call answers, or the words of its refusal."""
    yield view.now_ns, view.session, view.is_open, view.symbols()
    for symbol in ASKED:
        try:
            quote = view.quote(symbol)
            yield quote, quote.change, quote.change_percent, view.actions(symbol)
            yield from _contents(view.bars(symbol), day, count)
        except NoBars as error:
            yield str(error)


def _contents(bars: Bars, day: date, count: int) -> Iterator[Any]:
    yield len(bars), bars.symbol, bars.actions, repr(bars)
    yield bars.latest(count), bars.between(day, day + timedelta(days=count)), bars.on(day), bars.open_on(day)
    yield from (column.tobytes() for column in (bars.days, bars.closes, bars.volumes, bars.adjusted_closes))
    yield bars.latest(1) == tuple(bars[index] for index in range(len(bars))[-1:])


def leaks(ns: int, seed: int, day: date, count: int, kind: type[View] = View) -> bool:
    """Whether anything that a view answers at the instant depends on what came after it."""
    clock = ManualClock(ns)
    real = list(answers(kind(clock), day, count))
    others = (truncated(ns), corrupted(ns, seed))
    return any(list(answers(kind(clock, other), day, count)) != real for other in others)


def _edges(*days: date) -> list[int]:
    hours = [hour(day) for day in days for hour in (calendar.open_ns, calendar.close_ns)]
    return [ns + step for ns in hours for step in (-1, 0, 1)]


EDGES = st.sampled_from(SESSIONS).flatmap(lambda day: st.sampled_from(_edges(day)))
INSTANTS = EDGES | st.integers(FIRST_NS, LAST_NS)


@settings(max_examples=40)
@given(INSTANTS, st.integers(0, 2**32), st.sampled_from(SESSIONS), st.integers(0, 300))
@example(FIRST_NS, 1, FIRST_SESSION, 10)
@example(LAST_NS, 1, LAST_SESSION, 10)
def test_no_answer_depends_on_rows_or_actions_after_the_clock(
    ns: int, seed: int, day: date, count: int
) -> None:
    assert not leaks(ns, seed, day, count)


@pytest.mark.parametrize(
    "day", [date(2003, 2, 18), date(2003, 2, 19), date(2004, 8, 19), date(2005, 2, 28), date(2012, 5, 18)]
)
def test_no_answer_depends_on_the_future_around_splits_dividends_and_listings(day: date) -> None:
    for ns in _edges(day):
        assert not leaks(ns, ns % 1000, day, 5)


@given(INSTANTS)
@settings(max_examples=30)
def test_no_bar_of_any_symbol_is_of_a_session_that_has_not_closed(ns: int) -> None:
    view = View(ManualClock(ns))
    for symbol in view.symbols():
        for bar in view.bars(symbol).latest(1):
            assert calendar.close_ns(bar.session) <= ns
        assert view.quote(symbol).as_of_ns <= ns
        assert all(calendar.open_ns(action.ex_date) <= ns for action in view.actions(symbol))


class EagerView(View):
    """A view that shows the bar of the session in progress."""

    def _complete(self, symbol: str) -> Bars:
        return self._source[symbol].until(self._opened)


class ForeseeingView(View):
    """A view whose closes are adjusted for every action there will ever be."""

    def _complete(self, symbol: str) -> Bars:
        bars = self._source[symbol]
        seen = super()._complete(symbol)
        factor = next((bar.adjusted_close / bar.close for bar in bars if bar.session == SESSIONS[0]), 1)
        columns = zip(seen.days, seen.closes, seen.volumes, strict=True)
        rows = [(day, close, close, close, round(close * factor), volume) for day, close, volume in columns]
        return bars_of(symbol, rows, seen.actions)


@pytest.mark.parametrize("kind", [EagerView, ForeseeingView])
def test_the_property_catches_a_view_that_leaks(kind: type[View]) -> None:
    assert leaks(START_NS, 1, date(2012, 11, 30), 5, kind)


def test_moving_the_clock_reveals_bars_in_order_and_takes_none_back() -> None:
    clock = ReplayClock()
    views = [View(clock)]
    for _ in range(6):
        clock.to_close()
        views.append(View(clock))
    for before, after in pairwise(views):
        shown, more = (tuple(view.bars("GOOG")) for view in (before, after))
        assert len(more) == len(shown) + 1
        assert more[:-1] == shown


def test_a_bar_is_a_value() -> None:
    bar = View(ReplayClock()).bars("IBM")[-1]
    assert replace(bar) == bar
    with pytest.raises(AttributeError):
        bar.close = Decimal(1)  # pyright: ignore[reportAttributeAccessIssue]
