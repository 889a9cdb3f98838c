"""Performance of a run: daily returns of its equity, their Sharpe ratio, its closed trades and drawdown.

`compare_runs` and the report both read this module. The formulas are in docs/backtest.md, "Performance".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from itertools import pairwise
from statistics import median_low
from typing import Any, Final, NamedTuple, cast

from tracedesk.backtest import paths
from tracedesk.backtest.model import EventType
from tracedesk.backtest.positions import Held, Positions
from tracedesk.backtest.query import Recording
from tracedesk.backtest.snapshot import pnl_told
from tracedesk.primitives import money
from tracedesk.primitives.time import DAY, EARLIEST

FEWEST_RETURNS: Final = 30
"""Daily returns below which nothing is annualised."""
WEEKDAYS_A_YEAR: Final = 252
"""Trading days of a market that closes at weekends; QuantStats and empyrical count the same."""
DAYS_A_YEAR: Final = 365

TRADE_PNL: Final = "TradePnL"
"""Profit of the trade that an event ended, after all its costs, as the engine counts its trades."""

_WIDE: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_SHARE: Final = Context(prec=60)
"""Digits of a fee that one execution pays for two trades: its parts need not be finite decimals."""
_RATE_PLACES: Final = 6
_EQUITY: Final = ("equity", "totalequity", "accountvalue", "portfoliovalue", "value")
_SATURDAY: Final = 2
"""Day numbers begin at a Thursday, 1970-01-01."""
_SIDES: Final[Mapping[str, int]] = {"buy": 1, "long": 1, "sell": -1, "short": -1}
_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class DailyReturns:
    """Mean and sample deviation of the daily returns, in binary64; None where there are too few."""

    count: int = 0
    mean: float | None = None
    deviation: float | None = None
    periods: int = WEEKDAYS_A_YEAR
    """Returns that make a year."""
    gap: int = 1
    """Median number of days between two of the closes."""
    problem: str | None = None
    """Reason for which no returns exist."""

    @property
    def sharpe(self) -> float | None:
        """Annualised Sharpe ratio at a risk-free rate of 0.

        None below 30 returns, where returns are not daily, or without any spread.
        """
        if self.count < FEWEST_RETURNS or self.gap > 1 or self.mean is None or not self.deviation:
            return None
        ratio = self.mean / self.deviation * math.sqrt(self.periods)
        return ratio if math.isfinite(ratio) else None

    @property
    def caveat(self) -> str | None:
        """Reason for which the Sharpe ratio is None."""
        if self.sharpe is not None:
            return None
        if self.problem is not None:
            return self.problem
        if self.count < FEWEST_RETURNS:
            return f"{self.count} daily returns, and nothing is annualised below {FEWEST_RETURNS}"
        if self.gap > 1:
            return f"the closes are {self.gap} days apart (median), and only daily returns are annualised"
        return "all daily returns are equal"

    def body(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "mean": self.mean,
            "deviation": self.deviation,
            "periodsPerYear": self.periods,
        }


@dataclass(slots=True)
class ClosedTrades:
    """Number of trades that ended, and of those that gained after costs."""

    count: int = 0
    wins: int = 0

    def add(self, gain: Decimal) -> None:
        self.count += 1
        self.wins += gain > 0

    @property
    def win_rate(self) -> Decimal | None:
        if not self.count:
            return None
        return money.from_units(money.divide(self.wins * 10**_RATE_PLACES, self.count), _RATE_PLACES)


@dataclass(frozen=True, slots=True)
class Performance:
    """Figures of one run that do not depend on another run."""

    returns: DailyReturns
    trades: ClosedTrades
    drawdown: Decimal | None
    """Largest fall of the total profit from its peak, in money; the peak is 0 at the start."""


class AccountValue(NamedTuple):
    """Equity and total profit that one StateChange of the whole portfolio reports."""

    time_ns: int
    event: int
    """Its place in the order of recording."""
    equity: Decimal | None
    profit: Decimal | None


def performance_of(recording: Recording) -> Performance:
    """The figures of the run as it is now."""
    account = list(account_values(recording))
    trades = _reported_trades(recording) or _executed_trades(recording)
    profits = _profits(account)
    if trades is None or not profits:
        held = _follow_positions(recording)
        trades, profits = trades or held.trades, profits or held.profits
    return Performance(daily_returns(recording, account), trades, _drawdown(profits))


# --- account values -----------------------------------------------------------------------------------


def account_values(recording: Recording) -> Iterator[AccountValue]:
    """Account values that StateChanges of the whole portfolio report, by time."""
    query = f"""
        SELECT f.ts, f.event, e.body FROM slot s CROSS JOIN fact f {recording.by("slot")} ON f.slot = s.id
        JOIN event e ON e.id = f.event WHERE s.type = ? AND s.symbol IS NULL ORDER BY f.ts, f.event
    """
    for ts, event, body in recording.connection.execute(query, (EventType.StateChange.value,)):
        found = account_value(ts, event, paths.properties(body))
        if found is not None:
            yield found


def account_value(time_ns: int, event: int, properties: Mapping[str, Any]) -> AccountValue | None:
    """The account's value in a StateChange of type PnL; None when it reports neither equity nor profit."""
    after = properties.get("StateAfter")
    equity, pnl = equity_in(after), pnl_told(after)
    profit = None if pnl is None else pnl.total
    if equity is None and profit is None:
        return None
    return AccountValue(time_ns, event, equity, profit)


