"""What happens to accounts and resting orders when the market's clock moves.

`plan` says it all in order, and changes nothing: each `Happening` is an entry for the ledger. Bars and
actions are read through a `View` at the instant of each session's open or close, so nothing later can matter,
and a move gives the same happenings however it is divided. The rules:

- At an open, splits come first, then dividends, for who holds the share at that moment. A split's shares are
  exact to nine places, and rounded half-even beyond. A dividend is paid in cents, half-even; a short pays it.
- A split cancels the resting orders of its symbol (`SPLIT`). Their prices and quantities were agreed in old
  shares; restated and rounded they would be orders that nobody gave, with fills counted in two units. A
  dividend leaves orders as they are.
- At a close, resting orders are judged on the session's bar in the order of their placement, each against the
  cash and the shares that the ones before it left. One that would trade without them is cancelled, whole.
- A fill that brings its position away from zero is held to the weight, the leverage and the value at risk of
  the account after it, at the session's closes; one that would break a limit cancels its order
  (`RISK_LIMIT_EXCEEDED`). The day's loss is not judged: an order that rests was within it when it was placed.
- Only what is priced by the embedded bars is moved by them. Positions whose last fill was priced elsewhere
  (`foreign`) get no split and no dividend, and count at their average cost.
- Where the user's own bars have taken a symbol's place (`replaced`) nothing happens to its positions, and its
  resting orders, agreed in embedded prices, are cancelled at the first close (`OWN_BARS`).
- While trading is HALTED an order that would trade is cancelled; while REDUCING, one that would not bring its
  position towards zero.
- Day orders expire at the close. The move itself comes last.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Literal

from tracedesk.market import Action, Bar, Bars, Dividend, Move, NoBars, Split, View, calendar
from tracedesk.primitives import json
from tracedesk.primitives.money import divide, to_text
from tracedesk.primitives.time import ManualClock, format
from tracedesk.trading import book, fills, limits
from tracedesk.trading.model import (
    EdgeTo,
    Fill,
    Order,
    OrderState,
    Portfolio,
    Position,
    Posting,
    Status,
    Trade,
)
from tracedesk.trading.settings import Trading
from tracedesk.trading.sources.embedded import dataset
from tracedesk.trading.sources.seam import Series
from tracedesk.trading.units import CASH_PLACES, QUANTITY_PLACES, micros, quantity

SPLIT: Final = "SPLIT"
OWN_BARS: Final = "OWN_BARS"
INSUFFICIENT_FUNDS: Final = "INSUFFICIENT_FUNDS"
INSUFFICIENT_POSITION: Final = "INSUFFICIENT_POSITION"
RISK_LIMIT_EXCEEDED: Final = "RISK_LIMIT_EXCEEDED"

EVERYONE: Final = ""
"""The account of a clock's entry, which belongs to none."""

# Where in a payload the facts are.
_ACTION: Final = "/action"
_BAR: Final = "/bar"
_VOLUMES: Final = "/volumes"
_REPLACED: Final = "/replaced"

Kind = Literal["split", "dividend", "fill", "order", "clock"]


@dataclass(frozen=True, slots=True)
class Resting:
    """An open order, how much of it is filled, and when on the market's clock it was placed."""

    order: Order
    filled: int
    placed_ns: int

    @property
    def remaining(self) -> int:
        return self.order.trade.quantity - self.filled


@dataclass(frozen=True, slots=True)
class Happening:
    """One entry for the ledger. `evidence` is the payload that its edges refer to, to be stored before it."""

    kind: Kind
    account: str
    clock_ns: int
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    states: tuple[OrderState, ...] = ()
    fills: tuple[Fill, ...] = ()
    postings: tuple[Posting, ...] = ()
    edges: tuple[EdgeTo, ...] = ()
    evidence: bytes = b""


def plan(
    move: Move,
    portfolios: Iterable[Portfolio],
    resting: Iterable[Resting],
    settings: Trading,
    source: Mapping[str, Bars] | None = None,
    foreign: Iterable[tuple[str, str]] = (),
    replaced: frozenset[str] = frozenset(),
) -> list[Happening]:
    """What the move brings about, first to last.

    Bars are the embedded ones unless others are given. `portfolios` has every account with positions or
    resting orders; `resting` is in order of placement. `foreign` names accounts and symbols whose positions
    other providers price, and `replaced` the symbols that own bars price.
    """
    accounts = _Accounts(portfolios, resting, settings, foreign, replaced)
    happenings: list[Happening] = []
    for edge, session in _edges(move):
        if accounts.are_idle:
            break
        market = _Market(edge, session, source)
        happens = accounts.at_open(market) if edge == calendar.open_ns(session) else accounts.at_close(market)
        happenings.extend(happens)
    return [*happenings, _moved(move)]


