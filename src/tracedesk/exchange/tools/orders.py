"""Orders: previewed, confirmed where the mode wants it, sent at most once, and written down before."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Annotations, Arguments, Call, Source
from tracedesk.exchange.caller import Caller
from tracedesk.exchange.tools.toolset import ACTS, SECONDS, exchange
from tracedesk.hooks import Requester

if TYPE_CHECKING:
    from tracedesk.exchange.provider import Provider

_PREVIEWS: Final = Annotations(read_only=False, open_world=True)
_OTHERS: Final = ("preview_token", "connection_id")


def _order(args: Arguments) -> Arguments:
    return {name: value for name, value in args.items() if name not in _OTHERS}


@exchange.tool(annotations=_PREVIEWS, scope="trade", deadline=SECONDS)
async def preview_order(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """What an order would do: filters, caps, cost, fees, slippage. Sends nothing; gives the preview_token."""
    async with call.state.caller(call, args) as caller:
        party = await call.state.party(caller)
        return await call.state.orders.preview(party, _order(args), call)


@exchange.tool(annotations=ACTS, scope="trade", deadline=30.0)
async def place_order(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Send exactly the order that was previewed, once. OUTCOME_UNKNOWN: ask get_order, never send again."""
    async with call.state.caller(call, args) as caller:
        party = await call.state.party(caller)
        return await call.state.orders.place(party, _order(args), args["preview_token"], call)


@exchange.tool(annotations=ACTS, scope="trade", deadline=SECONDS)
async def cancel_order(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Cancel an open order by order_id or orig_client_order_id; what it has filled stays."""
    from tracedesk.exchange import reading

    async with call.state.caller(call, args) as caller:
        _, instrument = await reading.known(call.state, args["symbol"])
        party = await call.state.party(caller)
        return await call.state.orders.cancel(
            party,
            call,
            instrument.symbol,
            order_id=args.get("order_id"),
            client_order_id=args.get("orig_client_order_id"),
        )


@exchange.tool(annotations=ACTS, scope="trade", deadline=60.0)
async def kill_switch(args: Arguments, call: Call[Provider]) -> dict[str, Any]:
    """Cancel all open orders of every account and refuse new ones until the operator rearms the desk."""
    sees = partial(call.state.accounts.knows, Caller.of(call))
    return await call.state.orders.kill(args["reason"], call, sees=sees)


@exchange.resolves
async def resolve(ref: str, state: Provider, requester: Requester) -> Source | None:
    """Entries of the order audit: what was meant, what was sent, what became of it.

    Each names the principal that it is for; the desk shows it to nobody else but its owner.
    """
    if not ref.startswith("tracedesk://exchange/"):
        return None
    return await state.orders.resolve(ref)
