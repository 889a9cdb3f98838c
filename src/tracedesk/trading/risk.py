"""Value at risk, drawdown and Sharpe ratio of a portfolio: one definition, and what it rests on.

Returns are simple daily returns of adjusted closes, on the days that all held symbols share. The portfolio's
return is the sum of signed weights times returns; cash earns nothing. The figures are binary64. Large
portfolios are summed by numpy and small ones without it, in the same order of the same operations: the
results are the same to the last bit.
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
    shared = _align(held, series, window)
    basis = _basis(shared, window, risk_free, weighting)
    reason = _unknown(weights, shared, minimum)
    if reason is not None:
        return Metrics(None, None, None, None, basis, dict.fromkeys(METRICS, reason), *shared.ends)
    if not held:
        figures, why = _Figures(0.0, 0.0, None), "all cash: its return does not vary"
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


def _unknown(weights: Mapping[str, float] | None, shared: _Shared, minimum: int) -> str | None:
    if weights is None:
        return "the total value is not positive, so there are no weights"
    if shared.limiting is not None and shared.n < max(1, minimum):
        return f"{shared.n} returns, limited by {shared.limiting}; at least {max(1, minimum)} are needed"
    return None


def _basis(shared: _Shared, window: int, risk_free: float | Decimal, weighting: str) -> dict[str, Any]:
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
class _Shared:
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


def _align(held: Mapping[str, float], series: Mapping[str, Series], window: int) -> _Shared:
    if window < 1:
        raise _bad("window", f"a window of {window} returns cannot be used; give at least 1")
    days_of = {symbol: series[symbol].days if symbol in series else _NO_DAYS for symbol in held}
    if not days_of:
        return _Shared((), {}, None)
    calendars: list[array[int]] = []
    number_of = {symbol: _number(days, calendars) for symbol, days in days_of.items()}
    days = _common(calendars, window + 1)
    rows = [_rows(calendar, days) for calendar in calendars]
    limiting = min(days_of, key=lambda symbol: len(days_of[symbol]))
    return _Shared(days, {symbol: rows[number] for symbol, number in number_of.items()}, limiting)


def _number(days: array[int], calendars: list[array[int]]) -> int:
    """Which of the distinct calendars these days are; a new one is added. Most symbols share one."""
    for number, calendar in enumerate(calendars):
        if days is calendar or days == calendar:
            return number
    calendars.append(days)
    return len(calendars) - 1


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
class _Figures:
    var: float
    drawdown: float
    sharpe: float | None


class _Unusable(ValueError):
    """Some price is zero, negative or no number."""


def _figures(
    held: Mapping[str, float], series: Mapping[str, Series], shared: _Shared, rate: float
) -> _Figures:
    work = _large if len(held) * shared.n >= _LARGE else _small
    try:
        return work(held, series, shared, _daily(rate))
    except _Unusable:
        symbol = _blamed(series, shared)
        raise unavailable(symbol, "Usable history", "Its adjusted closes must all be positive.") from None


def _daily(rate: float) -> float:
    return (1.0 + rate) ** (1 / ANNUAL) - 1.0


def _small(held: Mapping[str, float], series: Mapping[str, Series], shared: _Shared, rate: float) -> _Figures:
    returns = _summed(held, series, shared)
    sharpe = _sharpe([value - rate for value in returns], held)
    return _Figures(max(0.0, -sorted(returns)[_rank(shared.n)]), _drawdown(returns), sharpe)


def _summed(held: Mapping[str, float], series: Mapping[str, Series], shared: _Shared) -> list[float]:
    """Per day, the sum of weight x (price / price before - 1), symbol after symbol."""
    total = [0.0] * shared.n
    for symbol, weight in held.items():
        prices = _column(series[symbol].adjusted, shared.rows[symbol])
        if not _usable(prices):
            raise _Unusable
        parts = [(now / before - 1.0) * weight for before, now in pairwise(prices)]
        total = list(map(add, total, parts))
    return _finite(total)


def _finite(returns: list[float]) -> list[float]:
    if not all(map(isfinite, returns)):
        raise _Unusable
    return returns


def _column(values: array[float], rows: Rows) -> Sequence[float]:
    return values[rows] if isinstance(rows, slice) else [values[row] for row in rows]


def _usable(prices: Sequence[float]) -> bool:
    return all(0.0 < price < inf for price in prices)


def _blamed(series: Mapping[str, Series], shared: _Shared) -> str:
    """The first symbol whose prices cannot be used; when it is their ratio, the first symbol."""
    columns = ((symbol, _column(series[symbol].adjusted, rows)) for symbol, rows in shared.rows.items())
    return next((symbol for symbol, prices in columns if not _usable(prices)), next(iter(shared.rows)))


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


# --- the same with numpy: each operation rounds as it does above, in the same order ----------------


def _large(held: Mapping[str, float], series: Mapping[str, Series], shared: _Shared, rate: float) -> _Figures:
    import numpy as np

    returns = _summed_by_numpy(held, series, shared)
    rank, n = _rank(shared.n), shared.n
    var = max(0.0, -float(np.partition(returns, rank)[rank]))
    curve = np.cumprod(np.concatenate(([1.0], 1.0 + returns)))
    if curve.min() <= 0.0:
        curve = curve[: int(np.argmax(curve <= 0.0)) + 1]
    drawdown = 1.0 - float((curve / np.maximum.accumulate(curve)).min())
    excess = returns - rate
    mean = fsum(excess.tolist()) / n
    excess -= mean
    return _Figures(var, drawdown, _annual(mean, fsum((excess * excess).tolist()), n, held))


def _summed_by_numpy(
    held: Mapping[str, float], series: Mapping[str, Series], shared: _Shared
) -> NDArray[float64]:
    """Over blocks of symbols, whose first row is the sum so far: adding up rows goes from first to last."""
    import numpy as np

    symbols, weights = list(held), list(held.values())
    block = np.zeros((min(_BLOCK, len(symbols)) + 1, shared.n))
    rows = list(block[1:])
    with np.errstate(all="ignore"):
        for start in range(0, len(symbols), _BLOCK):
            names = symbols[start : start + _BLOCK]
            for row, symbol in zip(rows, names, strict=False):
                before, now = _neighbours(series[symbol].adjusted, shared.rows[symbol])
                if not before[0] > 0.0:
                    raise _Unusable
                np.divide(now, before, row)
            returns = block[1 : len(names) + 1]
            # A first price above zero and ratios above zero: so are all prices. NaN never is.
            if not returns.min() > 0.0:
                raise _Unusable
            returns -= 1.0
            for row, weight in zip(rows, weights[start : start + _BLOCK], strict=False):
                np.multiply(row, weight, row)
            block[0] = np.add.reduce(block[: len(names) + 1], axis=0)
    if not np.isfinite(block[0]).all():
        raise _Unusable
    return block[0]


def _neighbours(values: array[float], rows: Rows) -> tuple[NDArray[float64], NDArray[float64]]:
    """The prices before each return and after it, as views where the days are in one piece."""
    import numpy as np

    if isinstance(rows, slice):
        count, start = rows.stop - rows.start - 1, rows.start * values.itemsize
        return np.frombuffer(values, float, count, start), np.frombuffer(
            values, float, count, start + values.itemsize
        )
    prices = np.frombuffer(values)[rows]
    return prices[:-1], prices[1:]
