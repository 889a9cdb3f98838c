"""What an account has: balances, orders, trades and the rules that hold for it."""

from __future__ import annotations

from typing import Any, Final

from tracedesk.exchange.local import documents, errors
from tracedesk.exchange.local.documents import stamp
from tracedesk.exchange.local.methods.general import PERMISSION
from tracedesk.exchange.local.methods.market import MOST_ROWS, ROWS
from tracedesk.exchange.local.methods.method import Call, Json, Method, Values
from tracedesk.exchange.local.methods.trading import discount, named, standard_rates
from tracedesk.exchange.local.parameters import (
    SYMBOL,
    Parameter,
    at_most,
    flag,
    instant,
    order_id_text,
    required,
    symbol,
    whole,
)
from tracedesk.exchange.units import ONE, text
from tracedesk.primitives.time import MILLISECOND

_LONGEST_HOURS: Final = 24
_LONGEST_MS: Final = _LONGEST_HOURS * 3_600_000
_BASIS_POINT: Final = ONE // 10_000


def status(call: Call) -> Json:
    account = call.exchange.venue.account(call.account)
    return {
        "makerCommission": account.maker // _BASIS_POINT,
        "takerCommission": account.taker // _BASIS_POINT,
        "buyerCommission": 0,
        "sellerCommission": 0,
        "commissionRates": standard_rates(call),
        "canTrade": True,
        "canWithdraw": False,
        "canDeposit": False,
        "brokered": False,
        "requireSelfTradePrevention": False,
        "preventSor": False,
        "updateTime": stamp(account.updated_ns, call.unit),
        "accountType": PERMISSION,
        "balances": documents.balances(account.balances, zeros=not call.get("omitZeroBalances", False)),
        "permissions": [PERMISSION],
        "uid": account.uid,
    }


def commission(call: Call) -> Json:
    none = dict.fromkeys(("maker", "taker", "buyer", "seller"), text(0))
    return {
        "symbol": call.symbol,
        "standardCommission": standard_rates(call),
        "specialCommission": none,
        "taxCommission": none,
        "discount": discount(),
    }


def order_counts(call: Call) -> Json:
    return [rule.document(count) for rule, count in call.exchange.limits.orders(call.account)]


def filters(call: Call) -> Json:
    published = [dict(each) for each in call.instrument.filters.values()]
    venue = call.exchange.venue
    assets = {call.instrument.base, call.instrument.quote}
    limits = [(asset, most) for asset, most in venue.asset_limits.items() if asset in assets]
    return {
        "exchangeFilters": [dict(each) for each in venue.exchange_filters],
        "symbolFilters": published,
        "assetFilters": [
            {"filterType": "MAX_ASSET", "asset": asset, "limit": text(most)} for asset, most in limits
        ],
    }


# --- orders and trades --------------------------------------------------------------------------


def order(call: Call) -> Json:
    order_id, client_order_id = named(call)
    found = call.exchange.venue.order(
        call.account, call.symbol, order_id=order_id, client_order_id=client_order_id
    )
    return documents.order(found, call.unit)


def open_orders(call: Call) -> Json:
    symbol = call.symbol if "symbol" in call.values else None
    return [
        documents.order(each, call.unit) for each in call.exchange.venue.open_orders(call.account, symbol)
    ]


def all_orders(call: Call) -> Json:
    rows = call.exchange.venue.all_orders(
        call.account, call.symbol, from_id=call.get("orderId"), **_span(call), limit=call.get("limit", ROWS)
    )
    return [documents.order(each, call.unit) for each in rows]


def trades(call: Call) -> Json:
    if call.get("fromId") is not None and ("startTime" in call.values or "endTime" in call.values):
        raise errors.bad_combination()
    rows = call.exchange.venue.my_trades(
        call.account,
        call.symbol,
        order_id=call.get("orderId"),
        from_id=call.get("fromId"),
        **_span(call),
        limit=call.get("limit", ROWS),
    )
    return [documents.fill(each, call.unit) for each in rows]


def prevented_matches(call: Call) -> Json:
    match_id, order_id = call.get("preventedMatchId"), call.get("orderId")
    if (match_id is None) == (order_id is None):
        raise errors.bad_combination()
    rows = call.exchange.venue.prevented_matches(
        call.account,
        call.symbol,
        id=match_id,
        order_id=order_id,
        from_id=call.get("fromPreventedMatchId"),
        limit=call.get("limit", ROWS),
    )
    return [documents.prevented_match(each, call.unit) for each in rows]


def amendments(call: Call) -> Json:
    rows = call.exchange.venue.amendments(
        call.account,
        call.symbol,
        call.values["orderId"],
        from_execution_id=call.get("fromExecutionId"),
        limit=call.get("limit", ROWS),
    )
    return [documents.amendment(each, call.unit) for each in rows]


def _span(call: Call) -> dict[str, Any]:
    """The time that is asked for, which may not be longer than a day."""
    start, end = call.get("startTime"), call.get("endTime")
    if start is not None and end is not None and end - start > _LONGEST_MS:
        raise errors.span_too_long(_LONGEST_HOURS)
    until = None if end is None else (end + 1) * MILLISECOND - 1
    return {"start_ns": None if start is None else start * MILLISECOND, "end_ns": until}


def _open_weight(values: Values) -> int:
    return 6 if "symbol" in values else 80


def _trades_weight(values: Values) -> int:
    return 5 if "orderId" in values else 20


def _prevented_weight(values: Values) -> int:
    return 20 if "orderId" in values else 2


# --- the methods --------------------------------------------------------------------------------

_LIMIT: Final = Parameter("limit", at_most(MOST_ROWS))
_SPAN: Final = (Parameter("startTime", instant), Parameter("endTime", instant))
_ORDER: Final = (SYMBOL, Parameter("orderId", whole), Parameter("origClientOrderId", order_id_text))


def _get(name: str, path: str, act: Any, parameters: tuple[Parameter, ...], weight: Any) -> Method:
    return Method(name, "GET", path, act, parameters, weight, "USER_DATA")


METHODS: Final = (
    _get("account.status", "account", status, (Parameter("omitZeroBalances", flag),), 20),
    _get("account.commission", "account/commission", commission, (SYMBOL,), 20),
    _get("account.rateLimits.orders", "rateLimit/order", order_counts, (), 40),
    _get("myFilters", "myFilters", filters, (SYMBOL,), 40),
    _get("order.status", "order", order, _ORDER, 4),
    _get("openOrders.status", "openOrders", open_orders, (Parameter("symbol", symbol),), _open_weight),
    _get("allOrders", "allOrders", all_orders, (SYMBOL, Parameter("orderId", whole), *_SPAN, _LIMIT), 20),
    _get(
        "myTrades",
        "myTrades",
        trades,
        (SYMBOL, Parameter("orderId", whole), *_SPAN, Parameter("fromId", whole), _LIMIT),
        _trades_weight,
    ),
    _get(
        "myPreventedMatches",
        "myPreventedMatches",
        prevented_matches,
        (
            SYMBOL,
            Parameter("preventedMatchId", whole),
            Parameter("orderId", whole),
            Parameter("fromPreventedMatchId", whole),
            _LIMIT,
        ),
        _prevented_weight,
    ),
    _get(
        "order.amendments",
        "order/amendments",
        amendments,
        (SYMBOL, required("orderId", whole), Parameter("fromExecutionId", whole), _LIMIT),
        4,
    ),
)
