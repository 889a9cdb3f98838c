"""What happened at the venue, in the order it happened.

Market events are tuples because the background flow makes very many of them; events of an account
come only for accounts that were opened, never for the background flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tracedesk.exchange.venue.orders import OrderState

Level = tuple[int, int]
"""A price and the quantity that is shown there; 0 where the level is gone."""
Execution = Literal["NEW", "CANCELED", "REPLACED", "REJECTED", "TRADE", "EXPIRED", "TRADE_PREVENTION"]


class Traded(NamedTuple):
    """Two orders met; ids of trades are contiguous within a symbol while the venue runs."""

    symbol: str
    id: int
    price: int
    quantity: int
    buyer_is_maker: bool
    buyer_order_id: int
    seller_order_id: int
    ns: int


class LevelsChanged(NamedTuple):
    """The levels one command changed, each with its new quantity; `first_id` follows the last `last_id`."""

    symbol: str
    first_id: int
    last_id: int
    bids: tuple[Level, ...]
    asks: tuple[Level, ...]
    ns: int


class TouchChanged(NamedTuple):
    """The best bid or ask has another price or quantity than before."""

    symbol: str
    id: int
    bid: Level | None
    ask: Level | None
    ns: int


class StatusChanged(NamedTuple):
    """A symbol was opened, halted or closed."""

    symbol: str
    status: str
    ns: int


@dataclass(frozen=True, slots=True)
class Reported:
    """An order changed: everything an execution report says."""

    account: str
    order: OrderState
    execution: Execution
    execution_id: int
    ns: int
    client_order_id: str
    """The order's id, or that of the cancel where there was one."""
    original_client_order_id: str = ""
    """The id of the order that was cancelled or amended."""
    reject_reason: str = "NONE"
    last_quantity: int = 0
    last_price: int = 0
    last_quote: int = 0
    commission: int = 0
    commission_asset: str | None = None
    trade_id: int = -1
    is_maker: bool = False
    on_book: bool = False
    prevented_match_id: int | None = None
    last_prevented: int = 0
    counter_order_id: int | None = None
    prevented_price: int = 0


@dataclass(frozen=True, slots=True)
class BalancesChanged:
    """What an account holds now of the assets that one command touched."""

    account: str
    balances: Mapping[str, tuple[int, int]]
    """Free and locked by asset."""
    ns: int


@dataclass(frozen=True, slots=True)
class Deposited:
    """An account was given an asset, or had some taken away."""

    account: str
    asset: str
    amount: int
    ns: int


Event = Traded | LevelsChanged | TouchChanged | StatusChanged | Reported | BalancesChanged | Deposited
