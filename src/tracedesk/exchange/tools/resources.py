"""The resources: the same figures as pages that people and models read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracedesk.contract import Arguments, Call
from tracedesk.exchange.tools.prompts import complete_symbol
from tracedesk.exchange.tools.toolset import exchange

if TYPE_CHECKING:
    from tracedesk.exchange.provider import Provider

_MARKDOWN: Final = "text/markdown"


@exchange.resource(
    "binance://market/{symbol}",
    mime_type=_MARKDOWN,
    subscribable=True,
    complete={"symbol": complete_symbol},
    ttl_ms=1_000,
    cache_scope="public",
    audience="anyone",
)
async def market(args: Arguments, call: Call[Provider]) -> str:
    """A market: 24 hours, the best five bids and asks, the spread."""
    from tracedesk.exchange import resources

    return await resources.market(call.state, args["symbol"], call.state.noted(call))


@exchange.resource(
    "binance://account/balances", mime_type=_MARKDOWN, subscribable=True, audience="own_account"
)
async def balances(args: Arguments, call: Call[Provider]) -> str:
    """The account's balances: free, locked, total."""
    from tracedesk.exchange import resources

    async with call.state.caller(call) as caller:
        return await resources.balances(call.state, caller)


@exchange.resource(
    "binance://account/holdings", mime_type=_MARKDOWN, subscribable=True, audience="own_account"
)
async def holdings(args: Arguments, call: Call[Provider]) -> str:
    """What the account holds and what it is worth in the quote asset."""
    from tracedesk.exchange import resources

    async with call.state.caller(call) as caller:
        return await resources.worth(call.state, caller)


@exchange.resource("binance://orders/open", mime_type=_MARKDOWN, subscribable=True, audience="own_account")
async def open_orders(args: Arguments, call: Call[Provider]) -> str:
    """The account's open orders."""
    from tracedesk.exchange import resources

    async with call.state.caller(call) as caller:
        return await resources.open_orders(call.state, caller)


@exchange.resource(
    "binance://orders/history/{symbol}",
    mime_type=_MARKDOWN,
    subscribable=True,
    audience="own_account",
    complete={"symbol": complete_symbol},
)
async def order_history(args: Arguments, call: Call[Provider]) -> str:
    """The account's newest orders of a symbol, in any state."""
    from tracedesk.exchange import resources

    async with call.state.caller(call) as caller:
        return await resources.history(call.state, args["symbol"], caller)
