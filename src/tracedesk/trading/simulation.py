"""`trade_simulate`: a draft with its risk and the limits it would break, and nothing done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracedesk.market import calendar
from tracedesk.trading import book, limits, params, reading, risk
from tracedesk.trading.draft import Draft, Leg, Market, draft, gather, named, reserved
from tracedesk.trading.ledger import Reading
from tracedesk.trading.limits import Judgement
from tracedesk.trading.model import Order, OrderState, Portfolio
from tracedesk.trading.settings import Trading
from tracedesk.trading.units import micros, money, price, quantity

if TYPE_CHECKING:
    from tracedesk.trading.trader import Request, Trader

_MINUTE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Standing:
    """What the ledger says of an account before a batch."""

    portfolio: Portfolio
    open_orders: list[tuple[Order, OrderState]]
    day_start: Portfolio | None
    orders_last_minute: int

    @property
    def symbols(self) -> set[str]:
        """Every symbol the account holds or has an order in."""
        return {*self.portfolio.positions, *(order.trade.symbol for order, _ in self.open_orders)}


def standing(ledger: Reading, account: str, now_ns: int, wall_ns: int) -> Standing:
    """Read all of it; inside a transaction it cannot change before the batch is committed."""
    session = calendar.session_at(now_ns)
    start = None if session is None else _day_start(ledger, account, calendar.open_ns(session))
    recent = ledger.orders_since(account, wall_ns - _MINUTE_NS)
    open_orders = [placed for placed in ledger.open_orders() if placed[0].account == account]
    return Standing(ledger.portfolio(account), open_orders, start, recent)


def _day_start(ledger: Reading, account: str, open_ns: int) -> Portfolio:
    """The account as the session found it; one that was opened later began with its opening cash."""
    found = ledger.portfolio_at(account, open_ns + 1)
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


def judged(account: Standing, orders: tuple[Order, ...], market: Market, settings: Trading) -> Judged:
    """Work a batch out and judge it; raises for cash or positions that are not there."""
    claims = reserved(account.open_orders, market.marks, settings.costs)
    found = draft(account.portfolio, claims, orders, market, settings)
    valued = limits.value(found.after, market.marks)
    metrics = _risk(valued, market, settings)
    rests = found.possible is not found.after
    possible = _risk(limits.value(found.possible, market.marks), market, settings) if rests else metrics
    judgement = limits.judge(
        settings.limits,
        settings.state,
        before=found.before,
        after=found.possible,
        marks=market.marks,
        trades=[leg.trade for leg in found.legs],
        prices=[_own_price(leg, market) for leg in found.legs],
        metrics=possible,
        day_start_value=_day_start_value(account.day_start, market),
        orders_last_minute=account.orders_last_minute,
        short_selling=settings.short_selling,
    )
    return Judged(found, valued, metrics, judgement)


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


def _day_start_value(start: Portfolio | None, market: Market) -> int | None:
    """What the account was worth at the last close, in cents; None when that cannot be known."""
    if start is None:
        return None
    marks: dict[str, int] = {}
    for symbol, position in start.positions.items():
        got = market.quotes.get(symbol)
        if position.quantity and (got is None or got.value.previous_close is None):
            return None
        if got is not None and got.value.previous_close is not None:
            marks[symbol] = micros(got.value.previous_close)
    return limits.value(start, marks).total_cents


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
    body: dict[str, Any] = {
        "trades": [shown_leg(leg) for leg in found.draft.legs],
        "portfolio_after": {
            "total_value": money(valued.total_cents),
            "cash": money(valued.cash),
            "positions": positions,
        },
        "risk_metrics": reading.shown_risk(found.metrics),
        "risk_violations": [violation.as_json() for violation in found.judgement.violations],
        "market_open": calendar.is_open(request.now_ns),
    }
    if found.judgement.skipped:
        body["limits_not_judged"] = [skipped.as_json() for skipped in found.judgement.skipped]
    return body


def shown_leg(leg: Leg) -> dict[str, Any]:
    """A leg as both trading tools show it; `quantity` is what fills."""
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
    return row if outcome.reason is None else {**row, "reject_code": outcome.reason}
