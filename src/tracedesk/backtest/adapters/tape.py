"""The tape: what every adapter tells of a run, in the properties that the tools ask for.

It gives each event its cause: an indicator and an order come from a bar, an execution, a rejection or a
cancellation from its order, a position from its execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tracedesk.backtest.adapters.values import Number, known


class Sink(Protocol):
    """Where events go: a `Recorder`, or anything else that numbers what it is given."""

    def emit(
        self, type: str, time: int, properties: Mapping[str, Any], /, *, parent: int | None = None
    ) -> int: ...


@runtime_checkable
class Keeper(Sink, Protocol):
    """A sink that is one run, such as a `Recorder`."""

    def claim(self, run: object) -> object:
        """Return the engine's run that is recorded here: the given one, unless another came first."""
        ...

    def mark_incomplete(self, reason: str) -> None:
        """Seal the run as crashed when it is closed, because events are missing."""
        ...


@runtime_checkable
class Branching(Keeper, Protocol):
    """A sink that can begin others."""

    def another(self, label: str, config: Mapping[str, Any]) -> AbstractContextManager[Sink]:
        """Begin a run beside this one: in the same home, of the same engine."""
        ...


@dataclass(frozen=True, slots=True)
class Ticket:
    """An order as it was placed; what an engine does not know stays None."""

    id: str
    symbol: str
    direction: str
    quantity: Number | None
    kind: str
    price: Number | None = None
    stop: Number | None = None
    tag: str | None = None
    """What the strategy wrote on it."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Fill:
    """One execution of an order; the profit is what it realised, if it closed anything."""

    quantity: Number | None
    direction: str
    price: Number | None
    commission: Number | None = None
    profit: Number | None = None
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Holding:
    """A position after an execution, or as a bar's close values it."""

    symbol: str
    quantity: Number | None
    average: Number | None
    unrealized: Number | None
    realized: Number | None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """What the account is worth, and what of that was earned since the start."""

    equity: Number | None
    cash: Number | None
    total: Number | None
    realized: Number | None
    unrealized: Number | None

    def figures(self) -> dict[str, Any]:
        return known(
            {
                "Equity": self.equity,
                "Cash": self.cash,
                "Total": self.total,
                "Realized": self.realized,
                "Unrealized": self.unrealized,
            }
        )