def equity_in(after: Any) -> Decimal | None:
    """The account's worth in a `StateAfter`, under any of its usual names."""
    if not isinstance(after, dict):
        return None
    named = {name.lower(): value for name, value in cast("dict[str, Any]", after).items()}
    return next((n for name in _EQUITY if (n := paths.number(named.get(name))) is not None), None)


def _profits(account: Sequence[AccountValue]) -> list[tuple[int, Decimal]]:
    """Total profit over time; where only the equity is reported, its change since the first value."""
    first = next((value.equity for value in account if value.profit is None), None)
    return [
        (value.time_ns, _WIDE.subtract(cast("Decimal", value.equity), cast("Decimal", first)))
        if value.profit is None
        else (value.time_ns, value.profit)
        for value in account
    ]


def _drawdown(profits: Sequence[tuple[int, Decimal]]) -> Decimal | None:
    if not profits:
        return None
    peak = fall = _ZERO
    for _, profit in profits:
        if profit > peak:
            peak = profit
        elif (now := _WIDE.subtract(peak, profit)) > fall:
            fall = now
    return fall


# --- daily returns ------------------------------------------------------------------------------------


def daily_returns(recording: Recording, account: Sequence[AccountValue]) -> DailyReturns:
    """Returns from each day's last equity to that of the next day."""
    equity = [value for value in account if value.equity is not None]
    if not equity:
        return DailyReturns(problem="no StateChange of type PnL reports the account's equity")
    closes = _daily_closes(equity, _days(recording, equity))
    values = [float(value) for value in closes.values()]
    if min(values[:-1], default=1.0) <= 0.0:
        return DailyReturns(problem="the equity is not always positive, so its returns are not defined")
    returns = [after / before - 1.0 for before, after in pairwise(values)]
    periods, gap = _periods(list(closes)), _median_gap(list(closes))
    count = len(returns)
    if count < 2:
        return DailyReturns(count, returns[0] if returns else None, None, periods, gap)
    mean = math.fsum(returns) / count
    # Equal returns deviate by nothing; their mean can differ from them in the last bit.
    squares = [] if max(returns) == min(returns) else [(one - mean) ** 2 for one in returns]
    spread = math.sqrt(math.fsum(squares) / (count - 1))
    if not (math.isfinite(mean) and math.isfinite(spread)):
        return DailyReturns(count, problem="the equity is beyond the range of binary64", periods=periods)
    return DailyReturns(count, mean, spread, periods, gap)


