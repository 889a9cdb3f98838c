"""What the flow says. A window is what was asked; `window_covered` is what this desk has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracedesk.contract import Arguments, Call
from tracedesk.exchange.tools.toolset import READS, SECONDS, exchange

if TYPE_CHECKING:
    from tracedesk.exchange.provider import Provider


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def get_order_flow(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Buying against selling: OFI, signed volume, VPIN, Kyle's lambda, direction."""
    from tracedesk.exchange import flows

    return await flows.order_flow(call.state, args, call.state.noted(call))


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def get_volume_profile(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Traded volume by price: point of control and value area (70 %)."""
    from tracedesk.exchange import flows

    return await flows.volume_profile(call.state, args, call.state.noted(call))


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def detect_market_anomalies(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Patterns like quote stuffing, spoofing, icebergs or a flash crash, against the market's baseline."""
    from tracedesk.exchange import flows

    return await flows.anomalies(call.state, args, call.state.noted(call))


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def get_microstructure_health(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """A score from 0 to 100 of spread, depth, flow balance and update rate."""
    from tracedesk.exchange import flows

    return await flows.health(call.state, args, call.state.noted(call))


@exchange.tool(annotations=READS, scope="read", deadline=SECONDS)
async def get_liquidity_vacuums(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Price zones with little resting or traded volume, where prices move fast."""
    from tracedesk.exchange import flows

    return await flows.vacuums(call.state, args, call.state.noted(call))