def _edges(move: Move) -> list[tuple[int, date]]:
    """The opens and closes that are crossed or reached, in order."""
    opens = [(calendar.open_ns(session), session) for session in move.opened]
    closes = [(calendar.close_ns(session), session) for session in move.closed]
    return sorted([*opens, *closes])


def _moved(move: Move) -> Happening:
    return Happening("clock", EVERYONE, move.to_ns, {"from_ns": move.from_ns, "to_ns": move.to_ns})


# --- the accounts, as they go through the move -------------------------------------------------


class _Accounts:
    """The portfolios and resting orders, changed by each thing that happens to them."""

    def __init__(
        self,
        portfolios: Iterable[Portfolio],
        resting: Iterable[Resting],
        settings: Trading,
        foreign: Iterable[tuple[str, str]],
        replaced: frozenset[str],
    ) -> None:
        self._portfolios = {portfolio.account: portfolio for portfolio in portfolios}
        self._resting = {each.order.id: each for each in resting}
        self._settings = settings
        self._foreign = {
            *foreign,
            *((account, symbol) for account in self._portfolios for symbol in replaced),
        }
        self._replaced = replaced

    @property
    def are_idle(self) -> bool:
        """Whether nothing can happen to them any more."""
        return not self._resting and not any(p.positions for p in self._portfolios.values())

    def at_open(self, market: _Market) -> Iterator[Happening]:
        """Splits and dividends whose ex-date opens."""
        for symbol in sorted(self._symbols() - self._replaced):
            for action in market.actions(symbol):
                yield from map(self._keep, self._acted(market, symbol, action))

    def at_close(self, market: _Market) -> Iterator[Happening]:
        """Resting orders that the session's bar fills, and those that end with it."""
        for each in [r for r in self._resting.values() if r.placed_ns < market.edge]:
            happening = self._judged(market, each)
            if happening is not None:
                yield self._keep(happening)

    def _symbols(self) -> set[str]:
        held = {symbol for portfolio in self._portfolios.values() for symbol in portfolio.positions}
        return held | {each.order.trade.symbol for each in self._resting.values()}

    def _keep(self, happening: Happening) -> Happening:
        """Let the happening take its effect here too."""
        for state in happening.states:
            self._advance(state)
        # A fill of the replay makes the position one of the replay.
        self._foreign.difference_update((happening.account, fill.symbol) for fill in happening.fills)
        if happening.postings:
            before = self._portfolios[happening.account]
            self._portfolios[before.account] = book.after(before, happening.fills, happening.postings)
        return happening

    def _advance(self, state: OrderState) -> None:
        if state.status != "open":
            del self._resting[state.order]
            return
        each = self._resting[state.order]
        self._resting[state.order] = Resting(each.order, state.filled, each.placed_ns)

    # --- at an open

    def _acted(self, market: _Market, symbol: str, action: Action) -> list[Happening]:
        proof = market.action_proof(symbol, action)
        holders = [
            portfolio
            for account, portfolio in sorted(self._portfolios.items())
            if symbol in portfolio.positions and (account, symbol) not in self._foreign
        ]
        if isinstance(action, Dividend):
            paid = (_dividend(market, p.account, p.positions[symbol], action, proof) for p in holders)
            return [happening for happening in paid if happening is not None]
        ordered = [each for each in self._resting.values() if each.order.trade.symbol == symbol]
        cancelled = [_ended(market, each, "cancelled", SPLIT, proof, _ACTION) for each in ordered]
        return cancelled + [_split(market, p.account, p.positions[symbol], action, proof) for p in holders]

    # --- at a close

    def _judged(self, market: _Market, each: Resting) -> Happening | None:
        trade = each.order.trade
        if trade.symbol in self._replaced:
            proof = market.replaced_proof(trade.symbol)
            return _ended(market, each, "cancelled", OWN_BARS, proof, _REPLACED)
        day = market.day(trade.symbol)
        placed_now = each.placed_ns >= calendar.open_ns(market.session)
        outcome = fills.at_close(
            trade, each.remaining, day.bar, placed_now, day.average_volume, self._settings.costs
        )
        fill = outcome.fill(each.order.id, trade)
        if fill is not None:
            refusal = self._refusal(market, each.order.account, fill)
            if refusal is not None:
                return _ended(market, each, "cancelled", refusal, day.proof)
            return _filled(market, each, outcome, fill, day.proof)
        return None if outcome.is_open else _ended(market, each, outcome.status, outcome.reason, day.proof)

    def _refusal(self, market: _Market, account: str, fill: Fill) -> str | None:
        """Why a fill cannot be, if it cannot."""
        portfolio = self._portfolios[account]
        position = portfolio.positions.get(fill.symbol)
        held = 0 if position is None else position.quantity
        if self._settings.state != "ACTIVE" and not (
            self._settings.state == "REDUCING" and _reduces(held, fill)
        ):
            return self._settings.state
        if fill.side == "sell" and fill.quantity > held and not self._settings.short_selling:
            return INSUFFICIENT_POSITION
        if fill.total_cost > max(0, portfolio.cash):
            return INSUFFICIENT_FUNDS
        breaks = not _reduces(held, fill) and self._breaks_limits(market, portfolio, fill)
        return RISK_LIMIT_EXCEEDED if breaks else None

    def _breaks_limits(self, market: _Market, before: Portfolio, fill: Fill) -> bool:
        after = book.after(before, (fill,), book.for_fill(fill))
        held = {**before.positions, **after.positions}
        own = {s for s in held if (before.account, s) not in self._foreign or s == fill.symbol}
        costs = {symbol: book.average(position) for symbol, position in held.items()}
        marks = {s: market.close(s, cost) if s in own else cost for s, cost in costs.items()}
        weights = limits.value(after, marks).risk_weights()
        known = None if weights is None else {s: w for s, w in weights.items() if s in own}
        series = {s: market.series(s, self._settings.window + 1) for s in own}
        tail = limits.tail(known, series, self._settings)
        return bool(limits.broken_by_fill(self._settings.limits, before, after, marks, tail))


