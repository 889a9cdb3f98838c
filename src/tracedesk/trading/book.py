"""The book of an account as a fold over its entries, and the double entries that things are written as.

Cash, fees, dividends and quantities come from postings; what a position has cost comes from fills.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from tracedesk.primitives.money import divide
from tracedesk.primitives.time import DAY
from tracedesk.trading.model import CASH, Fill, Portfolio, Position, Posting
from tracedesk.trading.units import CASH_PLACES, PRICE_PLACES, QUANTITY_PLACES

BOOKS: Final = ("cash", "position", "market", "fees", "dividends", "splits", "equity")

BEGINNING: Final = -(2**63)
"""Before every market time."""
_COST_PER_CENT: Final = 10 ** (PRICE_PLACES + QUANTITY_PLACES - CASH_PLACES)
"""Units of price x quantity in one cent."""


class Posted(Protocol):
    """The part of an entry that moves a portfolio."""

    @property
    def seq(self) -> int: ...
    @property
    def clock_ns(self) -> int: ...
    @property
    def fills(self) -> Sequence[Fill]: ...
    @property
    def postings(self) -> Sequence[Posting]: ...


# --- how things are written --------------------------------------------------------------------


def for_fill(fill: Fill) -> tuple[Posting, ...]:
    """The account and the market exchange shares for money; the fees go to whom they go to."""
    sign = 1 if fill.side == "buy" else -1
    return (
        Posting("position", fill.symbol, sign * fill.quantity),
        Posting("market", fill.symbol, -sign * fill.quantity),
        Posting("cash", CASH, -fill.total_cost),
        Posting("market", CASH, sign * fill.notional),
        Posting("fees", CASH, fill.fees),
    )


def for_opening(cash: int) -> tuple[Posting, ...]:
    """What an account begins with."""
    return Posting("cash", CASH, cash), Posting("equity", CASH, -cash)


def for_dividend(symbol: str, cents: int) -> tuple[Posting, ...]:
    """A dividend received, or with negative cents paid for a short position.

    The line of no units names the symbol that paid.
    """
    return (
        Posting("cash", CASH, cents),
        Posting("dividends", CASH, -cents),
        Posting("dividends", symbol, 0),
    )


def for_split(symbol: str, delta: int) -> tuple[Posting, ...]:
    """The shares that a split adds to a position, or takes from it."""
    return Posting("position", symbol, delta), Posting("splits", symbol, -delta)


def imbalance(postings: Iterable[Posting]) -> dict[str, int]:
    """What is left over by asset; nothing, when the entry balances."""
    sums = Counter[str]()
    for posting in postings:
        sums[posting.asset] += posting.units
    return {asset: units for asset, units in sums.items() if units}


def contradict(fills: Iterable[Fill], postings: Iterable[Posting]) -> bool:
    """Whether what was exchanged with the market, or paid in fees, is not what the fills say."""
    sums = Counter[tuple[str, str]]()
    for posting in postings:
        sums[posting.book, posting.asset] += posting.units
    for fill in fills:
        for posting in for_fill(fill):
            sums[posting.book, posting.asset] -= posting.units
    return any(units for (book, _), units in sums.items() if book in ("market", "fees"))


# --- the fold ----------------------------------------------------------------------------------


def opened(account: str) -> Portfolio:
    """A portfolio before its first entry."""
    return Portfolio(account, 0)


def apply(portfolio: Portfolio, entry: Posted) -> Portfolio:
    """The portfolio after an entry of its account; one without postings leaves it as it was."""
    if not entry.postings:
        return portfolio
    return replace(after(portfolio, entry.fills, entry.postings), version=entry.seq)


@dataclass(frozen=True, slots=True)
class Morning:
    """An account after its every entry of a market time or before it."""

    through_ns: int
    portfolio: Portfolio


@dataclass(frozen=True, slots=True)
class Course:
    """An account as it is, and as its newest day (in UTC, so that it holds a whole session) found it."""

    now: Portfolio
    clock_ns: int = BEGINNING
    """The latest market time of an entry that moved it."""
    day: Morning | None = None
    """Unknown on the first day, and after an entry that belongs before this day."""


def follow(course: Course, entry: Posted) -> Course:
    """The course after an entry of its account; one without postings leaves it as it was."""
    if not entry.postings:
        return course
    day = course.day
    if course.now.version and entry.clock_ns // DAY > course.clock_ns // DAY:
        day = Morning(course.clock_ns, course.now)
    elif day is not None and entry.clock_ns <= day.through_ns:
        day = None
    return Course(apply(course.now, entry), max(course.clock_ns, entry.clock_ns), day)


def after(portfolio: Portfolio, fills: Iterable[Fill], postings: Iterable[Posting]) -> Portfolio:
    """The portfolio after fills and postings, at the same version.

    Quantities that no fill accounts for (splits) come last, and keep the cost.
    """
    positions, moved = dict(portfolio.positions), Counter[str]()
    money = Counter[str]()
    for posting in postings:
        if posting.book == "position":
            moved[posting.asset] += posting.units
        elif posting.asset == CASH:
            money[posting.book] += posting.units
    realised = portfolio.realised
    for fill in fills:
        sign = 1 if fill.side == "buy" else -1
        held = positions.get(fill.symbol, Position(fill.symbol, 0, 0))
        positions[fill.symbol], gain = traded(held, sign * fill.quantity, fill.price)
        moved[fill.symbol] -= sign * fill.quantity
        realised += gain
    for symbol, units in moved.items():
        held = positions.get(symbol, Position(symbol, 0, 0))
        positions[symbol] = replace(held, quantity=held.quantity + units)
    return replace(
        portfolio,
        cash=portfolio.cash + money["cash"],
        positions={s: positions[s] for s in sorted(positions) if positions[s].quantity},
        realised=realised,
        fees=portfolio.fees + money["fees"],
        dividends=portfolio.dividends - money["dividends"],
    )


def traded(held: Position, quantity: int, price: int) -> tuple[Position, int]:
    """The position after buying `quantity` (selling, when negative) at `price`, and the cents it won.

    The cost has the quantity's sign, so that their quotient is the average price of a short position too.
    """
    if held.quantity * quantity >= 0:
        return Position(held.symbol, held.quantity + quantity, held.cost + quantity * price), 0
    closed = -held.quantity if abs(quantity) > abs(held.quantity) else quantity
    left = held.quantity + closed
    kept = divide(held.cost * abs(left), abs(held.quantity))
    gain = divide(-closed * price - (held.cost - kept), _COST_PER_CENT)
    opened_now = quantity - closed
    return Position(held.symbol, left + opened_now, kept + opened_now * price), gain


def average(position: Position) -> int:
    """The average price of a position in millionths, rounded half-even."""
    sign = 1 if position.quantity > 0 else -1
    return divide(sign * position.cost, abs(position.quantity))
