"""An order while it can still change."""

from __future__ import annotations

from typing import Final

from tracedesk.exchange.units import notional
from tracedesk.exchange.venue.accounts import Account
from tracedesk.exchange.venue.engine import BUY, SELL, Queued
from tracedesk.exchange.venue.listings import Listing
from tracedesk.exchange.venue.orders import (
    CONTINGENT,
    OPEN,
    NewOrder,
    OrderState,
    Prevention,
    Status,
    TimeInForce,
)

FOR_GOOD: Final[TimeInForce] = "GTC"


class Order(Queued):
    """A user's order: what the book needs of it, and all that is told about it."""

    __slots__ = (
        "account",
        "amendments",
        "asked",
        "base",
        "client_order_id",
        "created_ns",
        "executed",
        "executed_quote",
        "expiry_reason",
        "extreme",
        "is_working",
        "limit",
        "locked",
        "prevented",
        "prevented_match_id",
        "prevention",
        "quantity",
        "quote",
        "status",
        "time_in_force",
        "trailing_ns",
        "updated_ns",
        "working_ns",
    )

    def __init__(
        self,
        id: int,
        account: Account,
        asked: NewOrder,
        listing: Listing,
        *,
        quantity: int,
        client_order_id: str,
        ns: int,
    ) -> None:
        sign = BUY if asked.side == "BUY" else SELL
        super().__init__(id, sign, asked.price or 0, quantity, account, asked.iceberg_quantity or 0)
        self.account = account
        self.asked = asked
        self.base = listing.instrument.base
        self.quote = listing.instrument.quote
        self.limit = asked.price or 0
        self.quantity = quantity
        self.client_order_id = client_order_id
        self.time_in_force: TimeInForce = asked.time_in_force or FOR_GOOD
        self.prevention: Prevention = asked.prevention or listing.default_prevention
        self.status: Status = "NEW"
        self.executed = 0
        self.executed_quote = 0
        self.prevented = 0
        self.prevented_match_id: int | None = None
        self.locked = 0
        """What the account has locked for this order, in `lock_asset`."""
        self.is_working = asked.type not in CONTINGENT
        self.working_ns = ns if self.is_working else None
        self.trailing_ns: int | None = None
        self.extreme = 0
        """The best price seen by a trailing order since it began to follow; 0 before."""
        self.amendments = 0
        self.created_ns = ns
        self.updated_ns = ns
        self.expiry_reason: str | None = None

    @property
    def symbol(self) -> str:
        return self.asked.symbol

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def is_algo(self) -> bool:
        return self.asked.type in CONTINGENT

    @property
    def remaining(self) -> int:
        return self.quantity - self.executed - self.prevented

    @property
    def lock_asset(self) -> str:
        return self.quote if self.sign > 0 else self.base

    def lock_needed(self) -> int:
        """What must be locked while the order is open; nothing for a stop that will buy at any price."""
        if not self.is_open:
            return 0
        return notional(self.limit, self.remaining) if self.sign > 0 else self.remaining

    def relock(self) -> None:
        """Let the account's lock follow the order."""
        needed = self.lock_needed()
        if needed != self.locked:
            self.account.locked[self.lock_asset] += needed - self.locked
            self.locked = needed

    def state(self) -> OrderState:
        asked = self.asked
        return OrderState(
            id=self.id,
            account=self.account.name,
            symbol=asked.symbol,
            client_order_id=self.client_order_id,
            side=asked.side,
            type=asked.type,
            time_in_force=self.time_in_force,
            status=self.status,
            price=self.limit,
            quantity=self.quantity,
            quote_quantity=asked.quote_quantity or 0,
            stop_price=asked.stop_price or 0,
            iceberg_quantity=self.shown,
            executed=self.executed,
            executed_quote=self.executed_quote,
            prevented=self.prevented,
            prevented_match_id=self.prevented_match_id,
            prevention=self.prevention,
            trailing_delta=asked.trailing_delta,
            trailing_ns=self.trailing_ns,
            strategy_id=asked.strategy_id,
            strategy_type=asked.strategy_type,
            is_working=self.is_working,
            working_ns=self.working_ns,
            created_ns=self.created_ns,
            updated_ns=self.updated_ns,
            expiry_reason=self.expiry_reason,
        )


def revive(
    state: OrderState,
    account: Account,
    listing: Listing,
    *,
    open: int,
    rank: int,
    extreme: int,
    amendments: int,
) -> Order:
    """The live order that a stored state describes."""
    asked = NewOrder(
        symbol=state.symbol,
        side=state.side,
        type=state.type,
        quantity=state.quantity,
        price=state.price or None,
        quote_quantity=state.quote_quantity or None,
        time_in_force=state.time_in_force,
        client_order_id=state.client_order_id,
        stop_price=state.stop_price or None,
        trailing_delta=state.trailing_delta,
        iceberg_quantity=state.iceberg_quantity or None,
        prevention=state.prevention,
        strategy_id=state.strategy_id,
        strategy_type=state.strategy_type,
    )
    order = Order(
        state.id,
        account,
        asked,
        listing,
        quantity=state.quantity,
        client_order_id=state.client_order_id,
        ns=state.created_ns,
    )
    order.status = state.status
    order.executed = state.executed
    order.executed_quote = state.executed_quote
    order.prevented = state.prevented
    order.prevented_match_id = state.prevented_match_id
    order.is_working = state.is_working
    order.working_ns = state.working_ns
    order.trailing_ns = state.trailing_ns
    order.extreme = extreme
    order.amendments = amendments
    order.updated_ns = state.updated_ns
    order.rank = rank
    order.open = open
    order.hidden = order.remaining - open
    return order
