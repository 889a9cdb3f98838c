"""A batch of trades worked out in full before anything is done: to be shown, or to be committed."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tracedesk.errors import ToolError
from tracedesk.trading import book, fills
from tracedesk.trading.fills import Outcome
from tracedesk.trading.model import CASH, Fill, Order, OrderState, Portfolio, Posting, Trade
from tracedesk.trading.settings import Costs, Trading
from tracedesk.trading.sources.seam import Quote, Series
from tracedesk.trading.units import micros, money, notional, price, quantity

if TYPE_CHECKING:
    from tracedesk.trading.sources.gate import Got
    from tracedesk.trading.trader import Request, Trader

_GIVES_UP: Final = frozenset({"NETWORK_ERROR", "RATE_LIMITED"})


@dataclass(frozen=True, slots=True)
class Market:
    """What the market said of every symbol that is traded or held, with where each fact came from."""

    quotes: Mapping[str, Got[Quote]]
    daily: Mapping[str, Got[Series]]
    unpriced: Mapping[str, ToolError] = field(default_factory=dict[str, ToolError])
    """Why symbols that are not traded, only held or ordered before, have no price."""

    @property
    def marks(self) -> dict[str, int]:
        """Last prices in millionths."""
        return {symbol: micros(got.value.price) for symbol, got in self.quotes.items()}

    @property
    def series(self) -> dict[str, Series]:
        return {symbol: got.value for symbol, got in self.daily.items()}

    def average_volume(self, symbol: str) -> int | None:
        found = self.daily.get(symbol)
        return None if found is None else fills.average_volume(found.value.volumes)


async def gather(trader: Trader, request: Request, trades: Sequence[Trade], held: Iterable[str]) -> Market:
    """Ask for everything the batch needs; a traded symbol without a price is refused with its place."""
    _check_symbols(trades)
    symbols = list(dict.fromkeys((*(trade.symbol for trade in trades), *held)))
    quotes = await trader.gate.quotes(symbols, request.now_ns, request.by)
    for index, trade in enumerate(trades):
        answer = quotes[trade.symbol]
        if isinstance(answer, ToolError):
            raise ToolError(answer.code, answer.message, {**(answer.details or {}), "trade_index": index})
    daily = await trader.gate.daily(symbols, trader.settings.window + 1, request.now_ns, request.by)
    priced = {symbol: answer for symbol, answer in quotes.items() if not isinstance(answer, ToolError)}
    unpriced = {symbol: answer for symbol, answer in quotes.items() if isinstance(answer, ToolError)}
    return Market(priced, _those(daily), unpriced)


def _check_symbols(trades: Sequence[Trade]) -> None:
    for index, trade in enumerate(trades):
        if trade.symbol == CASH:
            message = (
                f"trades[{index}].symbol {CASH!r} is the name of the account's currency, and the ledger "
                "could not tell them apart. It cannot be traded; use another symbol."
            )
            details = {"trade_index": index, "symbol": CASH, "retryable": False}
            raise ToolError("INVALID_SYMBOL", message, details)


def _those(answers: Mapping[str, Got[Series] | ToolError]) -> dict[str, Got[Series]]:
    """The series there are: a symbol without one leaves the risk unknown, a silent provider does not."""
    found: dict[str, Got[Series]] = {}
    for symbol, answer in answers.items():
        if not isinstance(answer, ToolError):
            found[symbol] = answer
        elif answer.code in _GIVES_UP:
            raise answer
    return found


# --- legs --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leg:
    """One trade, the order it becomes, and what the market would do with it now."""

    order: Order
    outcome: Outcome
    fill: Fill | None

    @property
    def trade(self) -> Trade:
        return self.order.trade

    @property
    def state(self) -> OrderState:
        return OrderState(self.order.id, self.outcome.status, self.outcome.quantity, self.outcome.reason)


@dataclass(frozen=True, slots=True)
class Draft:
    """The legs, and the account after them."""

    legs: tuple[Leg, ...]
    before: Portfolio
    after: Portfolio

    @property
    def fills(self) -> tuple[Fill, ...]:
        return tuple(leg.fill for leg in self.legs if leg.fill is not None)

    @property
    def postings(self) -> tuple[Posting, ...]:
        return tuple(posting for fill in self.fills for posting in book.for_fill(fill))

    @property
    def resting(self) -> list[tuple[Order, OrderState]]:
        """The orders that stay open."""
        return [(leg.order, leg.state) for leg in self.legs if leg.outcome.is_open]


@dataclass(slots=True)
class Reserved:
    """What open orders have a claim on: cash in cents, and quantities by symbol."""

    cash: int = 0
    positions: Counter[str] = field(default_factory=Counter[str])

    def take(self, trade: Trade, remaining: int, mark: int, costs: Costs) -> None:
        """Set aside what the rest of an order can need at most; one under way to a broker, at its mark."""
        if trade.side == "sell":
            self.positions[trade.symbol] += remaining
            return
        own = trade.price or fills.slipped(price(trade.stop_price or mark), 1, costs)
        self.cash += notional(remaining, own) + fills.fee(remaining, costs)


def reserved(
    open_orders: Iterable[tuple[Order, OrderState]], marks: Mapping[str, int], costs: Costs
) -> Reserved:
    """The claims of an account's open orders."""
    claims = Reserved()
    for order, state in open_orders:
        trade = order.trade
        claims.take(trade, trade.quantity - state.filled, marks.get(trade.symbol, 0), costs)
    return claims


