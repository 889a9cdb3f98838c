"""Rows of the market as Binance writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tracedesk.exchange.local.market.candles import Candle
from tracedesk.exchange.local.market.messages import PER, Unit
from tracedesk.exchange.local.market.prints import Aggregate, Print
from tracedesk.exchange.units import ONE, text

Payload = dict[str, Any]
Levels = Iterable[tuple[int, int]]
_MS: Final = 1_000_000


def stamp(ns: int, unit: Unit) -> int:
    return ns // PER[unit]


def of_ms(ms: int, unit: Unit) -> int:
    return ms if unit == "ms" else ms * 1_000


def last_of(ms: int, unit: Unit) -> int:
    """The last moment before an instant."""
    return of_ms(ms, unit) - 1


def quote_text(amount: int) -> str:
    """An amount of 1e-16 with eight places; digits beyond them are cut off."""
    return text(amount // ONE)


def levels(rows: Levels) -> list[tuple[str, str]]:
    return [(text(price), text(quantity)) for price, quantity in rows]


# --- streams -----------------------------------------------------------------------------------


def trade_event(symbol: str, made: Print, ns: int, unit: Unit) -> Payload:
    return {
        "e": "trade",
        "E": stamp(ns, unit),
        "s": symbol,
        "t": made.id,
        "p": text(made.price),
        "q": text(made.quantity),
        "T": stamp(made.time_ns, unit),
        "m": made.buyer_is_maker,
        "M": True,
    }


def aggregate_event(symbol: str, made: Aggregate, ns: int, unit: Unit) -> Payload:
    return {"e": "aggTrade", "E": stamp(ns, unit), "s": symbol, **aggregate_row(made, unit)}


def depth_event(
    symbol: str, first: int, last: int, bids: Levels, asks: Levels, ns: int, unit: Unit
) -> Payload:
    return {
        "e": "depthUpdate",
        "E": stamp(ns, unit),
        "s": symbol,
        "U": first,
        "u": last,
        "b": levels(bids),
        "a": levels(asks),
    }


def snapshot(last: int, bids: Levels, asks: Levels) -> Payload:
    return {"lastUpdateId": last, "bids": levels(bids), "asks": levels(asks)}


def kline_event(symbol: str, interval: str, candle: Candle, closed: bool, ns: int, unit: Unit) -> Payload:
    kline = {
        "t": of_ms(candle.opened, unit),
        "T": last_of(candle.closes, unit),
        "s": symbol,
        "i": interval,
        "f": candle.first,
        "L": candle.last,
        "o": text(candle.open),
        "c": text(candle.close),
        "h": text(candle.high),
        "l": text(candle.low),
        "v": text(candle.volume),
        "n": candle.count,
        "x": closed,
        "q": quote_text(candle.quote),
        "V": text(candle.bought),
        "Q": quote_text(candle.bought_quote),
        "B": "0",
    }
    return {"e": "kline", "E": stamp(ns, unit), "s": symbol, "k": kline}


def average_event(symbol: str, average: int, last_ns: int, ns: int, unit: Unit) -> Payload:
    return {
        "e": "avgPrice",
        "E": stamp(ns, unit),
        "s": symbol,
        "i": "5m",
        "w": text(average),
        "T": stamp(last_ns, unit),
    }


# --- requests ----------------------------------------------------------------------------------


def trade_row(made: Print, unit: Unit) -> Payload:
    return {
        "id": made.id,
        "price": text(made.price),
        "qty": text(made.quantity),
        "quoteQty": quote_text(made.quote),
        "time": stamp(made.time_ns, unit),
        "isBuyerMaker": made.buyer_is_maker,
        "isBestMatch": True,
    }


def aggregate_row(made: Aggregate, unit: Unit) -> Payload:
    return {
        "a": made.id,
        "p": text(made.price),
        "q": text(made.quantity),
        "f": made.first,
        "l": made.last,
        "T": stamp(made.time_ns, unit),
        "m": made.buyer_is_maker,
        "M": True,
    }


def kline_row(candle: Candle, unit: Unit) -> list[Any]:
    return [
        of_ms(candle.opened, unit),
        text(candle.open),
        text(candle.high),
        text(candle.low),
        text(candle.close),
        text(candle.volume),
        last_of(candle.closes, unit),
        quote_text(candle.quote),
        candle.count,
        text(candle.bought),
        quote_text(candle.bought_quote),
        "0",
    ]
