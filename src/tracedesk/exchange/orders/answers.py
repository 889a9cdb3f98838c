"""How orders are shown: the answers of the tools, and the errors that stand in for them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, cast

from tracedesk.errors import ToolError
from tracedesk.exchange.orders.errand import Errand
from tracedesk.exchange.orders.estimate import plain
from tracedesk.exchange.orders.estimate import shown as rounded
from tracedesk.exchange.orders.ledger import Order
from tracedesk.exchange.orders.previews import invalid
from tracedesk.exchange.orders.report import NEVER_ARRIVED, REFUSED, SENT, UNKNOWN
from tracedesk.primitives import money
from tracedesk.primitives.time import MILLISECOND, format

_MAY_ARRIVE: Final = (
    "It may or may not be at the venue, and may still arrive there: it is asked about until that is known, "
    "and never sent again. Place nothing instead of it yet."
)
_NOTES: Final = {
    SENT: _MAY_ARRIVE,
    UNKNOWN: _MAY_ARRIVE,
    REFUSED: "It was refused, and is not at the venue.",
    NEVER_ARRIVED: "It never arrived at the venue, and no longer can.",
}


def placed(order: Order, fields: Mapping[str, str], told: Any) -> dict[str, Any]:
    """The answer of `place_order`."""
    document = {**_head(order), **fields, **_traded(order)}
    if isinstance(told, Mapping):
        said = cast("Mapping[str, Any]", told)
        if isinstance(said.get("transactTime"), int):
            document["transact_time"] = format(said["transactTime"] * MILLISECOND)
        document["fills"] = [_fill(each) for each in said.get("fills", ())]
    return document | {"ref": order.latest, "intent_ref": order.intent}


def known(order: Order) -> dict[str, Any]:
    """What the ledger tells of an order that the venue tells nothing of."""
    note = _NOTES.get(order.state.status, "This is what was last heard of it.")
    document = {**_head(order), "symbol": order.symbol, "side": order.side, "order_type": order.order_type}
    document |= {"quantity": plain(order.quantity), **_traded(order), "sent_at": format(order.sent_ns)}
    return {**document, "note": note, "ref": order.latest, "intent_ref": order.intent}


def _head(order: Order) -> dict[str, Any]:
    return {
        "mode": order.mode,
        "account": order.account,
        "status": order.state.status,
        "client_order_id": order.client_order_id,
        "order_id": order.state.order_id,
    }


def _traded(order: Order) -> dict[str, Any]:
    state = order.state
    average = Fraction(state.spent, state.executed) if state.executed else None
    return {
        "executed_quantity": plain(state.executed),
        "quote_quantity": plain(state.spent),
        "average_price": None if average is None else money.to_text(rounded(average)),
    }


def _fill(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "price": told["price"],
        "quantity": told["qty"],
        "commission": told["commission"],
        "commission_asset": told["commissionAsset"],
        "trade_id": told.get("tradeId"),
    }


def unknown(order: Order, problem: str | None) -> ToolError:
    """OUTCOME_UNKNOWN of an order that may be at the venue."""
    message = (
        f"The order {order.client_order_id} may or may not be at the venue: {problem or 'no answer came'}. "
        "It is never sent again, and is asked about until the venue tells. Look with get_order "
        f"(orig_client_order_id {order.client_order_id}) before you place anything instead of it."
    )
    return ToolError("OUTCOME_UNKNOWN", message, _details(order))


def late(errand: Errand, shown: Mapping[str, Any]) -> ToolError:
    """OUTCOME_UNKNOWN of an order that the venue has not answered in the time that its call had."""
    problem = "the venue has not answered in time"
    if errand.order is not None:
        return unknown(errand.order, problem)
    message = (
        f"The order {shown['client_order_id']} was being written down and may yet be sent: {problem}. It is "
        "sent once or not at all. Look with get_order "
        f"(orig_client_order_id {shown['client_order_id']}) before you place anything instead of it."
    )
    return ToolError("OUTCOME_UNKNOWN", message, {**shown, "status": SENT, "ref": None})


def too_late() -> ToolError:
    """An order whose judging is too old to send it by."""
    message = (
        "Judging the order and writing it down took too long, and the market has moved on. "
        "Nothing was sent; place it again."
    )
    return ToolError("VENUE_UNAVAILABLE", message)


def used(order: Order) -> ToolError:
    """A token that was placed before: the order it became is all there is."""
    message = (
        f"it was placed as {order.client_order_id}, which is {order.state.status}; nothing is sent twice."
    )
    shown = {"client_order_id": order.client_order_id, "status": order.state.status, "ref": order.latest}
    return invalid("used", message, **shown)


def unsent() -> ToolError:
    """A call whose time was over before anything was sent."""
    message = "The call's time was over before anything was sent. Nothing was sent; try again."
    return ToolError("VENUE_UNAVAILABLE", message, {"retryAfterSeconds": 5})


def uncertain(shown: Mapping[str, Any], reason: str) -> ToolError:
    """OUTCOME_UNKNOWN of a cancelling that may have been carried out."""
    given = "orig_client_order_id" if "origClientOrderId" in shown else "order_id"
    which = shown.get("origClientOrderId", shown.get("orderId"))
    message = (
        f"The order may or may not be cancelled: {reason}. Look with get_order ({given} {which}); "
        "cancelling again does no harm."
    )
    return ToolError("OUTCOME_UNKNOWN", message, dict(shown))


def refused(order: Order, refusal: ToolError) -> ToolError:
    """A venue's refusal, with what it was about."""
    return ToolError(refusal.code, refusal.message, {**(refusal.details or {}), **_details(order)})


def unsettled(orders: Sequence[Order], own: Container[str]) -> ToolError:
    """Nothing is added to an account of which nobody knows what it has at the venue.

    `own` are the identities of orders that are the account's for certain.
    """
    message = (
        f"The venue does not yet tell what became of {len(orders)} earlier order(s) of this account. Nothing "
        "was sent: they are being asked about; look with provider_status, then preview again."
    )
    others = [order.client_order_id for order in orders if order.identity not in own]
    if others:
        message += (
            f" {', '.join(others)} went out with another key under the name {orders[0].account}: give it "
            "that key back, or give the new key a profile of another name."
        )
    details = {"unresolved": [order.client_order_id for order in orders], "retryAfterSeconds": 5}
    return ToolError("VENUE_UNAVAILABLE", message, details)


def _details(order: Order) -> dict[str, Any]:
    return {
        "mode": order.mode,
        "account": order.account,
        "symbol": order.symbol,
        "client_order_id": order.client_order_id,
        "status": order.state.status,
        "ref": order.latest,
    }
