"""An account in plain memory: what it holds after orders and moves of the clock, in the simplest arithmetic.

Money is in cents, quantities in billionths of a share, prices in millionths. `round` of a `Fraction` is
half-even, which is the ledger's rounding everywhere. Bars are read with hindsight, by session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import Final

from tracedesk.market import Bar, Split, calendar, eastern
from tracedesk.market.dataset import EMBEDDED

SHARE: Final = 10**9
TICK: Final = 100
"""Fill prices have four places."""
LARGEST: Final = 10_000_000
"""The largest order, in cents."""
PARTICIPATION: Final = Fraction(1, 100_000)
"""So little that orders of some dozens of shares fill in parts."""


class Refused(Exception):
    """The account cannot do that; its one argument is the code."""


@dataclass
class Order:
    """An order that was placed, and how far it has come."""

    id: str
    symbol: str
    sign: int
    quantity: int
    kind: str
    level: int
    """The limit or the stop."""
    tif: str
    placed: int = 0
    filled: int = 0
    status: str = "open"

    @property
    def left(self) -> int:
        return self.quantity - self.filled


@dataclass
class Account:
    """One account, and the clock it lives by."""

    now: int
    cash: int
    held: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """By symbol: the quantity, and what it cost in price x quantity."""
    orders: list[Order] = field(default_factory=list[Order])
    """Those that rest, in the order of their placement."""

    # --- orders

    def place(self, asked: list[Order]) -> list[tuple[str, int, int | None, int]]:
        """Place a batch, or refuse it whole: status, quantity, price and cash outflow of each leg."""
        session = calendar.session_at(self.now)
        if session is None:
            raise Refused("MARKET_CLOSED")
        if not all(_is_listed(order.symbol, session) for order in asked):
            raise Refused("INVALID_SYMBOL")
        trial = Account(self.now, self.cash, {s: [*h] for s, h in self.held.items()}, [*self.orders])
        told = [trial._leg(order, _bar(order.symbol, session)) for order in asked]
        for order, (_, _, price, _) in zip(asked, told, strict=True):
            mark = _micros(_bar(order.symbol, session).open)
            if Fraction(order.quantity * (price or order.level or mark), 10**13) > LARGEST:
                raise Refused("RISK_LIMIT_EXCEEDED")
        self.cash, self.held, self.orders = trial.cash, trial.held, trial.orders
        return told

    def _leg(self, order: Order, bar: Bar) -> tuple[str, int, int | None, int]:
        if order.sign < 0 and order.quantity > self.quantity(order.symbol) - self._promised(order.symbol):
            raise Refused("INSUFFICIENT_POSITION")
        order.placed = self.now
        price = _price_now(order, _micros(bar.open))
        quantity = 0 if price is None else min(order.quantity, _cap(order.symbol, bar.session))
        cost = self._trade(order, quantity, price) if price is not None and quantity else 0
        if order.left and order.tif != "ioc":
            self.orders.append(order)
        else:
            order.status = "partial" if order.left and quantity else "rejected" if order.left else "filled"
        # A sale costs money too when its fees exceed its proceeds.
        if (order.sign > 0 or cost > 0) and self.cash < sum(map(_worst, self.orders)):
            raise Refused("INSUFFICIENT_FUNDS")
        return order.status, quantity, price if quantity else None, cost

    def _trade(self, order: Order, quantity: int, price: int) -> int:
        """Exchange shares for money; the cash outflow."""
        cost = order.sign * _value(quantity, price) + _fee(order.filled + quantity) - _fee(order.filled)
        self.cash -= cost
        order.filled += quantity
        held = self.held.setdefault(order.symbol, [0, 0])
        if order.sign > 0:
            held[1] += quantity * price
        else:
            held[1] = round(Fraction(held[1] * (held[0] - quantity), held[0]))
        held[0] += order.sign * quantity
        if not held[0]:
            del self.held[order.symbol]
        return cost

    def cancel(self, id: str) -> None:
        if not any(order.id == id for order in self.orders):
            raise Refused("INVALID_INPUT")
        self.orders = [order for order in self.orders if order.id != id]

    def quantity(self, symbol: str) -> int:
        return self.held[symbol][0] if symbol in self.held else 0

    def _promised(self, symbol: str) -> int:
        return sum(order.left for order in self.orders if order.symbol == symbol and order.sign < 0)

    # --- the clock

    def move(self, to_ns: int) -> None:
        """Live through every open and close up to an instant, and through it if it is one."""
        for session in calendar.sessions(eastern.to_day(self.now), eastern.to_day(to_ns)):
            if self.now < calendar.open_ns(session) <= to_ns:
                self._open(session)
            if self.now < calendar.close_ns(session) <= to_ns:
                self._close(session)
        self.now = to_ns

    def _open(self, session: date) -> None:
        today = [(s, a) for s in EMBEDDED for a in EMBEDDED[s].actions if a.ex_date == session]
        for symbol, action in sorted(today, key=lambda each: not isinstance(each[1], Split)):
            if isinstance(action, Split):
                self.orders = [order for order in self.orders if order.symbol != symbol]
                if symbol in self.held:
                    self.held[symbol][0] = round(Fraction(self.held[symbol][0] * action.new, action.old))
            else:
                self.cash += round(self.quantity(symbol) * Fraction(action.amount) * 100 / SHARE)

    def _close(self, session: date) -> None:
        opened = calendar.open_ns(session)
        for order in self.orders:
            bar, fresh = _bar(order.symbol, session), order.placed >= opened
            price = _price_in(order, bar, fresh)
            cap = _cap(order.symbol, session) - (order.filled if fresh else 0)
            quantity = min(order.left, max(0, cap))
            if price is not None and quantity:
                self._settle(order, quantity, price)
            if order.status == "open" and not order.left:
                order.status = "filled"
            elif order.status == "open" and order.tif == "day":
                order.status = "expired"
        self.orders = [order for order in self.orders if order.status == "open"]

    def _settle(self, order: Order, quantity: int, price: int) -> None:
        """Fill a resting order, unless the shares or the money are gone."""
        cost = order.sign * _value(quantity, price) + _fee(order.filled + quantity) - _fee(order.filled)
        if (order.sign < 0 and quantity > self.quantity(order.symbol)) or cost > max(0, self.cash):
            order.status = "cancelled"
        else:
            self._trade(order, quantity, price)


# --- prices


def _slipped(order: Order, micros: int) -> int:
    """Five basis points against the owner, to a tick."""
    return max(1, round(Fraction(micros * (10_000 + 5 * order.sign), 10_000 * TICK))) * TICK


def _price_now(order: Order, opening: int) -> int | None:
    market = _slipped(order, opening)
    if order.kind == "limit":
        limit = _limit(order)
        return _best(order, limit, market) if order.sign * (limit - opening) >= 0 else None
    if order.kind == "stop" and order.sign * (opening - order.level) < 0:
        return None
    return market


def _price_in(order: Order, bar: Bar, fresh: bool) -> int | None:
    """The price of a resting order in a session; the open has been judged if it was placed after it."""
    opening, high, low = _micros(bar.open), _micros(bar.high), _micros(bar.low)
    if order.kind == "limit":
        limit, reached = _limit(order), low if order.sign > 0 else high
        if order.sign * (limit - reached) <= 0:
            return None
        if not fresh and order.sign * (limit - opening) > 0:
            return opening
        return _best(order, limit, high if order.sign > 0 else low)
    if order.filled:
        return None if fresh else _slipped(order, opening)
    if order.sign * ((high if order.sign > 0 else low) - order.level) < 0:
        return None
    if not fresh and order.sign * (opening - order.level) >= 0:
        return _slipped(order, opening)
    return _slipped(order, max(order.level, low) if order.sign > 0 else min(order.level, high))


def _limit(order: Order) -> int:
    """The limit to a tick, in the owner's favour."""
    return order.level // TICK * TICK if order.sign > 0 else -(-order.level // TICK) * TICK


