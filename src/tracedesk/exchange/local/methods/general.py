"""The exchange itself: its clock, its rules and its symbols."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.local import errors
from tracedesk.exchange.local.documents import stamp
from tracedesk.exchange.local.methods.method import Call, Json, Method
from tracedesk.exchange.local.parameters import (
    STATUSES,
    Parameter,
    flag,
    one_of,
    permissions,
    symbol,
    symbols,
)

PERMISSION: Final = "SPOT"


def ping(_: Call) -> Json:
    return {}


def time(call: Call) -> Json:
    return {"serverTime": stamp(call.exchange.now_ns(), call.unit)}


def exchange_info(call: Call) -> Json:
    exchange = call.exchange
    sets = call.get("showPermissionSets", True)
    return {
        "timezone": "UTC",
        "serverTime": stamp(exchange.now_ns(), call.unit),
        "rateLimits": [rule.document() for rule in exchange.limits.rules],
        "exchangeFilters": [dict(each) for each in exchange.venue.exchange_filters],
        "symbols": [_document(call, each, permission_sets=sets) for each in _asked(call)],
    }


def _asked(call: Call) -> Iterable[Instrument]:
    selectors = [name for name in ("symbol", "symbols", "permissions") if name in call.values]
    if len(selectors) > 1 or ("symbolStatus" in call.values and selectors in (["symbol"], ["symbols"])):
        raise errors.bad_combination()
    named = [call.values["symbol"]] if "symbol" in call.values else call.get("symbols")
    if named is not None:
        return [call.exchange.instrument(name) for name in named]
    if PERMISSION not in call.get("permissions", [PERMISSION]):
        return []
    status = call.get("symbolStatus")
    return [each for each in call.exchange.instruments() if status in (None, each.status)]


def _document(call: Call, instrument: Instrument, *, permission_sets: bool) -> dict[str, Any]:
    """One entry of `exchangeInfo.symbols`."""
    listing = call.exchange.venue.listings[instrument.symbol]
    published = {**listing.published, "status": instrument.status}
    return published if permission_sets else {**published, "permissionSets": []}


METHODS: Final = (
    Method("ping", "GET", "ping", ping),
    Method("time", "GET", "time", time),
    Method(
        "exchangeInfo",
        "GET",
        "exchangeInfo",
        exchange_info,
        (
            Parameter("symbol", symbol),
            Parameter("symbols", symbols),
            Parameter("permissions", permissions),
            Parameter("showPermissionSets", flag),
            Parameter("symbolStatus", one_of(STATUSES, errors.invalid_symbol_status)),
        ),
        weight=20,
    ),
)
