"""Statistics of a window that ends now and begins on a minute, as tickers show them.

Minutes are the finest past that is kept for a day, so a window reaches back to the start of the minute
in which it begins and is up to 59,999 ms wider than asked: `openTime` says where it truly begins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from tracedesk.exchange.local.market.candles import Candle, Candles
from tracedesk.exchange.local.market.intervals import opening
from tracedesk.exchange.local.market.messages import Unit
from tracedesk.exchange.local.market.payloads import Payload, of_ms, quote_text, stamp
from tracedesk.exchange.units import text

NOTHING: Final = Candle.flat(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Window:
    """What was traded from `opened` (ms) until `ns`."""

    symbol: str
    opened: int
    ns: int
    total: Candle
    before: int
    """The last price before the window, or the first in it."""

    @property
    def change(self) -> int:
        return self.total.close - self.total.open

    @property
    def percent(self) -> str:
        """The change in percent, with three places."""
        if not self.total.open:
            return "0.000"
        thousandths = round_half_even(self.change * 100_000, self.total.open)
        return text(thousandths * 100_000, 3)

    @property
    def average(self) -> int:
        """What was paid for one, in units, rounded down; the last price where nothing was traded."""
        return self.total.quote // self.total.volume if self.total.volume else self.total.close


def round_half_even(numerator: int, denominator: int) -> int:
    whole, rest = divmod(numerator, denominator)
    double = 2 * rest - denominator
    return whole + (double > 0 or (double == 0 and whole % 2 == 1))


class Windows:
    """The windows of one market; the closed minutes of each are added up once a minute."""

    def __init__(self, symbol: str, candles: Candles) -> None:
        self._symbol = symbol
        self._candles = candles
        self._sums: dict[tuple[str, int], tuple[tuple[int, int], Candle, int]] = {}

    def rolling(self, length_ms: int, ns: int) -> Window:
        """The last `length_ms`, from a minute on."""
        now = ns // 1_000_000
        return self._window(("rolling", length_ms), opening(now - length_ms, "1m"), ns)

    def day(self, offset: int, ns: int) -> Window:
        """The day of a time zone so far."""
        return self._window(("day", offset), opening(ns // 1_000_000, "1d", offset), ns)

    def _window(self, key: tuple[str, int], opened: int, ns: int) -> Window:
        minutes = self._candles.series("1m")
        if not minutes:
            return Window(self._symbol, opened, ns, NOTHING, 0)
        current = minutes[-1]
        at = (opened, current.opened)
        known = self._sums.get(key)
        if known is None or known[0] != at:
            known = self._sums[key] = (at, *self._closed(opened))
        total = replace(known[1])
        if current.opened >= opened:
            total.join(current)
        return Window(self._symbol, opened, ns, total, known[2] or total.open)

    def _closed(self, opened: int) -> tuple[Candle, int]:
        """The closed minutes from then on as one candle, and the price before them."""
        minutes = self._candles.series("1m")
        newest = islice(reversed(minutes), 1, None)
        inside: list[Candle] = []
        before = 0
        for candle in newest:
            if candle.opened < opened:
                before = candle.close
                break
            inside.append(candle)
        start = inside[-1].open if inside else before or minutes[-1].open
        total = Candle.flat(opened, opened, start)
        for candle in reversed(inside):
            total.join(candle)
        return total, before


# --- as Binance writes them --------------------------------------------------------------------


def statistics(window: Window, unit: Unit, *, mini: bool) -> Payload:
    """A window as a request is answered."""
    total = window.total
    change = {
        "priceChange": text(window.change),
        "priceChangePercent": window.percent,
        "weightedAvgPrice": text(window.average),
    }
    return {
        "symbol": window.symbol,
        **({} if mini else change),
        "openPrice": text(total.open),
        "highPrice": text(total.high),
        "lowPrice": text(total.low),
        "lastPrice": text(total.close),
        "volume": text(total.volume),
        "quoteVolume": quote_text(total.quote),
        "openTime": of_ms(window.opened, unit),
        "closeTime": stamp(window.ns, unit),
        "firstId": total.first,
        "lastId": total.last,
        "count": total.count,
    }


def mini_event(window: Window, unit: Unit) -> Payload:
    total = window.total
    return {
        "e": "24hrMiniTicker",
        "E": stamp(window.ns, unit),
        "s": window.symbol,
        "c": text(total.close),
        "o": text(total.open),
        "h": text(total.high),
        "l": text(total.low),
        "v": text(total.volume),
        "q": quote_text(total.quote),
    }


def rolling_event(window: Window, name: str, unit: Unit) -> Payload:
    return {
        "e": f"{name}Ticker",
        "E": stamp(window.ns, unit),
        "s": window.symbol,
        **_change(window),
        **_prices(window),
        "c": text(window.total.close),
        "w": text(window.average),
        **_amounts(window, unit),
    }


def day_event(window: Window, touch: Payload, last_quantity: int, unit: Unit) -> Payload:
    """The 24 hour ticker; `touch` is what a book ticker says."""
    return {
        "e": "24hrTicker",
        "E": stamp(window.ns, unit),
        "s": window.symbol,
        **_change(window),
        "w": text(window.average),
        "x": text(window.before),
        "c": text(window.total.close),
        "Q": text(last_quantity),
        **{name: touch[name] for name in ("b", "B", "a", "A")},
        **_prices(window),
        **_amounts(window, unit),
    }


def _change(window: Window) -> dict[str, Any]:
    return {"p": text(window.change), "P": window.percent}


def _prices(window: Window) -> dict[str, Any]:
    return {"o": text(window.total.open), "h": text(window.total.high), "l": text(window.total.low)}


def _amounts(window: Window, unit: Unit) -> dict[str, Any]:
    total = window.total
    return {
        "v": text(total.volume),
        "q": quote_text(total.quote),
        "O": of_ms(window.opened, unit),
        "C": stamp(window.ns, unit),
        "F": total.first,
        "L": total.last,
        "n": total.count,
    }
