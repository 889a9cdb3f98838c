"""A sink that keeps events in memory, and the rules that every recorded run obeys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Told:
    """One event as an adapter told it."""

    seq: int
    type: str
    time: int
    properties: Mapping[str, Any]
    parent: int | None


@dataclass(slots=True)
class Memory:
    """Numbers events from one, like a recorder."""

    events: list[Told] = field(default_factory=list[Told])

    def emit(
        self, type: str, time: int, properties: Mapping[str, Any], /, *, parent: int | None = None
    ) -> int:
        told = Told(len(self.events) + 1, type, time, dict(properties), parent)
        self.events.append(told)
        return told.seq

    def of(self, *types: str) -> list[Told]:
        return [event for event in self.events if event.type in types]

    def counts(self) -> Counter[str]:
        return Counter(event.type for event in self.events)

    def parent(self, event: Told) -> Told:
        assert event.parent is not None, event
        return self.events[event.parent - 1]

    def replayed(self) -> dict[str, Order]:
        """The orders by their ids, as their events tell them."""
        orders: dict[str, Order] = {}
        for event in self.events:
            id_ = event.properties.get("OrderId")
            if event.type == "OrderPlaced" and id_ in orders:
                orders[id_].amend(event)
            elif event.type == "OrderPlaced":
                orders[str(id_)] = Order(event)
            elif id_ is not None:
                orders[id_].take(event)
        return orders


@dataclass(slots=True)
class Order:
    """An order's life: placed, perhaps amended, then executed, and refused or cancelled at most once."""

    placed: Told
    filled: Any = 0
    ends: list[str] = field(default_factory=list[str])

    def amend(self, event: Told) -> None:
        assert event.parent == self.placed.seq, "an amendment follows from what it amends"
        assert event.properties["ChangeReason"], "an order is placed twice only to be amended"
        self.placed = event

    def take(self, event: Told) -> None:
        assert event.parent == self.placed.seq, "an order's events follow from its placing"
        if event.type == "TradeExecution":
            self.filled += event.properties["Quantity"]
        elif event.type in ("OrderRejection", "OrderCancelled"):
            self.ends.append(event.type)

    @property
    def is_open(self) -> bool:
        asked = self.placed.properties.get("Quantity")
        return not self.ends and not (self.filled and asked is not None and self.filled >= asked)


def obey(events: Memory) -> None:
    """Assert what holds for every recorded run of every engine."""
    for event in events.events:
        assert event.parent is None or event.parent < event.seq
    _causes(events)
    _positions(events)
    for order in events.replayed().values():
        assert len(order.ends) <= 1, order


def _causes(events: Memory) -> None:
    for event in events.of("TradeExecution", "OrderRejection", "OrderCancelled"):
        cause = events.parent(event)
        assert cause.type == "OrderPlaced"
        assert cause.properties["OrderId"] == event.properties["OrderId"]
    for event in events.of("OrderRejection"):
        assert event.properties["RejectionReason"]
        assert event.properties["Message"]
    for event in events.of("IndicatorCalculation"):
        assert events.parent(event).type == "MarketDataEvent"
        assert events.parent(event).properties["SecuritySymbol"] == event.properties["SecuritySymbol"]


def _positions(events: Memory) -> None:
    """Each position is the sum of the executions before it."""
    held: Counter[str] = Counter()
    for event in events.of("TradeExecution", "PositionUpdate"):
        symbol, quantity = event.properties["SecuritySymbol"], event.properties["Quantity"]
        if event.type == "TradeExecution":
            held[symbol] += quantity if event.properties["Direction"] == "Buy" else -quantity
            continue
        assert abs(quantity - held[symbol]) < 1e-6
        if event.properties["Cause"] == "Execution":
            assert events.parent(event).type == "TradeExecution"
