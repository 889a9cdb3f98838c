"""`trade_simulate`: a draft with its risk and the limits it would break, and nothing done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from tracedesk.errors import ToolError
from tracedesk.market import calendar
from tracedesk.primitives.time import format
from tracedesk.trading import book, limits, params, reading, risk
from tracedesk.trading.draft import Draft, Leg, Market, draft, gather, named, reserved
from tracedesk.trading.ledger import Reading
from tracedesk.trading.limits import Day, Judgement, Rests, Tail
from tracedesk.trading.model import Order, OrderState, Portfolio
from tracedesk.trading.settings import Trading
from tracedesk.trading.units import micros, money, price, quantity

if TYPE_CHECKING:
    from tracedesk.trading.trader import Request, Trader

_MINUTE_NS: Final = 60_000_000_000
_ACTIONS: Final = ("split", "dividend")
"""Entries at an open that the day begins with; everything else at that instant is the day's own."""
_PASSING: Final = frozenset({"NETWORK_ERROR", "RATE_LIMITED"})
_CUT_SHORT: Final = frozenset({"rejected", "partial"})


@dataclass(frozen=True, slots=True)
class Standing:
    """What the ledger says of an account before a batch."""

    portfolio: Portfolio
    open_orders: list[tuple[Order, OrderState]]
    day_start: Portfolio | None
    orders_last_minute: int
    order_change: int
    """The last entry that changed the state of one of its orders."""

    @property
    def at_stake(self) -> set[str]:
        """Every symbol the account holds or has an order in."""
        return {*self.portfolio.positions, *(order.trade.symbol for order, _ in self.open_orders)}

    @property
    def symbols(self) -> set[str]:
        """Every symbol that it takes to judge a batch: those, and what the account held this morning."""
        return self.at_stake.union(self.day_start.positions if self.day_start else ())

    def without(self, symbols: Iterable[str]) -> Standing:
        """The same as if some symbols were worth nothing, and had no orders."""
        gone = set(symbols)
        kept = {s: held for s, held in self.portfolio.positions.items() if s not in gone}
        orders = [placed for placed in self.open_orders if placed[0].trade.symbol not in gone]
        return replace(self, portfolio=replace(self.portfolio, positions=kept), open_orders=orders)


def session_at(now_ns: int) -> date | None:
    """The session in progress; raises where the exchange's calendar has ended."""
    try:
        return calendar.session_at(now_ns)
    except calendar.OutsideCalendar:
        message = (
            f"The clock stands at {format(now_ns)}, and the exchange's sessions are known from "
            f"{calendar.FIRST} to {calendar.LAST}. Update tracedesk, or use a replay clock ([trading] clock)."
        )
        details = {"clock": format(now_ns), "retryable": False}
        raise ToolError("DATA_UNAVAILABLE", message, details) from None


def standing(ledger: Reading, account: str, now_ns: int, wall_ns: int) -> Standing:
    """Read all of it; inside a transaction it cannot change before the batch is committed."""
    session = session_at(now_ns)
    start = None if session is None else _day_start(ledger, account, calendar.open_ns(session))
    recent = ledger.orders_since(account, wall_ns - _MINUTE_NS)
    changed = ledger.last_order_change(account)
    return Standing(ledger.portfolio(account), ledger.open_orders(account), start, recent, changed)


def _day_start(ledger: Reading, account: str, open_ns: int) -> Portfolio:
    """The account as the session found it; one that was opened later began with its opening cash."""
    found = ledger.portfolio_at(account, open_ns, and_at=_ACTIONS)
    if found.version:
        return found
    return book.apply(found, ledger.entries(limit=1, account=account)[0])


@dataclass(frozen=True, slots=True)
class Judged:
    """A draft, what it is worth, its risk, and the limits it would break."""

    draft: Draft
    valued: limits.Valued
    metrics: risk.Metrics
    judgement: Judgement
    unpriced: tuple[str, ...] = ()
    """Holdings without a price, which count as nothing."""

    @property
    def portfolio_after(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "total_value": money(self.valued.total_cents),
            "cash": money(self.valued.cash),
        }
        return {**body, "unpriced": list(self.unpriced)} if self.unpriced else body

    @property
    def not_judged(self) -> dict[str, Any]:
        """The limits that nobody could judge in full, for the answer."""
        rows = [skipped.as_json() for skipped in self.judgement.skipped]
        return {"limits_not_judged": rows} if rows else {}


def judged(account: Standing, orders: tuple[Order, ...], market: Market, settings: Trading) -> Judged:
    """Work a batch out and judge it; raises for cash or positions that are not there."""
    claims = reserved(account.open_orders, market.marks, settings.costs)
    unpriced = _unpriced(account, orders, market)
    unvalued = tuple(symbol for symbol in unpriced if symbol in account.portfolio.positions)
    account = account.without(unpriced)
    found = draft(account.portfolio, claims, orders, market, settings)
    valued = limits.value(found.after, market.marks)
    metrics = _risk(valued, market, settings)
    rested = limits.rests(account.open_orders)
    resting = limits.rests([*account.open_orders, *found.resting])
    judgement = limits.judge(
        settings.limits,
        settings.state,
        before=found.before,
        after=found.after,
        marks=market.marks,
        trades=[leg.trade for leg in found.legs],
        prices=[_own_price(leg, market) for leg in found.legs],
        tail=_tail(found, metrics, resting, market, settings),
        day=_day(account.day_start, market),
        orders_last_minute=account.orders_last_minute,
        short_selling=settings.short_selling,
        rested=rested,
        resting=resting,
    )
    return Judged(found, valued, metrics, judgement, unvalued)


