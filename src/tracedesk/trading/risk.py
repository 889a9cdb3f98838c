"""Value at risk, drawdown and Sharpe ratio of a portfolio: one definition, and what it rests on.

Returns are simple daily returns of adjusted closes, on the days that all held symbols share. The portfolio's
return is the sum of signed weights times returns; cash earns nothing. The figures are binary64. Large
portfolios are summed by numpy and small ones without it: the sums agree to a rounding of each term, and from
the same sums both work out the same figures to the last bit.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, pairwise
from math import fsum, inf, isfinite, sqrt
from operator import add, mul
from typing import TYPE_CHECKING, Any, Final

from tracedesk.errors import ToolError
from tracedesk.trading.sources.seam import Series, unavailable
from tracedesk.trading.units import money

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

WINDOW: Final = 252
MINIMUM: Final = 30
ANNUAL: Final = 252
"""Returns in a year."""
METRICS: Final = ("var_95_1d", "var_95_1d_amount", "max_drawdown", "sharpe_ratio")

_TAIL: Final = 20
"""One return in so many is as bad as the value at risk: 1 / (1 - 0.95), whole so that nothing is rounded."""
_LARGE: Final = 50_000
"""Returns from which on numpy is worth its import."""
_BLOCK: Final = 32
"""Symbols that numpy takes at once: their returns stay in the processor's cache."""
_NOISE: Final = 1e-14
"""A deviation below this share of the weights is the rounding of the prices, and counts as none."""

Rows = slice | list[int]


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures as positive fractions of the total value, or None with a reason."""

    var_95_1d: float | None
    var_95_1d_amount: Decimal | None
    """In the account's currency; None also when no total value was given."""
    max_drawdown: float | None
    sharpe_ratio: float | None
    basis: dict[str, Any]
    reasons: dict[str, str]
    """Why a figure is None, by its name."""
    first: date | None = None
    """The day whose close the first return starts from: of the prices used, the first."""
    last: date | None = None


def warm() -> None:
    """Import what a large portfolio needs, before one is waiting for it."""
    import numpy  # noqa: F401  # pyright: ignore[reportUnusedImport]


def metrics(
    weights: Mapping[str, float] | None,
    series: Mapping[str, Series],
    *,
    window: int = WINDOW,
    minimum: int = MINIMUM,
    risk_free: float | Decimal = 0.0,
    total_value_cents: int | None = None,
    weighting: str = "post_trade",
) -> Metrics:
    """The risk of holding these signed weights (the rest is cash) over the last `window` returns.

    `var_95_1d` is the loss that one return in 20 reaches or exceeds: an order statistic, never below 0.
    `max_drawdown` is the deepest fall from a peak of the curve that starts at 1 before the first return, and
    ends where nothing is left: what compounds after a total loss means nothing. `sharpe_ratio` is the mean
    over the sample deviation of the returns above the risk-free rate, for a year.

    A weight of zero is not held, and a held symbol without a series leaves no returns. `weights` is None when
    the total value is not positive: then nothing is known.
    """
    held = _held(weights or {})
    shared = align(held, series, window)
    basis = _basis(shared, window, risk_free, weighting)
    reason = _unknown(weights, shared, minimum)
    if reason is not None:
        return Metrics(None, None, None, None, basis, dict.fromkeys(METRICS, reason), *shared.ends)
    if not held:
        figures, why = Figures(0.0, 0.0, None), "all cash: its return does not vary"
    else:
        figures, why = _figures(held, series, shared, float(risk_free)), "the returns do not vary"
    reasons = {} if figures.sharpe is not None else {"sharpe_ratio": why}
    if total_value_cents is None:
        reasons["var_95_1d_amount"] = "no total value was given"
    amount = _amount(figures.var, total_value_cents)
    return Metrics(figures.var, amount, figures.drawdown, figures.sharpe, basis, reasons, *shared.ends)


def _held(weights: Mapping[str, float]) -> dict[str, float]:
    """What has weight, by name: sums do not depend on the order that a caller happened to use."""
    for symbol, weight in weights.items():
        if not isfinite(weight):
            raise _bad("weights", f"the weight of {symbol} is {weight}; give a finite number")
    return {symbol: weights[symbol] for symbol in sorted(weights) if weights[symbol]}


def _bad(field: str, problem: str) -> ToolError:
    return ToolError("INVALID_INPUT", f"{field}: {problem}", {"path": [field], "retryable": False})


