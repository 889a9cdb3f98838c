"""Orders to a real broker: written down before they are sent, never sent twice, booked as they turn out.

A call leaves these entries, each on the disk before the next step:

- `intent`: the orders in state `sent`, and the request. Their ids come from the call, and are unique.
- `trade`: what became of every order, and the answer of the call. The answer is repeated for ever.
- `report` and `unknown`, while something is missing: what is known is booked, and the call has no answer.
- `dispute`: what the broker said and cannot be, or takes back. `surprise`: what it traded all the same.

The same call again asks the broker for what is missing; it never sends. One desk at a time deals with an
account, held by a file lock that the system releases when the desk dies. So an order that the broker does
not have is one that nobody is sending any more.

The orders are sent one after the other, and each is judged again on the account as the ones before have
left it. So a purchase is not sent when the sale that was to pay for it did not take place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import tracedesk
from tracedesk import turns
from tracedesk.errors import ToolError
from tracedesk.foreign import quoted
from tracedesk.primitives import json
from tracedesk.primitives.time import SECOND
from tracedesk.trading import book, limits, simulation
from tracedesk.trading.broker import NEVER_ARRIVED, Broker, Heard, Report, lookup, shown, submit
from tracedesk.trading.draft import Leg, order_id
from tracedesk.trading.execution import edges, facts, judge
from tracedesk.trading.fills import Outcome
from tracedesk.trading.ledger import CallRow, Entry, Ledger, New, Reading, Writer
from tracedesk.trading.memory import check
from tracedesk.trading.model import EdgeTo, Fill, Order, OrderState
from tracedesk.trading.outlook import Outlook, WholeFills
from tracedesk.trading.provenance import LEDGER, ORDERS
from tracedesk.trading.simulation import shown_leg
from tracedesk.trading.trader import Already
from tracedesk.trading.units import micros, money

if TYPE_CHECKING:
    from tracedesk.trading.draft import Market
    from tracedesk.trading.execution import Intent
    from tracedesk.trading.trader import Request, Trader

log = logging.getLogger(__name__)

BATCH_S: Final = 15.0
"""The most time that the orders of one call are sent in."""
NOT_SENT: Final = "NOT_SENT"
"""The order was held back: one before it has no known outcome, or the call's time was over."""

_SPARE_S: Final = 1.0
"""What sending leaves of the call's time for writing down how it ended."""
LOCK_S: Final = 5.0
"""How long a call waits for another one of its account."""
_LOOKS_BACK: Final = 500
"""How many of an account's last orders are asked about again when the broker had said they never came."""
_RECONCILE: Final = "send the same tool_call_id again"


# --- the ways in -------------------------------------------------------------------------------


async def execute(trader: Trader, request: Request, intent: Intent, market: Market) -> bytes:
    """Send the batch and answer with what became of it; a batch that was sent before is only asked about."""
    broker = _broker(trader)
    _check_immediate(intent)
    async with _alone(trader, request.account):
        answer = await _resumed(trader, request)
        if answer is not None:
            return answer
        await _clear(trader, request.account)
        work = partial(_intend, trader=trader, request=request, intent=intent, market=market)
        batch, outlook = await trader.commit(work)
        request.call.sent = True
        heard = await _send(broker, batch.waiting, outlook, request.call.deadline - _SPARE_S)
        return await _concluded(trader, request, batch, heard)


async def resume(trader: Trader, request: Request) -> bytes | None:
    """The answer of a call whose orders were written down before, or None when there are none.

    It needs neither prices nor an open market, and comes before everything that does.
    """
    if await trader.ledger(partial(_batch_of, request=request)) is None:
        return None
    async with _alone(trader, request.account):
        return await _resumed(trader, request)


@dataclass(slots=True)
class Reconciled:
    """The ids of orders: now known, traded against the broker's word, and still unknown."""

    booked: list[str] = field(default_factory=list[str])
    surprises: list[str] = field(default_factory=list[str])
    unknown: list[str] = field(default_factory=list[str])


async def reconcile(trader: Trader) -> Reconciled:
    """Ask about every order without a known outcome, and again about those that never came.

    For a desk to run when it opens. An account that another desk is dealing with is left to it, and what a
    slow broker leaves no time for stays as it is.
    """
    found = Reconciled()
    until = asyncio.get_running_loop().time() + BATCH_S
    for account in await trader.ledger(lambda ledger: ledger.accounts()):
        with suppress(Occupied):
            async with _alone(trader, account, 0):
                await _reconcile(trader, account, found, until)
    return found


