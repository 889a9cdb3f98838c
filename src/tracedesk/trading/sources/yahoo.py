"""The provider `yahoo`: Yahoo Finance through the package yfinance, which is not installed by default.

It knows only the present, so it answers only when the market runs by the system's clock. Prices come as
binary floats: their shortest decimal text is taken, rounded to six places; the body keeps all digits.
Sessions that have not closed are left out, and intervals longer than a day are made here from daily bars.
Prices are adjusted for splits by the source.

An empty answer says nothing about whether a symbol exists. Only a plain denial is INVALID_SYMBOL.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from importlib import import_module
from threading import Lock
from typing import Any, Final, TypeVar

from tracedesk.errors import ToolError
from tracedesk.foreign import quoted
from tracedesk.market import calendar, eastern
from tracedesk.primitives import json
from tracedesk.primitives.money import quantise
from tracedesk.primitives.time import MINUTE, SECOND, format
from tracedesk.trading.sources import candles, periods, shapes
from tracedesk.trading.sources.seam import (
    METRICS,
    Adjust,
    Candle,
    Fetch,
    History,
    Quote,
    Ratios,
    Series,
    Story,
    invalid_symbol,
    network_error,
    rate_limited,
    unavailable,
)
from tracedesk.trading.units import PRICE_PLACES

T = TypeVar("T")

INSTALL: Final = "pip install 'tracedesk[yahoo]'"
TIMEOUT_S: Final = 5.0
AT_ONCE: Final = 8
MOST_STORIES: Final = 50
RETRY_AFTER_S: Final = 60.0
"""Yahoo does not say for how long it refuses."""

_COLUMNS: Final = ("Open", "High", "Low", "Close", "Volume", "Adj Close")
_DENIALS: Final = ("no data found, symbol may be delisted", "not found")
_TRANSPORTS: Final = ("curl_cffi", "requests", "urllib3")
_RATIOS: Final = {
    "pe_ratio": "trailingPE",
    "peg_ratio": "trailingPegRatio",
    "ev_ebitda": "enterpriseToEbitda",
    "gross_margin": "grossMargins",
    "current_ratio": "currentRatio",
    "debt_to_equity": "debtToEquity",
}
_MINUTES: Final = {"1h": 60, **{f"{count}m": count for count in (1, 2, 5, 15, 30, 60, 90)}}

Told = tuple[Any, Any]
"""A value, and how the body shows it."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """A row of a frame: its stamp, its day at the exchange, and its floats."""

    at_ns: int
    day: date
    values: tuple[float, ...]


class Yahoo:
    """Asks for each symbol in a thread of its own, a few at once."""

    name = "yahoo"
    local = False
    per_symbol = True
    kinds = ("quotes", "history", "news", "fundamentals")

    def __init__(self, *, system_clock: bool, timeout_s: float = TIMEOUT_S) -> None:
        self._system_clock = system_clock
        self._timeout_s = timeout_s
        self._importing = Lock()

    async def quotes(self, symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        """The last trade, against the close of the session before it."""
        return await self._fetch("quotes", symbols, now_ns, self._quote)

    async def daily(self, symbols: Sequence[str], count: int, now_ns: int) -> Fetch[Series]:
        """Up to `count` of the last full sessions."""

        def read(symbol: str, now_ns: int) -> Told:
            # 252 sessions make a year of 366 days at most; a fortnight more covers what the holidays take.
            start = eastern.to_day(now_ns) - timedelta(days=count * 366 // 252 + 14)
            bars = self._closed_bars(symbol, now_ns, {"start": start.isoformat()})[-count:]
            return _series(bars), [_shown(bar) for bar in bars]

        return await self._fetch("daily", symbols, now_ns, read)

    async def history(
        self, symbol: str, period: str, interval: str, now_ns: int, adjust: Adjust | None = None
    ) -> Fetch[History]:
        """The complete bars of a period; the source has adjusted them for the splits up to now."""
        periods.check(period, interval)

        def read(symbol: str, now_ns: int) -> Told:
            if interval in periods.INTRADAY:
                bars = self._intraday_bars(symbol, now_ns, period, interval)
                found = tuple(_candle(bar, bar.at_ns, adjusted=3) for bar in bars)
            else:
                bars = self._closed_bars(symbol, now_ns, _span(period, eastern.to_day(now_ns)))
                found = _long_candles(bars, period, interval, now_ns)
            if not found:
                raise _nothing(symbol, f"history over {period}")
            return History(found, "splits"), [_shown(bar) for bar in bars]

        return await self._fetch("history", [symbol], now_ns, read)

    async def news(self, symbols: Sequence[str], since_ns: int, now_ns: int) -> Fetch[tuple[Story, ...]]:
        """The stories in (since_ns, now_ns] among the newest that Yahoo lists."""

        def read(symbol: str, now_ns: int) -> Told:
            articles = self._ticker(symbol).get_news(count=MOST_STORIES)
            stories = [_story(symbol, article) for article in articles]
            inside = [story for story in stories if story and since_ns < story.published_ns <= now_ns]
            newest = tuple(sorted(inside, key=lambda story: -story.published_ns))
            return newest, [
                [format(story.published_ns), story.headline, story.summary, story.source] for story in newest
            ]

        return await self._fetch("news", symbols, now_ns, read)

    async def fundamentals(self, symbols: Sequence[str], now_ns: int) -> Fetch[Ratios]:
        """The trailing ratios."""
        return await self._fetch("fundamentals", symbols, now_ns, self._ratios)

    # --- asking ------------------------------------------------------------------------------------

    async def _fetch(
        self, kind: str, symbols: Sequence[str], now_ns: int, read: Callable[[str, int], Told]
    ) -> Fetch[Any]:
        if not self._system_clock:
            raise _only_now()
        few = asyncio.Semaphore(AT_ONCE)

        async def ask(symbol: str) -> Told | ToolError:
            async with few:
                return await asyncio.to_thread(self._answer, kind, symbol, now_ns, read)

        wanted = sorted(set(symbols))
        answers = dict(zip(wanted, await asyncio.gather(*map(ask, wanted)), strict=True))
        failures = {symbol: each for symbol, each in answers.items() if isinstance(each, ToolError)}
        told = {symbol: each for symbol, each in answers.items() if not isinstance(each, ToolError)}
        shown = {symbol: each[1] for symbol, each in told.items()}
        body = _body(kind, now_ns, shown)
        return Fetch({symbol: each[0] for symbol, each in told.items()}, failures, body)

    def _answer(
        self, kind: str, symbol: str, now_ns: int, read: Callable[[str, int], Told]
    ) -> Told | ToolError:
        try:
            return read(symbol, now_ns)
        except ToolError as error:
            return error
        except Exception as error:  # Whatever the package raises is an answer about this symbol.
            return _explained(kind, symbol, error)

    def _ticker(self, symbol: str) -> Any:
        with self._importing:
            try:
                package = import_module("yfinance")
            except ImportError as error:
                message = f"The provider yahoo needs the package yfinance ({error}). Run: {INSTALL}"
                details = {"provider": self.name, "retryable": False}
                raise ToolError("DATA_UNAVAILABLE", message, details) from None
            # Hidden, a failure of the network looks like a share that was delisted.
            package.config.debug.hide_exceptions = False
        return package.Ticker(symbol)

    def _bars(self, ticker: Any, symbol: str, span: dict[str, str], interval: str = "1d") -> list[_Bar]:
        frame = ticker.history(interval=interval, auto_adjust=False, timeout=self._timeout_s, **span)
        if frame is None or frame.empty:
            raise _nothing(symbol, "prices")
        columns = [[float(value) for value in frame[name].tolist()] for name in _COLUMNS]
        rows = zip(frame.index, zip(*columns, strict=True), strict=True)
        bars = [_Bar(_stamp(at), at.date(), values) for at, values in rows]
        return [bar for bar in bars if all(map(math.isfinite, bar.values))]

    def _closed_bars(self, symbol: str, now_ns: int, span: dict[str, str]) -> list[_Bar]:
        closed = calendar.closed_by(now_ns)
        bars = self._bars(self._ticker(symbol), symbol, span)
        found = [bar for bar in bars if closed is not None and bar.day <= closed]
        if not found:
            raise _nothing(symbol, "prices of closed sessions")
        return found

    def _intraday_bars(self, symbol: str, now_ns: int, period: str, interval: str) -> list[_Bar]:
        length = _MINUTES[interval] * MINUTE
        bars = self._bars(self._ticker(symbol), symbol, {"period": period}, interval)
        return [bar for bar in bars if bar.at_ns + length <= now_ns]

    def _quote(self, symbol: str, now_ns: int) -> Told:
        ticker = self._ticker(symbol)
        bars = self._bars(ticker, symbol, {"period": "5d"})
        facts = ticker.get_history_metadata()
        price, at = facts.get("regularMarketPrice"), facts.get("regularMarketTime")
        if price is None or at is None:
            raise _nothing(symbol, "a quote")
        at_ns = _stamp(at)
        if at_ns > now_ns:
            raise unavailable(symbol, "a quote", f"The last trade, {format(at_ns)}, lies after the clock.")
        before = [bar for bar in bars if bar.day < eastern.to_day(at_ns)]
        previous = _decimal(before[-1].values[3]) if before else None
        volume = facts.get("regularMarketVolume")
        quote = Quote(symbol, _decimal(price), at_ns, previous, None if volume is None else int(volume))
        return quote, {
            "price": Decimal(repr(float(price))),
            "as_of": format(at_ns),
            "volume": quote.volume,
            "bars": [_shown(bar) for bar in bars],
        }

    def _ratios(self, symbol: str, now_ns: int) -> Told:
        facts = self._ticker(symbol).info
        known = {name: facts.get(field) for name, field in _RATIOS.items()} if facts else {}
        values = {name: _exact(value) for name, value in known.items() if _is_number(value)}
        if not values:
            raise _nothing(symbol, "fundamentals")
        shown = {_RATIOS[name]: value for name, value in values.items()}
        if "debt_to_equity" in values:
            values["debt_to_equity"] = values["debt_to_equity"].scaleb(-2)  # Yahoo tells percent.
        missing = {name: "Yahoo does not tell it" for name in METRICS if name not in values}
        quarter, currency = facts.get("mostRecentQuarter"), facts.get("financialCurrency")
        ended = None if quarter is None else date(1970, 1, 1) + timedelta(seconds=int(quarter))
        ratios = Ratios(symbol, values, missing, now_ns, ended, currency)
        return ratios, {**shown, "mostRecentQuarter": quarter, "financialCurrency": currency}


# --- what is read ---------------------------------------------------------------------------------


def _body(kind: str, now_ns: int, shown: dict[str, Any]) -> bytes:
    if not shown:
        return b""
    # A history may be of minutes, which the last session does not date.
    known = candles.told_of(kind, now_ns) if kind == "daily" else {"clock": format(now_ns)}
    return json.dumps({"provider": Yahoo.name, "kind": kind, **known, "symbols": shown})


def _span(period: str, today: date) -> dict[str, str]:
    """The days to ask for, with so many before them that the first week, month or quarter is whole."""
    if period == "max":
        return {"period": "max"}
    first = today if period in ("1d", "5d") else periods.first_day(period, today)
    return {"start": (first - timedelta(days=100)).isoformat()}


def _long_candles(bars: list[_Bar], period: str, interval: str, now_ns: int) -> tuple[Candle, ...]:
    days = [bar.day.toordinal() for bar in bars]
    first = candles.first_needed(days, period, interval, eastern.to_day(now_ns))
    return candles.gather([_candle(bar, _opened(bar), adjusted=5) for bar in bars[first:]], interval)


def _opened(bar: _Bar) -> int:
    return calendar.open_ns(bar.day) if calendar.is_session(bar.day) else bar.at_ns


def _candle(bar: _Bar, start_ns: int, *, adjusted: int) -> Candle:
    opening, high, low, close = map(_decimal, bar.values[:4])
    return Candle(start_ns, opening, high, low, close, int(bar.values[4]), _exact(bar.values[adjusted]))


def _series(bars: list[_Bar]) -> Series:
    return Series(
        array("q", [bar.day.toordinal() for bar in bars]),
        array("d", [bar.values[5] for bar in bars]),
        array("q", [int(bar.values[4]) for bar in bars]),
    )


def _shown(bar: _Bar) -> list[Any]:
    return [format(bar.at_ns), *map(_exact, bar.values)]


def _story(symbol: str, article: Any) -> Story | None:
    """A story, or None for an entry that is none, such as a video without a title."""
    content: dict[str, Any] = article.get("content") or {}
    provider: dict[str, Any] = content.get("provider") or {}
    row = {
        "headline": content.get("title"),
        "published": content.get("pubDate"),
        "summary": content.get("summary") or "",
        "source": provider.get("displayName") or "",
    }
    try:
        return shapes.story(symbol, row)
    except shapes.BadShape:
        return None


def _stamp(at: Any) -> int:
    return int(at if isinstance(at, int) else at.timestamp()) * SECOND


def _exact(value: Any) -> Decimal:
    return Decimal(repr(float(value)))


def _decimal(value: Any) -> Decimal:
    return candles.tidy(quantise(_exact(value), PRICE_PLACES))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


# --- how it fails ---------------------------------------------------------------------------------


def _explained(kind: str, symbol: str, error: Exception) -> ToolError:
    """What an exception of the package means; its classes are known by name, as it is not always there."""
    names = {each.__name__ for each in type(error).__mro__}
    told = quoted(" ".join(str(error).split())[:200] or type(error).__name__)
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if "YFRateLimitError" in names or status == 429:
        return rate_limited(Yahoo.name, RETRY_AFTER_S)
    if _is_denial(error, status):
        return invalid_symbol(symbol)
    unreachable = (
        isinstance(error, OSError) or _is_transport(error) or type(error).__name__ == "YFDataException"
    )
    if unreachable and not 400 <= status < 500:
        return network_error(Yahoo.name, f"{type(error).__name__}: {told}")
    return unavailable(symbol, kind, f"yfinance says {type(error).__name__}: {told}. Try another provider.")


def _is_denial(error: Exception, status: int) -> bool:
    """Whether Yahoo itself said that there is no such symbol; "possibly delisted" is the package's guess."""
    if type(error).__name__ == "YFTickerMissingError":
        return True
    if status == 404:
        return "not found for symbol" in str(getattr(getattr(error, "response", None), "text", "")).lower()
    reason = getattr(error, "yahoo_reason", None)
    return isinstance(reason, str) and reason.strip().lower() in _DENIALS


def _is_transport(error: Exception) -> bool:
    return any(each.__module__.partition(".")[0] in _TRANSPORTS for each in type(error).__mro__)


def _nothing(symbol: str, what: str) -> ToolError:
    return unavailable(symbol, what, "Yahoo answered with nothing; check the symbol, or ask again later.")


def _only_now() -> ToolError:
    message = (
        "The provider yahoo shows the present, which a replay must not see. "
        'Set trading.clock = "system", or name embedded or files in [trading.providers].'
    )
    return ToolError("DATA_UNAVAILABLE", message, {"provider": Yahoo.name, "retryable": False})
