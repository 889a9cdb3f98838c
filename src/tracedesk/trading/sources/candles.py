"""Daily candles made into longer ones (five sessions, weeks, months, quarters), and their prices restated.

A candle is given only once it is complete: the last session of its span has ended. One that reaches into the
period is given whole, even when it began before. A span of five sessions is counted back from the newest; a
shorter rest at the front is left out. Its adjusted close is that of its last session.

Prices and volumes are restated for splits by one exact factor and rounded once, half-even: prices to twelve
places, volumes to whole shares. Adjusted for splits, all candles are in the shares of the clock. As they were
traded, a span is in the shares of its last session, so that a split inside it does not show as a fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import groupby
from math import prod
from typing import Final

from tracedesk.market import ADJUSTED_PLACES, Split, calendar, eastern
from tracedesk.primitives.money import divide, from_units, scale_of, to_units, trim
from tracedesk.primitives.time import format
from tracedesk.trading.sources.hours import EXCHANGE, Hours
from tracedesk.trading.sources.periods import first_row
from tracedesk.trading.sources.seam import Adjust, Candle

FIVE: Final = 5


def first_needed(days: Sequence[int], period: str, interval: str, today: date) -> int:
    """Return the index of the first daily row that the period's candles are made of."""
    first = first_row(days, period, today)
    if interval in ("1d", "5d"):
        return first
    while 0 < first < len(days) and _span(days[first - 1], interval) == _span(days[first], interval):
        first -= 1
    return first


def gather(
    daily: Sequence[Candle],
    interval: str,
    splits: Sequence[Split] = (),
    adjust: Adjust = "none",
    hours: Hours = EXCHANGE,
) -> tuple[Candle, ...]:
    """Return the complete candles of an interval of a day or more; `daily` has full sessions only."""
    if adjust == "splits":
        daily, splits = [restated(candle, splits, hours) for candle in daily], ()
    if interval == "1d":
        return tuple(daily)
    return tuple(_joined(group, splits, hours) for group in _groups(daily, interval, hours))


def restated(
    candle: Candle, splits: Sequence[Split], hours: Hours = EXCHANGE, until: date = date.max
) -> Candle:
    """Return the candle in the shares after the splits that came later, up to a day."""
    day = hours.day_of(candle.start_ns)
    later = [split for split in splits if day < split.ex_date <= until]
    if not later:
        return candle
    prices = (candle.open, candle.high, candle.low, candle.close)
    opening, high, low, close = (in_new_shares(value, later) for value in prices)
    new, old = prod(split.new for split in later), prod(split.old for split in later)
    top, bottom = candle.volume.as_integer_ratio()
    volume = divide(top * new, bottom * old)
    return replace(candle, open=opening, high=high, low=low, close=close, volume=volume)


def in_new_shares(value: Decimal, splits: Sequence[Split]) -> Decimal:
    """Return a price after the splits."""
    if not splits:
        return value
    new, old = prod(split.new for split in splits), prod(split.old for split in splits)
    return tidy(from_units(divide(to_units(value, ADJUSTED_PLACES) * old, new), ADJUSTED_PLACES))


def _groups(daily: Sequence[Candle], interval: str, hours: Hours) -> list[list[Candle]]:
    if interval == "5d":
        return [list(daily[at : at + FIVE]) for at in range(len(daily) % FIVE, len(daily), FIVE)]
    groups = [
        list(group)
        for _, group in groupby(daily, key=lambda c: _span(hours.day_of(c.start_ns).toordinal(), interval))
    ]
    if groups and not _is_complete(hours.day_of(groups[-1][-1].start_ns), interval, hours):
        groups.pop()
    return groups


def _is_complete(last: date, interval: str, hours: Hours) -> bool:
    return _span(hours.following(last).toordinal(), interval) != _span(last.toordinal(), interval)


def _span(day: int, interval: str) -> tuple[int, int]:
    """Name the week, month or quarter of a day."""
    moment = date.fromordinal(day)
    if interval == "1wk":
        return moment.isocalendar()[:2]
    return moment.year, (moment.month - 1) // (3 if interval == "3mo" else 1)


def _joined(group: Sequence[Candle], splits: Sequence[Split], hours: Hours) -> Candle:
    last = group[-1]
    end = hours.day_of(last.start_ns)
    same = [restated(candle, splits, hours, end) for candle in group]
    return Candle(
        start_ns=same[0].start_ns,
        open=same[0].open,
        high=max(candle.high for candle in same),
        low=min(candle.low for candle in same),
        close=last.close,
        volume=_sum([candle.volume for candle in same]),
        adjusted_close=last.adjusted_close,
    )


def _sum(volumes: Sequence[int | Decimal]) -> int | Decimal:
    """Return the exact sum, whatever the decimal context."""
    places = max(scale_of(volume) if isinstance(volume, Decimal) else 0 for volume in volumes)
    total = sum(to_units(Decimal(volume), places) for volume in volumes)
    return trim(from_units(total, places)) if places else total


def told_of(kind: str, now_ns: int) -> dict[str, str]:
    """Return how a body names the time that it tells of, such that equal bars make equal bodies.

    Daily bars change when a session closes, and a period also begins anew with the day.
    """
    closed = calendar.closed_by(now_ns) if kind in ("daily", "history") else None
    if closed is None:
        return {"clock": format(now_ns)}
    day = {"day": eastern.to_day(now_ns).isoformat()} if kind == "history" else {}
    return {"session": closed.isoformat(), **day}


def tidy(value: Decimal) -> Decimal:
    """Return the value without trailing zeros, but with two places at least."""
    short = trim(value)
    return short if -int(short.as_tuple().exponent) >= 2 else from_units(to_units(short, 2), 2)