async def _reconcile(trader: Trader, account: str, found: Reconciled, until: float) -> None:
    for seq, orders in (await trader.ledger(partial(_doubtful, account=account))).items():
        batch = await trader.ledger(partial(_batch, seq=seq))
        if asyncio.get_running_loop().time() >= until:
            found.unknown += [order.id for order in batch.waiting]
            continue
        booked = await _book_now(trader, batch, await _ask(trader, batch, orders))
        found.booked += booked.news
        found.surprises += booked.surprises
        found.unknown += [order.id for order in booked.waiting]


async def _resumed(trader: Trader, request: Request) -> bytes | None:
    known = await trader.ledger(lambda ledger: ledger.call(request.account, request.id))
    if known is not None:
        raise Already(known)
    batch = await trader.ledger(partial(_batch_of, request=request))
    if batch is None:
        return None
    facts = batch.facts
    check(facts["tool"], facts["params_sha256"], request.tool, request.params_sha256, request.id)
    request.call.sent = True
    heard = await _ask(trader, batch, batch.waiting)
    return await _concluded(trader, request, batch, heard, again=True)


async def _clear(trader: Trader, account: str) -> None:
    """Refuse to add to an account of which nobody knows what it holds."""
    left: list[Order] = []
    for seq in await trader.ledger(partial(_pending, account=account)):
        batch = await trader.ledger(partial(_batch, seq=seq))
        booked = await _book_now(trader, batch, await _ask(trader, batch, batch.waiting))
        left += booked.waiting
    if left:
        message = (
            f"The broker does not say what became of {len(left)} earlier order(s). Nothing was sent: "
            "send the earlier call again with its own id, then this one."
        )
        raise ToolError("NETWORK_ERROR", message, {"retryable": True, "order_ids": [o.id for o in left]})


async def _concluded(
    trader: Trader, request: Request, batch: Batch, heard: Sequence[Heard], *, again: bool = False
) -> bytes:
    """Book what was heard, and return the call's answer or raise what it is instead."""
    try:
        booked = await _book_now(trader, batch, heard, by=request.by, first=not again)
    except Exception as fault:
        # The orders are out: no other error may suggest that they are not.
        log.exception("call %s: what became of its orders could not be written down", request.call.id)
        raise _unknown(batch.waiting, batch) from fault
    for ref in booked.refs:
        request.call.cite("reported_by", ref)
    if booked.answer is not None:
        return booked.answer
    if booked.known is not None:
        raise Already(booked.known)
    if booked.waiting:
        raise _unknown(booked.waiting, batch)
    message = "The orders are booked, and a held position has no price to value the account with. " + (
        f"To get the answer, {_RECONCILE}."
    )
    raise ToolError("DATA_UNAVAILABLE", message, {"retryable": True, "reconcile": _RECONCILE})


def _unknown(waiting: Sequence[Order], batch: Batch) -> ToolError:
    message = (
        f"{len(waiting)} of {len(batch.placed)} order(s) have no known outcome: they may be traded or not. "
        f"To learn it, {_RECONCILE}; nothing is ever sent twice. A new id would trade again."
    )
    ids = [order.id for order in waiting]
    return ToolError(
        "OUTCOME_UNKNOWN", message, {"retryable": False, "order_ids": ids, "reconcile": _RECONCILE}
    )


def _broker(trader: Trader) -> Broker:
    if trader.broker is None:
        raise RuntimeError("the outbox is for desks with a broker")
    return trader.broker


def _check_immediate(intent: Intent) -> None:
    for index, trade in enumerate(intent.trades):
        if trade.time_in_force != "ioc":
            message = (
                f"trades[{index}].time_in_force {trade.time_in_force!r}: orders to the broker are ioc. "
                "Leave it out."
            )
            path = ["trades", index, "time_in_force"]
            raise ToolError("INVALID_INPUT", message, {"path": path, "retryable": False})


# --- one desk at a time ------------------------------------------------------------------------


class Occupied(ToolError):
    """Another call is dealing with the account's orders."""

    def __init__(self) -> None:
        message = "Another call is sending orders of this account. Send this one again in a moment."
        super().__init__("RATE_LIMITED", message, {"retryable": True, "retry_after_s": 1})


def _alone(trader: Trader, account: str, seconds: float | None = None) -> AbstractAsyncContextManager[None]:
    """Hold the account's outbox against every other call, of this desk and of others on its home."""
    wait = LOCK_S if seconds is None else seconds
    return turns.turn(trader.desk.home, "outbox", account, wait, Occupied)


