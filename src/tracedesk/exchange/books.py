"""The followed order book for the tools: the touch, the depth and the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange import depth, flows, shapes
from tracedesk.exchange.reading import level_texts

if TYPE_CHECKING:
    from tracedesk.exchange.feeds.market import Market
    from tracedesk.exchange.provider import Provider

_WALL_SECONDS: Final = 60


async def followed(provider: Provider, symbol: str, scope: str) -> Market:
    """A market whose book is complete; raises VENUE_UNAVAILABLE with its state when it is not."""
    market = await provider.market(symbol, scope)
    if not market.sync.synced:
        status = market.status()
        raise ToolError(
            "VENUE_UNAVAILABLE",
            f"The book of {market.symbol} is {status.state}, so nothing can be said of it yet. Try "
            "again in a few seconds; orderbook_health shows how it goes.",
            {"state": status.state, "lastError": status.last_error},
        )
    return market


async def level_one(provider: Provider, symbol: str, scope: str) -> dict[str, Any]:
    from tracedesk.exchange.analytics import quotes

    market = await followed(provider, symbol, scope)
    found = quotes.top_of_book(market.sync.book, market.instrument, market.sync.trusted).document()
    return {
        **head(provider, market),
        **shapes.texts(found),
        "micro_price": await flows.micro_price(provider, market),
        "walls": await flows.walls(provider, market, _WALL_SECONDS),
    }


async def level_two(provider: Provider, symbol: str, levels: int, scope: str) -> dict[str, Any]:
    """The levels, cut to what an answer may hold; volumes and imbalance are of all that were asked for."""
    from tracedesk.exchange.analytics import quotes

    market = await followed(provider, symbol, scope)
    bids, asks = level_texts(market, levels)
    tops = market.sync.book.top(levels)
    totals = [market.instrument.quantity_text(sum(quantity for _, quantity in side)) for side in tops]
    answer = {
        **head(provider, market),
        "status": "ok",
        "bids": bids,
        "asks": asks,
        "bid_volume": totals[0],
        "ask_volume": totals[1],
        "imbalance": quotes.imbalance(market.sync.book, levels),
    }
    return depth.fitted(answer, provider.room)


async def health(provider: Provider, symbol: str, scope: str) -> dict[str, Any]:
    market = await provider.market(symbol, scope)
    return {"mode": provider.mode, **market.status().document()}


def head(provider: Provider, market: Market) -> dict[str, Any]:
    """What every answer about a book begins with."""
    return {
        "symbol": market.symbol,
        "mode": provider.mode,
        "last_update_id": market.sync.last_update_id,
        "age_ms": market.sync.age_ms(),
    }