def _reduces(held: int, fill: Fill) -> bool:
    """Whether the fill brings the position towards zero, and not past it."""
    against = held < 0 if fill.side == "buy" else held > 0
    return against and fill.quantity <= abs(held)


# --- the market, at an edge --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Proof:
    """The payload that a happening rests on."""

    payload: bytes

    def edge(self, relation: str, pointer: str) -> EdgeTo:
        return EdgeTo(relation, f"tracedesk://payloads/{hashlib.sha256(self.payload).hexdigest()}", pointer)


@dataclass(frozen=True, slots=True)
class _Day:
    """A symbol's session: its bar, if it traded, and the volumes of the sessions before."""

    bar: Bar | None
    volumes: tuple[int, ...]
    proof: _Proof

    @property
    def average_volume(self) -> int | None:
        return fills.average_volume(self.volumes)


class _Market:
    """What is known at the open or the close of one session."""

    def __init__(self, edge: int, session: date, source: Mapping[str, Bars] | None) -> None:
        self.edge = edge
        self.session = session
        self._is_embedded = source is None
        self._view = View(ManualClock(edge)) if source is None else View(ManualClock(edge), source)
        self._days: dict[str, _Day] = {}

    def actions(self, symbol: str) -> list[Action]:
        """The actions whose ex-date this is, splits first."""
        try:
            known = self._view.actions(symbol)
        except NoBars:
            return []
        today = [action for action in known if action.ex_date == self.session]
        return sorted(today, key=lambda action: isinstance(action, Dividend))

    def day(self, symbol: str) -> _Day:
        """The symbol's session, once it has closed."""
        if symbol not in self._days:
            self._days[symbol] = self._day(symbol)
        return self._days[symbol]

    def _day(self, symbol: str) -> _Day:
        try:
            bars = self._view.bars(symbol)
        except NoBars:
            return _Day(None, (), self._proof(symbol, {"bar": None, "volumes": ()}))
        bar = bars.on(self.session)
        before = len(bars) - (bar is not None)
        volumes = self._view.volumes(symbol, max(0, before - fills.VOLUME_SESSIONS), before)
        shown = {"bar": None if bar is None else _shown(bar), "volumes": volumes}
        return _Day(bar, volumes, self._proof(symbol, shown))

    def close(self, symbol: str, otherwise: int) -> int:
        """The last close in millionths; for what has none, what is given instead."""
        try:
            return micros(self._view.quote(symbol).price)
        except NoBars:
            return otherwise

    def series(self, symbol: str, count: int) -> Series:
        """The last closed sessions, for the value at risk."""
        try:
            recent = self._view.bars(symbol).latest(count)
        except NoBars:
            recent = ()
        return Series(
            array("q", [bar.session.toordinal() for bar in recent]),
            array("d", [float(bar.adjusted_close) for bar in recent]),
            array("q", [bar.volume for bar in recent]),
        )

    def action_proof(self, symbol: str, action: Action) -> _Proof:
        return self._proof(symbol, {"action": _told(action)})

    def replaced_proof(self, symbol: str) -> _Proof:
        return self._proof(symbol, {"replaced": "own bars"})

    def _proof(self, symbol: str, shown: Mapping[str, Any]) -> _Proof:
        document = {
            "kind": "session",
            "symbol": symbol,
            "session": self.session.isoformat(),
            "clock": format(self.edge),
            **({"dataset": dataset((symbol,))} if self._is_embedded else {}),
            **shown,
        }
        return _Proof(json.dumps(document))


