"""Candles of every interval, kept up to date with each trade, and flat where nothing was traded."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from tracedesk.exchange.local.market.intervals import (
    INTERVALS,
    LENGTHS,
    following,
    opening,
)
from tracedesk.exchange.local.market.prints import Print

MOST: Final = {"1s": 7_200, "1m": 11_520}
"""Candles kept of the two intervals that others are made of: two hours and eight days."""
_MOST: Final = 2_000

PARTS: Final = {
    "3m": "1m",
    "5m": "1m",
    "15m": "5m",
    "30m": "15m",
    "1h": "30m",
    "2h": "1h",
    "4h": "2h",
    "6h": "2h",
    "8h": "4h",
    "12h": "6h",
    "1d": "12h",
    "3d": "1d",
    "1w": "1d",
    "1M": "1d",
}
"""The shorter interval that each is made of."""


@dataclass(slots=True)
class Candle:
    """What was traded in one interval; prices and `volume` in units, `quote` in 1e-16. Times are UTC ms."""

    opened: int
    closes: int
    """When the next one opens."""
    open: int
    high: int
    low: int
    close: int
    volume: int = 0
    quote: int = 0
    count: int = 0
    bought: int = 0
    """Volume that takers bought."""
    bought_quote: int = 0
    first: int = -1
    """Ids of the first and last trade, -1 where there was none."""
    last: int = -1

    @classmethod
    def flat(cls, opened: int, closes: int, price: int) -> Candle:
        return cls(opened, closes, price, price, price, price)

    def add(self, made: Print) -> None:
        price, quantity = made.price, made.quantity
        if self.first < 0:
            self.open = self.high = self.low = price
            self.first = made.id
        elif price > self.high:
            self.high = price
        elif price < self.low:
            self.low = price
        self.close = price
        self.volume += quantity
        self.quote += price * quantity
        self.count += 1
        self.last = made.id
        if not made.buyer_is_maker:
            self.bought += quantity
            self.bought_quote += price * quantity

    def join(self, later: Candle) -> None:
        """Take in a candle that follows."""
        self.close = later.close
        if later.first < 0:
            return
        if self.first < 0:
            self.open, self.high, self.low, self.first = later.open, later.high, later.low, later.first
        self.high = max(self.high, later.high)
        self.low = min(self.low, later.low)
        self.volume += later.volume
        self.quote += later.quote
        self.count += later.count
        self.bought += later.bought
        self.bought_quote += later.bought_quote
        self.last = later.last


def joined(candles: Iterable[Candle], interval: str, offset: int = 0) -> list[Candle]:
    """Candles of a longer interval, made of shorter ones in order."""
    made: list[Candle] = []
    for candle in candles:
        if not made or candle.opened >= made[-1].closes:
            opened = opening(candle.opened, interval, offset)
            made.append(Candle.flat(opened, following(opened, interval, offset), candle.open))
        made[-1].join(candle)
    return made


class Series:
    """The candles of one interval; the last one is still open."""

    def __init__(self, interval: str) -> None:
        self.interval = interval
        self.rows: deque[Candle] = deque(maxlen=MOST.get(interval, _MOST))

    @property
    def open(self) -> Candle | None:
        return self.rows[-1] if self.rows else None

    def add(self, made: Print, ms: int) -> None:
        last = self.rows[-1] if self.rows else None
        if last is None or ms >= last.closes:
            self._open_at(ms, made.price)
            last = self.rows[-1]
        last.add(made)

    def advance(self, ms: int) -> None:
        """Close what has ended by then and open what has begun."""
        if self.rows and ms >= self.rows[-1].closes:
            self._open_at(ms, self.rows[-1].close)

    def _open_at(self, ms: int, price: int) -> None:
        opened = opening(ms, self.interval)
        if self.rows:
            self._fill(opened)
            price = self.rows[-1].close
        self.rows.append(Candle.flat(opened, following(opened, self.interval), price))

    def _fill(self, until: int) -> None:
        """Flat candles for the intervals in which nothing happened, no more of them than are kept."""
        last = self.rows[-1]
        length = LENGTHS.get(self.interval)
        start = last.closes
        if length is not None:
            start = max(start, until - length * (self.rows.maxlen or 1))
        while start < until:
            closes = following(start, self.interval)
            self.rows.append(Candle.flat(start, closes, last.close))
            start = closes


class Candles:
    """The candles of one market."""

    def __init__(self) -> None:
        self._series = {interval: Series(interval) for interval in INTERVALS}
        self._all = tuple(self._series.values())

    def add(self, made: Print) -> None:
        ms = made.time_ns // 1_000_000
        for series in self._all:
            series.add(made, ms)

    def advance(self, ms: int) -> None:
        for series in self._all:
            series.advance(ms)

    def begin(self, minutes: Iterable[Candle], seconds: Iterable[Candle]) -> None:
        """Start from a past: its minutes, and the seconds of its end."""
        self._series["1m"].rows.extend(minutes)
        self._series["1s"].rows.extend(seconds)
        made = {"1m": list(self._series["1m"].rows)}
        for interval, parts in PARTS.items():
            made[interval] = joined(made[parts], interval)
            self._series[interval].rows.extend(made[interval])

    def series(self, interval: str) -> deque[Candle]:
        return self._series[interval].rows

    def current(self, interval: str, offset: int = 0) -> Candle | None:
        """The candle that is open now."""
        if not offset:
            return self._series[interval].open
        rows = self.zoned(interval, offset)
        return rows[-1] if rows else None

    def zoned(self, interval: str, offset: int) -> list[Candle]:
        """Candles that open by another zone's clock, made of minutes or seconds."""
        if interval in ("1s", "1m"):
            return list(self._series[interval].rows)
        return joined(self._series["1m"].rows, interval, offset)

    def find(
        self, interval: str, start_ms: int | None, end_ms: int | None, limit: int, offset: int = 0
    ) -> list[Candle]:
        """Candles that open between the two, ends included: the earliest from a start on, else the latest."""
        rows = self.zoned(interval, offset) if offset else list(self._series[interval].rows)
        low = 0 if start_ms is None else bisect_left(rows, start_ms, key=lambda row: row.opened)
        high = len(rows) if end_ms is None else bisect_left(rows, end_ms + 1, key=lambda row: row.opened)
        return rows[max(low, high - limit) : high] if start_ms is None else rows[low : min(high, low + limit)]

    def seconds_since(self, ms: int) -> list[Candle]:
        """The seconds with trades that ended after the instant, as far back as they are kept."""
        newest = takewhile(lambda row: row.closes > ms, reversed(self._series["1s"].rows))
        return [row for row in newest if row.count]
