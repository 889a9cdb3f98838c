"""`connect` and `provider_status`: whose account is used, and how everything stands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Call, Url
from tracedesk.errors import ToolError
from tracedesk.exchange import shapes
from tracedesk.exchange.caller import Caller
from tracedesk.exchange.one_time_page import LIFE
from tracedesk.jobs import in_thread
from tracedesk.primitives import time

if TYPE_CHECKING:
    from tracedesk.exchange.connections import Connection
    from tracedesk.exchange.provider import Provider

_PATIENCE: Final = 15.0
"""Seconds that `connect` waits for the keys after the user agreed to enter them."""
_KEPT: Final = ("session", "principal", "stdio")
"""Scopes of one caller, which need no handle."""


async def connect(provider: Provider, args: Mapping[str, Any], call: Call[Any]) -> dict[str, Any]:
    """Choose or enter an account for a scope, or end it."""
    provider.noted(call)
    connection = _connection(provider, args, call)
    caller = Caller.of(call, None if connection is None else connection.scope)
    if args.get("end"):
        return _end(provider, connection, caller)
    if connection is None:
        return await _chosen(provider, args, call, caller) | {"connection_id": None}
    try:
        with provider.connections.busy(connection):
            answer = await _chosen(provider, args, call, caller)
    finally:
        asked = provider.pages.of(caller.scope) is not None
        provider.connections.keep(connection, LIFE if asked else 0)
    return {**answer, "connection_id": connection.id, "idle_seconds": provider.connections.idle}


def _connection(provider: Provider, args: Mapping[str, Any], call: Call[Any]) -> Connection | None:
    """The handle that is named, or a new one for a caller that nothing else tells from others."""
    if "connection_id" in args:
        return provider.connections.find(args["connection_id"], call.scope)
    if call.scope.partition(":")[0] in _KEPT:
        return None
    for name in ("end", "enter_keys"):
        if args.get(name):
            raise ToolError(
                "INVALID_PARAMETER",
                f"{name} needs a connection_id here: connect without arguments returns one.",
                {"field": "connection_id"},
            )
    return provider.connections.mint(call.scope)


async def _chosen(
    provider: Provider, args: Mapping[str, Any], call: Call[Any], caller: Caller
) -> dict[str, Any]:
    if "profile" in args:
        provider.choose(caller, args["profile"])
    waiting = bool(args.get("enter_keys")) and not await _entered(provider, caller, call)
    source = "waiting" if waiting else provider.accounts.source(caller)
    known = source in ("own", "profile")
    return {
        "mode": provider.mode,
        "account": (await provider.accounts.of(caller)).name if known else None,
        "credentials": source,
        "profiles": list(provider.accounts.names) if caller.is_known else [],
    }


def _end(provider: Provider, connection: Connection | None, caller: Caller) -> dict[str, Any]:
    if connection is not None:
        provider.connections.end(connection)
    else:
        provider.ended(caller.scope)
    nobody = {"connection_id": None, "mode": provider.mode, "account": None, "credentials": "none"}
    return {**nobody, "ended": True}


async def _entered(provider: Provider, caller: Caller, call: Call[Any]) -> bool:
    """Ask the user for keys on a page of this machine; False while they have not come."""
    page = await provider.pages.open(caller.scope, provider.settings.venue, f"Tracedesk ({caller.label})")
    if not page.used:
        message = "Enter the keys of your account on this page of your own machine."
        answer = await call.elicit(Url(message, page.url, page.path[:16]), key="keys")
        if answer.action != "accept":
            await provider.pages.drop(caller.scope)
            message = "The user did not agree to enter keys; ask them, then call connect again."
            raise ToolError("CREDENTIALS_REQUIRED", message)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(page.settled.wait(), _PATIENCE)
    if page.used:
        await provider.pages.drop(caller.scope)
    return page.used


async def status(provider: Provider, call: Call[Any]) -> dict[str, Any]:
    """How everything stands; accounts are named only to callers that may see them."""
    provider.noted(call)
    caller = Caller.of(call)
    site = None if provider.link.is_asleep else provider.link.current
    venue: dict[str, Any] = {"name": provider.settings.venue, "connected": site is not None}
    if site is not None:
        venue |= {
            "rest": site.endpoints.rest,
            "clock_offset_ms": site.client.time.offset_ms,
            "limits": site.client.limits.document(),
        }
    # In a thread: the ledger may wait for whoever writes to its file.
    sees = partial(provider.accounts.knows, caller)
    orders = shapes.texts(await in_thread(lambda: provider.orders.status(sees=sees)))
    shown = caller.is_known or not provider.accounts.is_private
    return {
        "mode": provider.mode,
        "real_money": provider.settings.mode == "live",
        "now": time.format(provider.now_ns()),
        "venue": venue,
        "orders": orders if shown else {"halted": orders.get("halted")},
        "account": {"credentials": provider.accounts.source(caller)},
        "markets": [] if site is None else [market.status().document() for market in site.feeds.markets()],
        "connections": {"open": len(provider.connections), "limit": provider.connections.limit},
    }
