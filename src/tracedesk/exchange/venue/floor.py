"""What orders do once they are admitted: trade, rest, wait, expire; and what that does to accounts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tracedesk.exchange.units import notional
from tracedesk.exchange.venue.accounts import Account, Posting, commission
from tracedesk.exchange.venue.engine import ANY_PRICE, Prevented, Resting, Step
from tracedesk.exchange.venue.events import BalancesChanged, Event, Execution, Reported, Traded
from tracedesk.exchange.venue.live import Order
from tracedesk.exchange.venue.market import Market
from tracedesk.exchange.venue.orders import Fill, OrderResult, PreventedMatch, Status
from tracedesk.exchange.venue.store import Batch

NO_LIQUIDITY: Final = "INSUFFICIENT_LIQUIDITY"
UNFILLED_IOC: Final = "UNFILLED_IOC_QUANTITY_EXPIRED"
UNFILLED_FOK: Final = "UNFILLED_FOK_ORDER_EXPIRED"
REJECTED: Final = "REJECTED"


class Command:
    """One request in the making: what it changed, and what will be told of it."""

    __slots__ = ("_batch", "events", "is_durable", "moved", "ns", "touched")

    def __init__(self, ns: int) -> None:
        self.ns = ns
        self.events: list[Event] = []
        self._batch: Batch | None = None
        self.moved: dict[tuple[Account, str], None] = {}
        """Totals that moved."""
        self.touched: dict[tuple[Account, str], None] = {}
        """Users' balances of which the free or locked part may have changed."""
        self.is_durable = False

    @property
    def batch(self) -> Batch:
        """What is to be written; most commands of the background flow have nothing."""
        if self._batch is None:
            self._batch = Batch(self.ns)
        return self._batch


