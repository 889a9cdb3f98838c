"""The toolset's own declaration: how it opens, ends, and what its URIs are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Annotations, Toolset
from tracedesk.exchange import settings as settings_of
from tracedesk.exchange.addresses import canonical
from tracedesk.exchange.credentials.environment import PROCESS
from tracedesk.exchange.credentials.keys import API_KEY, API_SECRET
from tracedesk.exchange.credentials.profiles import variables

if TYPE_CHECKING:
    from tracedesk.exchange.provider import Provider
    from tracedesk.exchange.settings import Exchange
    from tracedesk.hooks import Watcher

READS: Final = Annotations(read_only=True, idempotent=True, open_world=True)
ACTS: Final = Annotations(read_only=False, destructive=True, open_world=True)
SECONDS: Final = 20.0
_ORDERS: Final = ("preview_order", "place_order", "cancel_order", "kill_switch")


def _open(desk: Any) -> AbstractAsyncContextManager[Provider]:
    settings = settings_of.read(desk.settings.tables.get("exchange", {}))
    PROCESS.take(variables(settings))  # now, for another toolset's child must not inherit them
    return _opened(desk, settings)


@asynccontextmanager
async def _opened(desk: Any, settings: Exchange) -> AsyncGenerator[Provider]:
    from tracedesk.exchange.provider import Provider

    provider = Provider(desk, settings)
    try:
        await provider.open()
        yield provider
    finally:
        await provider.close()


def _withheld(table: Mapping[str, Any]) -> dict[str, str]:
    settings = settings_of.read(table)
    found: dict[str, str] = {}
    if settings.mode == "read_only":
        found |= dict.fromkeys(_ORDERS, 'This desk is read-only: set exchange.mode to "sim" or "testnet".')
    if not settings.microstructure:
        found["market_microstructure_analysis"] = "Set exchange.microstructure = true to have it."
    return found


def _ended(scope: str, provider: Provider) -> None:
    provider.ended(scope)


def _brought(scope: str, arguments: Mapping[str, Any], provider: Provider) -> bool:
    return provider.has_brought_keys(scope, arguments)


async def _watched(
    uri: str, arguments: Mapping[str, str], provider: Provider, watcher: Watcher, begins: bool
) -> None:
    if begins:
        await provider.watches.begin(watcher, arguments.get("symbol"))
    else:
        provider.watches.end(watcher)


def _accepts_headers(table: Mapping[str, Any]) -> bool:
    return settings_of.read(table).header_credentials


def _facts(table: Mapping[str, Any]) -> dict[str, str]:
    settings = settings_of.read(table)
    return {"mode": settings.mode, "real money": "yes" if settings.mode == "live" else "no"}


exchange: Toolset[Provider] = Toolset(
    "exchange",
    summary="A Binance spot desk: markets, books, flow, account, orders; with an exchange of its own inside.",
    guide="call provider_status for the mode (sim is play money), then orderbook_l1 or "
    "generate_market_report; orders go preview_order, then place_order with its preview_token. Keys are "
    "never arguments: connect chooses an account.",
    open=_open,
    withhold=_withheld,
    ended=_ended,
    watched=_watched,
    canonical=canonical,
    headers={"x-binance-api-key": API_KEY, "x-binance-api-secret": API_SECRET},
    accepts_headers=_accepts_headers,
    facts=_facts,
    brought=_brought,
)
