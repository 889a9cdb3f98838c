"""Risk limits: which of them a batch of trades would break. Pure, exact, out of the model's reach.

A limit is broken only by what a batch makes worse. In particular:

- A batch that only brings positions towards zero is refused for its orders' size, for the rate of orders and
  by HALTED, and for nothing else: a way out stays open.
- A weight counts only where the batch moves that exposure away from zero and its weight grows.
- Leverage counts only when both the gross exposure and its ratio to the total value grow.
- Value at risk and the day's loss count for every batch that does more than reduce. Trading has costs, so
  every batch makes the day's loss a little worse. One that cannot be judged is broken.

Resting orders count as exposure: that of a symbol is the larger of the position with all its resting buys and
the position without all its resting sells, at marks. Nothing is credited for them: the total value that
shares are taken of is that of the account without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tracedesk.primitives.money import Rounding, divide, from_units
from tracedesk.trading import risk
from tracedesk.trading.model import Order, OrderState, Portfolio, Position, Trade
from tracedesk.trading.settings import Limits, State, Trading
from tracedesk.trading.sources.seam import Series, unavailable
from tracedesk.trading.units import CASH_PLACES, PRICE_PLACES, QUANTITY_PLACES, money, notional, quantity

RATIO_PLACES: Final = 15
"""Places of a weight or another ratio: the weights of 1,000 positions still sum to 1 within 1e-12."""

_NOTIONAL_UNITS: Final = 10 ** (PRICE_PLACES + QUANTITY_PLACES)
_UNITS_A_CENT: Final = _NOTIONAL_UNITS // 10**CASH_PLACES


# --- what a portfolio is worth -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Valued:
    """A portfolio at marks, in cents; a position's value is rounded half-even once."""

    cash: int
    market_values: dict[str, int]

    @property
    def total_cents(self) -> int:
        return self.cash + sum(self.market_values.values())

    @property
    def gross_cents(self) -> int:
        return sum(map(abs, self.market_values.values()))

    @property
    def weights(self) -> dict[str, Decimal | None]:
        """Signed shares of the total value, cash included; None when that is not positive."""
        total = self.total_cents
        return {symbol: _weight(value, total) for symbol, value in self.market_values.items()}

    @property
    def cash_weight(self) -> Decimal | None:
        return _weight(self.cash, self.total_cents)

    def risk_weights(self) -> dict[str, float] | None:
        """The weights as `risk.metrics` takes them: the nearest binary64 of each exact share."""
        total = self.total_cents
        if total <= 0:
            return None
        # The quotient of two integers is rounded correctly, however large they are.
        return {symbol: value / total for symbol, value in self.market_values.items()}


def value(portfolio: Portfolio, marks: Mapping[str, int]) -> Valued:
    """The portfolio at marks in millionths; every position needs one."""
    held = {symbol: position for symbol, position in portfolio.positions.items() if position.quantity}
    missing = next((symbol for symbol in held if symbol not in marks), None)
    if missing is not None:
        raise unavailable(missing, "The price", "It is held, so nothing can be valued without it.")
    worth = {symbol: notional(position.quantity, marks[symbol]) for symbol, position in held.items()}
    return Valued(portfolio.cash, worth)


def _weight(part: int, total: int) -> Decimal | None:
    return None if total <= 0 else _ratio(Fraction(part, total), "half_even")


def _ratio(fraction: Fraction, rounding: Rounding) -> Decimal:
    units = divide(fraction.numerator * 10**RATIO_PLACES, fraction.denominator, rounding)
    return from_units(units, RATIO_PLACES)


