"""The data of one market: fed with what happens, it answers requests and publishes streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from tracedesk.exchange.book.book import Level
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.local.market import payloads, windows
from tracedesk.exchange.local.market.candles import Candle, Candles
from tracedesk.exchange.local.market.channels import WINDOWS, Channel
from tracedesk.exchange.local.market.depth import Batch, Depth
from tracedesk.exchange.local.market.intervals import DAY, MINUTE, SECOND
from tracedesk.exchange.local.market.messages import Message, Sink, Unit
from tracedesk.exchange.local.market.payloads import Payload
from tracedesk.exchange.local.market.prints import Aggregate, Print, Tape
from tracedesk.exchange.local.market.windows import Window, Windows
from tracedesk.exchange.units import text
from tracedesk.primitives.time import Clock

FAST_NS: Final = 100_000_000
SLOW_NS: Final = 1_000_000_000
AVERAGE: Final = 5 * MINUTE
"""Milliseconds that the average price looks back."""
MOST_CANDLES: Final = 100
"""Candles of one interval that are told at once, after a time in which nothing was published."""
MOST_LEVELS: Final = 5_000
Build = Callable[[Unit], Any]


def after(ns: int, beat: int) -> int:
    """The next moment of a beat."""
    return (ns // beat + 1) * beat


class Subscribers:
    """Who listens to which channel."""

    def __init__(self, symbol: str) -> None:
        self._prefix = symbol.lower()
        self._sinks: dict[str, list[Sink]] = {}
        self.channels: dict[str, Channel] = {}
        """The channels that anyone listens to, by their names."""

    def add(self, name: str, channel: Channel, sink: Sink) -> Callable[[], None]:
        sinks = self._sinks.setdefault(name, [])
        sinks.append(sink)
        self.channels[name] = channel
        taken = False

        def remove() -> None:
            nonlocal taken
            if not taken:
                taken = True
                sinks.remove(sink)
                if not sinks and self._sinks.get(name) is sinks:
                    del self._sinks[name], self.channels[name]

        return remove

    def tell(self, name: str, build: Build) -> None:
        sinks = self._sinks.get(name)
        if sinks:
            message = Message(f"{self._prefix}@{name}", build)
            for sink in tuple(sinks):
                sink(message)


class MarketData:
    """Everything public about one symbol."""

    def __init__(self, instrument: Instrument, clock: Clock) -> None:
        self.instrument = instrument
        self.symbol = instrument.symbol
        self.candles = Candles()
        self.depth_feed = Depth()
        self.subscribers = Subscribers(self.symbol)
        self._clock = clock
        self._tape = Tape(self._aggregated)
        self._windows = Windows(self.symbol, self.candles)
        self._bid: Level | None = None
        self._ask: Level | None = None
        self._touch_id = 0
        self._fast_at = after(clock.now_ns(), FAST_NS)
        self._slow_at = after(clock.now_ns(), SLOW_NS)
        self._seconds = 0
        self._candles_told = 0
        """Milliseconds up to which closed candles were told."""
        self._news = 0
        """Counts trades and touches, so that tickers are sent only when something is new."""
        self._told: dict[str, int] = {}

    # --- what happens

    def traded(self, made: Print, event_ns: int | None = None) -> None:
        """A trade was made; its event is told at `event_ns` or now."""
        self._news += 1
        self._tape.add(made)
        self.candles.add(made)
        ns = self._clock.now_ns() if event_ns is None else event_ns
        self.subscribers.tell("trade", lambda unit: payloads.trade_event(self.symbol, made, ns, unit))

    def levels(self, first: int, last: int, bids: Sequence[Level], asks: Sequence[Level]) -> None:
        """Levels changed; they are published with the next batch."""
        self._tape.settle()
        self.depth_feed.change(first, last, bids, asks)

    def batch(self, first: int, last: int, bids: Sequence[Level], asks: Sequence[Level], ns: int) -> None:
        """Levels changed that are a batch of their own already: published at once."""
        self.levels(first, last, bids, asks)
        self._tell_fast(ns)

    def touch(self, id: int, bid: Level | None, ask: Level | None) -> None:
        """The best bid or ask changed."""
        self._news += 1
        self._bid, self._ask, self._touch_id = bid, ask, id
        self.subscribers.tell("bookTicker", lambda unit: self._touch_event(id, bid, ask))

    def begin_book(self, last: int, bids: Iterable[Level], asks: Iterable[Level]) -> None:
        """Start from a whole book."""
        self.depth_feed.begin(last, bids, asks)
        self._bid, self._ask = self.depth_feed.book.best_bid(), self.depth_feed.book.best_ask()
        self._touch_id = last

    def begin_candles(self, minutes: Iterable[Candle], seconds: Iterable[Candle], aggregates: int) -> None:
        """Start from a past that is known by its candles alone."""
        self.candles.begin(minutes, seconds)
        self._tape.number_from(aggregates)

    def pulse(self, now_ns: int) -> None:
        """Publish what falls due by now."""
        self._tape.settle()
        if now_ns >= self._fast_at:
            self._fast_at = after(now_ns, FAST_NS)
            self._tell_fast(now_ns)
        if now_ns >= self._slow_at:
            self._slow_at = after(now_ns, SLOW_NS)
            self.candles.advance(now_ns // 1_000_000)
            self._tell_slow(now_ns)

    # --- streams

    def _aggregated(self, made: Aggregate) -> None:
        ns = self._clock.now_ns()
        self.subscribers.tell("aggTrade", lambda unit: payloads.aggregate_event(self.symbol, made, ns, unit))

    def _tell_fast(self, ns: int) -> None:
        batch = self.depth_feed.take_fast()
        if batch:
            self.subscribers.tell("depth@100ms", lambda unit: self._depth_event(batch, ns, unit))
            self._tell_partial(fast=True)

    def _tell_slow(self, ns: int) -> None:
        batch = self.depth_feed.take_slow()
        if batch:
            for name in ("depth", "depth@1000ms"):
                self.subscribers.tell(name, lambda unit: self._depth_event(batch, ns, unit))
            self._tell_partial(fast=False)
        self._seconds += 1
        for name, channel in tuple(self.subscribers.channels.items()):
            if channel.kind == "kline":
                self._tell_kline(name, channel, ns)
            else:
                self._tell_figures(name, channel, ns)
        self._candles_told = ns // 1_000_000

    def _depth_event(self, batch: Batch, ns: int, unit: Unit) -> Payload:
        bids, asks = batch.sorted()
        return payloads.depth_event(self.symbol, batch.first, batch.last, bids, asks, ns, unit)

    def _tell_partial(self, *, fast: bool) -> None:
        for name, channel in tuple(self.subscribers.channels.items()):
            if channel.kind == "partial" and channel.fast == fast:
                shown = self.depth(channel.levels)
                self.subscribers.tell(name, lambda unit, shown=shown: shown)

    def _tell_kline(self, name: str, channel: Channel, ns: int) -> None:
        """Candles that closed since the last time, then the open one; seconds are told closed only."""
        interval = channel.interval
        now = ns // 1_000_000
        for candle in self._newest(channel, self._candles_told or now - SECOND):
            closed = candle.closes <= now
            if closed or (interval != "1s" and self._seconds % 2 == 0):
                self.subscribers.tell(name, self._kline_event(interval, replace(candle), closed, ns))

    def _kline_event(self, interval: str, candle: Candle, closed: bool, ns: int) -> Build:
        return lambda unit: payloads.kline_event(self.symbol, interval, candle, closed, ns, unit)

    def _newest(self, channel: Channel, since: int) -> list[Candle]:
        """The candles that were open at that time or later."""
        rows: Sequence[Candle] = (
            self.candles.zoned(channel.interval, channel.offset)
            if channel.offset
            else self.candles.series(channel.interval)
        )
        newest: list[Candle] = []
        for candle in reversed(rows):
            if candle.closes <= since:
                break
            newest.append(candle)
            if len(newest) == MOST_CANDLES:
                break
        return newest[::-1]

    def _tell_figures(self, name: str, channel: Channel, ns: int) -> None:
        build = self._figures(channel, ns)
        if build is not None and self._told.get(name) != self._news:
            self._told[name] = self._news
            self.subscribers.tell(name, build)

    def _figures(self, channel: Channel, ns: int) -> Build | None:
        match channel.kind:
            case "mini":
                window = self._windows.rolling(DAY, ns)
                return lambda unit: windows.mini_event(window, unit)
            case "ticker":
                return self._day_event(self._windows.rolling(DAY, ns))
            case "rolling":
                name = channel.interval
                window = self._windows.rolling(WINDOWS[name], ns)
                return lambda unit: windows.rolling_event(window, name, unit)
            case "average" if (last := self._tape.last) is not None:
                average = self.average_price() or last.price
                return lambda unit: payloads.average_event(self.symbol, average, last.time_ns, ns, unit)
            case _:
                return None

    def _day_event(self, window: Window) -> Build:
        touch = self._touch_event(self._touch_id, self._bid, self._ask)
        quantity = self._tape.last.quantity if self._tape.last else 0
        return lambda unit: windows.day_event(window, touch, quantity, unit)

    def _touch_event(self, id: int, bid: Level | None, ask: Level | None) -> Payload:
        (b, bq), (a, aq) = bid or (0, 0), ask or (0, 0)
        return {"u": id, "s": self.symbol, "b": text(b), "B": text(bq), "a": text(a), "A": text(aq)}

    # --- requests

    def depth(self, limit: int = 100) -> Payload:
        bids, asks = self.depth_feed.book.top(min(limit, MOST_LEVELS))
        return payloads.snapshot(self.depth_feed.last_id, bids, asks)

    def trades(self, limit: int = 500, *, unit: Unit = "ms") -> list[Payload]:
        return [payloads.trade_row(made, unit) for made in self._tape.prints.newest(limit)]

    def historical_trades(
        self, from_id: int | None = None, limit: int = 500, *, unit: Unit = "ms"
    ) -> list[Payload]:
        kept = self._tape.prints
        rows = kept.newest(limit) if from_id is None else kept.from_id(from_id, limit)
        return [payloads.trade_row(made, unit) for made in rows]

    def agg_trades(
        self,
        from_id: int | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 500,
        *,
        unit: Unit = "ms",
    ) -> list[Payload]:
        """Aggregates from an id on, or of a time (ms, both ends included), or the newest."""
        self._tape.settle()
        kept = self._tape.aggregates
        if from_id is not None:
            rows = kept.from_id(from_id, limit)
        else:
            until = None if end is None else end * 1_000_000 + 999_999
            rows = kept.between(None if start is None else start * 1_000_000, until, limit)
        return [payloads.aggregate_row(made, unit) for made in rows]

    def klines(
        self,
        interval: str,
        start: int | None = None,
        end: int | None = None,
        limit: int = 500,
        offset_ms: int = 0,
        *,
        unit: Unit = "ms",
    ) -> list[list[Any]]:
        self.candles.advance(self._clock.now_ns() // 1_000_000)
        rows = self.candles.find(interval, start, end, limit, offset_ms)
        return [payloads.kline_row(candle, unit) for candle in rows]

    def avg_price(self, *, unit: Unit = "ms") -> Payload:
        last = self._tape.last
        price = self.average_price() or self.last_price or 0
        moment = last.time_ns if last else self._clock.now_ns()
        return {"mins": 5, "price": text(price), "closeTime": payloads.stamp(moment, unit)}

    def ticker_24hr(self, mini: bool = False, *, unit: Unit = "ms") -> Payload:
        document = self.ticker(DAY, mini, unit=unit)
        if mini:
            return document
        window = self._windows.rolling(DAY, self._clock.now_ns())
        touch = self.book_ticker()
        head = ("symbol", "priceChange", "priceChangePercent", "weightedAvgPrice")
        return {
            **{name: document[name] for name in head},
            "prevClosePrice": text(window.before),
            "lastPrice": document["lastPrice"],
            "lastQty": text(self._tape.last.quantity if self._tape.last else 0),
            **{name: touch[name] for name in ("bidPrice", "bidQty", "askPrice", "askQty")},
            **document,
        }

    def ticker(self, window_ms: int = DAY, mini: bool = False, *, unit: Unit = "ms") -> Payload:
        return self._statistics(self._windows.rolling(window_ms, self._advanced()), mini, unit)

    def trading_day(self, offset_ms: int = 0, mini: bool = False, *, unit: Unit = "ms") -> Payload:
        return self._statistics(self._windows.day(offset_ms, self._advanced()), mini, unit)

    def price(self) -> Payload:
        return {"symbol": self.symbol, "price": text(self.last_price or 0)}

    def book_ticker(self) -> Payload:
        (bid, bids), (ask, asks) = self._bid or (0, 0), self._ask or (0, 0)
        return {
            "symbol": self.symbol,
            "bidPrice": text(bid),
            "bidQty": text(bids),
            "askPrice": text(ask),
            "askQty": text(asks),
        }

    @property
    def last_price(self) -> int | None:
        minute = self.candles.current("1m")
        return minute.close if minute else None

    @property
    def last_trade_id(self) -> int | None:
        return self._tape.last.id if self._tape.last else None

    def average_price(self) -> int | None:
        """What was paid for one over the last five minutes, in units, rounded down."""
        seconds = self.candles.seconds_since(self._clock.now_ns() // 1_000_000 - AVERAGE)
        volume = sum(second.volume for second in seconds)
        return sum(second.quote for second in seconds) // volume if volume else None

    def window(self, length_ms: int, ns: int) -> Window:
        return self._windows.rolling(length_ms, ns)

    @property
    def news(self) -> int:
        return self._news

    def _advanced(self) -> int:
        now = self._clock.now_ns()
        self.candles.advance(now // 1_000_000)
        return now

    def _statistics(self, window: Window, mini: bool, unit: Unit) -> Payload:
        return windows.statistics(window, unit, mini=mini)
