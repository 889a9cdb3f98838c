"""Whether a request is complete and consistent, before any filter or balance is looked at."""

from __future__ import annotations

import re
from typing import Final

from tracedesk.exchange.units import notional
from tracedesk.exchange.venue.listings import Listing
from tracedesk.exchange.venue.orders import CONTINGENT, ORDER_TYPES, NewOrder, VenueRefused

MOST: Final = 2**62
"""The largest number of units there is; sums must stay within the file's 64-bit numbers."""
CLIENT_ORDER_ID: Final = re.compile(r"[a-zA-Z0-9\-_]{1,36}")
_LEGAL_ID: Final = "^[a-zA-Z0-9-_]{1,36}$"

_PRICED: Final = frozenset({"LIMIT", "LIMIT_MAKER", "STOP_LOSS_LIMIT", "TAKE_PROFIT_LIMIT"})
_TIMED: Final = frozenset({"LIMIT", "STOP_LOSS_LIMIT", "TAKE_PROFIT_LIMIT"})
_LEAST_STRATEGY_TYPE: Final = 1_000_000
_RESTRICTED: Final = {"ONLY_NEW": "NEW", "ONLY_PARTIALLY_FILLED": "PARTIALLY_FILLED"}
_UNSUPPORTED: Final = {
    "MARKET": "Market orders are not supported for this symbol.",
    "STOP_LOSS": "Stop loss orders are not supported for this symbol.",
    "STOP_LOSS_LIMIT": "Stop loss limit orders are not supported for this symbol.",
    "TAKE_PROFIT": "Take profit orders are not supported for this symbol.",
    "TAKE_PROFIT_LIMIT": "Take profit limit orders are not supported for this symbol.",
}


def check_order(order: NewOrder, listing: Listing) -> None:
    """Refuse an order that lacks a parameter, has one too many, or asks for what is not allowed."""
    _check_words(order)
    _check_presence(order)
    _check_values(order)
    _check_allowed(order, listing)


def check_client_order_id(value: str | None, parameter: str = "newClientOrderId") -> None:
    """Refuse a client order id with other characters than the venue takes."""
    if value is not None and not CLIENT_ORDER_ID.fullmatch(value):
        text = f"Illegal characters found in parameter '{parameter}'; legal range is '{_LEGAL_ID}'."
        raise VenueRefused(-1100, text)


def check_either(order_id: int | None, client_order_id: str | None) -> None:
    """Refuse a request that names no order."""
    if order_id is None and client_order_id is None:
        raise _either("origClientOrderId", "orderId")


def check_both(found: str, client_order_id: str | None) -> None:
    """Refuse a request whose number and client order id name different orders."""
    if client_order_id is not None and found != client_order_id:
        raise VenueRefused(-2039, "Client order ID is not correct for this order ID.")


def check_restriction(status: str, restriction: str | None) -> None:
    """Refuse to cancel an order that is not in the status the request insists on."""
    if restriction is None:
        return
    if restriction not in _RESTRICTED:
        raise VenueRefused(-1145, "Invalid cancelRestrictions")
    if status != _RESTRICTED[restriction]:
        raise VenueRefused(-2011, "Order was not canceled due to cancel restrictions.")


def _check_words(order: NewOrder) -> None:
    if order.type not in ORDER_TYPES:
        raise VenueRefused(-1116, "Invalid orderType.")
    if order.side not in ("BUY", "SELL"):
        raise VenueRefused(-1117, "Invalid side.")
    if order.time_in_force not in (None, "GTC", "IOC", "FOK"):
        raise VenueRefused(-1115, "Invalid timeInForce.")
    check_client_order_id(order.client_order_id)


def _check_presence(order: NewOrder) -> None:
    _expect("timeInForce", order.time_in_force, order.type in _TIMED)
    _expect_quantity(order)
    _expect("price", order.price, order.type in _PRICED)
    if order.type in CONTINGENT:
        if order.stop_price is None and order.trailing_delta is None:
            raise _either("stopPrice", "trailingDelta")
    else:
        _expect("stopPrice", order.stop_price, False)
        _expect("trailingDelta", order.trailing_delta, False)
    if order.type not in _PRICED:
        _expect("icebergQty", order.iceberg_quantity, False)
    elif order.iceberg_quantity is not None and order.time_in_force not in (None, "GTC"):
        raise VenueRefused(-1014, "Unsupported order combination.")


def _expect(parameter: str, value: object, wanted: bool) -> None:
    if wanted and value is None:
        raise VenueRefused(
            -1102, f"Mandatory parameter '{parameter}' was not sent, was empty/null, or malformed."
        )
    if not wanted and value is not None:
        raise VenueRefused(-1106, f"Parameter '{parameter}' sent when not required.")


def _expect_quantity(order: NewOrder) -> None:
    if order.type != "MARKET":
        _expect("quantity", order.quantity, True)
        _expect("quoteOrderQty", order.quote_quantity, False)
    elif order.quantity is None and order.quote_quantity is None:
        raise _either("quantity", "quoteOrderQty")
    elif order.quantity is not None and order.quote_quantity is not None:
        raise VenueRefused(-1128, "Combination of optional parameters invalid.")


def _either(one: str, other: str) -> VenueRefused:
    return VenueRefused(-1102, f"Param '{one}' or '{other}' must be sent, but both were empty/null!")


def _check_values(order: NewOrder) -> None:
    values = {
        "quantity": order.quantity,
        "quoteOrderQty": order.quote_quantity,
        "price": order.price,
        "stopPrice": order.stop_price,
        "trailingDelta": order.trailing_delta,
        "icebergQty": order.iceberg_quantity,
    }
    for parameter, value in values.items():
        if value is not None and value <= 0:
            raise VenueRefused(-1013, f"Invalid {parameter}.")
        if value is not None and value > MOST:
            raise VenueRefused(-1108, f"Parameter '{parameter}' overflowed.")
    if order.price and order.quantity and notional(order.price, order.quantity) == 0:
        raise VenueRefused(-1013, "Price * QTY is zero or less.")
    if order.iceberg_quantity and order.quantity and order.iceberg_quantity > order.quantity:
        raise VenueRefused(-1013, "IcebergQty exceeds QTY.")
    if order.strategy_type is not None and order.strategy_type < _LEAST_STRATEGY_TYPE:
        raise VenueRefused(-1134, f"strategyType was less than {_LEAST_STRATEGY_TYPE}.")


def _check_allowed(order: NewOrder, listing: Listing) -> None:
    if order.type not in listing.instrument.order_types:
        raise VenueRefused(-1013, _UNSUPPORTED.get(order.type, "Unsupported order combination"))
    flags = (
        (order.iceberg_quantity, "icebergAllowed", "Iceberg orders are not supported for this symbol."),
        (
            order.quote_quantity,
            "quoteOrderQtyMarketAllowed",
            "Quote order qty market orders are not support for this symbol.",
        ),
        (
            order.trailing_delta,
            "allowTrailingStop",
            "Trailing stop orders are not supported for this symbol.",
        ),
    )
    for value, flag, text in flags:
        if value is not None and not listing.allows(flag):
            raise VenueRefused(-1013, text)
    if order.prevention is not None and order.prevention not in listing.preventions:
        raise VenueRefused(-1013, "This symbol does not allow the specified self-trade prevention mode.")
