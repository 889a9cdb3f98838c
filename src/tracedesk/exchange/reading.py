"""Public market data for the tools: from what is followed where that is fresh, else asked of the venue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Page
from tracedesk.errors import ToolError
from tracedesk.exchange import depth, shapes
from tracedesk.exchange.units import units
from tracedesk.primitives import time

if TYPE_CHECKING:
    from tracedesk.exchange.feeds.market import Market
    from tracedesk.exchange.instruments import Instrument
    from tracedesk.exchange.link import Site
    from tracedesk.exchange.provider import Provider

FRESH_MS: Final = 5_000
"""The age up to which what is followed is told instead of asking the venue."""
_DIGITS: Final = 18
"""Digits that a cursor can have."""
_BOOK_LEVELS: Final = 500
"""Levels up to which a followed book is as good as the venue's answer."""


async def known(provider: Provider, symbol: str) -> tuple[Site, Instrument]:
    """The site and a symbol it lists; raises INVALID_SYMBOL with near names."""
    site = await provider.site()
    return site, await site.feeds.listing.instrument(symbol)


async def ticker(provider: Provider, symbol: str) -> dict[str, Any]:
    site, instrument = await known(provider, symbol)
    raw, age = await latest_ticker(site, instrument.symbol)
    return {"symbol": instrument.symbol, "mode": provider.mode, **raw, "age_ms": age}


async def latest_ticker(site: Site, symbol: str) -> tuple[Mapping[str, Any], int]:
    """The 24 hour ticker in the words of the tools, and its age in milliseconds."""
    market = site.feeds.market(symbol)
    if market is not None and market.ticker is not None:
        age = market.ticker_age_ms()
        if age is not None and age <= FRESH_MS:
            return _ticker(market.ticker), age
    return _ticker(await site.client.public.ticker_24hr(symbol)), 0


def _ticker(raw: Mapping[str, Any]) -> dict[str, Any]:
    with shapes.readable("ticker"):
        return shapes.ticker(raw)


async def orderbook(provider: Provider, symbol: str, limit: int) -> dict[str, Any]:
    """The book, cut to what an answer may hold."""
    return depth.fitted(await _orderbook(provider, symbol, limit), provider.room)


async def _orderbook(provider: Provider, symbol: str, limit: int) -> dict[str, Any]:
    site, instrument = await known(provider, symbol)
    market = site.feeds.market(instrument.symbol)
    head = {"symbol": instrument.symbol, "mode": provider.mode}
    if market is not None and limit <= _BOOK_LEVELS and is_fresh(market):
        bids, asks = level_texts(market, limit)
        age = market.sync.age_ms()
        return {
            **head,
            "last_update_id": market.sync.last_update_id,
            "bids": bids,
            "asks": asks,
            "source": "stream",
            "age_ms": age,
        }
    raw = await site.client.public.depth(instrument.symbol, limit)
    with shapes.readable("book"):
        return {
            **head,
            "last_update_id": shapes.whole(raw["lastUpdateId"]),
            "bids": _levels(instrument, raw["bids"]),
            "asks": _levels(instrument, raw["asks"]),
            "source": "rest",
            "age_ms": 0,
        }


def _levels(instrument: Instrument, side: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[instrument.price_text(units(p)), instrument.quantity_text(units(q))] for p, q, *_ in side]


def is_fresh(market: Market) -> bool:
    """Whether a followed book is complete and was updated a moment ago."""
    age = market.sync.age_ms()
    return market.sync.synced and age is not None and age <= FRESH_MS


def level_texts(market: Market, limit: int) -> tuple[list[list[str]], list[list[str]]]:
    """Bids and asks, best first, as texts."""
    instrument = market.instrument
    bids, asks = (
        [[instrument.price_text(price), instrument.quantity_text(quantity)] for price, quantity in side]
        for side in market.sync.book.top(limit)
    )
    return bids, asks


async def recent_trades(provider: Provider, args: Mapping[str, Any]) -> Page:
    begin = number(args.get("cursor"))
    site, instrument = await known(provider, args["symbol"])
    limit = args.get("limit", 100)
    if begin is None:
        rows = await site.client.public.trades(instrument.symbol, limit)
    else:
        rows = await site.client.public.historical_trades(instrument.symbol, fromId=begin, limit=limit)
    with shapes.readable("trades"):
        shown = [shapes.trade(row) for row in rows]
    body: dict[str, Any] = {
        "symbol": instrument.symbol,
        "mode": provider.mode,
        "columns": shapes.TRADE_COLUMNS,
        "rows": shown,
    }
    return numbered(body, "rows", [row[0] for row in shown], begin is not None and len(rows) == limit)


