"""Public market data: prices, books, trades, candles and the venue's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracedesk.contract import Arguments, Call, Page
from tracedesk.exchange.tools.toolset import READS, SECONDS, exchange

if TYPE_CHECKING:
    from tracedesk.exchange.provider import Provider


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def get_ticker(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """The last 24 hours of a symbol: last price, change, high, low, volumes, best bid and ask."""
    from tracedesk.exchange import reading

    call.state.noted(call)
    return await reading.ticker(call.state, args["symbol"])


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def get_orderbook(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Bids and asks as [price, quantity], best first."""
    from tracedesk.exchange import reading

    call.state.noted(call)
    return await reading.orderbook(call.state, args["symbol"], args.get("limit", 100))


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS, page_size="limit", rows="rows")
async def get_recent_trades(args: Arguments, call: Call[Provider]) -> Page:
    """The newest trades of a symbol, oldest first."""
    from tracedesk.exchange import reading

    call.state.noted(call)
    return await reading.recent_trades(call.state, args)


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS, page_size="limit", rows="rows")
async def get_klines(args: Arguments, call: Call[Provider]) -> Page:
    """Candles (OHLCV), oldest first; the newest when no time is given."""
    from tracedesk.exchange import reading

    call.state.noted(call)
    return await reading.klines(call.state, args)


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def get_exchange_info(args: Arguments, call: Call[Provider]) -> dict[str, Any] | Page:
    """The trading rules of a symbol, or every symbol with its assets."""
    from tracedesk.exchange import reading

    call.state.noted(call)
    return await reading.exchange_info(call.state, args.get("symbol"), args.get("cursor"))


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def get_avg_price(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """The average price of the last minutes, which filters refer to."""
    from tracedesk.exchange import reading

    call.state.noted(call)
    return await reading.avg_price(call.state, args["symbol"])
