"""Which orders are open: the one fold over order events, for checkpoints while recording and for snapshots.

An order opens when it is placed and ends when it is filled, cancelled or rejected. A StateChange with
`StateType` "Order" says the same by its `OrderStatus`; one with "OrderQuantity" has what the order asks for
now as its `StateAfter`. An order placed again is amended. One placed without a quantity ends at its first
fill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final

from tracedesk.backtest.model import EventType
from tracedesk.backtest.moments import number
from tracedesk.primitives import json, money

ORDER_TYPES: Final = frozenset(
    (
        EventType.OrderPlaced,
        EventType.TradeExecution,
        EventType.OrderCancelled,
        EventType.OrderRejection,
        EventType.StateChange,
    )
)
"""The types that can open, fill or end an order."""

_OPENING: Final = frozenset(
    ("placed", "new", "submitted", "accepted", "open", "pending", "active", "working")
)
_ENDING: Final = frozenset(
    ("filled", "executed", "completed", "done", "cancelled", "canceled", "expired", "rejected", "margin")
)
_WIDE: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


@dataclass(slots=True)
class OpenOrder:
    """An order that waits: the event that placed it, how much it asks for and how much it has."""

    placed: int
    quantity: Decimal | None
    filled: Decimal = Decimal(0)

    @property
    def remaining(self) -> Decimal | None:
        """What is still to be filled; None when the order named no quantity."""
        return None if self.quantity is None else _WIDE.subtract(self.quantity, self.filled)


@dataclass(slots=True)
class OpenOrders:
    """The open orders by their text id, in the order they were placed."""

    by_ref: dict[int, OpenOrder] = field(default_factory=dict[int, OpenOrder])

    def apply(self, kind: EventType | int, ref: int | None, seq: int, properties: Mapping[str, Any]) -> bool:
        """Take one event into account, in (time, seq) order; whether it was about an order at all."""
        if ref is None:
            return False
        if kind == EventType.TradeExecution:
            self._fill(ref, properties)
        elif kind == EventType.OrderPlaced:
            self._place(ref, seq, properties)
        elif kind in (EventType.OrderCancelled, EventType.OrderRejection):
            self.by_ref.pop(ref, None)
        else:
            return kind == EventType.StateChange and self._change(ref, seq, properties)
        return True

    def dumped(self) -> bytes:
        """The open orders as a checkpoint keeps them."""
        return json.dumps(
            [
                [
                    ref,
                    o.placed,
                    None if o.quantity is None else money.to_text(o.quantity),
                    money.to_text(o.filled),
                ]
                for ref, o in self.by_ref.items()
            ]
        )

    @classmethod
    def restored(cls, dumped: bytes) -> OpenOrders:
        """The open orders of a checkpoint."""
        return cls(
            {
                ref: OpenOrder(placed, None if quantity is None else Decimal(quantity), Decimal(filled))
                for ref, placed, quantity, filled in json.loads(dumped)
            }
        )

    def _place(self, ref: int, seq: int, properties: Mapping[str, Any]) -> None:
        """Placing an open order again amends it: what it has been filled with stays."""
        known = self.by_ref.pop(ref, None)
        order = OpenOrder(seq, _size(properties), known.filled if known else Decimal(0))
        if order.quantity is None or order.filled < order.quantity:
            self.by_ref[ref] = order

    def _fill(self, ref: int, properties: Mapping[str, Any]) -> None:
        order = self.by_ref.get(ref)
        if order is None:
            return
        size = _size(properties)
        if size is not None:
            order.filled = _WIDE.add(order.filled, size)
        if size is None or order.quantity is None or order.filled >= order.quantity:
            del self.by_ref[ref]

    def _change(self, ref: int, seq: int, properties: Mapping[str, Any]) -> bool:
        kind, status = properties.get("StateType"), properties.get("OrderStatus")
        if kind == "OrderQuantity":
            return self._resize(ref, _number(properties.get("StateAfter")))
        if kind != "Order" or not isinstance(status, str):
            return False
        told = status.lower()
        if told in _ENDING:
            self.by_ref.pop(ref, None)
        elif told in _OPENING and ref not in self.by_ref:
            self._place(ref, seq, properties)
        return True

    def _resize(self, ref: int, quantity: Decimal | None) -> bool:
        """Let an open order ask for another quantity; what it has been filled with stays."""
        order = self.by_ref.get(ref)
        if order is None or quantity is None:
            return False
        order.quantity = quantity
        if order.filled >= quantity:
            del self.by_ref[ref]
        return True


def _size(properties: Mapping[str, Any]) -> Decimal | None:
    """The event's quantity without its sign; None when it has none that is a number."""
    return _number(properties.get("Quantity"))


def _number(value: Any) -> Decimal | None:
    if type(value) is int:
        value = Decimal(value)
    found = value if type(value) is Decimal and value.is_finite() else number(value)
    return None if found is None else found.copy_abs()
