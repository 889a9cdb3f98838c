"""Orders: placing, testing, cancelling, replacing and reducing them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from tracedesk.exchange.local import documents, errors
from tracedesk.exchange.local.documents import Detail
from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.methods.method import Call, Json, Method, Values
from tracedesk.exchange.local.parameters import (
    SYMBOL,
    Parameter,
    amount,
    flag,
    one_of,
    order_id_text,
    required,
    strategy_type,
    whole,
)
from tracedesk.exchange.units import text
from tracedesk.exchange.venue.orders import (
    ORDER_TYPES,
    PREVENTIONS,
    CancelResult,
    NewOrder,
    ReplaceResult,
    VenueRefused,
)

_ZERO: Final = text(0)
_PARTIALLY: Final = -2021
_FULL: Final = ("LIMIT", "MARKET")
"""The types whose answer is full where nothing else is asked for."""


# --- placing ------------------------------------------------------------------------------------


def place(call: Call) -> Json:
    call.exchange.limits.admit_order(call.account)
    with _counted(call):
        result = call.exchange.venue.place(call.account, _order(call))
    return documents.placed(result, _detail(call), call.unit)


@contextmanager
def _counted(call: Call) -> Generator[None]:
    """Count an order while it is placed, because one that fills at once takes itself off the count again."""
    call.exchange.limits.count_order(call.account)
    try:
        yield
    except (Refused, VenueRefused):
        call.exchange.limits.count_order(call.account, -1)
        raise


def test(call: Call) -> Json:
    call.exchange.venue.test(call.account, _order(call))
    if not call.get("computeCommissionRates", False):
        return {}
    rates = standard_rates(call)
    sides = {name: rates[name] for name in ("maker", "taker")}
    none = dict.fromkeys(sides, _ZERO)
    return {
        "standardCommissionForOrder": sides,
        "specialCommissionForOrder": none,
        "taxCommissionForOrder": none,
        "discount": discount(),
    }


def standard_rates(call: Call) -> dict[str, str]:
    """The commission rates of the caller's account."""
    account = call.exchange.venue.account(call.account)
    return {"maker": text(account.maker), "taker": text(account.taker), "buyer": _ZERO, "seller": _ZERO}


def discount() -> dict[str, Any]:
    """The venue gives no discount for paying commissions in another asset."""
    return {"enabledForAccount": False, "enabledForSymbol": False, "discountAsset": "BNB", "discount": _ZERO}


def _order(call: Call) -> NewOrder:
    if any(name in call.values for name in _PEG_NAMES):
        raise Refused(-2010, "Pegged orders are not supported for this symbol.")
    return NewOrder(
        symbol=call.symbol,
        side=call.values["side"],
        type=call.values["type"],
        quantity=call.get("quantity"),
        price=call.get("price"),
        quote_quantity=call.get("quoteOrderQty"),
        time_in_force=call.get("timeInForce"),
        client_order_id=call.get("newClientOrderId"),
        stop_price=call.get("stopPrice"),
        trailing_delta=call.get("trailingDelta"),
        iceberg_quantity=call.get("icebergQty"),
        prevention=call.get("selfTradePreventionMode"),
        strategy_id=call.get("strategyId"),
        strategy_type=call.get("strategyType"),
    )


def _detail(call: Call) -> Detail:
    return call.get("newOrderRespType", "FULL" if call.values["type"] in _FULL else "ACK")


def _test_weight(values: Values) -> int:
    return 20 if values.get("computeCommissionRates") else 1


# --- cancelling ---------------------------------------------------------------------------------


def cancel(call: Call) -> Json:
    order_id, client_order_id = named(call)
    result = call.exchange.venue.cancel(
        call.account,
        call.symbol,
        order_id=order_id,
        client_order_id=client_order_id,
        new_client_order_id=call.get("newClientOrderId"),
        restriction=call.get("cancelRestrictions"),
    )
    return documents.cancelled(result, call.unit)


def cancel_all(call: Call) -> Json:
    results = call.exchange.venue.cancel_all(call.account, call.symbol)
    return [documents.cancelled(result, call.unit) for result in results]


def named(
    call: Call, order_id: str = "orderId", client_order_id: str = "origClientOrderId"
) -> tuple[int | None, str | None]:
    """The order that a request names, by either id or both."""
    ids = call.get(order_id), call.get(client_order_id)
    if ids == (None, None):
        raise errors.neither(client_order_id, order_id)
    return ids


# --- replacing ----------------------------------------------------------------------------------


def cancel_replace(call: Call) -> Json:
    """Cancel one order and place another; where not both succeeded, the refusal tells of both."""
    try:
        call.exchange.limits.admit_order(call.account)
    except Refused as spent:
        if call.get("orderRateLimitExceededMode") != "CANCEL_ONLY":
            raise
        return _cancel_only(call, spent)
    with _counted(call):
        result = _replace(call)
    return _both(call, result)