def _unknown(weights: Mapping[str, float] | None, shared: Shared, minimum: int) -> str | None:
    if weights is None:
        return "the total value is not positive, so there are no weights"
    if shared.limiting is not None and shared.n < max(1, minimum):
        return f"{shared.n} returns, limited by {shared.limiting}; at least {max(1, minimum)} are needed"
    return None


def _basis(shared: Shared, window: int, risk_free: float | Decimal, weighting: str) -> dict[str, Any]:
    first, last = shared.ends
    return {
        "method": "historical",
        "quantile": "order",
        "confidence": 0.95,
        "horizon_days": 1,
        "window": window,
        "n": shared.n,
        "first": first and first.isoformat(),
        "last": last and last.isoformat(),
        "price_field": "adjusted_close",
        "weights": weighting,
        "cash_return": 0,
        "risk_free": risk_free,
        "annualisation": ANNUAL,
        "limiting_symbol": shared.limiting if shared.n < window else None,
        "arithmetic": "binary64",
    }


def _amount(fraction: float, total_cents: int | None) -> Decimal | None:
    return None if total_cents is None else money(round(Fraction(fraction) * total_cents))


# --- the days that all share ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shared:
    """The last days common to all held symbols, one more than there are returns, and where each has them."""

    days: Sequence[int]
    rows: Mapping[str, Rows]
    limiting: str | None
    """The symbol with the fewest days, the first by name; None when nothing is held."""

    @property
    def n(self) -> int:
        return max(0, len(self.days) - 1)

    @property
    def ends(self) -> tuple[date | None, date | None]:
        if not self.n:
            return None, None
        return date.fromordinal(self.days[0]), date.fromordinal(self.days[-1])


_NO_DAYS: Final[array[int]] = array("q")


def align(held: Mapping[str, float], series: Mapping[str, Series], window: int) -> Shared:
    """The last days that all held symbols have, enough for `window` returns where there are so many."""
    if window < 1:
        raise _bad("window", f"a window of {window} returns cannot be used; give at least 1")
    days_of = {symbol: series[symbol].days if symbol in series else _NO_DAYS for symbol in held}
    if not days_of:
        return Shared((), {}, None)
    calendars = {id(days): days for days in days_of.values()}
    days = _common(list(calendars.values()), window + 1)
    rows = {name: _rows(calendar, days) for name, calendar in calendars.items()}
    fewest = min(map(len, calendars.values()))
    limiting = next(symbol for symbol, own in days_of.items() if len(own) == fewest)
    return Shared(days, {symbol: rows[id(own)] for symbol, own in days_of.items()}, limiting)


def _common(calendars: Sequence[array[int]], count: int) -> Sequence[int]:
    first, *others = calendars
    if not others:
        return first[-count:]
    return array("q", sorted(set(first).intersection(*others))[-count:])


def _rows(calendar: array[int], days: Sequence[int]) -> Rows:
    """Where a calendar has the days: in one piece, unless it has others in between."""
    if not days:
        return slice(0, 0)
    start = bisect_left(calendar, days[0])
    piece = slice(start, start + len(days))
    if calendar[piece] == days:
        return piece
    return [bisect_left(calendar, day) for day in days]


# --- without numpy -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures that rest on returns alone."""

    var: float
    drawdown: float
    sharpe: float | None


class _Overflow(ArithmeticError):
    """A return is too large for a number, though the prices are not."""


def _figures(held: Mapping[str, float], series: Mapping[str, Series], shared: Shared, rate: float) -> Figures:
    for symbol, rows in shared.rows.items():
        if not _is_usable(series[symbol], rows):
            raise _unusable(symbol)
    work = _large if len(held) * shared.n >= _LARGE else _small
    try:
        return work(held, series, shared, _daily(rate))
    except _Overflow:
        raise _unusable(next(iter(shared.rows))) from None


def _is_usable(series: Series, rows: Rows) -> bool:
    first = rows.start if isinstance(rows, slice) else rows[0]
    return series.sound_from <= first or all(0.0 < price < inf for price in _column(series.adjusted, rows))


def _unusable(symbol: str) -> ToolError:
    return unavailable(symbol, "Usable history", "Its adjusted closes must all be positive.")


def _daily(rate: float) -> float:
    return (1.0 + rate) ** (1 / ANNUAL) - 1.0


def _small(held: Mapping[str, float], series: Mapping[str, Series], shared: Shared, rate: float) -> Figures:
    return figures_of(summed(held, series, shared), held, rate)


