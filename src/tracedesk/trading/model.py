"""The nouns of the trading toolset. Integers are ledger units (see `units`); signs are the owner's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Side = Literal["buy", "sell"]
OrderType = Literal["market", "limit", "stop"]
TimeInForce = Literal["ioc", "day", "gtc"]
Status = Literal["filled", "partial", "rejected", "open", "cancelled", "expired", "sent"]

CASH = "USD"


@dataclass(frozen=True, slots=True)
class Trade:
    """One leg as it was asked for, checked and in ledger units."""

    symbol: str
    side: Side
    quantity: int
    type: OrderType = "market"
    price: int | None = None
    stop_price: int | None = None
    time_in_force: TimeInForce = "ioc"

    @property
    def sign(self) -> int:
        return 1 if self.side == "buy" else -1


@dataclass(frozen=True, slots=True)
class Order:
    """A trade that has got its identity."""

    id: str
    account: str
    trade: Trade
    leg: int = 0
    client_id: str = ""
    """What a broker knows the order by: the same for every attempt to send it."""


@dataclass(frozen=True, slots=True)
class OrderState:
    """How far an order has come. The last state of an order is its state."""

    order: str
    status: Status
    filled: int = 0
    """Of the whole order so far."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """A part of an order that was traded."""

    order: str
    symbol: str
    side: Side
    quantity: int
    price: int
    notional: int
    fees: int

    @property
    def total_cost(self) -> int:
        """The signed cash outflow: buying costs notional and fees, selling gives notional less fees."""
        return (self.notional if self.side == "buy" else -self.notional) + self.fees


@dataclass(frozen=True, slots=True)
class Posting:
    """One line of a double entry: all lines of an entry sum to zero for each asset."""

    book: str
    """cash, position, market, fees, dividends, splits or equity."""
    asset: str
    units: int
    """Cents of cash, or billionths of a symbol."""


@dataclass(frozen=True, slots=True)
class EdgeTo:
    """What an entry was made from: a payload, a call, another entry."""

    relation: str
    ref: str
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Position:
    """A holding: its cost is kept in price x quantity units, so that the average never drifts."""

    symbol: str
    quantity: int
    cost: int


@dataclass(frozen=True, slots=True)
class Portfolio:
    """An account as the ledger has it after entry `version`."""

    account: str
    cash: int
    positions: dict[str, Position] = field(default_factory=dict[str, Position])
    version: int = 0
    realised: int = 0
    """Cents won or lost by closed quantities, before fees."""
    fees: int = 0
    dividends: int = 0
