"""The caller's account at the venue: balances, trades and orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracedesk.contract import Arguments, Call, Page
from tracedesk.exchange.tools.toolset import READS, SECONDS, exchange

if TYPE_CHECKING:
    from tracedesk.exchange.provider import Provider


@exchange.tool(annotations=READS, scope="read", audience="own_account", deadline=SECONDS)
async def get_account(args: Arguments, call: Call[Provider]) -> Page:
    """Balances that are not zero, what the account may do, and warnings."""
    from tracedesk.exchange import holdings

    async with call.state.caller(call, args) as caller:
        return await holdings.account(call.state, caller, args.get("cursor"))


@exchange.tool(
    annotations=READS, scope="read", audience="own_account", deadline=SECONDS, page_size="limit", rows="rows"
)
async def get_my_trades(args: Arguments, call: Call[Provider]) -> Page:
    """The account's own trades of a symbol, oldest first; `from_id` continues."""
    from tracedesk.exchange import holdings

    async with call.state.caller(call, args) as caller:
        return await holdings.my_trades(call.state, caller, args)


@exchange.tool(annotations=READS, scope="read", audience="own_account", deadline=SECONDS)
async def get_order(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """One order, by either of its ids."""
    from tracedesk.exchange import holdings

    async with call.state.caller(call, args) as caller:
        return await holdings.order(call.state, caller, args)


@exchange.tool(annotations=READS, scope="read", audience="own_account", deadline=SECONDS)
async def get_open_orders(args: Arguments, call: Call[Provider]) -> Page:
    """Orders that rest, of one symbol or all."""
    from tracedesk.exchange import holdings

    async with call.state.caller(call, args) as caller:
        return await holdings.open_orders(call.state, caller, args.get("symbol"), args.get("cursor"))


@exchange.tool(
    annotations=READS,
    scope="read",
    audience="own_account",
    deadline=SECONDS,
    page_size="limit",
    rows="orders",
)
async def get_all_orders(args: Arguments, call: Call[Provider]) -> Page:
    """The newest orders of a symbol in any state, oldest first."""
    from tracedesk.exchange import holdings

    async with call.state.caller(call, args) as caller:
        return await holdings.all_orders(call.state, caller, args)