async def klines(provider: Provider, args: Mapping[str, Any]) -> Page:
    begin = number(args.get("cursor"))
    site, instrument = await known(provider, args["symbol"])
    start, end = (_milliseconds(args, name) for name in ("start_time", "end_time"))
    if start is not None and end is not None and start > end:
        raise ToolError(
            "INVALID_PARAMETER", "start_time lies after end_time; swap them.", {"field": "start_time"}
        )
    start = start if begin is None else begin
    limit = args.get("limit", 100)
    rows = await site.client.public.klines(
        instrument.symbol, args["interval"], limit=limit, startTime=start, endTime=end
    )
    with shapes.readable("candles"):
        shown = [shapes.kline(row) for row in rows]
        times = [int(row[0]) for row in rows]
    body: dict[str, Any] = {
        "symbol": instrument.symbol,
        "mode": provider.mode,
        "interval": args["interval"],
        "columns": shapes.KLINE_COLUMNS,
        "rows": shown,
    }
    return numbered(body, "rows", times, start is not None and len(rows) == limit)


def numbered(body: dict[str, Any], rows: str, numbers: Sequence[int], more: bool) -> Page:
    """A page of rows that the venue numbers upwards; its cursor is the number that the next one begins at."""
    return Page(body, rows, lambda kept: str(numbers[kept - 1] + 1), more=more)


def number(cursor: str | None) -> int | None:
    """The number that a cursor stands for."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > _DIGITS:
        raise bad_cursor()
    return int(cursor)


def bad_cursor() -> ToolError:
    return ToolError(
        "INVALID_PARAMETER", "cursor: use the nextCursor of the page before.", {"field": "cursor"}
    )


def _milliseconds(args: Mapping[str, Any], name: str) -> int | None:
    value = args.get(name)
    if value is None or isinstance(value, int):
        return value
    try:
        return time.parse(value, edge="end" if name == "end_time" else "start").ns // time.MILLISECOND
    except ValueError as problem:
        raise ToolError("INVALID_PARAMETER", f"{name}: {problem}", {"field": name}) from None


async def exchange_info(provider: Provider, symbol: str | None, cursor: str | None) -> dict[str, Any] | Page:
    if symbol is not None:
        site, instrument = await known(provider, symbol)
        info = await site.feeds.listing.info()
        return {
            "mode": provider.mode,
            "symbols": [_rules(instrument)],
            "rate_limits": info.get("rateLimits", []),
        }
    site = await provider.site()
    info = await site.feeds.listing.info()
    with shapes.readable("listing"):
        rows: list[dict[str, Any]] = [_listed(row) for row in info["symbols"]]
    begin = number(cursor) or 0
    if begin > len(rows):
        raise bad_cursor()
    body: dict[str, Any] = {"mode": provider.mode, "symbols": rows[begin:]}
    return Page(body, "symbols", lambda taken: str(begin + taken))


def _listed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "symbol": row["symbol"],
        "status": row["status"],
        "base": row["baseAsset"],
        "quote": row["quoteAsset"],
    }


def _rules(instrument: Instrument) -> dict[str, Any]:
    return {
        "symbol": instrument.symbol,
        "status": instrument.status,
        "base": instrument.base,
        "quote": instrument.quote,
        "tick_size": instrument.price_text(instrument.tick),
        "step_size": instrument.quantity_text(instrument.step),
        "order_types": list(instrument.order_types),
        "filters": [dict(each) for each in instrument.filters.values()],
    }


async def avg_price(provider: Provider, symbol: str) -> dict[str, Any]:
    site, instrument = await known(provider, symbol)
    raw = await site.client.public.avg_price(instrument.symbol)
    closed = raw.get("closeTime")
    with shapes.readable("average price"):
        return {
            "symbol": instrument.symbol,
            "mode": provider.mode,
            "price": shapes.amount(raw["price"]),
            "minutes": shapes.whole(raw["mins"]),
            "close_time": None if closed is None else shapes.at(int(closed)),
        }
