"""A matching model that is slow and plain: lists that are sorted whenever they are read."""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from tracedesk.exchange.venue.orders import OrderState

RISING = {
    ("BUY", "STOP_LOSS"),
    ("BUY", "STOP_LOSS_LIMIT"),
    ("SELL", "TAKE_PROFIT"),
    ("SELL", "TAKE_PROFIT_LIMIT"),
}
ONE = 10**8


@dataclass
class Item:
    """An order as the model sees it; `owner` is `None` for the background flow."""

    id: int
    side: str
    type: str
    owner: str | None
    price: int
    quantity: int
    tif: str = "GTC"
    mode: str = "NONE"
    stop: int = 0
    trailing: int = 0
    shown: int = 0
    open: int = 0
    hidden: int = 0
    executed: int = 0
    prevented: int = 0
    status: str = "NEW"
    seq: int = 0
    extreme: int = 0

    @property
    def left(self) -> int:
        return self.quantity - self.executed - self.prevented

    @property
    def is_open(self) -> bool:
        return self.status in ("NEW", "PARTIALLY_FILLED")

    @classmethod
    def of(cls, state: OrderState) -> Item:
        return cls(
            id=state.id,
            side=state.side,
            type=state.type,
            owner=state.account,
            price=state.price,
            quantity=state.quantity,
            tif=state.time_in_force,
            mode=state.prevention,
            stop=state.stop_price,
            trailing=state.trailing_delta or 0,
            shown=state.iceberg_quantity,
        )


