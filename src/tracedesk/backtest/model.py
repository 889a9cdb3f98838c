"""What a recorded run holds: events of nine types, each with a severity and a category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final, cast

from tracedesk.primitives import json


class EventType(IntEnum):
    """The seed's seven types, and the two without which an order's life has no beginning and no end.

    The numbers are what a run's file holds; they are never given anew.
    """

    TradeExecution = 1
    OrderRejection = 2
    IndicatorCalculation = 3
    PositionUpdate = 4
    StateChange = 5
    MarketDataEvent = 6
    RiskEvent = 7
    OrderPlaced = 8
    OrderCancelled = 9


class Severity(IntEnum):
    """How grave an event is."""

    Error = 1
    Warning = 2
    Info = 3
    Debug = 4


class Category(IntEnum):
    """What an event is about: five categories, and three finer ones that belong to one of them each."""

    Execution = 1
    MarketData = 2
    Indicators = 3
    Risk = 4
    Performance = 5
    Data = 6
    Analysis = 7
    Portfolio = 8

    @property
    def top(self) -> Category:
        """The one of the five that it is or belongs to, which is what answers show."""
        return _TOP.get(self, self)

    @property
    def members(self) -> tuple[Category, ...]:
        """Itself and what belongs to it: what a filter by this category matches."""
        return (self, *(finer for finer, top in _TOP.items() if top is self))


_TOP: Final = {
    Category.Data: Category.MarketData,
    Category.Analysis: Category.Indicators,
    Category.Portfolio: Category.Performance,
}

TYPES: Final[Mapping[str, EventType]] = {kind.name: kind for kind in EventType}
SEVERITIES: Final[Mapping[str, Severity]] = {severity.name: severity for severity in Severity}
CATEGORIES: Final[Mapping[str, Category]] = {category.name: category for category in Category}

DEFAULT_SEVERITY: Final[Mapping[EventType, Severity]] = {
    EventType.TradeExecution: Severity.Info,
    EventType.OrderRejection: Severity.Warning,
    EventType.IndicatorCalculation: Severity.Debug,
    EventType.PositionUpdate: Severity.Info,
    EventType.StateChange: Severity.Info,
    EventType.MarketDataEvent: Severity.Debug,
    EventType.RiskEvent: Severity.Warning,
    EventType.OrderPlaced: Severity.Info,
    EventType.OrderCancelled: Severity.Info,
}
DEFAULT_CATEGORY: Final[Mapping[EventType, Category]] = {
    EventType.TradeExecution: Category.Execution,
    EventType.OrderRejection: Category.Execution,
    EventType.IndicatorCalculation: Category.Indicators,
    EventType.PositionUpdate: Category.Performance,
    EventType.StateChange: Category.Performance,
    EventType.MarketDataEvent: Category.MarketData,
    EventType.RiskEvent: Category.Risk,
    EventType.OrderPlaced: Category.Execution,
    EventType.OrderCancelled: Category.Execution,
}

STREAM_KIND: Final = "backtest"
"""The kind of a run's stream in its journal."""

SYMBOL: Final = "SecuritySymbol"
ORDER: Final = "OrderId"
POSITION: Final = "PositionId"
INDICATOR: Final = "IndicatorName"
RAW: Final = "_raw"
"""The one property of an event whose own properties were not JSON: their text."""

HAS_WARNING: Final = 1
HAS_ERROR: Final = 2
"""Bits of a fact's `errors`: whether any of the event's validation errors has that severity."""


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded event as queries return it; ids are derived from the run and the seq."""

    seq: int
    type: EventType
    time_ns: int
    severity: Severity
    category: Category
    body: bytes
    """The properties, as the compact JSON they were recorded with."""
    parent: int | None = None
    faults: bytes | None = None
    """The validation errors as a JSON list, or None when there are none."""
    guid: bytes | None = None
    """The sixteen bytes of the id that an imported event brought; else the id is derived."""

    @property
    def properties(self) -> Mapping[str, Any]:
        """The properties, parsed exactly."""
        return json.loads(self.body)


def canonical(value: Any) -> str | None:
    """An id or symbol as the text it is compared by: 42 and "42" are one. None for what names nothing."""
    if type(value) is str:
        return value or None
    if value is None or isinstance(value, (bool, dict, list, tuple)):
        return None
    return json.dumps(exactly(value)).decode()


def exactly(value: Any) -> Any:
    """The value as reading its own JSON gives it: a binary float becomes the decimal it is written as."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, dict):
        return {name: exactly(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [exactly(item) for item in cast("list[Any]", value)]
    return value