def _unpriced(account: Standing, orders: tuple[Order, ...], market: Market) -> list[str]:
    """What is at stake without a price; raises for it unless every trade brings a position towards zero."""
    found = sorted(account.at_stake.intersection(market.unpriced))
    # What was sold since the open only tells the day's loss; it is waited for while it may still come.
    late = [
        s for s in sorted(account.symbols) if s in market.unpriced and market.unpriced[s].code in _PASSING
    ]
    missing = found or late
    trades = [order.trade for order in orders]
    if not missing or all(limits.reductions(account.portfolio, trades, limits.rests(account.open_orders))):
        return found
    why = market.unpriced[missing[0]]
    code = why.code if why.code in _PASSING else "DATA_UNAVAILABLE"
    message = (
        f"{missing[0]}, which the account holds, has on order or held this morning, has no price: "
        f"{why.message} Until it has one, only trades that bring positions towards zero are taken."
    )
    raise ToolError(code, message, {**(why.details or {}), "holding": missing[0], "unpriced": missing})


def _tail(found: Draft, metrics: risk.Metrics, resting: Rests, market: Market, settings: Trading) -> Tail:
    """The worse value at risk of what is held after the batch and of what may come to be held."""
    if metrics.var_95_1d is None:
        held = limits.tail(_weights(found.after, Rests(), market), market.series, settings)
    else:
        held = Tail(metrics.var_95_1d)
    if not resting.buys and not resting.sells:
        return held
    exposed = _weights(found.after, resting, market)
    return limits.worse(held, limits.tail(exposed, market.series, settings))


def _weights(portfolio: Portfolio, resting: Rests, market: Market) -> dict[str, float] | None:
    return limits.exposure(portfolio, resting, market.marks).risk_weights()


def _risk(valued: limits.Valued, market: Market, settings: Trading) -> risk.Metrics:
    return risk.metrics(
        valued.risk_weights(),
        market.series,
        window=settings.window,
        minimum=settings.minimum_returns,
        risk_free=settings.risk_free,
        total_value_cents=valued.total_cents,
    )


def _own_price(leg: Leg, market: Market) -> int:
    trade = leg.trade
    return leg.outcome.price or trade.price or trade.stop_price or market.marks[trade.symbol]


def _day(start: Portfolio | None, market: Market) -> Day:
    """What the account was worth at the last close, in cents."""
    if start is None:
        return Day(None, is_open=False)
    marks: dict[str, int] = {}
    for symbol in start.positions:
        got = market.quotes.get(symbol)
        if got is None or got.value.previous_close is None:
            return Day(None, f"the day began with {symbol}, whose last close is not known")
        marks[symbol] = micros(got.value.previous_close)
    return Day(limits.value(start, marks).total_cents)


async def simulate(trader: Trader, request: Request) -> dict[str, Any]:
    settings = trader.settings
    trades = params.simulated(request.args["trades"], fractional=settings.fractional)
    wall = trader.desk.clock.now_ns()
    account = await trader.ledger(lambda ledger: standing(ledger, request.account, request.now_ns, wall))
    market = await gather(trader, request, trades, sorted(account.symbols))
    found = judged(account, named(request.account, request.id, trades), market, settings)
    cite(request, market)
    request.facts = {
        "trades": trades,
        "version": account.portfolio.version,
        "order_change": account.order_change,
        "now_ns": request.now_ns,
    }
    return {"simulation": _shown(found, request)}


def cite(request: Request, market: Market) -> None:
    """Note which payloads the prices and the risk came from."""
    for got in market.quotes.values():
        request.used(got, "priced_by")
    for series in market.daily.values():
        request.used(series, "risk_from")


def _shown(found: Judged, request: Request) -> dict[str, Any]:
    valued = found.valued
    positions = [
        {
            "symbol": symbol,
            "quantity": quantity(found.draft.after.positions[symbol].quantity),
            "market_value": money(valued.market_values[symbol]),
            "weight": valued.weights[symbol],
        }
        for symbol in valued.market_values
    ]
    return {
        "trades": [shown_leg(leg) for leg in found.draft.legs],
        "portfolio_after": {**found.portfolio_after, "positions": positions},
        "risk_metrics": reading.shown_risk(found.metrics),
        "risk_violations": [violation.as_json() for violation in found.judgement.violations],
        "market_open": calendar.is_open(request.now_ns),
        **found.not_judged,
    }


def shown_leg(leg: Leg) -> dict[str, Any]:
    """A leg as both trading tools show it; `quantity` is what fills.

    An order that was cut short has a `reject_code`, one that rests the `reason` why it does not trade yet.
    """
    fill, outcome = leg.fill, leg.outcome
    row: dict[str, Any] = {
        "symbol": leg.trade.symbol,
        "action": leg.trade.side,
        "quantity": quantity(outcome.quantity),
        "price": None if fill is None else price(fill.price),
        "fees": money(0 if fill is None else fill.fees),
        "total_cost": money(0 if fill is None else fill.total_cost),
        "status": outcome.status,
        "requested_quantity": quantity(leg.trade.quantity),
    }
    if outcome.reason is None:
        return row
    return {**row, "reject_code" if outcome.status in _CUT_SHORT else "reason": outcome.reason}