class Naive:
    """The book, the waiting stops, and what every owner has."""

    def __init__(self, base: str, quote: str, rates: dict[str, tuple[int, int]]) -> None:
        self.base = base
        self.quote = quote
        self.rates = rates
        self.book: list[Item] = []
        self.waiting: list[Item] = []
        self.known: dict[int, Item] = {}
        self.has: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.trades: list[tuple[int, int, int, int]] = []
        self.seq = 0

    def side(self, side: str) -> list[Item]:
        """Orders of one side, best first."""
        sign = -1 if side == "BUY" else 1
        found = [each for each in self.book if each.side == side]
        return sorted(found, key=lambda each: (sign * each.price, each.seq))

    def levels(self, side: str) -> list[tuple[int, int]]:
        shown: dict[int, int] = {}
        for item in self.side(side):
            shown[item.price] = shown.get(item.price, 0) + item.open
        return list(shown.items())

    def place(self, item: Item) -> None:
        self.known[item.id] = item
        if item.type in ("LIMIT", "MARKET", "LIMIT_MAKER"):
            self.work(item)
        else:
            self.waiting.append(item)

    def work(self, item: Item) -> None:
        fired: list[Item] = []
        self._work(item, fired)
        while fired:
            stop = fired.pop(0)
            if stop.is_open:
                self._activate(stop, fired)

    def _activate(self, stop: Item, fired: list[Item]) -> None:
        if (
            stop.side == "BUY"
            and not stop.price
            and self.cost(stop) > self.free(stop.owner or "", self.quote)
        ):
            stop.status = "EXPIRED"
            return
        self._work(stop, fired)

    def _work(self, item: Item, fired: list[Item]) -> None:
        if item.tif == "FOK" and not self._fills_whole(item):
            item.status = "EXPIRED"
            return
        item.open = item.left
        self._match(item, fired)
        if not item.left:
            return
        if not item.price or item.tif == "IOC":
            item.status = "EXPIRED"
            return
        self._rest(item)

    def _rest(self, item: Item) -> None:
        left = item.left
        item.open = min(item.shown, left) if item.shown else left
        item.hidden = left - item.open
        self.seq += 1
        item.seq = self.seq
        self.book.append(item)

    def _fills_whole(self, item: Item) -> bool:
        world = copy.deepcopy(self)
        twin = copy.deepcopy(item)
        twin.open = twin.left
        before = twin.executed
        wanted = twin.left
        world._match(twin, [])
        return twin.executed - before == wanted

    def cost(self, item: Item) -> int:
        """What a market order would pay."""
        world = copy.deepcopy(self)
        twin = copy.deepcopy(item)
        twin.open = twin.left
        before = len(world.trades)
        world._match(twin, [])
        return sum(price * quantity // ONE for _, _, price, quantity in world.trades[before:])

    def _match(self, item: Item, fired: list[Item]) -> None:
        while item.open:
            other = next(iter(self.side("SELL" if item.side == "BUY" else "BUY")), None)
            if other is None or (item.price and not _meets(item, other)):
                return
            if item.mode != "NONE" and other.owner == item.owner:
                self._prevent(item, other)
            else:
                self._trade(item, other, fired)

    def _trade(self, item: Item, other: Item, fired: list[Item]) -> None:
        quantity = min(item.open, other.open)
        self.trades.append((item.id, other.id, other.price, quantity))
        for each, is_maker in ((item, False), (other, True)):
            each.open -= quantity
            each.executed += quantity
            each.status = "PARTIALLY_FILLED" if each.left else "FILLED"
            if each.owner is not None:
                self._pay(each, other.price, quantity, is_maker)
        if not other.open:
            self.book.remove(other)
            if other.left:
                self._rest(other)
        self.see(other.price, fired)

    def _pay(self, item: Item, price: int, quantity: int, is_maker: bool) -> None:
        owner = item.owner or ""
        amount = price * quantity // ONE
        sign = 1 if item.side == "BUY" else -1
        self.has[owner, self.base] += sign * quantity
        self.has[owner, self.quote] -= sign * amount
        asset, gained = (self.base, quantity) if sign > 0 else (self.quote, amount)
        rate = self.rates[owner][0 if is_maker else 1]
        self.has[owner, asset] -= int(Fraction(gained * rate, ONE) + Fraction(1, 2))

    def _prevent(self, item: Item, other: Item) -> None:
        if item.mode == "DECREMENT":
            lost = min(item.open, other.left)
            self._lose(item, lost)
            self._lose(other, lost)
            return
        if item.mode in ("EXPIRE_MAKER", "EXPIRE_BOTH"):
            self._lose(other, other.left)
        if item.mode in ("EXPIRE_TAKER", "EXPIRE_BOTH"):
            self._lose(item, item.open)

    def _lose(self, item: Item, lost: int) -> None:
        item.prevented += lost
        self._shrink(item, lost)
        if not item.left:
            item.status = "EXPIRED_IN_MATCH"
            if item in self.book:
                self.book.remove(item)

    def _shrink(self, item: Item, lost: int) -> None:
        hidden = min(item.hidden, lost)
        item.hidden -= hidden
        item.open -= lost - hidden

    def see(self, price: int, fired: list[Item]) -> None:
        """Let the stops see a traded price."""
        for rising, order in ((True, 1), (False, -1)):
            plain = [each for each in self.waiting if not each.trailing and _rises(each) == rising]
            for stop in sorted(plain, key=lambda each: (order * each.stop, each.id)):
                if _is_met(stop, price):
                    self.waiting.remove(stop)
                    fired.append(stop)
        for stop in [each for each in self.waiting if each.trailing]:
            if self._follows(stop, price):
                self.waiting.remove(stop)
                fired.append(stop)

    def _follows(self, stop: Item, price: int) -> bool:
        """Whether a price fires a trailing stop."""
        if not stop.extreme:
            if not stop.stop or _is_met(stop, price):
                stop.extreme = price
            return False
        best = min if stop.side == "BUY" else max
        stop.extreme = best(stop.extreme, price)
        delta = Fraction(stop.trailing, 10_000)
        if stop.side == "BUY":
            return price >= stop.extreme * (1 + delta)
        return price <= stop.extreme * (1 - delta)

    def cancel(self, id: int) -> None:
        item = self.known[id]
        item.status = "CANCELED"
        self._forget(item)

    def _forget(self, item: Item) -> None:
        self.book = [each for each in self.book if each is not item]
        self.waiting = [each for each in self.waiting if each is not item]

    def amend(self, id: int, quantity: int) -> None:
        item = self.known[id]
        lost = item.quantity - quantity
        if item in self.book:
            self._shrink(item, lost)
        item.quantity = quantity

    def restart(self) -> None:
        """Only what users have in the book is there after a restart."""
        self.book = [each for each in self.book if each.owner is not None]

    def locked(self, owner: str, asset: str) -> int:
        """What the open orders of an owner lock of an asset."""
        found = 0
        for item in self.known.values():
            if item.owner == owner and item.is_open:
                if item.side == "SELL" and asset == self.base:
                    found += item.left
                if item.side == "BUY" and asset == self.quote:
                    found += item.price * item.left // ONE
        return found

    def free(self, owner: str, asset: str) -> int:
        return self.has[owner, asset] - self.locked(owner, asset)


def _meets(item: Item, other: Item) -> bool:
    return other.price <= item.price if item.side == "BUY" else other.price >= item.price


def _rises(stop: Item) -> bool:
    return (stop.side, stop.type) in RISING


def _is_met(stop: Item, price: int) -> bool:
    return price >= stop.stop if _rises(stop) else price <= stop.stop