def draft(
    portfolio: Portfolio,
    claims: Reserved,
    orders: Sequence[Order],
    market: Market,
    settings: Trading,
) -> Draft:
    """Work the legs out in their order, each on what the ones before leave; raises for one that cannot be."""
    legs: list[Leg] = []
    account = portfolio
    for index, order in enumerate(orders):
        leg = _leg(order, market, settings.costs)
        account = _settled(account, claims, leg, index, settings)
        legs.append(leg)
    return Draft(tuple(legs), portfolio, account)


def _leg(order: Order, market: Market, costs: Costs) -> Leg:
    trade = order.trade
    outcome = fills.now(trade, market.quotes[trade.symbol].value, market.average_volume(trade.symbol), costs)
    return Leg(order, outcome, outcome.fill(order.id, trade))


def _settled(account: Portfolio, claims: Reserved, leg: Leg, index: int, settings: Trading) -> Portfolio:
    """The account after one leg, when its cash and its positions allow the leg."""
    trade = leg.trade
    if trade.side == "sell" and not settings.short_selling:
        _check_position(account, claims, trade, index)
    after = account
    if leg.fill is not None:
        after = book.after(account, (leg.fill,), book.for_fill(leg.fill))
    if leg.outcome.is_open:
        claims.take(trade, trade.quantity - leg.outcome.quantity, 0, settings.costs)
    needs_cash = trade.side == "buy" or (leg.fill is not None and leg.fill.total_cost > 0)
    if needs_cash and after.cash < claims.cash:
        raise _short_of_cash(account, claims, after, index)
    return after


def _check_position(account: Portfolio, claims: Reserved, trade: Trade, index: int) -> None:
    held = account.positions.get(trade.symbol)
    free = (held.quantity if held else 0) - claims.positions[trade.symbol]
    if trade.quantity <= free:
        return
    message = (
        f"trades[{index}].quantity: {quantity(trade.quantity)} {trade.symbol} cannot be sold, "
        f"{quantity(max(free, 0))} are free. Sell at most that; short selling is off."
    )
    details: dict[str, Any] = {"trade_index": index, "symbol": trade.symbol, "retryable": False}
    details |= {"requested": quantity(trade.quantity), "available": quantity(max(free, 0))}
    raise ToolError("INSUFFICIENT_POSITION", message, details)


def _short_of_cash(account: Portfolio, claims: Reserved, after: Portfolio, index: int) -> ToolError:
    available = money(account.cash - claims.cash if after is not account else account.cash)
    missing = money(claims.cash - after.cash)
    message = (
        f"trades[{index}]: the account is {missing} short of what this leg costs. "
        "Trade less, sell something first, or cancel open orders."
    )
    details = {"trade_index": index, "available": available, "missing": missing, "retryable": False}
    return ToolError("INSUFFICIENT_FUNDS", message, details)


# --- identity ----------------------------------------------------------------------------------


def named(account: str, tool_call_id: str, trades: Iterable[Trade]) -> tuple[Order, ...]:
    """The orders of a call: the same call names the same orders, whenever and wherever it is made."""
    return tuple(
        Order(order_id(account, tool_call_id, leg), account, trade, leg, order_id(account, tool_call_id, leg))
        for leg, trade in enumerate(trades)
    )


def order_id(account: str, tool_call_id: str, leg: int) -> str:
    """Twenty letters and digits of the SHA-256 of what identifies the order."""
    digest = hashlib.sha256(f"{account}|{tool_call_id}|{leg}".encode()).digest()
    return "td" + base64.b32encode(digest).decode().lower()[:20]
