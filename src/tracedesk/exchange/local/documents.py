"""Orders, fills and balances as Binance writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from tracedesk.exchange.local.market import Unit
from tracedesk.exchange.units import text
from tracedesk.exchange.venue.events import BalancesChanged, Deposited, Reported
from tracedesk.exchange.venue.orders import (
    CONTINGENT,
    Amendment,
    AmendResult,
    CancelResult,
    Fill,
    OrderResult,
    OrderState,
    PreventedMatch,
    ReplaceResult,
    VenueRefused,
)
from tracedesk.primitives.time import MICROSECOND, MILLISECOND

Detail = Literal["ACK", "RESULT", "FULL"]
Document = dict[str, Any]

NO_LIST: Final = -1
"""The list of an order that belongs to none."""
_NS: Final[dict[Unit, int]] = {"ms": MILLISECOND, "us": MICROSECOND}


def stamp(ns: int, unit: Unit) -> int:
    """A time as it goes over the wire."""
    return ns // _NS[unit]


def _stamp_or_never(ns: int | None, unit: Unit) -> int:
    return -1 if ns is None else stamp(ns, unit)


# --- orders -------------------------------------------------------------------------------------


def placed(result: OrderResult, detail: Detail, unit: Unit) -> Document:
    """The answer to a new order."""
    order = result.order
    body = {
        **_identity(order),
        "clientOrderId": order.client_order_id,
        "transactTime": stamp(result.ns, unit),
    }
    if detail == "ACK":
        return body
    body |= _terms(order) | {"workingTime": _stamp_or_never(order.working_ns, unit)} | _extras(order, unit)
    return body if detail == "RESULT" else {**body, "fills": [_part(fill) for fill in result.fills]}


def _part(fill: Fill) -> Document:
    return {
        "price": text(fill.price),
        "qty": text(fill.quantity),
        "commission": text(fill.commission),
        "commissionAsset": fill.commission_asset,
        "tradeId": fill.trade_id,
    }


def cancelled(result: CancelResult, unit: Unit) -> Document:
    """The answer to a cancel."""
    order = result.order
    return {
        "symbol": order.symbol,
        "origClientOrderId": order.client_order_id,
        "orderId": order.id,
        "orderListId": NO_LIST,
        "clientOrderId": result.client_order_id,
        "transactTime": stamp(result.ns, unit),
        **_terms(order),
        **_extras(order, unit),
    }


def replaced(result: ReplaceResult, detail: Detail, unit: Unit) -> Document:
    """The two parts of a cancel-replace, whatever became of them."""
    done, new = result.cancelled, result.placed
    return {
        "cancelResult": _outcome(done),
        "newOrderResult": _outcome(new),
        "cancelResponse": refusal(done) if isinstance(done, VenueRefused) else cancelled(done, unit),
        "newOrderResponse": _new_part(new, detail, unit),
    }


def _outcome(part: object) -> str:
    if part is None:
        return "NOT_ATTEMPTED"
    return "FAILURE" if isinstance(part, VenueRefused) else "SUCCESS"


def _new_part(part: OrderResult | VenueRefused | None, detail: Detail, unit: Unit) -> Document | None:
    if part is None:
        return None
    return refusal(part) if isinstance(part, VenueRefused) else placed(part, detail, unit)


def refusal(refused: VenueRefused) -> Document:
    return {"code": refused.code, "msg": refused.message}


def amended(result: AmendResult, unit: Unit) -> Document:
    """The answer to a reduction of an order's quantity."""
    order, amendment = result.order, result.amendment
    return {
        "transactTime": stamp(amendment.ns, unit),
        "executionId": amendment.execution_id,
        "amendedOrder": {
            **_identity(order),
            "origClientOrderId": amendment.old_client_order_id,
            "clientOrderId": amendment.new_client_order_id,
            "price": text(order.price),
            "qty": text(order.quantity),
            "executedQty": text(order.executed),
            "preventedQty": text(order.prevented),
            "quoteOrderQty": text(order.quote_quantity),
            "cumulativeQuoteQty": text(order.executed_quote),
            **_kind(order),
            "workingTime": _stamp_or_never(order.working_ns, unit),
            "selfTradePreventionMode": order.prevention,
        },
    }


