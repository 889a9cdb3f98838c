"""Questions about what this venue does not have: no order lists, no block trades, no reference prices."""

from __future__ import annotations

from typing import Final

from tracedesk.exchange.local import errors
from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.methods.market import MOST_ROWS
from tracedesk.exchange.local.methods.method import Call, Json, Method, Values
from tracedesk.exchange.local.parameters import (
    SYMBOL,
    SYMBOL_STATUS,
    Parameter,
    at_most,
    instant,
    required,
    symbol,
    symbols,
    whole,
)

_MOST_WEIGHT: Final = 40


def nothing(_: Call) -> Json:
    return []


def nothing_of_symbol(call: Call) -> Json:
    """Nothing, of a symbol that must be listed."""
    call.exchange.instrument(call.values["symbol"])
    return []


def reference_price(call: Call) -> Json:
    call.exchange.instrument(call.values["symbol"])
    raise Refused(-2043, "This symbol doesn't have a reference price.")


def execution_rules(call: Call) -> Json:
    """Every symbol that is asked about, none of which has a rule."""
    if len(call.values) > 1:
        raise errors.bad_combination()
    named = [call.values["symbol"]] if "symbol" in call.values else call.get("symbols")
    exchange, status = call.exchange, call.get("symbolStatus")
    found = exchange.instruments() if named is None else [exchange.instrument(name) for name in named]
    return {
        "symbolRules": [
            {"symbol": each.symbol, "rules": []} for each in found if status in (None, each.status)
        ]
    }


def _rules_weight(values: Values) -> int:
    if "symbol" in values:
        return 2
    return min(2 * len(values["symbols"]), _MOST_WEIGHT) if "symbols" in values else _MOST_WEIGHT


_LIMIT: Final = Parameter("limit", at_most(MOST_ROWS))
_SPAN: Final = (Parameter("startTime", instant), Parameter("endTime", instant))
_LISTS: Final = (Parameter("fromId", whole), *_SPAN, _LIMIT)
_ALLOCATIONS: Final = (
    SYMBOL,
    *_SPAN,
    Parameter("fromAllocationId", whole),
    _LIMIT,
    Parameter("orderId", whole),
)
_BLOCKS: Final = (SYMBOL, required("fromId", whole), _LIMIT)
_RULES: Final = (Parameter("symbol", symbol), Parameter("symbols", symbols), SYMBOL_STATUS)

METHODS: Final = (
    Method("executionRules", "GET", "executionRules", execution_rules, _RULES, _rules_weight),
    Method("referencePrice", "GET", "referencePrice", reference_price, (SYMBOL,), 2),
    Method("blockTrades.historical", "GET", "historicalBlockTrades", nothing_of_symbol, _BLOCKS, 25),
    Method("openOrderLists.status", "GET", "openOrderList", nothing, (), 6, "USER_DATA"),
    Method("allOrderLists", "GET", "allOrderList", nothing, _LISTS, 20, "USER_DATA"),
    Method("myAllocations", "GET", "myAllocations", nothing_of_symbol, _ALLOCATIONS, 20, "USER_DATA"),
)
