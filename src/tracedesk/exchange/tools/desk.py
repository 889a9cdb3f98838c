"""The desk itself: whose account is used, how things stand, and the whole market on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Annotations, Arguments, Call
from tracedesk.exchange.tools.toolset import READS, SECONDS, exchange

if TYPE_CHECKING:
    from tracedesk.exchange.provider import Provider

_OWN: Final = Annotations(read_only=True)


@exchange.tool(annotations=_OWN, scope="read", deadline=SECONDS, writes=("profile",), audience="anyone")
async def connect(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Choose an account, or ask the user for keys; a caller without session or token gets a connection_id."""
    from tracedesk.exchange import connecting

    return await connecting.connect(call.state, args, call)


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def provider_status(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """The mode, the venue and its limits, what is followed, how orders stand: halted, caps, unresolved."""
    from tracedesk.exchange import connecting

    return await connecting.status(call.state, call)


@exchange.tool(annotations=READS, scope="read", deadline=30.0)
async def generate_market_report(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """One Markdown page on a market: price, book, liquidity, flow, anomalies, health. Kept for 60 seconds."""
    from tracedesk.exchange import report

    return await report.generate(call.state, args, call.state.noted(call))