def _best(order: Order, left: int, right: int) -> int:
    return min(left, right) if order.sign > 0 else max(left, right)


def _worst(order: Order) -> int:
    """The most that a resting buy can cost."""
    if order.sign < 0:
        return 0
    level = order.level if order.kind == "limit" else _slipped(order, order.level)
    return _value(order.left, level) + _fee(order.left)


def _value(quantity: int, price: int) -> int:
    return round(Fraction(quantity * price, 10**13))


def _fee(quantity: int) -> int:
    """Half a cent a share, a dollar at least, and nothing for nothing."""
    return max(100, round(Fraction(quantity, 2 * SHARE))) if quantity else 0


# --- bars


def _bar(symbol: str, session: date) -> Bar:
    found = EMBEDDED[symbol].on(session)
    assert found is not None
    return found


def _is_listed(symbol: str, session: date) -> bool:
    return symbol in EMBEDDED and EMBEDDED[symbol].on(session) is not None


def _cap(symbol: str, session: date) -> int:
    """A share of the average volume of the 20 sessions before, in the shares of the session."""
    before = EMBEDDED[symbol].between(session - timedelta(60), session - timedelta(1))[-20:]
    volumes = [round(bar.volume * _growth(symbol, bar.session, session)) for bar in before]
    return int(sum(volumes) // len(volumes) * PARTICIPATION) * SHARE


def _growth(symbol: str, after: date, until: date) -> Fraction:
    """How many shares one became by splits from the day after the first date to the second."""
    splits = [action for action in EMBEDDED[symbol].actions if isinstance(action, Split)]
    ratios = [Fraction(split.new, split.old) for split in splits if after < split.ex_date <= until]
    return prod(ratios, start=Fraction(1))


def _micros(value: Decimal) -> int:
    return int(value * 10**6)