# --- what is written down before ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """The orders of one call: the entry that intended them, and how far they have come."""

    intent: Entry
    placed: tuple[tuple[Order, OrderState], ...]

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.intent.body

    @property
    def waiting(self) -> list[Order]:
        return [order for order, state in self.placed if state.status == "sent"]

    @property
    def states(self) -> dict[str, OrderState]:
        return {order.id: state for order, state in self.placed}

    @property
    def ref(self) -> str:
        return f"{LEDGER}{self.intent.seq}"


def _batch(ledger: Reading, seq: int) -> Batch:
    intent = ledger.entry(seq)
    assert intent is not None
    placed = (ledger.order(order.id) for order in intent.orders)
    return Batch(intent, tuple(found for found in placed if found is not None))


def _batch_of(ledger: Reading, request: Request) -> Batch | None:
    seq = ledger.entry_of_order(order_id(request.account, request.id, 0))
    return None if seq is None else _batch(ledger, seq)


def _pending(ledger: Reading, account: str) -> list[int]:
    """The intents of the account with orders that have no known outcome."""
    sent = (order for order, state in ledger.open_orders(account) if state.status == "sent")
    seqs = (ledger.entry_of_order(order.id) for order in sent)
    return list(dict.fromkeys(seq for seq in seqs if seq is not None))


def _doubtful(ledger: Reading, account: str) -> dict[int, list[Order]]:
    """By intent: orders without a known outcome, and late ones that were said never to have come."""
    found = {seq: _batch(ledger, seq).waiting for seq in _pending(ledger, account)}
    for order, state in ledger.orders(account, limit=_LOOKS_BACK):
        seq = ledger.entry_of_order(order.id) if state.reason == NEVER_ARRIVED else None
        if seq is not None:
            found.setdefault(seq, []).append(order)
    return found


def _intend(
    ledger: Ledger, trader: Trader, request: Request, intent: Intent, market: Market
) -> tuple[Batch, Outlook]:
    """One transaction: the batch is judged on the account as it is now, and its orders are written down."""
    market = WholeFills.of(market)
    with ledger.writing() as writer:
        account = simulation.standing(writer, request.account, request.now_ns, trader.desk.clock.now_ns())
        found = judge(trader, writer, request, intent, market)
        simulation.cite(request, market)
        body = {
            **facts(request, found, market),
            "broker": _broker(trader).name,
            "tool": request.tool,
            "tool_call_id": request.id,
            "params": request.params.decode(),
            "params_sha256": request.params_sha256,
            "desk_call": request.call.id,
            "source_refs": request.source_refs,
            "marks": market.marks,
        }
        seq = writer.append(
            New(
                "intent",
                request.account,
                request.now_ns,
                body,
                orders=intent.orders,
                states=[_first_state(leg) for leg in found.draft.legs],
                edges=edges(request, intent, market),
            )
        )
        return _batch(writer, seq), Outlook(account, market, trader.settings)


def _first_state(leg: Leg) -> OrderState:
    """A leg that the quote rejects was judged as trading nothing, so it is not sent."""
    if leg.outcome.status == "rejected":
        return OrderState(leg.order.id, "rejected", 0, leg.outcome.reason)
    return OrderState(leg.order.id, "sent")


# --- asking ------------------------------------------------------------------------------------


async def _send(broker: Broker, orders: Sequence[Order], outlook: Outlook, until: float) -> list[Heard]:
    """Send the orders one after the other; what no longer fits, or follows a silence, is held back."""
    now = asyncio.get_running_loop().time
    ends = min(now() + BATCH_S, until)
    heard: list[Heard] = []
    for index, order in enumerate(orders):
        left = ends - now()
        if left <= 0 or any(before.state is None for before in heard):
            reason = NOT_SENT
        else:
            # The first was judged when it was written down.
            reason = outlook.objection(orders[index:]) if heard else None
        if reason is None:
            answer = await submit(broker, order, min(left, broker.answer_s))
            outlook.take(answer)
        else:
            answer = Heard(order, OrderState(order.id, "rejected", 0, reason))
        heard.append(answer)
    return heard


async def _ask(trader: Trader, batch: Batch, orders: Iterable[Order]) -> list[Heard]:
    broker = trader.broker
    if broker is None or broker.name != batch.facts["broker"]:
        problem = f"it was sent to {batch.facts['broker']!r}, which is not this desk's broker"
        return [Heard(order, None, problem=problem) for order in orders]
    age = trader.desk.clock.now_ns() - batch.intent.at_ns
    may_arrive = age < broker.arrives_s * SECOND
    asked = (lookup(broker, order, broker.answer_s, may_arrive=may_arrive) for order in orders)
    return list(await asyncio.gather(*asked))


