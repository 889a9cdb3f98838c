"""The venue: every command and question there is, on one thread.

A command of a user is durable before it returns and before anyone is told of it. If it cannot be made
durable the venue stops for good: memory would be ahead of the file, and a restart reads the file.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence

from tracedesk.exchange.instruments import Filter
from tracedesk.exchange.units import notional
from tracedesk.exchange.venue import admission
from tracedesk.exchange.venue.accounts import (
    FEES,
    HOUSE,
    ISSUANCE,
    MARKET,
    STANDARD_RATE,
    Account,
    AccountState,
    is_balanced,
)
from tracedesk.exchange.venue.checks import (
    MOST,
    check_both,
    check_client_order_id,
    check_either,
    check_restriction,
)
from tracedesk.exchange.venue.engine import ANY_PRICE, BUY, SELL, Resting
from tracedesk.exchange.venue.events import Deposited, Event, StatusChanged
from tracedesk.exchange.venue.floor import Command, Floor, placed, tell_balances, tell_market
from tracedesk.exchange.venue.listings import EXCHANGE_FILTERS, STATUSES, Listing
from tracedesk.exchange.venue.live import Order, revive
from tracedesk.exchange.venue.market import Market, Numbers
from tracedesk.exchange.venue.orders import (
    Amendment,
    AmendResult,
    CancelResult,
    NewOrder,
    OrderResult,
    ReplaceMode,
    ReplaceResult,
    Restriction,
    Side,
    VenueRefused,
)
from tracedesk.exchange.venue.queue import QueueModel
from tracedesk.exchange.venue.reading import Reading
from tracedesk.exchange.venue.store import Store, StoreError
from tracedesk.primitives.time import Clock

Listener = Callable[[Event], None]


class VenueStopped(Exception):
    """A command could not be finished; the venue must be opened again from its file."""


class Finishing:
    """What happens inside is finished, or is the last that the venue does."""

    __slots__ = ("is_stopped",)

    def __init__(self) -> None:
        self.is_stopped = False

    def __enter__(self) -> None:
        if self.is_stopped:
            raise VenueStopped("the venue was stopped by an earlier failure; open it again from its file")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.is_stopped = True


class Venue(Reading):
    """A spot exchange: listed symbols, accounts, and the file they survive in."""

    def __init__(
        self,
        listings: Iterable[Listing],
        clock: Clock,
        store: Store | None = None,
        *,
        exchange_filters: Iterable[Filter] = EXCHANGE_FILTERS,
        asset_limits: Mapping[str, int] | None = None,
        queue: QueueModel = "risk-averse",
    ) -> None:
        super().__init__(clock, store or Store())
        self._listeners: list[Listener] = []
        self._finishing = Finishing()
        self.exchange_filters = tuple(exchange_filters)
        self.asset_limits: Mapping[str, int] = asset_limits or {}
        known = self._store.counters()
        self._ids = Numbers(self._store, "order", known)
        self._accounts = {each.name: each for each in self._store.accounts(self._now())}
        self._floor = Floor(self._accounts[MARKET], self._accounts[FEES], known.get("execution", 0))
        for listing in listings:
            market = Market(listing, self._store, known, self.exchange_filters, self.asset_limits, queue)
            self._markets[market.symbol] = market
        self._restore()

    def _restore(self) -> None:
        for symbol, status in self._store.statuses().items():
            if symbol in self._markets:
                self._markets[symbol].status = status
        for state, kept in self._store.open_orders():
            market = self._markets.get(state.symbol)
            if market is None:
                raise StoreError(
                    f"the file has open orders of {state.symbol}, which is not listed; list it again"
                )
            order = revive(state, self._accounts[state.account], market.listing, **kept)
            order.account.orders[order.id] = order
            order.account.by_client[market.symbol, order.client_order_id] = order
            order.relock()
            market.restore(order)
        for market in self._markets.values():
            market.changes(self._ns)
            market.touch = market.engine.touch()

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    # --- accounts ------------------------------------------------------------------------------

    def open_account(
        self,
        name: str,
        balances: Mapping[str, int] | None = None,
        *,
        maker: int = STANDARD_RATE,
        taker: int = STANDARD_RATE,
    ) -> AccountState:
        """Make an account with what it is to hold; one that is known is returned as it is."""
        if name in HOUSE or not name:
            raise ValueError(f"{name!r} is not a user's account; choose another name")
        if name not in self._accounts:
            command = Command(self._now())
            owner = Account(len(self._accounts) + 1, name, maker, taker, command.ns)
            for asset, amount in (balances or {}).items():
                self._check_issue(owner, asset, amount)
            command.batch.opened.append(owner)
            self._issue(command, owner, balances or {})
        return self.account(name)

    def deposit(self, account: str, asset: str, amount: int) -> None:
        """Give an account so much of an asset, or take it away where the amount is negative."""
        owner = self._account(account)
        self._check_issue(owner, asset, amount)
        self._issue(Command(self._now()), owner, {asset: amount})

    def _check_issue(self, owner: Account, asset: str, amount: int) -> None:
        if owner.free(asset) + amount < 0:
            raise VenueRefused(-2010, "Account has insufficient balance for requested action.")
        if abs(self._accounts[ISSUANCE].total[asset] - amount) > MOST:
            raise ValueError(f"no more than {MOST} units of {asset} can be issued")

    def _issue(self, command: Command, owner: Account, amounts: Mapping[str, int]) -> None:
        with self._finishing:
            for asset, amount in amounts.items():
                self._floor.issue(command, self._accounts[ISSUANCE], owner, asset, amount)
                command.events.append(Deposited(owner.name, asset, amount, command.ns))
            command.is_durable = True
            self._commit(command)
            self._accounts[owner.name] = owner
        self._publish(command)

    # --- commands ------------------------------------------------------------------------------

    def place(self, account: str, asked: NewOrder) -> OrderResult:
        """Place an order."""
        owner, market = self._account(account), self._market(asked.symbol)
        ns = self._now()
        order = self._drafted(market, owner, asked, admission.validate(market, owner, asked, ns), ns)
        admission.admit(market, order)
        command = Command(ns)
        with self._finishing:
            self._floor.accept(command, market, order)
            self._commit(command, market)
        self._publish(command)
        return placed(command, order)

    def test(self, account: str, asked: NewOrder) -> None:
        """Check an order without placing it."""
        admission.validate(self._market(asked.symbol), self._account(account), asked, self._now())

    def _drafted(self, market: Market, owner: Account, asked: NewOrder, quantity: int, ns: int) -> Order:
        return Order(
            self._ids.take(),
            owner,
            asked,
            market.listing,
            quantity=quantity,
            client_order_id=asked.client_order_id or _any_id(),
            ns=ns,
        )

    def cancel(
        self,
        account: str,
        symbol: str,
        *,
        order_id: int | None = None,
        client_order_id: str | None = None,
        new_client_order_id: str | None = None,
        restriction: Restriction | None = None,
    ) -> CancelResult:
        """Cancel one order."""
        check_client_order_id(new_client_order_id)
        owner, market = self._account(account), self._market(symbol)
        order = self._open(owner, market, order_id, client_order_id, -2011)
        check_restriction(order.status, restriction)
        return self._cancelled(market, [(order, new_client_order_id)])[0]

    def cancel_all(self, account: str, symbol: str) -> tuple[CancelResult, ...]:
        """Cancel every open order on a symbol; there must be one."""
        owner, market = self._account(account), self._market(symbol)
        found = [each for each in owner.orders.values() if each.symbol == symbol]
        if not found:
            raise VenueRefused(-2011, "Unknown order sent.")
        return self._cancelled(market, [(each, None) for each in found])

    def _cancelled(self, market: Market, orders: list[tuple[Order, str | None]]) -> tuple[CancelResult, ...]:
        command = Command(self._now())
        with self._finishing:
            found = tuple(self._cancel(command, market, order, id) for order, id in orders)
            self._commit(command, market)
        self._publish(command)
        return found

    def _cancel(
        self, command: Command, market: Market, order: Order, client_order_id: str | None
    ) -> CancelResult:
        name = client_order_id or _any_id()
        self._floor.cancel(command, market, order, name)
        return CancelResult(order.state(), name, command.ns)

    def cancel_replace(
        self,
        account: str,
        asked: NewOrder,
        *,
        mode: ReplaceMode,
        cancel_order_id: int | None = None,
        cancel_client_order_id: str | None = None,
        cancel_new_client_order_id: str | None = None,
        restriction: Restriction | None = None,
    ) -> ReplaceResult:
        """Cancel an order and place another; filters are judged first, the book and the funds in between."""
        owner, market = self._account(account), self._market(asked.symbol)
        if not market.listing.allows("cancelReplaceAllowed"):
            raise VenueRefused(-1013, "Order cancel-replace is not supported for this symbol.")
        check_client_order_id(cancel_new_client_order_id, "cancelNewClientOrderId")
        command = Command(self._now())
        quantity = admission.validate(market, owner, asked, command.ns)
        cancelled: CancelResult | VenueRefused
        replaced: OrderResult | VenueRefused | None = None
        with self._finishing:
            try:
                old = self._open(owner, market, cancel_order_id, cancel_client_order_id, -2011)
                check_restriction(old.status, restriction)
                cancelled = self._cancel(command, market, old, cancel_new_client_order_id)
            except VenueRefused as refusal:
                cancelled = refusal
            if isinstance(cancelled, CancelResult) or mode == "ALLOW_FAILURE":
                replaced = self._replace(command, market, owner, asked, quantity)
            self._commit(command, market)
        self._publish(command)
        return ReplaceResult(cancelled, replaced)

    def _replace(
        self, command: Command, market: Market, owner: Account, asked: NewOrder, quantity: int
    ) -> OrderResult | VenueRefused:
        try:
            if asked.quote_quantity is not None:
                # The cancel may have changed the book that the amount was worked out on.
                quantity = admission.validate(market, owner, asked, command.ns)
            order = self._drafted(market, owner, asked, quantity, command.ns)
        except VenueRefused as refusal:
            return refusal
        try:
            admission.admit(market, order)
        except VenueRefused as refusal:
            if command.is_durable:
                self._floor.reject(command, order, admission.REASONS.get(refusal.message, "NONE"))
            return refusal
        self._floor.accept(command, market, order)
        return placed(command, order)

    def amend(
        self,
        account: str,
        symbol: str,
        *,
        quantity: int,
        order_id: int | None = None,
        client_order_id: str | None = None,
        new_client_order_id: str | None = None,
    ) -> AmendResult:
        """Make an order smaller without losing its place in the queue."""
        owner, market = self._account(account), self._market(symbol)
        check_client_order_id(new_client_order_id)
        order = self._open(owner, market, order_id, client_order_id, -2038)
        self._check_amendment(market, order, quantity, new_client_order_id)
        command = Command(self._now())
        name = new_client_order_id or _any_id()
        old, was = order.client_order_id, order.quantity
        with self._finishing:
            number = self._floor.amend(command, market, order, quantity, name)
            told = Amendment(account, symbol, order.id, number, old, name, was, quantity, command.ns)
            command.batch.amendments.append(told)
            self._commit(command, market)
        self._publish(command)
        return AmendResult(order.state(), told)

    def _check_amendment(self, market: Market, order: Order, quantity: int, name: str | None) -> None:
        if not market.listing.allows("amendAllowed"):
            raise VenueRefused(-2038, "Order amend is not supported for this symbol.")
        if market.status != "TRADING":
            raise VenueRefused(-1013, "Market is closed.")
        if quantity == order.quantity:
            raise VenueRefused(-2038, "The requested action would change no state; rejecting")
        if quantity > order.quantity:
            raise VenueRefused(-2038, "Order amend (quantity increase) is not supported.")
        if quantity <= order.quantity - order.remaining:
            raise VenueRefused(-2038, "Invalid quantity.")
        if name and name != order.client_order_id and (order.symbol, name) in order.account.by_client:
            raise VenueRefused(-2038, "Duplicate order sent.")
        market.filters.check_amendment(quantity, order.asked, order.amendments)

    # --- the background flow and recordings -----------------------------------------------------

    def flow_limit(self, symbol: str, side: Side, price: int, quantity: int) -> int:
        """Place a limit order of the background flow; what it does not take rests. Its number."""
        market = self._markets[symbol]
        _check_flow(market, price, quantity)
        order = Resting(self._ids.take(), BUY if side == "BUY" else SELL, price, quantity)
        command = Command(self._now())
        with self._finishing:
            for maker, at, part in market.engine.limit(order):
                self._floor.trade(command, market, order, maker, at, part)
            if order.open:
                market.flow[order.id] = order
            self._finish(command, market)
        self._publish(command)
        return order.id

    def flow_market(self, symbol: str, side: Side, quantity: int, limit: int | None = None) -> int:
        """Take from the book for the background flow, at most to a limit price; how much it took."""
        market = self._markets[symbol]
        _check_flow(market, limit, quantity)
        order = Resting(self._ids.take(), BUY if side == "BUY" else SELL, limit or 0, quantity)
        command = Command(self._now())
        with self._finishing:
            for maker, at, part in market.engine.take(order, -order.key if limit else ANY_PRICE):
                self._floor.trade(command, market, order, maker, at, part)
            self._finish(command, market)
        self._publish(command)
        return quantity - order.open

    def flow_cancel(self, symbol: str, order_id: int) -> bool:
        """Take an order of the background flow out of the book; whether there was something left of it."""
        market = self._markets[symbol]
        order = market.flow.pop(order_id, None)
        if order is None or not order.open:
            return False
        command = Command(self._now())
        market.engine.cancel(order)
        self._finish(command, market)
        self._publish(command)
        return True

    def set_levels(
        self, symbol: str, bids: Iterable[tuple[int, int]], asks: Iterable[tuple[int, int]]
    ) -> None:
        """Set the quantities that a recording shows at prices; users' orders that they cross are filled."""
        market = self._markets[symbol]
        command = Command(self._now())
        with self._finishing:
            for sign, levels in ((BUY, bids), (SELL, asks)):
                for price, quantity in levels:
                    market.recorded.show(sign, price, quantity)
            for order in market.crossed():
                self._floor.fill_outside(command, market, order, market.take_crossing(order))
            self._finish(command, market)
        self._publish(command)

    def begin_levels(
        self, symbol: str, bids: Sequence[tuple[int, int]], asks: Sequence[tuple[int, int]]
    ) -> None:
        """Set a recording's first quantities: users' orders from before have everything there in front."""
        market = self._markets[symbol]
        self.set_levels(symbol, bids, asks)
        for order in market.resting.values():
            market.recorded.step_ahead(order.sign, order.limit)

    def set_level(self, symbol: str, side: Side, price: int, quantity: int) -> None:
        """Set the quantity that a recording shows at one price."""
        level = [(price, quantity)]
        self.set_levels(symbol, level if side == "BUY" else [], level if side == "SELL" else [])

    def print_trade(self, symbol: str, price: int, quantity: int, *, buyer_is_maker: bool) -> None:
        """Let a recorded trade fill the users' orders it would have met, and fire stops."""
        market = self._markets[symbol]
        command = Command(self._now())
        with self._finishing:
            self._floor.meet(command, market, BUY if buyer_is_maker else SELL, price, quantity)
            self._floor.note(market, price, quantity, notional(price, quantity), command.ns)
            self._finish(command, market)
        self._publish(command)

    # --- the market ----------------------------------------------------------------------------

    def set_status(self, symbol: str, status: str) -> None:
        """Open, halt or close a symbol; orders stay where they are."""
        if status not in STATUSES:
            raise ValueError(f"{status!r} is not a symbol status; use one of {', '.join(STATUSES)}")
        market = self._market(symbol)
        command = Command(self._now())
        with self._finishing:
            self._store.set_status(symbol, status)
            market.status = status
        command.events.append(StatusChanged(symbol, status, command.ns))
        self._publish(command)

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call back with every event after it is durable, in order; call the answer to stop."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    # --- inside --------------------------------------------------------------------------------

    def _open(
        self, owner: Account, market: Market, order_id: int | None, client_order_id: str | None, code: int
    ) -> Order:
        """An open order of an account, by number or client order id or both."""
        check_either(order_id, client_order_id)
        if order_id is not None:
            found = owner.orders.get(order_id)
        else:
            found = owner.by_client.get((market.symbol, client_order_id or ""))
        if found is None or found.symbol != market.symbol:
            raise VenueRefused(code, "Unknown order sent.")
        check_both(found.client_order_id, client_order_id)
        return found

    def _finish(self, command: Command, market: Market) -> None:
        """Settle what trades of the flow set off, and write down what of it concerns users."""
        self._floor.settle(command, market)
        self._commit(command, market)

    def _commit(self, command: Command, market: Market | None = None) -> None:
        if command.is_durable or self._floor.followed:
            batch = command.batch
            batch.orders.update(self._floor.followed)
            self._floor.followed.clear()
            if not is_balanced(batch.postings):
                raise AssertionError("the postings of a command do not sum to zero")
            tell_balances(command)
            self._store.commit(batch, command.moved | command.touched, self._floor.execution)
        if market is not None:
            tell_market(command, market)

    def _publish(self, command: Command) -> None:
        for event in command.events:
            for listener in tuple(self._listeners):
                listener(event)


def _any_id() -> str:
    return secrets.token_hex(11)


def _check_flow(market: Market, price: int | None, quantity: int) -> None:
    """The background flow keeps to ticks and steps; it has no other filters."""
    for value, step in ((price, market.filters.price.step), (quantity, market.filters.lot.step)):
        if value is not None and (value <= 0 or (step and value % step)):
            raise ValueError(f"{market.symbol}: {value} units are not a whole number of steps of {step}")