class Floor:
    """Carries orders out. It never refuses: what must be refused was, before it came here."""

    def __init__(self, house: Account, fees: Account, execution: int) -> None:
        self._house = house
        self._fees = fees
        self.execution = execution
        """The number of the last report."""
        self.followed: dict[int, Order] = {}
        """Trailing orders that this command's trades moved, which its transaction takes along."""

    def accept(self, command: Command, market: Market, order: Order) -> None:
        """Take an admitted order in, and let it work or wait."""
        order.account.orders[order.id] = order
        order.account.by_client[market.symbol, order.client_order_id] = order
        order.relock()
        command.batch.placed.add(order.id)
        self._keep(command, order)
        self.report(command, order, "NEW")
        if order.is_working:
            self._work(command, market, order)
        else:
            market.triggers.add(order)
        self.settle(command, market)

    def settle(self, command: Command, market: Market) -> None:
        """Let the stops that trades set off work, one after the other."""
        fired = market.triggers.fired
        while fired:
            order = fired.popleft()
            if order.is_open and not order.is_working:
                self._activate(command, market, order)

    def _activate(self, command: Command, market: Market, order: Order) -> None:
        order.is_working = True
        order.working_ns = order.updated_ns = command.ns
        self._keep(command, order)
        if not self._is_funded(market, order):
            self.expire(command, order, REJECTED)
            return
        self.report(command, order, "NEW")
        self._work(command, market, order)

    def _is_funded(self, market: Market, order: Order) -> bool:
        """Whether a stop that buys at any price can be paid for; all others have locked what they need."""
        if order.limit or order.sign < 0:
            return True
        return cost(market, order, order.remaining) <= order.account.free(order.quote)

    def _work(self, command: Command, market: Market, order: Order) -> None:
        limit = -order.key if order.limit else ANY_PRICE
        if order.time_in_force == "FOK" and not self._can_fill(market, order, limit):
            self.expire(command, order, UNFILLED_FOK)
            return
        for step in self._match(market, order, limit):
            self._take_step(command, market, order, step)
        if order.open:
            self._leave(command, market, order)

    def _can_fill(self, market: Market, order: Order, limit: int) -> bool:
        found = market.engine.foresee(order.sign, order.remaining, limit, order.owner, order.prevention)
        return sum(quantity for _, quantity in found) == order.remaining

    def _match(self, market: Market, order: Order, limit: int) -> Iterable[Step]:
        if order.prevention == "NONE":
            return market.engine.take(order, limit)
        return market.engine.take_guarded(order, order.prevention, limit)

    def _take_step(self, command: Command, market: Market, order: Order, step: Step) -> None:
        if isinstance(step, Prevented):
            self._prevent(command, market, order, step)
        else:
            self.trade(command, market, order, *step)

    def _leave(self, command: Command, market: Market, order: Order) -> None:
        """What becomes of an order that found no more to take."""
        if not order.limit:
            self.expire(command, order, NO_LIQUIDITY)
        elif order.time_in_force == "IOC":
            self.expire(command, order, UNFILLED_IOC)
        else:
            market.engine.rest(order)
            market.resting[order.id] = order

    def trade(
        self, command: Command, market: Market, taker: Resting, maker: Resting, price: int, quantity: int
    ) -> None:
        """Two orders trade: number it, remember the price, and book it where a user takes part."""
        number = market.trades.take()
        quote = notional(price, quantity)
        is_buy = taker.sign > 0
        buyer, seller = (taker, maker) if is_buy else (maker, taker)
        command.events.append(
            Traded(market.symbol, number, price, quantity, not is_buy, buyer.id, seller.id, command.ns)
        )
        if isinstance(taker, Order):
            self._book(command, market, taker, maker, number, price, quantity, quote, is_maker=False)
        if isinstance(maker, Order):
            self._book(command, market, maker, taker, number, price, quantity, quote, is_maker=True)
        elif not maker.open:
            market.flow.pop(maker.id, None)
        self.note(market, price, quantity, quote, command.ns)

    def meet(self, command: Command, market: Market, sign: int, price: int, quantity: int) -> None:
        """Fill users' orders by a recorded trade: at better prices before its own, there in their queue."""
        met = market.met_by(price, sign)
        for order in met:
            if order.limit == price or not quantity:
                break
            part = min(quantity, order.remaining)
            self.fill_outside(command, market, order, part)
            market.recorded.step_back(sign, order.limit)
            quantity -= part
        if quantity and met and met[-1].limit == price:
            outside = Resting(0, -sign, price, 0)
            for maker, at, part in market.recorded.trade(sign, price, quantity):
                self.trade(command, market, outside, maker, at, part)

    def fill_outside(self, command: Command, market: Market, order: Order, quantity: int) -> None:
        """Fill an order at its own price with what came from outside the book."""
        if quantity:
            market.engine.hit(order, quantity)
            outside = Resting(0, -order.sign, order.limit, 0)
            self.trade(command, market, outside, order, order.limit, quantity)

    def note(self, market: Market, price: int, quantity: int, quote: int, ns: int) -> None:
        """Remember a traded price, and let the stops see it."""
        market.last_price = price
        market.averages.add(ns, quantity, quote)
        if market.triggers.is_armed:
            for order in market.triggers.observe(price, ns):
                self.followed[order.id] = order

    def _book(
        self,
        command: Command,
        market: Market,
        order: Order,
        other: Resting,
        number: int,
        price: int,
        quantity: int,
        quote: int,
        *,
        is_maker: bool,
    ) -> None:
        account = order.account
        is_buyer = order.sign > 0
        gained, asset = (quantity, order.base) if is_buyer else (quote, order.quote)
        fee = commission(gained, account.maker if is_maker else account.taker)
        self._exchange(command, order, quantity, quote, None if isinstance(other, Order) else self._house)
        self._move(command, account, self._fees, asset, fee)
        order.executed += quantity
        order.executed_quote += quote
        order.status = "PARTIALLY_FILLED" if order.remaining else "FILLED"
        self._keep(command, order)
        fill = Fill(
            account.name,
            market.symbol,
            number,
            order.id,
            price,
            quantity,
            quote,
            fee,
            asset,
            is_buyer,
            is_maker,
            command.ns,
        )
        command.batch.fills.append(fill)
        if not order.remaining:
            self._close(market, order)
        order.relock()
        self._report_fill(command, order, fill)

    def _exchange(
        self, command: Command, order: Order, quantity: int, quote: int, house: Account | None
    ) -> None:
        """Give an order what it bought and take what it paid; another user's half comes with his order."""
        sign = order.sign
        self._post(command, order.account, order.base, sign * quantity)
        self._post(command, order.account, order.quote, -sign * quote)
        if house is not None:
            self._post(command, house, order.base, -sign * quantity)
            self._post(command, house, order.quote, sign * quote)

    def _move(self, command: Command, source: Account, target: Account, asset: str, amount: int) -> None:
        self._post(command, source, asset, -amount)
        self._post(command, target, asset, amount)

    def _post(self, command: Command, account: Account, asset: str, amount: int) -> None:
        if amount:
            account.total[asset] += amount
            command.batch.postings.append(Posting(account.id, asset, amount))
            command.moved[account, asset] = None

    def issue(self, command: Command, issuance: Account, account: Account, asset: str, amount: int) -> None:
        """Give an account an asset out of nothing, or take it back."""
        self._move(command, issuance, account, asset, amount)
        command.touched[account, asset] = None
        command.is_durable = True

    def _prevent(self, command: Command, market: Market, taker: Order, step: Prevented) -> None:
        market.prevented_id += 1
        maker: Any = step.maker
        match = PreventedMatch(
            taker.account.name,
            market.symbol,
            market.prevented_id,
            taker.id,
            maker.id,
            taker.prevention,
            step.price,
            step.taker_quantity,
            step.maker_quantity,
            command.ns,
        )
        command.batch.prevented.append(match)
        for order, other, lost in ((maker, taker, step.maker_quantity), (taker, maker, step.taker_quantity)):
            if lost is not None:
                self._lose(command, market, order, other, lost, match)

    def _lose(
        self, command: Command, market: Market, order: Order, other: Order, lost: int, match: PreventedMatch
    ) -> None:
        order.prevented += lost
        order.prevented_match_id = match.id
        self._keep(command, order)
        if not order.remaining:
            order.status = "EXPIRED_IN_MATCH"
            self._close(market, order)
        order.relock()
        self.report(
            command,
            order,
            "TRADE_PREVENTION",
            prevented_match_id=match.id,
            last_prevented=lost,
            counter_order_id=other.id,
            prevented_price=match.price,
        )

    def cancel(self, command: Command, market: Market, order: Order, client_order_id: str) -> None:
        """End an order because its account wants it."""
        self._withdraw(market, order)
        self._end(command, order, "CANCELED", market)
        self.report(
            command,
            order,
            "CANCELED",
            client_order_id=client_order_id,
            original_client_order_id=order.client_order_id,
        )

    def _withdraw(self, market: Market, order: Order) -> None:
        if order.is_working:
            market.engine.cancel(order)
        else:
            market.triggers.discard(order)

    def amend(
        self, command: Command, market: Market, order: Order, quantity: int, client_order_id: str
    ) -> int:
        """Make an order smaller without losing its place; the number of the report."""
        lost = order.quantity - quantity
        if order.is_working:
            # An iceberg goes on showing what it shows, unless less than that is left.
            market.engine.reduce(order, lost)
        else:
            order.open -= lost
        old = order.client_order_id
        order.quantity = quantity
        order.amendments += 1
        del order.account.by_client[market.symbol, old]
        order.client_order_id = client_order_id
        order.account.by_client[market.symbol, client_order_id] = order
        self._keep(command, order)
        order.relock()
        return self.report(command, order, "REPLACED", original_client_order_id=old)

    def reject(self, command: Command, order: Order, reason: str) -> None:
        """Tell of an order that was not let in after the one it was to replace is gone."""
        order.status = "REJECTED"
        self.report(command, order, "REJECTED", reject_reason=reason)

    def expire(self, command: Command, order: Order, reason: str) -> None:
        """End an order by the rules of its type."""
        order.expiry_reason = reason
        self._end(command, order, "EXPIRED")
        self.report(command, order, "EXPIRED")

    def _end(self, command: Command, order: Order, status: Status, market: Market | None = None) -> None:
        order.status = status
        order.open = order.hidden = 0
        self._keep(command, order)
        self._close(market, order)
        order.relock()

    def _close(self, market: Market | None, order: Order) -> None:
        """Forget an order that cannot trade any more; the store remembers it."""
        order.account.orders.pop(order.id, None)
        order.account.by_client.pop((order.symbol, order.client_order_id), None)
        if market is not None:
            market.resting.pop(order.id, None)
        self.followed.pop(order.id, None)

    def _keep(self, command: Command, order: Order) -> None:
        order.updated_ns = command.ns
        command.batch.orders[order.id] = order
        command.touched[order.account, order.base] = None
        command.touched[order.account, order.quote] = None
        command.is_durable = True

    def _report_fill(self, command: Command, order: Order, fill: Fill) -> None:
        self.report(
            command,
            order,
            "TRADE",
            last_quantity=fill.quantity,
            last_price=fill.price,
            last_quote=fill.quote,
            commission=fill.commission,
            commission_asset=fill.commission_asset,
            trade_id=fill.trade_id,
            is_maker=fill.is_maker,
        )

    def report(self, command: Command, order: Order, execution: Execution, **told: Any) -> int:
        """Tell the account of a change; the number of the report."""
        self.execution += 1
        told.setdefault("client_order_id", order.client_order_id)
        on_book = order.is_open and order.is_working and order.limit > 0
        event = Reported(
            account=order.account.name,
            order=order.state(),
            execution=execution,
            execution_id=self.execution,
            ns=command.ns,
            on_book=on_book,
            **told,
        )
        command.events.append(event)
        return self.execution