def _days(recording: Recording, equity: Sequence[AccountValue]) -> list[int]:
    """Days, as numbers, with market data or a reported equity: from the first that has a known equity.

    Before the first reported value the equity is that value, as long as nothing was executed.
    """
    days = {value.time_ns // DAY for value in equity}
    days.update(_days_of(recording, EventType.MarketDataEvent))
    executed = _first(recording, EventType.TradeExecution, EARLIEST)
    first = equity[0]
    if executed is not None and executed < (first.time_ns, first.event):
        return sorted(day for day in days if day >= first.time_ns // DAY)
    return sorted(days)


def _days_of(recording: Recording, kind: EventType) -> Iterator[int]:
    """Days with events of a type: one look at the index for each."""
    found = _first(recording, kind, EARLIEST)
    while found is not None:
        day = found[0] // DAY
        yield day
        found = _first(recording, kind, (day + 1) * DAY)


def _first(recording: Recording, kind: EventType, since: int) -> tuple[int, int] | None:
    """Time and row of the first event of a type since a time."""
    source = f"fact f {recording.by('type')}"
    query = (
        f"SELECT f.ts, f.event FROM {source} WHERE f.type = ? AND f.ts >= ? ORDER BY f.ts, f.event LIMIT 1"
    )
    return next(((ts, event) for ts, event in recording.connection.execute(query, (kind.value, since))), None)


def _daily_closes(equity: Sequence[AccountValue], days: Sequence[int]) -> dict[int, Decimal]:
    """The last equity up to the end of each day."""
    last = {value.time_ns // DAY: cast("Decimal", value.equity) for value in equity}
    now, closes = cast("Decimal", equity[0].equity), dict[int, Decimal]()
    for day in days:
        now = closes[day] = last.get(day, now)
    return closes


def _periods(days: Sequence[int]) -> int:
    """365 where at least half of the weeks have a Saturday, as markets without weekends do."""
    saturdays = sum(day % 7 == _SATURDAY for day in days)
    return DAYS_A_YEAR if saturdays * 14 >= days[-1] - days[0] + 1 else WEEKDAYS_A_YEAR


def _median_gap(days: Sequence[int]) -> int:
    """1 for daily closes, with weekends and without; 7 for weekly ones, 30 or 31 for monthly ones."""
    return median_low([after - before for before, after in pairwise(days)] or [1])


# --- closed trades ------------------------------------------------------------------------------------


def _reported_trades(recording: Recording) -> ClosedTrades | None:
    """Trades whose profit the engine itself reports; None when it reports none."""
    found = ClosedTrades()
    for kind in (EventType.PositionUpdate, EventType.TradeExecution):
        if not _may_have(recording, kind, TRADE_PNL):
            continue
        for _, properties in _with(recording, kind, TRADE_PNL):
            gain = paths.number(properties.get(TRADE_PNL))
            if gain is not None:
                found.add(gain)
    return found if found.count else None


@dataclass(slots=True)
class _Trip:
    """A position from its opening to its end, as executions make it."""

    quantity: Decimal = _ZERO
    gain: Decimal = _ZERO
    """Profit that its executions realised so far, less their costs."""


def _executed_trades(recording: Recording) -> ClosedTrades | None:
    """Round trips by executions that report a RealizedPnL before costs; None when none reports it."""
    if not _may_have(recording, EventType.TradeExecution, "RealizedPnL"):
        return None
    found, trips, keys = ClosedTrades(), dict[Held, _Trip](), Positions.of(recording)
    reports = False
    for _, properties in _with(recording, EventType.TradeExecution, ""):
        profit = paths.number(properties.get("RealizedPnL"))
        reports = reports or profit is not None
        trip = trips.setdefault(keys.held(properties), _Trip())
        _execute(trip, found, properties, profit or _ZERO)
    return found if reports else None


def _execute(trip: _Trip, found: ClosedTrades, properties: Mapping[str, Any], profit: Decimal) -> None:
    """Move a position by one execution; the end of a position is a closed trade."""
    fee = paths.number(properties.get("Commission")) or _ZERO
    signed, before = _signed(properties), trip.quantity
    after = _WIDE.add(before, signed)
    trip.quantity = after
    if not before or before.is_signed() == signed.is_signed():
        if profit:  # the quantities do not explain it, so it is a trade of its own
            found.add(_WIDE.subtract(profit, fee))
        else:
            trip.gain = _WIDE.subtract(trip.gain, fee)
        return
    is_over = not after or after.is_signed() != before.is_signed()
    closing = fee if not is_over or not after else _share(fee, before, signed)
    trip.gain = _WIDE.add(trip.gain, _WIDE.subtract(profit, closing))
    if is_over:
        found.add(trip.gain)
        trip.gain = _WIDE.subtract(closing, fee)


def _share(fee: Decimal, part: Decimal, whole: Decimal) -> Decimal:
    return _SHARE.divide(_SHARE.multiply(fee, abs(part)), abs(whole))


def _signed(properties: Mapping[str, Any]) -> Decimal:
    quantity = paths.number(properties.get("Quantity")) or _ZERO
    return quantity * _SIDES.get(str(properties.get("Direction")).lower(), 1)


@dataclass(slots=True)
class _Position:
    """A position as its updates report it."""

    quantity: Decimal = _ZERO
    realized: Decimal = _ZERO
    opened: Decimal = _ZERO
    """Profit realised when the position was last flat."""
    worth: Decimal = _ZERO

    def update(self, quantity: Decimal | None, realized: Decimal | None) -> Decimal | None:
        """Take the new values; the profit after costs of the trade that they end, if they end one."""
        before, self.quantity = self.quantity, self.quantity if quantity is None else quantity
        self.realized = self.realized if realized is None else realized
        if not before or (self.quantity and self.quantity.is_signed() == before.is_signed()):
            return None
        gain = None if realized is None else _WIDE.subtract(realized, self.opened)
        self.opened = self.realized
        return gain


class _Holdings(NamedTuple):
    trades: ClosedTrades
    profits: list[tuple[int, Decimal]]


def _follow_positions(recording: Recording) -> _Holdings:
    """Round trips by position updates, whose RealizedPnL is after costs, and the sum of all positions."""
    found = _Holdings(ClosedTrades(), [])
    positions, keys, total = dict[Held, _Position](), Positions.of(recording), _ZERO
    for ts, properties in _with(recording, EventType.PositionUpdate, ""):
        position = positions.setdefault(keys.held(properties), _Position())
        realized, open_gain = (paths.number(properties.get(n)) for n in ("RealizedPnL", "UnrealizedPnL"))
        gain = position.update(paths.number(properties.get("Quantity")), realized)
        if gain is not None:
            found.trades.add(gain)
        if realized is None and open_gain is None:
            continue
        now = _WIDE.add(position.realized, open_gain or _ZERO)
        total = _WIDE.add(total, _WIDE.subtract(now, position.worth))
        position.worth = now
        found.profits.append((ts, total))
    return found


def _with(recording: Recording, kind: EventType, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Time and properties of a type's events that may have a property, in the order of their times."""
    query = f"""
        SELECT f.ts, e.body FROM fact f {recording.by("type")} JOIN event e ON e.id = f.event
        WHERE f.type = ? ORDER BY f.ts, f.event
    """
    wanted = f'"{name}"'.encode() if name else b""
    for ts, body in recording.connection.execute(query, (kind.value,)):
        if wanted in body:
            yield ts, paths.properties(body)


def _may_have(recording: Recording, kind: EventType, name: str) -> bool:
    """True when events of a type have a property, or when the run lists only some of its paths."""
    query = """
        SELECT 1 FROM path WHERE type = ?1 AND path = ?2
        UNION ALL SELECT 1 FROM span WHERE type = ?1 AND unlisted > 0 LIMIT 1
    """
    return any(recording.connection.execute(query, (kind.value, f"$.{name}")))