class Tape:
    """Writes one run's events to a sink, and remembers the seqs that later events refer to."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._bars: dict[str, int] = {}
        self._orders: dict[str, tuple[Ticket, int]] = {}
        self._marks: dict[tuple[str, str | None], Holding] = {}
        self._account: Account | None = None
        self.latest: int | None = None
        """The time of the latest event; None before the first."""

    def bar(
        self, time: int, symbol: str, figures: Mapping[str, Any], more: Mapping[str, Any] | None = None
    ) -> int:
        """A candle; what follows from the symbol's market has it as its cause until the next."""
        properties = {"SecuritySymbol": symbol, "DataType": "Candle", **(more or {}), "Data": known(figures)}
        seq = self._bars[symbol] = self._emit("MarketDataEvent", time, properties)
        return seq

    def bar_of(self, symbol: str) -> int | None:
        """The seq of the symbol's latest bar."""
        return self._bars.get(symbol)

    def indicator(
        self,
        time: int,
        symbol: str,
        name: str,
        value: Number | None,
        parameters: Mapping[str, Any],
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """An indicator's value on the symbol's latest bar; one that has no value yet is left out."""
        if value is not None:
            properties = {
                "IndicatorName": name,
                "SecuritySymbol": symbol,
                "Value": value,
                "Parameters": dict(parameters),
                **(more or {}),
            }
            self._emit("IndicatorCalculation", time, properties, self._bars.get(symbol))

    # --- orders ---------------------------------------------------------------------------------

    def placed(self, time: int, ticket: Ticket, cause: int | None = None) -> int:
        """An order that was placed: because of the event given, else of its symbol's latest bar."""
        properties = {
            **_named(ticket),
            "Direction": ticket.direction,
            "Quantity": ticket.quantity,
            "OrderType": ticket.kind,
            "Price": ticket.price,
            "StopPrice": ticket.stop,
            "Tag": ticket.tag,
            **ticket.more,
        }
        parent = self._bars.get(ticket.symbol) if cause is None else cause
        seq = self._emit("OrderPlaced", time, properties, parent)
        self._orders[ticket.id] = (ticket, seq)
        return seq

    def knows(self, order: str) -> bool:
        return order in self._orders

    def seq_of(self, order: str) -> int:
        """The seq of the order's placing."""
        return self._orders[order][1]

    def executed(self, time: int, order: str, fill: Fill) -> int:
        ticket, placed = self._orders[order]
        properties = {
            **_named(ticket),
            "Direction": fill.direction,
            "Quantity": fill.quantity,
            "Price": fill.price,
            "Commission": fill.commission,
            "RealizedPnL": fill.profit,
            **fill.more,
        }
        return self._emit("TradeExecution", time, properties, placed)

    def rejected(
        self, time: int, order: str, reason: str, message: str, more: Mapping[str, Any] | None = None
    ) -> int:
        """An order that was refused: a short reason to group by, and the engine's figures in a message."""
        ticket, placed = self._orders[order]
        properties = {
            **_named(ticket),
            "Direction": ticket.direction,
            "RejectionReason": reason,
            "Message": message,
            "RequestedQuantity": ticket.quantity,
            "RequestedPrice": ticket.price if ticket.price is not None else ticket.stop,
            "Tag": ticket.tag,
            **(more or {}),
        }
        return self._emit("OrderRejection", time, properties, placed)

    def cancelled(self, time: int, order: str, reason: str, more: Mapping[str, Any] | None = None) -> int:
        ticket, placed = self._orders[order]
        return self._emit(
            "OrderCancelled", time, {**_named(ticket), "CancelReason": reason, **(more or {})}, placed
        )

    # --- the account ----------------------------------------------------------------------------

    def position(self, time: int, holding: Holding, cause: int, trade: Number | None = None) -> int:
        """A position that an event changed; `trade` is the net profit of the trade that ended with it.

        Engines that end a trade with each exit report it; else a trade is a round trip from flat to flat.
        """
        return self._position(time, holding, "Execution", cause, trade)

    def marked(self, time: int, holding: Holding) -> None:
        """A position as the latest bar values it; told only when that differs from what was told last."""
        if self._marks.get((holding.symbol, holding.id)) != holding:
            self._position(time, holding, "Mark", self._bars.get(holding.symbol))

    def _position(
        self, time: int, holding: Holding, cause: str, parent: int | None, trade: Number | None = None
    ) -> int:
        self._marks[holding.symbol, holding.id] = holding
        properties = {
            "SecuritySymbol": holding.symbol,
            "PositionId": holding.id,
            "Quantity": holding.quantity,
            "AveragePrice": holding.average,
            "UnrealizedPnL": holding.unrealized,
            "RealizedPnL": holding.realized,
            "TradePnL": trade,
            "Cause": cause,
        }
        return self._emit("PositionUpdate", time, properties, parent)

    def account(self, time: int, account: Account, reason: str, cause: int | None) -> None:
        """The account's profit and loss; told only when it changed."""
        if account == self._account:
            return
        before, self._account = self._account, account
        properties = {
            "StateType": "PnL",
            "StateBefore": None
            if before is None
            else known({"Equity": before.equity, "Total": before.total}),
            "StateAfter": account.figures(),
            "ChangeReason": reason,
        }
        self._emit("StateChange", time, properties, cause)

    def order_changed(
        self,
        time: int,
        order: str,
        before: Number | None,
        after: Number | None,
        reason: str,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """An open order whose quantity, or another of its terms, changed or was to change."""
        ticket, placed = self._orders[order]
        properties = {
            "StateType": "OrderQuantity",
            **_named(ticket),
            "StateBefore": before,
            "StateAfter": after,
            "ChangeReason": reason,
            **(more or {}),
        }
        self._emit("StateChange", time, properties, placed)

    def risk(
        self, time: int, kind: str, threshold: Number, value: Number | None, action: str, cause: int | None
    ) -> int:
        properties = {"RiskType": kind, "Threshold": threshold, "CurrentValue": value, "Action": action}
        return self._emit("RiskEvent", time, properties, cause)

    # --- the recording --------------------------------------------------------------------------

    def copy(self, kind: str, time: int, properties: Mapping[str, Any], parent: int | None) -> int:
        """An event as another tape wrote it."""
        return self._emit(kind, time, properties, parent)

    def setting(self, time: int, kind: str, after: Mapping[str, Any], reason: str) -> None:
        """A fact about the whole run, such as the parameters that an optimisation chose."""
        self._emit(
            "StateChange", time, {"StateType": kind, "StateAfter": dict(after), "ChangeReason": reason}
        )

    def fault(self, kind: str, message: str, action: str, place: str | None, indicator: str | None) -> None:
        """A fault of the recording, at the time of the latest event; before the first, time is unknown."""
        properties = {
            "RiskType": kind,
            "Message": message,
            "Action": action,
            "IndicatorName": indicator,
            "Place": place,
            "TimeUnknown": True if self.latest is None else None,
        }
        self._emit("RiskEvent", self.latest or 0, properties)

    def _emit(self, kind: str, time: int, properties: Mapping[str, Any], parent: int | None = None) -> int:
        self.latest = time
        return self._sink.emit(kind, time, known(properties), parent=parent)


def _named(ticket: Ticket) -> dict[str, Any]:
    return {"OrderId": ticket.id, "SecuritySymbol": ticket.symbol}
