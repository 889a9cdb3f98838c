"""Risk limits: which of them a batch of trades would break. Pure, exact, out of the model's reach.

A limit is broken only by what a batch makes worse. In particular:

- A batch that only brings positions towards zero is refused for its orders' size, for the rate of orders and
  by HALTED, and for nothing else: a way out stays open.
- A weight counts only where the batch moves that position away from zero and its weight grows.
- Leverage counts only when both the gross value and its ratio to the total value grow.
- Value at risk and the day's loss count for every batch that does more than reduce. Trading has costs, so
  every batch makes the day's loss a little worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tracedesk.primitives.money import Rounding, divide, from_units
from tracedesk.trading.model import Portfolio, Position, Trade
from tracedesk.trading.risk import Metrics
from tracedesk.trading.settings import Limits, State
from tracedesk.trading.sources.seam import unavailable
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


# --- the judgement -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Violation:
    """A limit that a batch would break; `observed` is None when no total value is left to compare with."""

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
class _Batch:
    """What the judges of the single limits look at."""

    limits: Limits
    before: Valued
    after: Valued
    grown: list[str]
    """Symbols whose position the batch moves away from zero."""
    reduces_only: bool


def judge(
    limits: Limits,
    state: State,
    *,
    before: Portfolio,
    after: Portfolio,
    marks: Mapping[str, int],
    trades: Sequence[Trade],
    prices: Sequence[int],
    metrics: Metrics,
    day_start_value: int | None,
    orders_last_minute: int,
    short_selling: bool,
) -> Judgement:
    """Judge a batch by the portfolio as it would be after it.

    `prices` are the trades' own prices in millionths, one each: what they fill at, or are limited to.
    `metrics` are the risk after the batch; `day_start_value` is in cents.
    """
    reducing = reductions(before, trades)
    batch = _Batch(
        limits, value(before, marks), value(after, marks), _grown(before, after), all(reducing)
    )  # fmt: skip
    loss, loss_skipped = _daily_loss(batch, day_start_value)
    var, var_skipped = _value_at_risk(batch, metrics)
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


def reductions(before: Portfolio, trades: Sequence[Trade]) -> list[bool]:
    """For each trade in turn, whether it brings its position towards zero and not beyond."""
    held = {symbol: position.quantity for symbol, position in before.positions.items()}
    found: list[bool] = []
    for trade in trades:
        now = held.get(trade.symbol, 0)
        found.append(now * trade.sign < 0 and trade.quantity <= abs(now))
        held[trade.symbol] = now + trade.sign * trade.quantity
    return found


def _grown(before: Portfolio, after: Portfolio) -> list[str]:
    return [
        symbol
        for symbol, position in after.positions.items()
        if abs(position.quantity) > abs(_quantity(before.positions.get(symbol)))
    ]


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
        now = _Share(abs(batch.after.market_values[symbol]), batch.after.total_cents)
        was = _Share(abs(batch.before.market_values.get(symbol, 0)), batch.before.total_cents)
        if now.exceeds(allowed) and now.is_above(was):
            found.append(Violation("max_position_weight", allowed, now.observed, symbol))
    return found


def _gross_leverage(batch: _Batch) -> list[Violation]:
    allowed = batch.limits.max_gross_leverage
    now = _Share(batch.after.gross_cents, batch.after.total_cents)
    was = _Share(batch.before.gross_cents, batch.before.total_cents)
    worse = now.part > was.part and now.is_above(was)
    return [Violation("max_gross_leverage", allowed, now.observed)] if worse and now.exceeds(allowed) else []


def _value_at_risk(batch: _Batch, metrics: Metrics) -> tuple[list[Violation], list[Skipped]]:
    allowed, observed = batch.limits.max_var_95_1d, metrics.var_95_1d
    if observed is None:
        return [], [Skipped("max_var_95_1d", metrics.reasons["var_95_1d"])]
    if batch.reduces_only or Fraction(observed) <= Fraction(allowed):
        return [], []
    return [Violation("max_var_95_1d", allowed, _ratio(Fraction(observed), "ceil"))], []


def _daily_loss(batch: _Batch, start: int | None) -> tuple[list[Violation], list[Skipped]]:
    if start is None or start <= 0:
        reason = "the day's first value is not known" if start is None else "the day began with nothing"
        return [], [Skipped("max_daily_loss", reason)]
    allowed, loss = batch.limits.max_daily_loss, Fraction(start - batch.after.total_cents, start)
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