def _shown(bar: Bar) -> dict[str, Any]:
    return {"open": bar.open, "high": bar.high, "low": bar.low, "close": bar.close, "volume": bar.volume}


def _told(action: Action) -> dict[str, Any]:
    if isinstance(action, Split):
        return {"split": _ratio(action)}
    return {"dividend": action.amount}


def _ratio(split: Split) -> str:
    return f"{split.new}:{split.old}"


# --- the entries -------------------------------------------------------------------------------


def _split(market: _Market, account: str, held: Position, split: Split, proof: _Proof) -> Happening:
    after = divide(held.quantity * split.new, split.old)
    body = {
        "symbol": held.symbol,
        "ratio": _ratio(split),
        "before": to_text(quantity(held.quantity)),
        "after": to_text(quantity(after)),
    }
    return Happening(
        "split",
        account,
        market.edge,
        body,
        postings=book.for_split(held.symbol, after - held.quantity),
        edges=(proof.edge("used", _ACTION),),
        evidence=proof.payload,
    )


def _dividend(
    market: _Market, account: str, held: Position, dividend: Dividend, proof: _Proof
) -> Happening | None:
    """The dividend of a holding; None when it comes to nothing in cents."""
    top, bottom = dividend.amount.as_integer_ratio()
    cents = divide(held.quantity * top * 10**CASH_PLACES, bottom * 10**QUANTITY_PLACES)
    if not cents:
        return None
    body = {
        "symbol": held.symbol,
        "amount": to_text(dividend.amount),
        "quantity": to_text(quantity(held.quantity)),
    }
    return Happening(
        "dividend",
        account,
        market.edge,
        body,
        postings=book.for_dividend(held.symbol, cents),
        edges=(proof.edge("used", _ACTION),),
        evidence=proof.payload,
    )


def _filled(market: _Market, each: Resting, outcome: fills.Outcome, fill: Fill, proof: _Proof) -> Happening:
    state = OrderState(each.order.id, outcome.status, each.filled + fill.quantity, outcome.reason)
    return Happening(
        "fill",
        each.order.account,
        market.edge,
        _order_body(market, each.order.trade),
        states=(state,),
        fills=(fill,),
        postings=book.for_fill(fill),
        edges=(proof.edge("priced_by", _BAR), proof.edge("used", _VOLUMES)),
        evidence=proof.payload,
    )


def _ended(
    market: _Market, each: Resting, status: Status, reason: str | None, proof: _Proof, because: str = _BAR
) -> Happening:
    """An order that ends without trading now."""
    return Happening(
        "order",
        each.order.account,
        market.edge,
        _order_body(market, each.order.trade),
        states=(OrderState(each.order.id, status, each.filled, reason),),
        edges=(proof.edge("used", because),),
        evidence=proof.payload,
    )


def _order_body(market: _Market, trade: Trade) -> dict[str, Any]:
    return {"symbol": trade.symbol, "session": market.session.isoformat()}