# --- what may come to be held --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rests:
    """What open orders may still trade, by symbol, in billionths of a share."""

    buys: Counter[str] = field(default_factory=Counter[str])
    sells: Counter[str] = field(default_factory=Counter[str])

    def exposure(self, symbol: str, held: int) -> int:
        """The quantity farthest from zero that a position can come to; it has its sign."""
        most, least = held + self.buys[symbol], held - self.sells[symbol]
        return most if abs(most) >= abs(least) else least

    def free(self, symbol: str, held: int) -> int:
        """What of a position no open order is about to close."""
        return max(0, held - self.sells[symbol]) if held > 0 else min(0, held + self.buys[symbol])


def rests(open_orders: Iterable[tuple[Order, OrderState]]) -> Rests:
    """What the orders may still trade."""
    found = Rests()
    for order, state in open_orders:
        side = found.buys if order.trade.side == "buy" else found.sells
        side[order.trade.symbol] += order.trade.quantity - state.filled
    return found


def exposed(portfolio: Portfolio, resting: Rests) -> dict[str, int]:
    """The exposure of each symbol that is held or has an order resting."""
    symbols = sorted({*portfolio.positions, *resting.buys, *resting.sells})
    return {s: resting.exposure(s, _quantity(portfolio.positions.get(s))) for s in symbols}


def exposure(portfolio: Portfolio, resting: Rests, marks: Mapping[str, int]) -> Exposure:
    """What may come to be held, at marks, against the total value of what is."""
    quantities = exposed(portfolio, resting)
    worth = {symbol: notional(units, marks[symbol]) for symbol, units in quantities.items() if units}
    return Exposure(quantities, worth, value(portfolio, marks).total_cents)


@dataclass(frozen=True, slots=True)
class Exposure:
    """Signed exposures by symbol: quantities, and cents at marks; and the total value, in cents."""

    quantities: dict[str, int]
    values: dict[str, int]
    total_cents: int

    @property
    def gross_cents(self) -> int:
        return sum(map(abs, self.values.values()))

    def share(self, symbol: str) -> _Share:
        return _Share(abs(self.values.get(symbol, 0)), self.total_cents)

    @property
    def leverage(self) -> _Share:
        return _Share(self.gross_cents, self.total_cents)

    def risk_weights(self) -> dict[str, float] | None:
        if self.total_cents <= 0:
            return None
        return {symbol: value / self.total_cents for symbol, value in self.values.items()}


# --- value at risk -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tail:
    """The value at risk that a limit is held to; None when it is not known."""

    var: float | None
    reason: str = ""
    """Why it is not known, or which symbols it was judged without."""


def tail(weights: Mapping[str, float] | None, series: Mapping[str, Series], settings: Trading) -> Tail:
    """The value at risk of signed weights.

    Symbols with too short a history are left out while together they weigh no more than one position may.
    """
    short = {
        s: w for s, w in (weights or {}).items() if w and _returns(series.get(s)) < settings.minimum_returns
    }
    weight, reason = sum(map(abs, short.values())), ""
    if short and Fraction(weight) <= Fraction(settings.limits.max_position_weight):
        names = ", ".join(sorted(short))
        reason = f"judged without {names}: fewer than {settings.minimum_returns} returns are known"
        weights = {s: w for s, w in (weights or {}).items() if s not in short}
    found = risk.metrics(
        weights,
        series,
        window=settings.window,
        minimum=settings.minimum_returns,
        risk_free=settings.risk_free,
    )
    return Tail(found.var_95_1d, reason if found.var_95_1d is not None else found.reasons["var_95_1d"])


def _returns(series: Series | None) -> int:
    return 0 if series is None else len(series.days) - 1


def worse(one: Tail, other: Tail) -> Tail:
    """The larger of two values at risk; one that is not known is the worst."""
    if one.var is None or other.var is None:
        return one if one.var is None else other
    return one if one.var >= other.var else other