def amendment(row: Amendment, unit: Unit) -> Document:
    return {
        "symbol": row.symbol,
        "orderId": row.order_id,
        "executionId": row.execution_id,
        "origClientOrderId": row.old_client_order_id,
        "newClientOrderId": row.new_client_order_id,
        "origQty": text(row.old_quantity),
        "newQty": text(row.new_quantity),
        "time": stamp(row.ns, unit),
    }


def order(state: OrderState, unit: Unit) -> Document:
    """An order as queries show it."""
    return {
        **_identity(state),
        "clientOrderId": state.client_order_id,
        **_terms(state),
        "stopPrice": text(state.stop_price),
        "icebergQty": text(state.iceberg_quantity),
        "time": stamp(state.created_ns, unit),
        "updateTime": stamp(state.updated_ns, unit),
        "isWorking": state.is_working,
        "workingTime": _stamp_or_never(state.working_ns, unit),
        **_extras(state, unit),
    }


def _identity(state: OrderState) -> Document:
    return {"symbol": state.symbol, "orderId": state.id, "orderListId": NO_LIST}


def _kind(state: OrderState) -> Document:
    return {
        "status": state.status,
        "timeInForce": state.time_in_force,
        "type": state.type,
        "side": state.side,
    }


def _terms(state: OrderState) -> Document:
    return {
        "price": text(state.price),
        "origQty": text(state.quantity),
        "executedQty": text(state.executed),
        "origQuoteOrderQty": text(state.quote_quantity),
        "cummulativeQuoteQty": text(state.executed_quote),
        **_kind(state),
        "selfTradePreventionMode": state.prevention,
    }


def _extras(state: OrderState, unit: Unit) -> Document:
    """The fields that only some orders have."""
    conditional: list[tuple[bool, str, Any]] = [
        (state.iceberg_quantity > 0, "icebergQty", text(state.iceberg_quantity)),
        (state.type in CONTINGENT, "stopPrice", text(state.stop_price)),
        (state.strategy_id is not None, "strategyId", state.strategy_id),
        (state.strategy_type is not None, "strategyType", state.strategy_type),
        (state.trailing_delta is not None, "trailingDelta", state.trailing_delta),
        (state.trailing_delta is not None, "trailingTime", _stamp_or_never(state.trailing_ns, unit)),
        (state.prevented_match_id is not None, "preventedMatchId", state.prevented_match_id),
        (state.prevented_match_id is not None, "preventedQuantity", text(state.prevented)),
        (state.expiry_reason is not None, "expiryReason", state.expiry_reason),
    ]
    return {name: value for shown, name, value in conditional if shown}


# --- accounts -----------------------------------------------------------------------------------


def fill(row: Fill, unit: Unit) -> Document:
    """A trade of an account."""
    return {
        "symbol": row.symbol,
        "id": row.trade_id,
        "orderId": row.order_id,
        "orderListId": NO_LIST,
        "price": text(row.price),
        "qty": text(row.quantity),
        "quoteQty": text(row.quote),
        "commission": text(row.commission),
        "commissionAsset": row.commission_asset,
        "time": stamp(row.ns, unit),
        "isBuyer": row.is_buyer,
        "isMaker": row.is_maker,
        "isBestMatch": True,
    }


def prevented_match(row: PreventedMatch, unit: Unit) -> Document:
    taken = {"takerPreventedQuantity": row.taker_quantity, "makerPreventedQuantity": row.maker_quantity}
    return {
        "symbol": row.symbol,
        "preventedMatchId": row.id,
        "takerOrderId": row.taker_order_id,
        "makerSymbol": row.symbol,
        "makerOrderId": row.maker_order_id,
        "tradeGroupId": row.id,
        "selfTradePreventionMode": row.mode,
        "price": text(row.price),
        **{name: text(quantity) for name, quantity in taken.items() if quantity is not None},
        "transactTime": stamp(row.ns, unit),
    }


