"""What an event of each type should have. Nothing is refused for lacking it: the faults are kept beside it.

The table has a version, which a run's meta names, so that a later one does not judge older runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from tracedesk.backtest.model import HAS_ERROR, HAS_WARNING, RAW, EventType
from tracedesk.backtest.moments import number
from tracedesk.primitives import json
from tracedesk.primitives.ids import is_uuid

VERSION: Final = 1
LARGEST_BODY: Final = 1_000_000
"""Bytes of properties that an event should not exceed."""

Gravity = Literal["Error", "Warning"]
Kind = Literal["id", "text", "number"]
Profile = Literal["", "guid"]
"""With "guid", a run promises that its order and position ids are GUIDs; else any text or number is an id."""

Fault = dict[str, str]

REQUIRED: Final[Mapping[EventType, Mapping[str, tuple[Gravity, Kind]]]] = {
    EventType.TradeExecution: {
        "OrderId": ("Error", "id"),
        "Quantity": ("Warning", "number"),
        "Price": ("Warning", "number"),
    },
    EventType.OrderRejection: {"OrderId": ("Error", "id"), "RejectionReason": ("Error", "text")},
    EventType.IndicatorCalculation: {"IndicatorName": ("Error", "text"), "Value": ("Error", "number")},
    EventType.PositionUpdate: {"SecuritySymbol": ("Error", "text")},
    EventType.StateChange: {},
    EventType.MarketDataEvent: {},
    EventType.RiskEvent: {"RiskType": ("Error", "text")},
    EventType.OrderPlaced: {"OrderId": ("Error", "id"), "Quantity": ("Warning", "number")},
    EventType.OrderCancelled: {"OrderId": ("Error", "id")},
}

MISSING: Final = "Missing required field"
NOT_A_NUMBER: Final = "Not a number"
NOT_A_GUID: Final = "Invalid GUID format"
MALFORMED: Final[Fault] = {"Field": "Properties", "Error": "Malformed JSON", "Severity": "Error"}
TOO_LARGE: Final[Fault] = {"Field": "Properties", "Error": "Larger than 1 MB", "Severity": "Warning"}
OUTSIDE: Final[Fault] = {"Field": "Timestamp", "Error": "Outside the run's time range", "Severity": "Warning"}

_GUIDS: Final = ("OrderId", "PositionId")


def fault(field: str, error: str, gravity: Gravity) -> Fault:
    """One entry of an event's `validationErrors`."""
    return {"Field": f"Properties.{field}", "Error": error, "Severity": gravity}


def faults_of(kind: EventType, properties: Mapping[str, Any], profile: Profile = "") -> list[Fault]:
    """What is wrong with one event's properties."""
    if tuple(properties) == (RAW,):
        return [MALFORMED]
    found: list[Fault] = []
    for name, (gravity, wanted) in REQUIRED[kind].items():
        error = _error(properties.get(name), wanted)
        if error:
            found.append(fault(name, error, gravity))
    if profile == "guid":
        found += [
            fault(n, NOT_A_GUID, "Error") for n in _GUIDS if n in properties and _is_no_guid(properties[n])
        ]
    return found


def _error(value: Any, wanted: Kind) -> str | None:
    if value is None or value == "":
        return MISSING
    if wanted == "number" and type(value) not in _NUMERIC and number(value) is None:
        return NOT_A_NUMBER
    return None


def _is_no_guid(value: Any) -> bool:
    """A missing id is another fault."""
    return value is not None and value != "" and not (isinstance(value, str) and is_uuid(value))


def may_be_faulty(kind: EventType, columns: Mapping[str, Sequence[Any]], profile: Profile = "") -> bool:
    """Whether any event with these columns needs a look; a quick no for those that are as they should be."""
    if RAW in columns:
        return True
    for name, (_, wanted) in REQUIRED[kind].items():
        column = columns.get(name)
        if column is None or _needs_a_look(column, wanted):
            return True
    return profile == "guid" and any(name in columns for name in _GUIDS)


def _needs_a_look(column: Sequence[Any], wanted: Kind) -> bool:
    kinds = set(map(type, column))
    if wanted == "number":
        return not kinds <= _NUMERIC
    return kinds != {str} or "" in column


_NUMERIC: Final = frozenset((int, float, Decimal))


@dataclass(frozen=True, slots=True)
class Judgement:
    """An event's faults as its file keeps them."""

    document: bytes
    bits: int

    @classmethod
    def of(cls, faults: Sequence[Mapping[str, str]]) -> Judgement:
        grave = {entry["Severity"] for entry in faults}
        bits = (HAS_ERROR if "Error" in grave else 0) | (HAS_WARNING if "Warning" in grave else 0)
        return cls(json.dumps(list(faults)), bits)
