"""The intervals of candles: when the one that holds an instant opens, and when the next one does.

Times are UTC milliseconds. Weeks open on Monday, months on their first day, all others at whole multiples
since 1970; `offset` moves every opening by a time zone's milliseconds east of UTC.
"""

from __future__ import annotations

from datetime import date
from typing import Final

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
MONTH: Final = "1M"

LENGTHS: Final = {
    "1s": SECOND,
    "1m": MINUTE,
    "3m": 3 * MINUTE,
    "5m": 5 * MINUTE,
    "15m": 15 * MINUTE,
    "30m": 30 * MINUTE,
    "1h": HOUR,
    "2h": 2 * HOUR,
    "4h": 4 * HOUR,
    "6h": 6 * HOUR,
    "8h": 8 * HOUR,
    "12h": 12 * HOUR,
    "1d": DAY,
    "3d": 3 * DAY,
    "1w": WEEK,
}
"""Intervals of one length each."""
INTERVALS: Final = (*LENGTHS, MONTH)
_MONDAY: Final = 4 * DAY
"""The first Monday of 1970."""
_EPOCH: Final = date(1970, 1, 1).toordinal()


def opening(ms: int, interval: str, offset: int = 0) -> int:
    """When the interval that holds the instant opened."""
    local = ms + offset
    if interval == MONTH:
        day = date.fromordinal(_EPOCH + local // DAY).replace(day=1)
        return (day.toordinal() - _EPOCH) * DAY - offset
    length = LENGTHS[interval]
    base = _MONDAY if interval == "1w" else 0
    return (local - base) // length * length + base - offset


def following(opened: int, interval: str, offset: int = 0) -> int:
    """When the interval after the one that opened then opens."""
    if interval != MONTH:
        return opened + LENGTHS[interval]
    day = date.fromordinal(_EPOCH + (opened + offset) // DAY)
    later = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    return (later.toordinal() - _EPOCH) * DAY - offset