def balances(held: Mapping[str, tuple[int, int]], *, zeros: bool) -> list[Document]:
    rows = ((asset, free, locked) for asset, (free, locked) in sorted(held.items()))
    return [
        {"asset": asset, "free": text(free), "locked": text(locked)}
        for asset, free, locked in rows
        if zeros or free or locked
    ]


# --- user data ----------------------------------------------------------------------------------


def report(event: Reported, now_ns: int, unit: Unit) -> Document:
    """An execution report."""
    state = event.order
    body: Document = {
        "e": "executionReport",
        "E": stamp(now_ns, unit),
        "s": state.symbol,
        "c": event.client_order_id,
        "S": state.side,
        "o": state.type,
        "f": state.time_in_force,
        "q": text(state.quantity),
        "p": text(state.price),
        "P": text(state.stop_price),
        "F": text(state.iceberg_quantity),
        "g": NO_LIST,
        "C": event.original_client_order_id,
        "x": event.execution,
        "X": state.status,
        "r": event.reject_reason,
        "i": state.id,
        "l": text(event.last_quantity),
        "z": text(state.executed),
        "L": text(event.last_price),
        "n": text(event.commission) if event.commission_asset else "0",
        "N": event.commission_asset,
        "T": stamp(event.ns, unit),
        "t": event.trade_id,
        "I": event.execution_id,
        "w": event.on_book,
        "m": event.is_maker,
        "M": event.execution == "TRADE",
        "O": stamp(state.created_ns, unit),
        "Z": text(state.executed_quote),
        "Y": text(event.last_quote),
        "Q": text(state.quote_quantity),
        "V": state.prevention,
    }
    return body | dict(_conditional(event, unit))


def _conditional(event: Reported, unit: Unit) -> Iterable[tuple[str, Any]]:
    state = event.order
    if state.working_ns is not None:
        yield "W", stamp(state.working_ns, unit)
    if state.trailing_delta is not None:
        yield "d", state.trailing_delta
        yield "D", _stamp_or_never(state.trailing_ns, unit)
    if state.strategy_id is not None:
        yield "j", state.strategy_id
    if state.strategy_type is not None:
        yield "J", state.strategy_type
    if event.prevented_match_id is not None:
        yield from _prevention(event)
    if state.expiry_reason is not None:
        yield "eR", state.expiry_reason


def _prevention(event: Reported) -> Iterable[tuple[str, Any]]:
    yield "v", event.prevented_match_id
    yield "A", text(event.order.prevented)
    yield "B", text(event.last_prevented)
    yield "u", event.prevented_match_id
    if event.counter_order_id is not None:
        yield "U", event.counter_order_id
    yield "Cs", event.order.symbol
    yield "pl", text(event.last_prevented)
    yield "pL", text(event.prevented_price)


def position(event: BalancesChanged, now_ns: int, unit: Unit) -> Document:
    """What an account holds of the assets that changed."""
    rows = [
        {"a": asset, "f": text(free), "l": text(locked)} for asset, (free, locked) in event.balances.items()
    ]
    return {"e": "outboundAccountPosition", "E": stamp(now_ns, unit), "u": stamp(event.ns, unit), "B": rows}


def deposit(event: Deposited, now_ns: int, unit: Unit) -> Document:
    body = {"e": "balanceUpdate", "E": stamp(now_ns, unit), "a": event.asset, "d": text(event.amount)}
    return {**body, "T": stamp(event.ns, unit)}


def ended(now_ns: int, unit: Unit) -> Document:
    """The end of a subscription to user data."""
    return {"e": "eventStreamTerminated", "E": stamp(now_ns, unit)}
