"""Orders: how one is asked for, what it is at a moment, and what came of a request.

Prices, quantities and amounts are units of 1e-8; a price or quantity that does not apply is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Side = Literal["BUY", "SELL"]
OrderType = Literal[
    "LIMIT", "MARKET", "LIMIT_MAKER", "STOP_LOSS", "STOP_LOSS_LIMIT", "TAKE_PROFIT", "TAKE_PROFIT_LIMIT"
]
TimeInForce = Literal["GTC", "IOC", "FOK"]
Prevention = Literal["NONE", "EXPIRE_TAKER", "EXPIRE_MAKER", "EXPIRE_BOTH", "DECREMENT"]
Status = Literal["NEW", "PARTIALLY_FILLED", "FILLED", "CANCELED", "REJECTED", "EXPIRED", "EXPIRED_IN_MATCH"]
Restriction = Literal["ONLY_NEW", "ONLY_PARTIALLY_FILLED"]
ReplaceMode = Literal["STOP_ON_FAILURE", "ALLOW_FAILURE"]

ORDER_TYPES: Final[tuple[OrderType, ...]] = (
    "LIMIT",
    "LIMIT_MAKER",
    "MARKET",
    "STOP_LOSS",
    "STOP_LOSS_LIMIT",
    "TAKE_PROFIT",
    "TAKE_PROFIT_LIMIT",
)
CONTINGENT: Final = frozenset({"STOP_LOSS", "STOP_LOSS_LIMIT", "TAKE_PROFIT", "TAKE_PROFIT_LIMIT"})
"""The types that wait for a trigger."""
PREVENTIONS: Final[tuple[Prevention, ...]] = (
    "NONE",
    "EXPIRE_TAKER",
    "EXPIRE_MAKER",
    "EXPIRE_BOTH",
    "DECREMENT",
)
OPEN: Final = ("NEW", "PARTIALLY_FILLED")
"""The statuses in which an order may still trade."""


class VenueRefused(Exception):
    """A request was refused, with the venue's own code and text; nothing was changed."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class NewOrder:
    """An order as it is asked for; what was not sent is `None`."""

    symbol: str
    side: Side
    type: OrderType
    quantity: int | None = None
    price: int | None = None
    quote_quantity: int | None = None
    time_in_force: TimeInForce | None = None
    client_order_id: str | None = None
    stop_price: int | None = None
    trailing_delta: int | None = None
    iceberg_quantity: int | None = None
    prevention: Prevention | None = None
    strategy_id: int | None = None
    strategy_type: int | None = None


@dataclass(frozen=True, slots=True)
class OrderState:
    """An order at a moment."""

    id: int
    account: str
    symbol: str
    client_order_id: str
    side: Side
    type: OrderType
    time_in_force: TimeInForce
    status: Status
    price: int
    quantity: int
    quote_quantity: int
    """What a market order may spend or is to receive; 0 where it was given a quantity."""
    stop_price: int
    iceberg_quantity: int
    executed: int
    executed_quote: int
    prevented: int
    """The quantity that expired because the order would have traded with its own account."""
    prevented_match_id: int | None
    prevention: Prevention
    trailing_delta: int | None
    trailing_ns: int | None
    """When a trailing order began to follow the price; `None` before."""
    strategy_id: int | None
    strategy_type: int | None
    is_working: bool
    """Whether the order is or was live on the book; false for a stop that waits."""
    working_ns: int | None
    created_ns: int
    updated_ns: int
    expiry_reason: str | None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def remaining(self) -> int:
        return self.quantity - self.executed - self.prevented


@dataclass(frozen=True, slots=True)
class Fill:
    """An account's side of one trade."""

    account: str
    symbol: str
    trade_id: int
    order_id: int
    price: int
    quantity: int
    quote: int
    commission: int
    commission_asset: str
    is_buyer: bool
    is_maker: bool
    ns: int


@dataclass(frozen=True, slots=True)
class PreventedMatch:
    """A trade of an account with itself that did not happen."""

    account: str
    symbol: str
    id: int
    taker_order_id: int
    maker_order_id: int
    mode: Prevention
    price: int
    taker_quantity: int | None
    """What the taker lost by it; `None` where the mode spares the taker."""
    maker_quantity: int | None
    ns: int


@dataclass(frozen=True, slots=True)
class Amendment:
    """One reduction of an order's quantity."""

    account: str
    symbol: str
    order_id: int
    execution_id: int
    old_client_order_id: str
    new_client_order_id: str
    old_quantity: int
    new_quantity: int
    ns: int


@dataclass(frozen=True, slots=True)
class OrderResult:
    """What came of placing an order."""

    order: OrderState
    fills: tuple[Fill, ...]
    prevented: tuple[PreventedMatch, ...]
    ns: int


@dataclass(frozen=True, slots=True)
class CancelResult:
    """What came of cancelling an order."""

    order: OrderState
    client_order_id: str
    """The id of the cancel itself; `order` keeps that of the order."""
    ns: int


@dataclass(frozen=True, slots=True)
class AmendResult:
    """What came of reducing an order."""

    order: OrderState
    amendment: Amendment


@dataclass(frozen=True, slots=True)
class ReplaceResult:
    """What came of cancelling one order and placing another; a part that was not attempted is `None`."""

    cancelled: CancelResult | VenueRefused
    placed: OrderResult | VenueRefused | None

    @property
    def refusal(self) -> VenueRefused | None:
        """The refusal that stands for both parts; `None` where both succeeded."""
        failed = [isinstance(part, VenueRefused) for part in (self.cancelled, self.placed)]
        if not any(failed):
            return None
        if failed[0] and (failed[1] or self.placed is None):
            return VenueRefused(-2022, "Order cancel-replace failed.")
        return VenueRefused(-2021, "Order cancel-replace partially failed.")