# --- what is written down after ----------------------------------------------------------------


@dataclass(slots=True)
class Booked:
    """What a transaction did, and what the call can be told."""

    waiting: list[Order]
    known: CallRow | None = None
    """What stands under the call's id already."""
    answer: bytes | None = None
    news: list[str] = field(default_factory=list[str])
    surprises: list[str] = field(default_factory=list[str])
    refs: list[str] = field(default_factory=list[str])


async def _book_now(
    trader: Trader, batch: Batch, heard: Sequence[Heard], *, by: str | None = None, first: bool = False
) -> Booked:
    now_ns = await trader.now_ns()
    marks = await _marks(trader, batch, now_ns, by)
    moment = Moment(now_ns, marks, by, first)
    return await trader.commit(partial(_book, trader=trader, batch=batch, heard=heard, moment=moment))


async def _marks(trader: Trader, batch: Batch, now_ns: int, by: str | None) -> dict[str, int]:
    """The prices that the batch was judged on; and quotes, if there are, of what came to be held since."""
    marks: dict[str, int] = dict(batch.facts["marks"])
    account = batch.intent.account
    held = await trader.ledger(lambda ledger: ledger.portfolio(account).positions)
    missing = [symbol for symbol in held if symbol not in marks]
    if missing:
        quotes = await trader.gate.quotes(
            missing, now_ns, by or f"tracedesk://calls/{batch.facts['desk_call']}"
        )
        marks |= {s: micros(q.value.price) for s, q in quotes.items() if not isinstance(q, ToolError)}
    return marks


@dataclass(frozen=True, slots=True)
class Moment:
    """When and by whom the broker was heard."""

    now_ns: int
    marks: Mapping[str, int]
    by: str | None
    first: bool
    """Whether the orders were sent just now."""


def _book(ledger: Ledger, trader: Trader, batch: Batch, heard: Sequence[Heard], moment: Moment) -> Booked:
    """One transaction: everything that is known now, and the call's answer once nothing is missing."""
    refs = _kept(trader, heard)
    with ledger.writing() as writer:
        # Read again: whoever held the ledger in between may have known more.
        record = _Record(ledger, writer, _batch(writer, batch.intent.seq), moment, refs)
        return record.write(heard)


def _kept(trader: Trader, heard: Iterable[Heard]) -> dict[str, str]:
    """The broker's own words as payloads, by order; a full or failing folder must not stop the books."""
    refs: dict[str, str] = {}
    for each in heard:
        if each.report is not None:
            with suppress(OSError):
                name = trader.desk.payloads.put(_words(each.report), must=True)
                if name is not None:
                    refs[each.order.id] = f"tracedesk://payloads/{name}"
    return refs


def _words(report: Report) -> bytes:
    return report.raw or json.dumps(shown(report))


