"""Market data: the book, trades, candles and tickers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tracedesk.exchange.local import errors
from tracedesk.exchange.local.market import INTERVALS, MarketData
from tracedesk.exchange.local.methods.method import Call, Json, Method, Values
from tracedesk.exchange.local.parameters import (
    SYMBOL,
    SYMBOL_STATUS,
    Parameter,
    at_most,
    instant,
    one_of,
    required,
    symbol,
    symbols,
    whole,
    window_ms,
    zone_minutes,
)
from tracedesk.primitives.time import MILLISECOND, MINUTE

DEPTH: Final = 100
DEEPEST: Final = 5_000
ROWS: Final = 500
MOST_ROWS: Final = 1_000
_MOST_WINDOWS: Final = 100
_DAY_MS: Final = 86_400_000
_ZONE_MS: Final = MINUTE // MILLISECOND


# --- one symbol ---------------------------------------------------------------------------------


def depth(call: Call) -> Json:
    return call.exchange.snapshot(call.market, call.get("limit", DEPTH))


def _depth_weight(values: Values) -> int:
    limit = values.get("limit", DEPTH)
    return next((weight for most, weight in ((100, 5), (500, 25), (1_000, 50)) if limit <= most), 250)


def trades(call: Call) -> Json:
    return call.market.trades(call.get("limit", ROWS), unit=call.unit)


def historical_trades(call: Call) -> Json:
    return call.market.historical_trades(call.get("fromId"), call.get("limit", ROWS), unit=call.unit)


def aggregate_trades(call: Call) -> Json:
    start, end = call.get("startTime"), call.get("endTime")
    if call.get("fromId") is not None and (start is not None or end is not None):
        raise errors.bad_combination()
    return call.market.agg_trades(call.get("fromId"), start, end, call.get("limit", ROWS), unit=call.unit)


def klines(call: Call) -> Json:
    return call.market.klines(
        call.values["interval"],
        call.get("startTime"),
        call.get("endTime"),
        call.get("limit", ROWS),
        offset_ms=call.get("timeZone", 0) * _ZONE_MS,
        unit=call.unit,
    )


def average_price(call: Call) -> Json:
    return call.market.avg_price(unit=call.unit)


# --- one symbol, several, or all ----------------------------------------------------------------


def ticker_day(call: Call) -> Json:
    return _each(call, lambda market: market.ticker_24hr(mini=_is_mini(call), unit=call.unit))


def ticker_price(call: Call) -> Json:
    return _each(call, lambda market: market.price())


def ticker_book(call: Call) -> Json:
    return _each(call, lambda market: market.book_ticker())


def ticker_window(call: Call) -> Json:
    window = call.get("windowSize", _DAY_MS)
    return _some(call, lambda market: market.ticker(window, mini=_is_mini(call), unit=call.unit))


def ticker_trading_day(call: Call) -> Json:
    offset = call.get("timeZone", 0) * _ZONE_MS
    return _some(call, lambda market: market.trading_day(offset, mini=_is_mini(call), unit=call.unit))


def _is_mini(call: Call) -> bool:
    return call.get("type", "FULL") == "MINI"


def _some(call: Call, show: Callable[[MarketData], Json]) -> Json:
    """As `_each`, where at least one symbol must be named."""
    if "symbol" not in call.values and "symbols" not in call.values:
        raise errors.neither("symbol", "symbols")
    if len(call.get("symbols", ())) > _MOST_WINDOWS:
        raise errors.invalid_data("symbols")
    return _each(call, show)


def _each(call: Call, show: Callable[[MarketData], Json]) -> Json:
    """The answer for `symbol`, or a list of answers for `symbols` or all, without those of another status."""
    if "symbol" in call.values and "symbols" in call.values:
        raise errors.bad_combination()
    if "symbol" in call.values:
        return show(call.market)
    exchange, status = call.exchange, call.get("symbolStatus")
    named = call.get("symbols")
    found = exchange.instruments() if named is None else [exchange.instrument(name) for name in named]
    return [show(exchange.market.of(each.symbol)) for each in found if status in (None, each.status)]


def _day_weight(values: Values) -> int:
    if "symbol" in values:
        return 2
    number = len(values.get("symbols", ())) or _MOST_WINDOWS + 1
    return next((weight for most, weight in ((20, 2), (100, 40)) if number <= most), 80)


def _price_weight(values: Values) -> int:
    return 2 if "symbol" in values else 4


def _window_weight(values: Values) -> int:
    return min(4 * len(values.get("symbols", (None,))), 200)


# --- the methods --------------------------------------------------------------------------------

_LIMIT: Final = Parameter("limit", at_most(MOST_ROWS))
_FROM: Final = Parameter("fromId", whole)
_SPAN: Final = (Parameter("startTime", instant), Parameter("endTime", instant))
_ZONE: Final = Parameter("timeZone", zone_minutes)
_KLINES: Final = (
    SYMBOL,
    required("interval", one_of(INTERVALS, errors.invalid_interval)),
    *_SPAN,
    _ZONE,
    _LIMIT,
)
_SEVERAL: Final = (Parameter("symbol", symbol), Parameter("symbols", symbols), SYMBOL_STATUS)
_TYPE: Final = Parameter("type", one_of(("FULL", "MINI"), errors.invalid_ticker_type))


def _get(
    name: str, path: str, act: Callable[[Call], Json], parameters: tuple[Parameter, ...], weight: Any
) -> Method:
    return Method(name, "GET", path, act, parameters, weight)


METHODS: Final = (
    _get(
        "depth", "depth", depth, (SYMBOL, Parameter("limit", at_most(DEEPEST)), SYMBOL_STATUS), _depth_weight
    ),
    _get("trades.recent", "trades", trades, (SYMBOL, _LIMIT), 25),
    _get("trades.historical", "historicalTrades", historical_trades, (SYMBOL, _FROM, _LIMIT), 25),
    _get("trades.aggregate", "aggTrades", aggregate_trades, (SYMBOL, _FROM, *_SPAN, _LIMIT), 4),
    _get("klines", "klines", klines, _KLINES, 2),
    _get("uiKlines", "uiKlines", klines, _KLINES, 2),
    _get("avgPrice", "avgPrice", average_price, (SYMBOL,), 2),
    _get("ticker.24hr", "ticker/24hr", ticker_day, (*_SEVERAL, _TYPE), _day_weight),
    _get(
        "ticker.tradingDay",
        "ticker/tradingDay",
        ticker_trading_day,
        (*_SEVERAL, _ZONE, _TYPE),
        _window_weight,
    ),
    _get("ticker.price", "ticker/price", ticker_price, _SEVERAL, _price_weight),
    _get("ticker.book", "ticker/bookTicker", ticker_book, _SEVERAL, _price_weight),
    _get(
        "ticker",
        "ticker",
        ticker_window,
        (*_SEVERAL, Parameter("windowSize", window_ms), _TYPE),
        _window_weight,
    ),
)