def figures_of(returns: list[float], held: Mapping[str, float], rate: float) -> Figures:
    """The figures of the portfolio's returns; `rate` is a day's."""
    sharpe = _sharpe([value - rate for value in returns], held)
    return Figures(max(0.0, -sorted(returns)[_rank(len(returns))]), _drawdown(returns), sharpe)


def summed(held: Mapping[str, float], series: Mapping[str, Series], shared: Shared) -> list[float]:
    """Per day, the sum of weight x (price / price before - 1), symbol after symbol."""
    total = [0.0] * shared.n
    for symbol, weight in held.items():
        prices = _column(series[symbol].adjusted, shared.rows[symbol])
        parts = [(now / before - 1.0) * weight for before, now in pairwise(prices)]
        total = list(map(add, total, parts))
    return _finite(total)


def _finite(returns: list[float]) -> list[float]:
    if not all(map(isfinite, returns)):
        raise _Overflow
    return returns


def _column(values: array[float], rows: Rows) -> Sequence[float]:
    return values[rows] if isinstance(rows, slice) else [values[row] for row in rows]


def _rank(n: int) -> int:
    """The place of the value at risk among returns in ascending order: ceil(n / 20) - 1, in whole numbers."""
    return -(-n // _TAIL) - 1


def _drawdown(returns: Sequence[float]) -> float:
    curve = list(accumulate([1.0 + value for value in returns], mul, initial=1.0))
    if min(curve) <= 0.0:
        ruin = next(day for day, value in enumerate(curve) if value <= 0.0)
        curve = curve[: ruin + 1]
    return 1.0 - min([value / peak for value, peak in zip(curve, accumulate(curve, max), strict=True)])


def _sharpe(excess: Sequence[float], held: Mapping[str, float]) -> float | None:
    mean = fsum(excess) / len(excess)
    return _annual(mean, fsum([(value - mean) * (value - mean) for value in excess]), len(excess), held)


def _annual(mean: float, squares: float, n: int, held: Mapping[str, float]) -> float | None:
    """Mean over deviation, for a year; None when the returns do not vary."""
    if n < 2:
        return None
    deviation = sqrt(squares / (n - 1))
    noise = _NOISE * fsum(map(abs, held.values()))
    return None if deviation <= noise else mean / deviation * sqrt(ANNUAL)


# --- the same with numpy -------------------------------------------------------------------------


def _large(held: Mapping[str, float], series: Mapping[str, Series], shared: Shared, rate: float) -> Figures:
    return figures_by_numpy(summed_by_numpy(held, series, shared), held, rate)


def figures_by_numpy(returns: NDArray[float64], held: Mapping[str, float], rate: float) -> Figures:
    """Each operation rounds as it does without numpy, in the same order."""
    import numpy as np

    n = len(returns)
    var = max(0.0, -float(np.partition(returns, _rank(n))[_rank(n)]))
    curve = np.cumprod(np.concatenate(([1.0], 1.0 + returns)))
    if curve.min() <= 0.0:
        curve = curve[: int(np.argmax(curve <= 0.0)) + 1]
    drawdown = 1.0 - float((curve / np.maximum.accumulate(curve)).min())
    excess = returns - rate
    mean = fsum(excess.tolist()) / n
    excess -= mean
    return Figures(var, drawdown, _annual(mean, fsum((excess * excess).tolist()), n, held))


def summed_by_numpy(
    held: Mapping[str, float], series: Mapping[str, Series], shared: Shared
) -> NDArray[float64]:
    """Block after block of symbols."""
    import numpy as np

    weights = np.array(list(held.values()))
    columns = [series[symbol].adjusted for symbol in held]
    steps = {id(rows): _steps(rows) for rows in shared.rows.values()}
    spans = [steps[id(shared.rows[symbol])] for symbol in held]
    block = np.empty((min(_BLOCK, len(columns)), shared.n))
    lines = list(block)
    total = np.zeros(shared.n)
    with np.errstate(all="ignore"):
        for start in range(0, len(columns), _BLOCK):
            part = slice(start, start + _BLOCK)
            for line, column, (before, now) in zip(lines, columns[part], spans[part], strict=False):
                prices = np.frombuffer(column)
                np.divide(prices[now], prices[before], line)
            returns = block[: len(columns[part])]
            returns -= 1.0
            total += weights[part] @ returns
    if not np.isfinite(total).all():
        raise _Overflow
    return total


def _steps(rows: Rows) -> tuple[Rows, Rows]:
    """The rows that returns start from, and those that they end at."""
    if isinstance(rows, slice):
        return slice(rows.start, rows.stop - 1), slice(rows.start + 1, rows.stop)
    return rows[:-1], rows[1:]