@dataclass(frozen=True, slots=True)
class _Record:
    """The entries of one transaction after the broker was heard."""

    ledger: Ledger
    writer: Writer
    batch: Batch
    moment: Moment
    refs: Mapping[str, str]

    def write(self, heard: Sequence[Heard]) -> Booked:
        states = self.batch.states
        news = [each for each in heard if each.state and states[each.order.id].status == "sent"]
        late = [each for each in heard if each.state and states[each.order.id].status != "sent"]
        surprises = [each for each in late if each.fill and not states[each.order.id].filled]
        self._dispute(heard, late)
        if surprises:
            self._append("surprise", surprises)
        learnt = {each.order.id for each in news}
        booked = Booked([order for order in self.batch.waiting if order.id not in learnt])
        booked.news, booked.surprises = sorted(learnt), [each.order.id for each in surprises]
        booked.refs = list(self.refs.values())
        self._settle(news, booked)
        if booked.waiting and self.moment.first:
            self._append_unknown(heard, booked.waiting)
        return booked

    def _settle(self, news: Sequence[Heard], booked: Booked) -> None:
        """Book the news: with the answer if that ends the call, else by themselves."""
        asked = self.batch.facts
        booked.known = self.writer.call(self.batch.intent.account, asked["tool_call_id"])
        if not booked.waiting and booked.known is None:
            booked.answer = self._answer(news)
        if booked.answer is None:
            if news:
                self._append("report", news)
            return
        params = (asked["params_sha256"], asked["params"].encode(), asked["desk_call"])
        call = CallRow(asked["tool_call_id"], asked["tool"], *params, booked.answer)
        self._append("trade", news, call)

    def _answer(self, news: Sequence[Heard]) -> bytes | None:
        """The body of `trade_execute` after the news; None when a position cannot be valued."""
        learnt = {each.order.id: each for each in news}
        fills = [each.fill for each in news if each.fill]
        postings = [posting for fill in fills for posting in book.for_fill(fill)]
        account = book.after(self.writer.portfolio(self.batch.intent.account), fills, postings)
        if set(account.positions).difference(self.moment.marks):
            return None
        valued = limits.value(account, self.moment.marks)
        trades: list[dict[str, Any]] = []
        for order, state in self.batch.placed:
            each = learnt.get(order.id)
            ended = state if each is None or each.state is None else each.state
            fill = self._fill_of(order) if each is None else each.fill
            leg = Leg(order, Outcome(ended.status, ended.filled, reason=ended.reason), fill)
            trades.append({**shown_leg(leg), "order_id": order.id})
        after = {"total_value": money(valued.total_cents), "cash": money(valued.cash)}
        body = {"execution": {"trades": trades, "portfolio_after": after}}
        return json.dumps({**body, "source_refs": self.batch.facts["source_refs"]})

    def _fill_of(self, order: Order) -> Fill | None:
        columns = "order_id, symbol, side, quantity, price, notional, fees"
        query = f"SELECT {columns} FROM fill WHERE order_id = ?"
        return next((Fill(*row) for row in self.ledger.connection.execute(query, (order.id,))), None)

    def _append(self, kind: str, heard: Sequence[Heard], call: CallRow | None = None) -> None:
        fills = [each.fill for each in heard if each.fill]
        self.writer.append(
            New(
                kind,
                self.batch.intent.account,
                self.moment.now_ns,
                self._body(heard),
                call=call,
                states=[each.state for each in heard if each.state],
                fills=fills,
                postings=[posting for fill in fills for posting in book.for_fill(fill)],
                edges=self._edges(heard),
            )
        )

    def _append_unknown(self, heard: Sequence[Heard], waiting: Sequence[Order]) -> None:
        open_ids = {order.id for order in waiting}
        problems = {each.order.id: each.problem for each in heard if each.order.id in open_ids}
        body = {**self._body(()), "orders": problems}
        account, now_ns = self.batch.intent.account, self.moment.now_ns
        self.writer.append(New("unknown", account, now_ns, body, edges=self._edges(())))

    def _dispute(self, heard: Sequence[Heard], late: Sequence[Heard]) -> None:
        """Keep what the broker cannot mean, and what it takes back; the same words once."""
        for each in heard:
            if each.is_lie:
                self._append_dispute(each, each.problem)
        for each in late:
            before, now = self.batch.states[each.order.id], each.state
            if now is not None and (before.status, before.filled) != (now.status, now.filled):
                reason = quoted(before.reason or "no reason")
                self._append_dispute(each, f"it was {before.status} ({reason}) by the broker's own word")

    def _append_dispute(self, each: Heard, problem: str | None) -> None:
        body = {**self._body((each,)), "order": each.order.id, "problem": problem}
        about = f"{ORDERS}{each.order.id}"
        query = "SELECT body FROM entry JOIN edge ON entry = seq WHERE ref = ? AND kind = 'dispute'"
        kept = (json.loads(known) for (known,) in self.ledger.connection.execute(query, (about,)))
        if body not in kept:
            disputed = [EdgeTo("disputes", about), *self._edges((each,))]
            account, now_ns = self.batch.intent.account, self.moment.now_ns
            self.writer.append(New("dispute", account, now_ns, body, edges=disputed))

    def _body(self, heard: Iterable[Heard]) -> dict[str, Any]:
        reports = {each.order.id: shown(each.report) for each in heard if each.report is not None}
        body: dict[str, Any] = {"version": tracedesk.__version__, "broker": self.batch.facts["broker"]}
        return {**body, "reports": reports} if reports else body

    def _edges(self, heard: Iterable[Heard]) -> list[EdgeTo]:
        told = [each.order.id for each in heard if each.order.id in self.refs]
        found = [EdgeTo("intent", self.batch.ref), *(EdgeTo("reported_by", self.refs[o], o) for o in told)]
        return found if self.moment.by is None else [*found, EdgeTo("recorded_as", self.moment.by)]