def _replace(call: Call) -> ReplaceResult:
    order_id, client_order_id = named(call, "cancelOrderId", "cancelOrigClientOrderId")
    return call.exchange.venue.cancel_replace(
        call.account,
        _order(call),
        mode=call.values["cancelReplaceMode"],
        cancel_order_id=order_id,
        cancel_client_order_id=client_order_id,
        cancel_new_client_order_id=call.get("cancelNewClientOrderId"),
        restriction=call.get("cancelRestrictions"),
    )


def _cancel_only(call: Call, spent: Refused) -> Json:
    """What is left to an account without another order in this interval: the cancel alone."""
    order_id, client_order_id = named(call, "cancelOrderId", "cancelOrigClientOrderId")
    done: CancelResult | VenueRefused
    try:
        done = call.exchange.venue.cancel(
            call.account,
            call.symbol,
            order_id=order_id,
            client_order_id=client_order_id,
            new_client_order_id=call.get("cancelNewClientOrderId"),
            restriction=call.get("cancelRestrictions"),
        )
    except VenueRefused as refused:
        done = refused
    return _both(call, ReplaceResult(done, VenueRefused(spent.code, spent.message)), 429, spent.retry_after_s)


def _both(
    call: Call, result: ReplaceResult, status: int | None = None, retry_after_s: int | None = None
) -> Json:
    document = documents.replaced(result, _detail(call), call.unit)
    refusal = result.refusal
    if refusal is None:
        return document
    failed = status or (409 if refusal.code == _PARTIALLY else 400)
    raise Refused(refusal.code, refusal.message, failed, data=document, retry_after_s=retry_after_s)


# --- reducing -----------------------------------------------------------------------------------


def amend(call: Call) -> Json:
    order_id, client_order_id = named(call)
    result = call.exchange.venue.amend(
        call.account,
        call.symbol,
        quantity=call.values["newQty"],
        order_id=order_id,
        client_order_id=client_order_id,
        new_client_order_id=call.get("newClientOrderId"),
    )
    return documents.amended(result, call.unit)


# --- the methods --------------------------------------------------------------------------------

_PEG_NAMES: Final = ("pegPriceType", "pegOffsetValue", "pegOffsetType")
_PEG: Final = (
    Parameter("pegPriceType", one_of(("PRIMARY_PEG", "MARKET_PEG"))),
    Parameter("pegOffsetValue", whole),
    Parameter("pegOffsetType", one_of(("PRICE_LEVEL",))),
)
_NEW: Final = (
    SYMBOL,
    required("side", one_of(("BUY", "SELL"), errors.invalid_side)),
    required("type", one_of(ORDER_TYPES, errors.invalid_order_type)),
    Parameter("timeInForce", one_of(("GTC", "IOC", "FOK"), errors.invalid_time_in_force)),
    Parameter("quantity", amount),
    Parameter("quoteOrderQty", amount),
    Parameter("price", amount),
    Parameter("newClientOrderId", order_id_text),
    Parameter("strategyId", whole),
    Parameter("strategyType", strategy_type),
    Parameter("stopPrice", amount),
    Parameter("trailingDelta", whole),
    Parameter("icebergQty", amount),
    Parameter("newOrderRespType", one_of(("ACK", "RESULT", "FULL"))),
    Parameter("selfTradePreventionMode", one_of(PREVENTIONS)),
    *_PEG,
)
_RESTRICTIONS: Final = Parameter(
    "cancelRestrictions", one_of(("ONLY_NEW", "ONLY_PARTIALLY_FILLED"), errors.invalid_cancel_restrictions)
)
_NAMED: Final = (
    SYMBOL,
    Parameter("orderId", whole),
    Parameter("origClientOrderId", order_id_text),
    Parameter("newClientOrderId", order_id_text),
)
_REPLACE: Final = (
    required("cancelReplaceMode", one_of(("STOP_ON_FAILURE", "ALLOW_FAILURE"))),
    Parameter("cancelNewClientOrderId", order_id_text),
    Parameter("cancelOrigClientOrderId", order_id_text),
    Parameter("cancelOrderId", whole),
    _RESTRICTIONS,
    Parameter("orderRateLimitExceededMode", one_of(("DO_NOTHING", "CANCEL_ONLY"))),
)

METHODS: Final = (
    Method("order.place", "POST", "order", place, _NEW, 1, "TRADE", places_order=True, free=True),
    Method(
        "order.test",
        "POST",
        "order/test",
        test,
        (*_NEW, Parameter("computeCommissionRates", flag)),
        _test_weight,
        "TRADE",
    ),
    Method("order.cancel", "DELETE", "order", cancel, (*_NAMED, _RESTRICTIONS), 1, "TRADE", free=True),
    Method("openOrders.cancelAll", "DELETE", "openOrders", cancel_all, (SYMBOL,), 1, "TRADE", free=True),
    Method(
        "order.cancelReplace",
        "POST",
        "order/cancelReplace",
        cancel_replace,
        (*_NEW, *_REPLACE),
        1,
        "TRADE",
        places_order=True,
        free=True,
    ),
    Method(
        "order.amend.keepPriority",
        "PUT",
        "order/amend/keepPriority",
        amend,
        (*_NAMED, required("newQty", amount)),
        4,
        "TRADE",
    ),
)
