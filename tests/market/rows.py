"""Small hand-made markets for tests."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import date

from tracedesk.market import Action, Bars
from tracedesk.market.bars import Columns

Row = tuple[int, int, int, int, int, int]
"""A day's ordinal; open, high, low and close in 10**-4 dollars; volume."""


def bars_of(symbol: str, rows: Iterable[Row], actions: Sequence[Action] = ()) -> Bars:
    """Bars of whole rows."""
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return Bars(symbol, Columns(*(array("q", column) for column in columns)), tuple(actions))


def flat(day: date, close: int) -> Row:
    """A row whose prices are all the close, in dollars."""
    units = close * 10_000
    return day.toordinal(), units, units, units, units, 100