def cost(market: Market, order: Order, quantity: int) -> int:
    """What a market order would pay for as much of a quantity as the book has."""
    found = market.engine.foresee(order.sign, quantity, ANY_PRICE, order.owner, order.prevention)
    return sum(notional(price, part) for price, part in found)


def placed(command: Command, order: Order) -> OrderResult:
    """What a placed order came to."""
    fills = tuple(each for each in command.batch.fills if each.order_id == order.id)
    prevented = tuple(each for each in command.batch.prevented if each.taker_order_id == order.id)
    return OrderResult(order.state(), fills, prevented, command.ns)


def tell_market(command: Command, market: Market) -> None:
    """Tell what a command changed in the book."""
    changed = market.changes(command.ns)
    if changed is not None:
        command.events.append(changed)
        touched = market.touched(changed.last_id, command.ns)
        if touched is not None:
            command.events.append(touched)


def tell_balances(command: Command) -> None:
    """Tell users what they hold now; nobody may hold less than nothing."""
    touched: dict[Account, dict[str, tuple[int, int]]] = {}
    for account, asset in command.touched:
        if min(account.balance(asset)) < 0:
            raise AssertionError(f"{account.name} would have less than nothing of {asset}")
        touched.setdefault(account, {})[asset] = account.balance(asset)
    for account, balances in touched.items():
        account.updated_ns = command.ns
        command.events.append(BalancesChanged(account.name, balances, command.ns))
