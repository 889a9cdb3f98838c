"""Daily bars of one symbol, and their adjustment for the actions that they have seen."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from math import prod

from tracedesk.market.actions import Action, Split
from tracedesk.primitives.money import divide, from_units, to_units

PRICE_PLACES = 4
"""Prices are kept as whole numbers of 10**-4 dollars."""
ADJUSTED_PLACES = 12
"""Adjusted closes are exact fractions, rounded once, half-even, to this many places."""

_CENT = 100


@dataclass(frozen=True, slots=True)
class Bar:
    """One session: prices as they were traded, and the close adjusted as of the bars it was read from."""

    session: date
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: int
    adjusted_close: Decimal


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows by column: days as ordinals, prices in 10**-4 dollars; all arrays hold 64-bit integers."""

    days: array[int]
    open: array[int]
    high: array[int]
    low: array[int]
    close: array[int]
    volume: array[int]

    def head(self, count: int) -> Columns:
        """Return a copy of the first rows that shares nothing with the rest."""
        return Columns(
            self.days[:count],
            self.open[:count],
            self.high[:count],
            self.low[:count],
            self.close[:count],
            self.volume[:count],
        )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Rows from `start` on, up to the next stretch, whose closes are multiplied by one factor."""

    start: int
    numerator: int
    denominator: int


class Bars:
    """The bars of a symbol in order of their sessions, with the actions among them; immutable.

    Adjusted closes know only these bars and actions: the last bar's adjusted close is its close.
    """

    def __init__(self, symbol: str, columns: Columns, actions: tuple[Action, ...]) -> None:
        """Take the rows in order, and actions in order whose ex-dates are rows."""
        self.symbol = symbol
        self._rows = columns
        self._actions = actions

    def __repr__(self) -> str:
        return f"Bars({self.symbol!r}, {len(self)} sessions)"

    def __len__(self) -> int:
        return len(self._rows.days)

    def __iter__(self) -> Iterator[Bar]:
        return map(self._bar, range(len(self)))

    def __getitem__(self, index: int) -> Bar:
        return self._bar(range(len(self))[index])

    @property
    def actions(self) -> tuple[Action, ...]:
        """The splits and dividends whose ex-dates are among the bars."""
        return self._actions

    def on(self, session: date) -> Bar | None:
        """Return the session's bar, if there is one."""
        index = self._find(session)
        return None if index is None else self._bar(index)

    def open_on(self, session: date) -> Decimal | None:
        """Return the session's open alone, if it has a bar."""
        index = self._find(session)
        return None if index is None else price(self._rows.open[index])

    def between(self, first: date, last: date) -> tuple[Bar, ...]:
        """Return the bars from the first day to the last, both included."""
        days = self._rows.days
        rows = range(bisect_left(days, first.toordinal()), bisect_right(days, last.toordinal()))
        return tuple(map(self._bar, rows))

    def latest(self, count: int) -> tuple[Bar, ...]:
        """Return up to so many of the last bars, oldest first."""
        if count < 0:
            raise ValueError(f"a count of {count} bars cannot be returned; it must not be negative")
        return tuple(map(self._bar, range(max(0, len(self) - count), len(self))))

    def until(self, session: date | None) -> Bars:
        """Return bars that end with the session, or none at all, and hold nothing of what came after."""
        count = 0 if session is None else bisect_right(self._rows.days, session.toordinal())
        last = self._rows.days[count - 1] if count else 0
        seen = tuple(action for action in self._actions if action.ex_date.toordinal() <= last)
        return Bars(self.symbol, self._rows.head(count), seen)

    # Whole columns, for arithmetic over many rows; numpy reads them without a copy.

    @property
    def days(self) -> memoryview[int]:
        """The sessions as ordinals of `date`."""
        return memoryview(self._rows.days).toreadonly()

    @property
    def closes(self) -> memoryview[int]:
        """The closes in 10**-4 dollars."""
        return memoryview(self._rows.close).toreadonly()

    @property
    def volumes(self) -> memoryview[int]:
        """The volumes in shares."""
        return memoryview(self._rows.volume).toreadonly()

    @cached_property
    def adjusted_closes(self) -> memoryview[int]:
        """The adjusted closes in 10**-12 dollars."""
        return memoryview(array("q", map(self._adjusted, range(len(self))))).toreadonly()

    def restated_volumes(self, first: int, end: int, splits: Sequence[Split]) -> tuple[int, ...]:
        """Return the volumes of rows `first` to `end` in the shares after the splits, rounded half-even."""
        days, volumes = self._rows.days[first:end], self._rows.volume[first:end]
        return tuple(_restated(volume, day, splits) for day, volume in zip(days, volumes, strict=True))

    def _find(self, session: date) -> int | None:
        days, day = self._rows.days, session.toordinal()
        index = bisect_left(days, day)
        return index if index < len(days) and days[index] == day else None

    def _bar(self, index: int) -> Bar:
        rows = self._rows
        return Bar(
            date.fromordinal(rows.days[index]),
            price(rows.open[index]),
            price(rows.high[index]),
            price(rows.low[index]),
            price(rows.close[index]),
            rows.volume[index],
            from_units(self._adjusted(index), ADJUSTED_PLACES),
        )

    def _adjusted(self, index: int) -> int:
        stretches = self._stretches
        stretch = stretches[bisect_right(stretches, index, key=lambda s: s.start) - 1]
        units = self._rows.close[index] * 10 ** (ADJUSTED_PLACES - PRICE_PLACES)
        return divide(units * stretch.numerator, stretch.denominator)

    @cached_property
    def _stretches(self) -> list[_Stretch]:
        """One stretch from each ex-date on and one before them all; each factor holds the later actions."""
        numerator = denominator = 1
        found: list[_Stretch] = []
        for action in reversed(self._actions):
            start = self._row_of(action)
            found.append(_Stretch(start, numerator, denominator))
            top, bottom = _factor(action, self._rows.close[start])
            numerator, denominator = numerator * top, denominator * bottom
        return [_Stretch(0, numerator, denominator), *reversed(found)]

    def _row_of(self, action: Action) -> int:
        index = self._find(action.ex_date)
        if index is None:
            raise ValueError(f"{self.symbol} has no bar on {action.ex_date}, the ex-date of {action}")
        return index


def _factor(action: Action, close: int) -> tuple[int, int]:
    """What earlier prices are multiplied by; the source's rule divides a dividend by the ex-date's close."""
    if isinstance(action, Split):
        return action.old, action.new
    return close, close + to_units(action.amount, PRICE_PLACES)


def _restated(volume: int, day: int, splits: Sequence[Split]) -> int:
    later = [split for split in splits if day < split.ex_date.toordinal()]
    if not later:
        return volume
    return divide(volume * prod(split.new for split in later), prod(split.old for split in later))


def price(units: int) -> Decimal:
    """Return a price with two places when it is whole cents, else with four."""
    cents, rest = divmod(units, _CENT)
    return from_units(units, PRICE_PLACES) if rest else from_units(cents, 2)
