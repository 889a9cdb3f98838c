"""What a venue says of an order, and how much of it is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tracedesk.exchange.units import units
from tracedesk.foreign import quoted

SENT: Final = "SENT"
"""Written down and perhaps sent: nothing was heard of it yet."""
UNKNOWN: Final = "UNKNOWN"
"""Sent, and no answer tells what became of it."""
REFUSED: Final = "REFUSED"
"""The venue did not take it, or it never left this machine."""
NEVER_ARRIVED: Final = "NEVER_ARRIVED"
"""The venue does not have it, long after it could still have come."""

UNRESOLVED: Final = (SENT, UNKNOWN)
OPEN: Final = ("NEW", "PENDING_NEW", "PARTIALLY_FILLED", "PENDING_CANCEL")
FINAL: Final = ("FILLED", "CANCELED", "REJECTED", "EXPIRED", "EXPIRED_IN_MATCH")
ABSENT: Final = (REFUSED, NEVER_ARRIVED)
"""Nothing of it is at the venue; hearing of it later is a surprise."""


class Implausible(ValueError):
    """An answer that cannot be true of the order."""


@dataclass(frozen=True, slots=True)
class State:
    """Where an order stands at its venue."""

    status: str
    order_id: int | None = None
    executed: int = 0
    """In units of the base asset."""
    spent: int = 0
    """In units of the quote asset."""

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    def follows(self, before: State) -> bool:
        """Whether it is news: later than what is known, for answers may overtake each other.

        What was seen at the venue stays seen, also where the venue says afterwards that it never was.
        """
        if before.status in FINAL or self == before:
            return False
        if before.status in OPEN:
            return self.status in OPEN + FINAL and self.executed >= before.executed
        return before.status not in ABSENT or self.status not in UNRESOLVED

    def denies(self, before: State) -> bool:
        """Whether it says that there never was what was seen resting."""
        return self.status == NEVER_ARRIVED and before.is_open


CONTRADICTION: Final = "contradiction"
"""What the ledger calls the entry of a denial."""


def kind_of(before: State, now: State) -> str:
    """What the ledger calls the entry of a change."""
    if now.status == UNKNOWN:
        return "unknown"
    if before.status in ABSENT:
        return "surprise"
    return "outcome" if before.status in UNRESOLVED else "report"


def heard(told: Any, symbol: str, client_order_id: str, quantity: int) -> State:
    """The state that an answer of `order` tells; raises `Implausible` for what cannot be so."""
    if not isinstance(told, Mapping):
        raise Implausible("it is no object")
    answer = cast("Mapping[str, Any]", told)
    try:
        named = {answer.get("clientOrderId"), answer.get("origClientOrderId")}
        state = State(
            str(answer["status"]),
            int(answer["orderId"]),
            units(answer["executedQty"]),
            units(answer["cummulativeQuoteQty"]),
        )
        asked = units(answer["origQty"])
    except (KeyError, TypeError, ValueError) as problem:
        raise Implausible(f"it cannot be read ({type(problem).__name__})") from None
    if client_order_id not in named or answer.get("symbol") != symbol:
        raise Implausible("it speaks of another order")
    _check(state, asked, quantity)
    return state


def _check(state: State, asked: int, quantity: int) -> None:
    if state.status not in OPEN + FINAL:
        raise Implausible(f"{quoted(state.status[:80])} is no status of an order")
    # An order can be amended to a smaller quantity, by other means than this desk.
    if not 0 < asked <= quantity or not 0 <= state.executed <= asked:
        raise Implausible("its quantities are not those of the order")
    if (state.status == "FILLED") != (state.executed == asked):
        raise Implausible(f"it is {state.status} with another quantity than was ordered")
    if state.status == "NEW" and state.executed:
        raise Implausible("it is new, and has traded")


_STREAMED: Final = {
    "s": "symbol",
    "S": "side",
    "o": "type",
    "X": "status",
    "i": "orderId",
    "q": "origQty",
    "z": "executedQty",
    "Z": "cummulativeQuoteQty",
    "c": "clientOrderId",
    "C": "origClientOrderId",
}


def of_stream(event: Mapping[str, Any]) -> dict[str, Any]:
    """An `executionReport` with the names that the order endpoints use; other answers as they are."""
    if event.get("e") != "executionReport":
        return dict(event)
    return {name: event[key] for key, name in _STREAMED.items() if key in event}


def client_ids(told: Mapping[str, Any]) -> list[str]:
    """The ids by which an order may be ours: a cancelled one has its own under `origClientOrderId`."""
    named = (told.get("origClientOrderId"), told.get("clientOrderId"))
    return [each for each in named if isinstance(each, str) and each.startswith("td-")]
