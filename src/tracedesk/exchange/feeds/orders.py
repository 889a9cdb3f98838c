"""An order as REST shows it, read from a report of the account's own events."""

from __future__ import annotations

from typing import Any, Final

OPEN: Final = frozenset({"NEW", "PARTIALLY_FILLED", "PENDING_NEW", "PENDING_CANCEL"})
"""The states of an order that can still trade."""
_NAMES: Final = {
    "s": "symbol",
    "i": "orderId",
    "g": "orderListId",
    "c": "clientOrderId",
    "p": "price",
    "q": "origQty",
    "z": "executedQty",
    "Q": "origQuoteOrderQty",
    "Z": "cummulativeQuoteQty",
    "X": "status",
    "f": "timeInForce",
    "o": "type",
    "S": "side",
    "P": "stopPrice",
    "F": "icebergQty",
    "O": "time",
    "T": "updateTime",
    "w": "isWorking",
    "V": "selfTradePreventionMode",
}


def order_of(report: dict[str, Any]) -> dict[str, Any]:
    """The order of an `executionReport`; raises `ValueError` where a member is missing."""
    missing = _NAMES.keys() - report.keys()
    if missing:
        raise ValueError(f"not an executionReport: without {', '.join(sorted(missing))}")
    order = {name: report[letter] for letter, name in _NAMES.items()}
    # A report of a cancellation has the cancelling request's id in `c`, and the order's own in `C`.
    if report.get("C"):
        order["clientOrderId"] = report["C"]
    if "W" in report:
        order["workingTime"] = report["W"]
    return order