# --- the judgement -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Violation:
    """A limit that a batch would break; `observed` is None when it cannot be said: nothing is left to compare
    with, or what the limit is about is not known."""

    limit: str
    allowed: Decimal | int | str
    observed: Decimal | int | str | None
    symbol: str | None = None

    def as_json(self) -> dict[str, Any]:
        body = {"limit": self.limit, "allowed": self.allowed, "observed": self.observed}
        return body if self.symbol is None else {**body, "symbol": self.symbol}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A limit that could not be judged, and why."""

    limit: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {"limit": self.limit, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Judgement:
    """All limits that a batch would break, and those that nobody could judge."""

    violations: list[Violation]
    skipped: list[Skipped]


@dataclass(frozen=True, slots=True)
class Day:
    """What the account was worth when the session found it, in cents."""

    start_cents: int | None
    reason: str = ""
    """Why that is not known."""
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class _Batch:
    """What the judges of the single limits look at."""

    limits: Limits
    before: Exposure
    after: Exposure
    reduces_only: bool

    @property
    def grown(self) -> list[str]:
        """Symbols whose exposure the batch moves away from zero."""
        was = self.before.quantities
        return [s for s, units in self.after.quantities.items() if abs(units) > abs(was.get(s, 0))]


def judge(
    limits: Limits,
    state: State,
    *,
    before: Portfolio,
    after: Portfolio,
    marks: Mapping[str, int],
    trades: Sequence[Trade],
    prices: Sequence[int],
    tail: Tail,
    day: Day,
    orders_last_minute: int,
    short_selling: bool,
    rested: Rests | None = None,
    resting: Rests | None = None,
) -> Judgement:
    """Judge a batch by the portfolio as it would be after it, and by what rests before and after it.

    `prices` are the trades' own prices in millionths, one each: what they fill at, or are limited to.
    `tail` is the risk after the batch.
    """
    rested = rested or Rests()
    resting = resting or rested
    reducing = reductions(before, trades, rested)
    batch = _Batch(
        limits, exposure(before, rested, marks), exposure(after, resting, marks), all(reducing)
    )  # fmt: skip
    loss, loss_skipped = _daily_loss(batch, day)
    var, var_skipped = _value_at_risk(batch, tail)
    violations = [
        *_state(state, trades, reducing),
        *_order_notional(limits, trades, prices),
        *_orders_per_minute(limits, len(trades), orders_last_minute),
        *([] if short_selling else _short_positions(before, after)),
        *_position_weight(batch),
        *_gross_leverage(batch),
        *var,
        *loss,
    ]
    return Judgement(violations, [*var_skipped, *loss_skipped])


def broken_by_fill(
    limits: Limits, before: Portfolio, after: Portfolio, marks: Mapping[str, int], tail: Tail
) -> list[Violation]:
    """The limits of the whole portfolio that the fill of a resting order would break."""
    none = Rests()
    batch = _Batch(limits, exposure(before, none, marks), exposure(after, none, marks), False)
    return [*_position_weight(batch), *_gross_leverage(batch), *_value_at_risk(batch, tail)[0]]


def reductions(before: Portfolio, trades: Sequence[Trade], rested: Rests | None = None) -> list[bool]:
    """For each trade in turn, whether it brings its position towards zero and not beyond.

    What open orders are about to close is not there to be closed again.
    """
    claimed = rested or Rests()
    held = {s: claimed.free(s, position.quantity) for s, position in before.positions.items()}
    found: list[bool] = []
    for trade in trades:
        now = held.get(trade.symbol, 0)
        found.append(now * trade.sign < 0 and trade.quantity <= abs(now))
        held[trade.symbol] = now + trade.sign * trade.quantity
    return found


def _quantity(position: Position | None) -> int:
    return 0 if position is None else position.quantity


# --- one limit after the other -------------------------------------------------------------------


def _state(state: State, trades: Sequence[Trade], reducing: Sequence[bool]) -> list[Violation]:
    if state == "ACTIVE" or not trades:
        return []
    if state == "HALTED":
        return [Violation("state", state, f"{len(trades)} trades")]
    return [
        Violation("state", state, f"{trade.side} {quantity(trade.quantity)}", trade.symbol)
        for trade, reduces in zip(trades, reducing, strict=True)
        if not reduces
    ]


def _order_notional(limits: Limits, trades: Sequence[Trade], prices: Sequence[int]) -> list[Violation]:
    allowed = limits.max_order_notional
    return [
        Violation("max_order_notional", allowed, _cents_up(trade.quantity * price), trade.symbol)
        for trade, price in zip(trades, prices, strict=True)
        if Fraction(trade.quantity * price, _NOTIONAL_UNITS) > Fraction(allowed)
    ]


def _cents_up(units: int) -> Decimal:
    """Rounded up, as all that is observed is: what breaks a limit never looks as if it met it."""
    return money(divide(units, _UNITS_A_CENT, "ceil"))


def _orders_per_minute(limits: Limits, count: int, before: int) -> list[Violation]:
    allowed, observed = limits.max_orders_per_minute, before + count
    return [Violation("max_orders_per_minute", allowed, observed)] if count and observed > allowed else []


def _short_positions(before: Portfolio, after: Portfolio) -> list[Violation]:
    return [
        Violation("short_selling", 0, quantity(position.quantity), symbol)
        for symbol, position in after.positions.items()
        if position.quantity < min(0, _quantity(before.positions.get(symbol)))
    ]


def _position_weight(batch: _Batch) -> list[Violation]:
    allowed = batch.limits.max_position_weight
    found: list[Violation] = []
    for symbol in batch.grown:
        now = batch.after.share(symbol)
        if now.exceeds(allowed) and now.is_above(batch.before.share(symbol)):
            found.append(Violation("max_position_weight", allowed, now.observed, symbol))
    return found


def _gross_leverage(batch: _Batch) -> list[Violation]:
    allowed = batch.limits.max_gross_leverage
    now, was = batch.after.leverage, batch.before.leverage
    worse = now.part > was.part and now.is_above(was)
    return [Violation("max_gross_leverage", allowed, now.observed)] if worse and now.exceeds(allowed) else []


def _value_at_risk(batch: _Batch, tail: Tail) -> tuple[list[Violation], list[Skipped]]:
    allowed = batch.limits.max_var_95_1d
    skipped = [Skipped("max_var_95_1d", tail.reason)] if tail.reason else []
    if batch.reduces_only or (tail.var is not None and Fraction(tail.var) <= Fraction(allowed)):
        return [], skipped
    observed = None if tail.var is None else _ratio(Fraction(tail.var), "ceil")
    return [Violation("max_var_95_1d", allowed, observed)], skipped


def _daily_loss(batch: _Batch, day: Day) -> tuple[list[Violation], list[Skipped]]:
    allowed, start = batch.limits.max_daily_loss, day.start_cents
    if not day.is_open:
        return [], [Skipped("max_daily_loss", "the exchange is closed")]
    if start is None or start <= 0:
        reason = day.reason if start is None else "the day began with nothing"
        broken = [] if batch.reduces_only else [Violation("max_daily_loss", allowed, None)]
        return broken, [Skipped("max_daily_loss", reason)]
    loss = Fraction(start - batch.after.total_cents, start)
    if batch.reduces_only or loss <= Fraction(allowed):
        return [], []
    return [Violation("max_daily_loss", allowed, _ratio(loss, "ceil"))], []


@dataclass(frozen=True, slots=True)
class _Share:
    """A value against the total; where no total is left, any value is more than every share of one."""

    part: int
    total: int

    @property
    def observed(self) -> Decimal | None:
        return None if self.total <= 0 else _ratio(Fraction(self.part, self.total), "ceil")

    def exceeds(self, allowed: Decimal) -> bool:
        return self.part > Fraction(allowed) * self.total

    def is_above(self, other: _Share) -> bool:
        if self.total <= 0 or other.total <= 0:
            return self.part > 0 and (other.total > 0 or self.part > other.part)
        return self.part * other.total > other.part * self.total
