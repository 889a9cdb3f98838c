"""The followed order book: its touch, its depth, and whether it can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracedesk.contract import Arguments, Call
from tracedesk.exchange.tools.toolset import READS, SECONDS, exchange

if TYPE_CHECKING:
    from tracedesk.exchange.provider import Provider


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def orderbook_l1(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """The touch: spread, weighted mid, micro-price, imbalance, walls, slippage of 10k/25k/50k quote."""
    from tracedesk.exchange import books

    return await books.level_one(call.state, args["symbol"], call.state.noted(call))


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def orderbook_l2(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Levels as [price, quantity] with their imbalance and totals."""
    from tracedesk.exchange import books

    return await books.level_two(
        call.state, args["symbol"], args.get("depth_levels", 20), call.state.noted(call)
    )


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def orderbook_health(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Whether the followed book is complete and how old it is. Follows the market if nobody does."""
    from tracedesk.exchange import books

    return await books.health(call.state, args["symbol"], call.state.noted(call))
