"""An order as it is asked for: the fields of the call in exact units, each where its type needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, cast, get_args

from tracedesk.errors import ToolError
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.units import ONE, units

Side = Literal["BUY", "SELL"]
OrderType = Literal[
    "LIMIT", "MARKET", "STOP_LOSS", "STOP_LOSS_LIMIT", "TAKE_PROFIT", "TAKE_PROFIT_LIMIT", "LIMIT_MAKER"
]
TimeInForce = Literal["GTC", "IOC", "FOK"]

_PRICED: Final = ("LIMIT", "LIMIT_MAKER", "STOP_LOSS_LIMIT", "TAKE_PROFIT_LIMIT")
_STOPPED: Final = ("STOP_LOSS", "STOP_LOSS_LIMIT", "TAKE_PROFIT", "TAKE_PROFIT_LIMIT")
_TIMED: Final = ("LIMIT", "STOP_LOSS_LIMIT", "TAKE_PROFIT_LIMIT")
_MOST: Final = 2**63 - 1
_LONGEST_NAME: Final = 50


@dataclass(frozen=True, slots=True)
class Ticket:
    """What is to be traded. Two tickets are equal when the venue could not tell their orders apart."""

    symbol: str
    side: Side
    order_type: OrderType
    quantity: int
    price: int | None = None
    time_in_force: TimeInForce | None = None
    stop_price: int | None = None

    @classmethod
    def of(cls, order: Mapping[str, Any]) -> Ticket:
        """The ticket of a call's fields; raises INVALID_PARAMETER naming the field that does not fit."""
        kind = cast("OrderType", _choice(order, "order_type", get_args(OrderType)))
        ticket = cls(
            symbol=_symbol(order),
            side=cast("Side", _choice(order, "side", get_args(Side))),
            order_type=kind,
            quantity=_number(order, "quantity"),
            price=_needed(order, "price", kind, _PRICED),
            time_in_force=_time_in_force(order, kind),
            stop_price=_needed(order, "stop_price", kind, _STOPPED),
        )
        if max(ticket.price or 0, ticket.stop_price or 0) * ticket.quantity // ONE > _MOST:
            raise refused("quantity", "price times quantity must stay below 92 billion.")
        return ticket

    @property
    def sign(self) -> int:
        return 1 if self.side == "BUY" else -1

    @property
    def is_market(self) -> bool:
        """Whether it trades at once, at whatever price there is."""
        return self.order_type == "MARKET"

    @property
    def is_stop(self) -> bool:
        return self.order_type in _STOPPED

    def difference(self, other: Ticket) -> str | None:
        """The first field in which the other differs."""
        names = (field.name for field in fields(self))
        return next((name for name in names if getattr(self, name) != getattr(other, name)), None)

    def shown(self, instrument: Instrument) -> dict[str, str]:
        """The call's fields with the places that the instrument has."""
        found = {"symbol": self.symbol, "side": self.side, "order_type": self.order_type}
        found["quantity"] = instrument.quantity_text(self.quantity)
        if self.price is not None:
            found["price"] = instrument.price_text(self.price)
        if self.time_in_force is not None:
            found["time_in_force"] = self.time_in_force
        if self.stop_price is not None:
            found["stop_price"] = instrument.price_text(self.stop_price)
        return found

    def wire(self, instrument: Instrument) -> dict[str, str]:
        """The parameters that the venue is sent, as it spells them."""
        return {_WIRE[name]: text for name, text in self.shown(instrument).items()}


_WIRE: Final = {
    "symbol": "symbol",
    "side": "side",
    "order_type": "type",
    "quantity": "quantity",
    "price": "price",
    "time_in_force": "timeInForce",
    "stop_price": "stopPrice",
}


def refused(field: str, problem: str) -> ToolError:
    """INVALID_PARAMETER about one field."""
    return ToolError("INVALID_PARAMETER", f"{field}: {problem}", {"field": field})


def _symbol(order: Mapping[str, Any]) -> str:
    symbol = order.get("symbol")
    return symbol_of(symbol if isinstance(symbol, str) else "")


def symbol_of(given: str) -> str:
    """A market's name as venues write it; only the letters of ASCII have an upper case here."""
    name = "".join(letter.upper() if letter.isascii() else letter for letter in given.strip())
    if not name or len(name) > _LONGEST_NAME or not all(c.isalnum() or c in "_-." for c in name):
        raise refused("symbol", "name the market, such as BTCUSDT.")
    return name


def _choice(order: Mapping[str, Any], field: str, choices: tuple[str, ...]) -> str:
    value = order.get(field)
    if isinstance(value, str) and value.upper() in choices:
        return value.upper()
    raise refused(field, f"use one of {', '.join(choices)}.")


def _number(order: Mapping[str, Any], field: str) -> int:
    given = order.get(field)
    if given is None:
        raise refused(field, "it is required; give decimal text such as '0.5'.")
    try:
        value = units(given if isinstance(given, str) else str(given))
    except ValueError as problem:
        raise refused(field, f"{problem}.") from None
    if not 0 < value <= _MOST:
        raise refused(field, "it must be above 0 and below 92 billion.")
    return value


def _needed(order: Mapping[str, Any], field: str, kind: str, kinds: tuple[str, ...]) -> int | None:
    if kind in kinds:
        return _number(order, field)
    if order.get(field) is not None:
        raise refused(field, f"a {kind} order has none; leave it out, or use one of {', '.join(kinds)}.")
    return None


def _time_in_force(order: Mapping[str, Any], kind: str) -> TimeInForce | None:
    if order.get("time_in_force") is None:
        return "GTC" if kind in _TIMED else None
    if kind not in _TIMED:
        raise refused("time_in_force", f"a {kind} order has none; leave it out.")
    return cast("TimeInForce", _choice(order, "time_in_force", get_args(TimeInForce)))
