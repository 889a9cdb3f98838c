"""The prompts and what completes their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracedesk.contract import Argument, Arguments, Call
from tracedesk.exchange.tools.toolset import exchange

if TYPE_CHECKING:
    from tracedesk.exchange.provider import Provider


async def complete_symbol(prefix: str, others: Mapping[str, str], state: Any) -> Sequence[str]:
    """Symbols that begin so."""
    from tracedesk.exchange import prompts

    return await prompts.complete_symbol(prefix, others, state)


async def complete_strategy(prefix: str, others: Mapping[str, str], state: Any) -> Sequence[str]:
    from tracedesk.exchange import prompts

    return prompts.begun(prefix, prompts.STRATEGIES)


async def complete_tolerance(prefix: str, others: Mapping[str, str], state: Any) -> Sequence[str]:
    from tracedesk.exchange import prompts

    return prompts.begun(prefix, prompts.TOLERANCES)


_SYMBOL = Argument("symbol", "Trading pair, such as BTCUSDT", required=True, complete=complete_symbol)


@exchange.prompt(
    _SYMBOL,
    Argument("strategy", "aggressive, balanced [default] or conservative", complete=complete_strategy),
    Argument("risk_tolerance", "low, medium [default] or high", complete=complete_tolerance),
)
async def trading_analysis(args: Arguments, call: Call[Provider]) -> str:
    """Market analysis and trading recommendations."""
    from tracedesk.exchange import prompts

    async with call.state.caller(call) as caller:
        return await prompts.trading_analysis(call.state, args, caller)


@exchange.prompt()
async def portfolio_risk(args: Arguments, call: Call[Provider]) -> str:
    """Portfolio risk assessment of the account in use."""
    from tracedesk.exchange import prompts

    async with call.state.caller(call) as caller:
        return await prompts.portfolio_risk(call.state, args, caller)


@exchange.prompt(_SYMBOL, Argument("profile_hours", "Hours of the volume profile, 1 to 168 [default: 24]"))
async def market_microstructure_analysis(args: Arguments, call: Call[Provider]) -> str:
    """Book, flow, volume profile, anomalies and health of a market."""
    from tracedesk.exchange import prompts

    async with call.state.caller(call) as caller:
        return await prompts.market_microstructure_analysis(call.state, args, caller)


@exchange.prompt(_SYMBOL, Argument("window_minutes", "Minutes of flow, 1 to 60 [default: 5]"))
async def order_flow_trading(args: Arguments, call: Call[Provider]) -> str:
    """Signals from order flow."""
    from tracedesk.exchange import prompts

    async with call.state.caller(call) as caller:
        return await prompts.order_flow_trading(call.state, args, caller)


@exchange.prompt(_SYMBOL, Argument("lookback_minutes", "Minutes to look back, 10 to 1440 [default: 30]"))
async def liquidity_mapping(args: Arguments, call: Call[Provider]) -> str:
    """Walls and vacuums of a market."""
    from tracedesk.exchange import prompts

    async with call.state.caller(call) as caller:
        return await prompts.liquidity_mapping(call.state, args, caller)
