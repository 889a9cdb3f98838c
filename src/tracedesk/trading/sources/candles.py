"""Daily candles made into longer ones: five sessions, weeks, months and quarters.

A candle is given only once it is complete: the last session of its span has closed. One that reaches into the
period is given whole, even when it began before. A span of five sessions is counted back from the newest; a
shorter rest at the front is left out. Prices and volumes of a span are in the shares of its last session, so
that a split inside it does not show as a fall. Its adjusted close is that of its last session.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import groupby

from tracedesk.market import PRICE_PLACES, Split, calendar, eastern
from tracedesk.primitives.money import divide, from_units, to_units, trim
from tracedesk.primitives.time import format
from tracedesk.trading.sources.periods import first_row
from tracedesk.trading.sources.seam import Candle

FIVE = 5


def first_needed(days: Sequence[int], period: str, interval: str, today: date) -> int:
    """Return the index of the first daily row that the period's candles are made of."""
    first = first_row(days, period, today)
    if interval in ("1d", "5d"):
        return first
    while 0 < first < len(days) and _span(days[first - 1], interval) == _span(days[first], interval):
        first -= 1
    return first


def gather(daily: Sequence[Candle], interval: str, splits: Sequence[Split] = ()) -> tuple[Candle, ...]:
    """Return the complete candles of an interval of a day or more; `daily` has full sessions only."""
    if interval == "1d":
        return tuple(daily)
    return tuple(_joined(group, splits) for group in _groups(daily, interval))


def _groups(daily: Sequence[Candle], interval: str) -> list[list[Candle]]:
    if interval == "5d":
        return [list(daily[at : at + FIVE]) for at in range(len(daily) % FIVE, len(daily), FIVE)]
    groups = [list(group) for _, group in groupby(daily, key=lambda c: _span(_day(c).toordinal(), interval))]
    if groups and not _is_complete(_day(groups[-1][-1]), interval):
        groups.pop()
    return groups


def _is_complete(last: date, interval: str) -> bool:
    return _span(calendar.next_session(last).toordinal(), interval) != _span(last.toordinal(), interval)


def _span(day: int, interval: str) -> tuple[int, int]:
    """Name the week, month or quarter of a day."""
    moment = date.fromordinal(day)
    if interval == "1wk":
        return moment.isocalendar()[:2]
    return moment.year, (moment.month - 1) // (3 if interval == "3mo" else 1)


def _joined(group: Sequence[Candle], splits: Sequence[Split]) -> Candle:
    last = group[-1]
    same = [_restated(candle, _day(last), splits) for candle in group]
    return Candle(
        start_ns=same[0].start_ns,
        open=same[0].open,
        high=max(candle.high for candle in same),
        low=min(candle.low for candle in same),
        close=last.close,
        volume=sum(candle.volume for candle in same),
        adjusted_close=last.adjusted_close,
    )


def _restated(candle: Candle, last: date, splits: Sequence[Split]) -> Candle:
    """Return the candle in the shares of the last day."""
    for split in splits:
        if _day(candle) < split.ex_date <= last:
            candle = _split(candle, split)
    return candle


def _split(candle: Candle, split: Split) -> Candle:
    def restate(value: Decimal) -> Decimal:
        return tidy(from_units(divide(to_units(value, PRICE_PLACES) * split.old, split.new), PRICE_PLACES))

    return Candle(
        candle.start_ns,
        restate(candle.open),
        restate(candle.high),
        restate(candle.low),
        restate(candle.close),
        divide(candle.volume * split.new, split.old),
        candle.adjusted_close,
    )


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


def _day(candle: Candle) -> date:
    return eastern.to_day(candle.start_ns)
