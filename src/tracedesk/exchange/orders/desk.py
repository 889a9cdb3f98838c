"""The order desk: previews, orders, cancels and the kill switch of every account of one home.

An order goes through these steps, each on the disk or answered before the next:

1. `preview` judges it and returns a token for exactly that order.
2. `place` finds the token, asks the user where that is needed, and judges the order again.
3. The intent is written down under an id that comes from caller and token, and is never used twice.
4. The order is sent, once. What was heard is written down with the record of the call.
5. If nothing was heard, the venue is asked for that id, now and later, until it tells.

A call is answered before its deadline. Where the venue has told nothing by then, the outcome is unknown to
the caller, and the steps go on without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import tracedesk
from tracedesk.contract import Edge, Source
from tracedesk.errors import ToolError
from tracedesk.exchange.client.errors import ClientError, OutcomeUnknown
from tracedesk.exchange.orders import answers, caps, confirming
from tracedesk.exchange.orders.errand import Errand, answered
from tracedesk.exchange.orders.halting import Halting
from tracedesk.exchange.orders.identity import Identity, number_of
from tracedesk.exchange.orders.judging import Judged, judge
from tracedesk.exchange.orders.ledger import Duplicate, Intent, Ledger, Moved, News, Order, Seen
from tracedesk.exchange.orders.pace import Pace
from tracedesk.exchange.orders.party import Party
from tracedesk.exchange.orders.previews import Preview, Previews, client_order_id
from tracedesk.exchange.orders.report import (
    ABSENT,
    SENT,
    UNKNOWN,
    Implausible,
    State,
    client_ids,
    heard,
    of_stream,
)
from tracedesk.exchange.orders.settling import Heard, ask, send
from tracedesk.exchange.orders.sweeping import Sees, everything
from tracedesk.exchange.orders.switch import Switch
from tracedesk.exchange.orders.ticket import Ticket, refused, symbol_of
from tracedesk.exchange.orders.trouble import before_sending
from tracedesk.exchange.orders.turn import WAIT_S, Occupied, turn
from tracedesk.home import Home
from tracedesk.jobs import in_thread, whatever_happens
from tracedesk.primitives.time import HOUR, MILLISECOND, Clock, format
from tracedesk.shared import SharedStore

if TYPE_CHECKING:
    from tracedesk.calls import CallLog
    from tracedesk.contract import Call
    from tracedesk.exchange.settings import Exchange
    from tracedesk.primitives.redaction import Secrets

log = logging.getLogger(__name__)
T = TypeVar("T")


class OrderDesk:
    """The orders of one desk.

    `parties` gives the accounts that it can sign for now; `gather` opens those that nobody has used yet;
    `run` tells the venue's process, where it is one that ends and comes back.
    """

    def __init__(
        self,
        home: Path,
        settings: Exchange,
        clock: Clock,
        calls: CallLog | None,
        parties: Callable[[], Iterable[Party]],
        *,
        gather: Callable[[], Awaitable[None]] | None = None,
        run: Callable[[], object] = lambda: None,
        secrets: Secrets | None = None,
        pace: Pace | None = None,
        shared: SharedStore | None = None,
    ) -> None:
        self.home = home
        self.settings = settings
        self.clock = clock
        self.pace = pace or Pace()
        self.secrets = secrets
        self.ledger = Ledger(Home(home).trace, clock, calls, secrets)
        self.switch = Switch(home, clock)
        self._closes_store = shared is None
        store = SharedStore(Home(home).run, clock) if shared is None else shared
        self.previews = Previews(clock, settings.preview_seconds, store, home)
        self.confirmations = confirming.Confirmations(home, settings, self.previews, clock, secrets)
        self._parties = parties
        self._gather = gather
        self.run = run
        self._halting = Halting(self)
        self._at_work: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Watch the switch from now on, and settle what an earlier desk left open."""
        left = await in_thread(lambda: self.ledger.unresolved() or self.ledger.open())
        self._halting.start(in_doubt=bool(left))

    async def stop(self) -> None:
        """Wait for what is being sent, and close."""
        await self._halting.stop()
        await self.confirmations.close()
        while self._at_work:
            await asyncio.wait(self._at_work)
        await in_thread(self.ledger.close)
        if self._closes_store:
            await in_thread(self.previews.shared.close)

    def parties(self) -> list[Party]:
        """One party for each account."""
        return list({party.account: party for party in self._parties()}.values())

    async def gather(self) -> str | None:
        """Open the accounts that nobody has used yet; returns why some stay closed."""
        if self._gather is None:
            return None
        try:
            await self._gather()
        except ToolError as problem:
            log.warning("not every account could be opened: %s", problem.message)
            return problem.message
        except Exception as fault:
            log.exception("not every account could be opened")
            return f"they could not be opened ({type(fault).__name__})"
        return None

    # --- previewing and placing

    async def preview(self, party: Party, order: Mapping[str, Any], call: Call[Any] | None) -> dict[str, Any]:
        """Judge an order as if it were sent now, and return the token that places exactly it."""
        await self._begin(party)
        ticket = Ticket.of(order)
        judged = await judge(self.settings, party, ticket)
        instrument = judged.estimate.view.instrument
        if self.settings.mode != "sim":
            await party.venue.test_order(**ticket.wire(instrument))
        with before_sending(self.home):
            usage = await self._usage(party.identity.numbered(party.place, judged.number), instrument.quote)
        caps.check_usage(self.settings.caps, usage, judged.estimate.notional, instrument.quote)
        by = None if call is None else f"tracedesk://calls/{call.id}"
        token, made = await self.previews.make(party, ticket, by, judged.estimate.summary)
        return {
            "mode": self.settings.mode,
            "account": party.account,
            "preview_token": token,
            "expires_at": format(self.clock.now_ns() + self.settings.preview_seconds * 1000 * MILLISECOND),
            "client_order_id": made.client_order_id,
            "order": ticket.shown(instrument),
            **judged.document(),
            "venue_tested": self.settings.mode != "sim",
            "needs_confirmation": confirming.is_needed(self.settings),
        }

    async def place(
        self, party: Party, order: Mapping[str, Any], token: str, call: Call[Any]
    ) -> dict[str, Any]:
        """Send a previewed order and answer with what became of it."""
        await self._begin(party)
        ticket = Ticket.of(order)
        preview = await self._found(party, token, ticket)
        await self.confirmations.confirm(preview, call, self.pace.confirms)
        errand = Errand()
        work = self._place(party, preview, call, errand)
        shown = {"mode": self.settings.mode, "account": party.account, "symbol": ticket.symbol}
        late = partial(answers.late, errand, {**shown, "client_order_id": preview.client_order_id})
        return await self._in_time(work, call, errand, late)

    async def _begin(self, party: Party) -> None:
        self.alive()
        self.switch.check()
        self._halting.sweeping.check(party.account, await self.identity(party))
        caps.check_mode(self.settings, party)

    async def identity(self, party: Party) -> str:
        """What the party's account is told by, whatever it is called."""
        with before_sending(self.home):
            return await in_thread(lambda: self.ledger.identity(party.identity))

    def turn(self, party: Party, seconds: float = WAIT_S) -> AbstractAsyncContextManager[str]:
        """Hold the party's account against every other call."""
        return turn(self.home, party.account, lambda: self.identity(party), seconds)

    async def adopt(self, whose: Identity) -> None:
        """Know an account of the operator's by its key, with the orders that are under its name alone."""
        await in_thread(lambda: self.ledger.join(whose))

    async def _usage(self, whose: Identity, quote: str) -> caps.Usage:
        """What an account has sent that its venue has just told of, under any of its names."""

        def read() -> caps.Usage:
            self.ledger.join(whose)
            return self.ledger.usage(whose, quote)

        return await in_thread(read)

    async def _in_time(
        self,
        work: Coroutine[Any, Any, T],
        call: Call[Any],
        errand: Errand,
        late: Callable[[], ToolError],
    ) -> T:
        """What the work comes to, or what is known shortly before the call must be answered."""
        until = call.deadline - self.pace.answer
        return await answered(self._tracked(work), errand, until, late=late, unsent=answers.unsent)

    async def _found(self, party: Party, token: str, ticket: Ticket) -> Preview:
        try:
            return await self.previews.find(party, token, ticket)
        except ToolError as problem:
            with before_sending(self.home):
                used = await in_thread(lambda: self._used(party, token))
            raise problem if used is None else answers.used(used) from None

    def _used(self, party: Party, token: str) -> Order | None:
        """The order that a token became; desks before this version named it by its scope."""
        names = (client_order_id(key, token) for key in dict.fromkeys((party.holder, party.scope)))
        return next((found for name in names if (found := self.ledger.order(name)) is not None), None)

    async def _place(self, party: Party, preview: Preview, call: Call[Any], errand: Errand) -> dict[str, Any]:
        """A caller that gives up before the order is written down has sent nothing."""
        async with self.turn(party) as identity:
            seen = await self._begun(party, identity)
            until = self.clock.monotonic() + self.pace.fresh
            judged = await judge(self.settings, party, preview.ticket)
            errand.begun = True
            errand.order = order = await self._intended(party, preview, judged, seen, until, call)
            call.sent = True
            self._halting.arm()
            return await self._send(party, order, judged, call, errand)

    async def _begun(self, party: Party, identity: str) -> Seen:
        """The account at the beginning of its turn, of which nothing is in doubt."""
        with before_sending(self.home):
            seen = await in_thread(lambda: self.ledger.seen(party.identity, identity))
            left = await self.settle(party)
            if left:
                raise answers.unsettled(left, await self._own(party))
        return seen

    async def _send(
        self, party: Party, order: Order, judged: Judged, call: Call[Any], errand: Errand
    ) -> dict[str, Any]:
        instrument = judged.estimate.view.instrument
        found = await send(party, order, judged.ticket.wire(instrument))
        if found.state is None:
            found = await self._asked(party, order, found, errand)
        return await self._concluded(order, found, judged.ticket.shown(instrument), call, errand)

    async def settle(self, party: Party) -> list[Order]:
        """Ask about the account's orders of unknown outcome, in its turn; returns those that stay so."""
        await self._recognise(party)
        own = await self._own(party)
        for order in await self._unresolved(party.identity):
            is_own = order.identity in own
            await self._tell(order, await ask(party, order, self.pace.arrives, is_own=is_own))
        return await self._unresolved(party.identity)

    async def _recognise(self, party: Party) -> None:
        """Where a name has a new key, the venue's number tells whether the account is the old one."""
        if not await in_thread(lambda: self.ledger.is_renewed(party.identity)):
            return
        try:
            number = number_of(await party.venue.account())
        except ClientError as silence:
            log.warning("whose the new key of %s is was not told: %s", party.account, silence.message)
            return
        await self.adopt(party.identity.numbered(party.place, number))

    async def _own(self, party: Party) -> frozenset[str]:
        return await in_thread(lambda: self.ledger.own(party.identity))

    async def _unresolved(self, whose: Identity) -> list[Order]:
        return await in_thread(lambda: self.ledger.unresolved(whose))

    async def _intended(
        self, party: Party, preview: Preview, judged: Judged, seen: Seen, until: float, call: Call[Any]
    ) -> Order:
        ticket, instrument = preview.ticket, judged.estimate.view.instrument
        notional = judged.estimate.notional
        edges = [Edge("call", f"tracedesk://calls/{call.id}")]
        if preview.call is not None:
            edges.append(Edge("preview", preview.call))
        intent = Intent(
            preview.client_order_id,
            party.account,
            self.settings.mode,
            ticket.symbol,
            ticket.side,
            ticket.order_type,
            ticket.quantity,
            instrument.quote,
            notional,
            party.venue.now_ms(),
            {
                "scope": call.label,
                "principal": call.principal,
                "order": ticket.shown(instrument),
                "judged": judged.document(),
                "confirmed": preview.confirmed,
                "version": tracedesk.__version__,
            },
            edges,
            party.identity.numbered(party.place, judged.number).marks,
        )

        def last_word(usage: caps.Usage) -> None:
            if self.clock.monotonic() > until:
                raise answers.too_late()
            self.previews.check(preview)
            self.switch.check()
            self._halting.sweeping.check(party.account, seen.identity)
            caps.check_usage(self.settings.caps, usage, notional, instrument.quote)

        with before_sending(self.home):
            try:
                order = await in_thread(lambda: self.ledger.intend(intent, last_word, seen))
            except Duplicate as known:
                raise answers.used(known.order) from None
            except Moved:
                await self.adopt(intent.identity)
                raise Occupied from None
        await self._burnt(preview)
        return order

    async def _burnt(self, preview: Preview) -> None:
        """An order that is written down is never written down again: a preview that stays does no harm."""
        try:
            await self.previews.burn(preview)
        except ToolError as problem:
            log.warning("preview of %s stays until it expires: %s", preview.client_order_id, problem.message)

    async def _asked(self, party: Party, order: Order, found: Heard, errand: Errand) -> Heard:
        """Ask for an order that had no answer; what was heard first is kept if nothing else is.

        When the call has been answered, asking is left to the rounds of this desk.
        """
        for seconds in self.pace.asks:
            if errand.is_left:
                break
            if seconds:
                await self.clock.sleep_until(self.clock.monotonic() + seconds)
            now = await ask(party, order, self.pace.arrives)
            if now.state is not None:
                return now
        # The account's stream may have told what no answer did.
        known = await in_thread(lambda: self.ledger.order(order.client_order_id))
        return found if known is None or known.is_unresolved else Heard(known.state)

    async def _concluded(
        self, order: Order, found: Heard, fields: Mapping[str, str], call: Call[Any], errand: Errand
    ) -> dict[str, Any]:
        """Write down what was heard, and return the answer or raise what it is instead."""

        def answer(_: str, after: Order) -> dict[str, Any] | None:
            return answers.placed(after, fields, found.told) if errand.conclude() else None

        is_there = found.state is not None and found.state.status not in ABSENT
        recording = {"call": call, "answer": answer} if is_there else {}
        try:
            order, made = await self._tell(order, found, **recording)
        except Exception as fault:
            # The order is out: no other error may suggest that it is not.
            log.exception("order %s: its outcome could not be written down", order.client_order_id)
            self._halting.doubt()
            raise answers.unknown(order, "its outcome could not be written down") from fault
        if found.refusal is not None:
            raise answers.refused(order, found.refusal)
        if not is_there:
            raise answers.unknown(order, found.problem)
        return made

    async def _tell(self, order: Order, found: Heard, **recording: Any) -> tuple[Order, Any]:
        """Write down what was heard of an order."""
        state = found.state
        if state is None:
            self._halting.doubt()
            if order.state.status != SENT:
                return order, None  # it was said before
        body = {"problem": found.problem, "told": found.told}
        news = News(
            order.client_order_id,
            State(UNKNOWN) if state is None else state,
            {name: value for name, value in body.items() if value is not None},
            _by(recording.get("call")),
        )
        return await in_thread(lambda: self.ledger.tell(news, **recording))

    # --- cancelling

    async def cancel(
        self,
        party: Party,
        call: Call[Any],
        symbol: str,
        *,
        order_id: int | None = None,
        client_order_id: str | None = None,
    ) -> dict[str, Any]:
        """Cancel an order of the account; also while halted, because it only takes risk away."""
        self.alive()
        caps.check_mode(self.settings, party)
        if (order_id is None) == (client_order_id is None):
            raise refused("order_id", "give either order_id or orig_client_order_id.")
        symbol = symbol_of(symbol)
        which = {"orderId": order_id} if order_id is not None else {"origClientOrderId": client_order_id}
        errand = Errand()
        work = self._cancel(party, call, symbol, which, errand)
        late = partial(self._uncertain, symbol, which, "the venue has not answered in time")
        return await self._in_time(work, call, errand, late)

    async def _cancel(
        self, party: Party, call: Call[Any], symbol: str, which: Mapping[str, Any], errand: Errand
    ) -> dict[str, Any]:
        whose = {"principal": call.principal, "account": party.account, "mode": self.settings.mode}
        body = {**whose, "symbol": symbol, **which}
        async with self.turn(party):
            errand.begun = True
            with before_sending(self.home):
                asked, _ = await in_thread(lambda: self.ledger.note("cancel", body, _by(call)))
            call.sent = True
            try:
                told = await party.venue.cancel_order(symbol, **which)
            except OutcomeUnknown as silence:
                told = await self._after_silence(party, symbol, which, silence)
            except ClientError as refusal:
                reason = {**body, "problem": refusal.message}
                await in_thread(lambda: self.ledger.note("cancel_refused", reason, [Edge("asked", asked)]))
                raise
            await self.observe(party.identity, told)
            return await self._cancelled(call, body, asked, told, errand)

    def _uncertain(self, symbol: str, which: Mapping[str, Any], reason: str) -> ToolError:
        return answers.uncertain({"mode": self.settings.mode, "symbol": symbol, **which}, reason)

    async def _after_silence(
        self, party: Party, symbol: str, which: Mapping[str, Any], silence: OutcomeUnknown
    ) -> Any:
        """The order itself tells whether its cancelling was carried out."""
        unknown = self._uncertain(symbol, which, silence.reason)
        try:
            told = await party.venue.order(symbol, **which)
        except ClientError:
            raise unknown from None
        if told.get("status") in ("NEW", "PARTIALLY_FILLED", "PENDING_CANCEL", "PENDING_NEW"):
            await self.observe(party.identity, told)
            raise unknown
        return told

    async def _cancelled(
        self,
        call: Call[Any],
        body: Mapping[str, Any],
        asked: str,
        told: Mapping[str, Any],
        errand: Errand,
    ) -> dict[str, Any]:
        def answer(ref: str) -> dict[str, Any] | None:
            if not errand.conclude():
                return None
            return {
                "mode": self.settings.mode,
                "account": body["account"],
                "symbol": body["symbol"],
                "status": told.get("status"),
                "order_id": told.get("orderId"),
                "client_order_id": told.get("origClientOrderId") or told.get("clientOrderId"),
                "executed_quantity": told.get("executedQty"),
                "ref": ref,
            }

        edges = [Edge("asked", asked), *_by(call)]
        work = partial(self.ledger.note, "cancelled", {**body, "told": told}, edges, call=call, answer=answer)
        _, made = await in_thread(work)
        return made

    # --- what was heard elsewhere

    async def observe(self, whose: Identity, told: Mapping[str, Any]) -> None:
        """Take note of an order's state that another answer or the account's stream tells."""
        report = of_stream(told)
        for name in client_ids(report):
            order = await in_thread(partial(self.ledger.order_of, whose, name))
            if order is None:
                continue
            try:
                state = heard(report, order.symbol, name, order.quantity)
            except Implausible as problem:
                log.warning("order %s: a report is not believed: %s", name, problem)
                continue
            await self._tell(order, Heard(state, report))

    async def reconcile(self, *, only_unresolved: bool = False) -> dict[str, Any]:
        """Ask about every order that is not over, account by account; one that another call holds is left."""
        for party in self.parties():
            try:
                async with self.turn(party, 0):
                    await self._reconcile(party, only_unresolved)
            except Occupied:
                self._halting.doubt()
        left = await in_thread(self.ledger.unresolved)
        return {"mode": self.settings.mode, "unresolved": [order.shown() for order in left]}

    async def _reconcile(self, party: Party, only_unresolved: bool) -> None:
        await self.settle(party)
        if only_unresolved:
            return
        own = await self._own(party)
        for order in await in_thread(partial(self._told_before, party.identity)):
            found = await ask(party, order, self.pace.arrives, is_own=order.identity in own)
            if found.state is not None:
                await self._tell(order, found)

    def _told_before(self, whose: Identity) -> list[Order]:
        """Orders that rested when they were last heard of, and late ones that the venue did not have."""
        since = self.clock.now_ns() - HOUR
        return [*self.ledger.open(whose), *self.ledger.absent(whose, since)]

    # --- the switch

    async def kill(
        self, reason: str, call: Call[Any] | None = None, *, sees: Sees = everything
    ) -> dict[str, Any]:
        """Halt: nothing more is sent, and everything that rests is cancelled.

        The answer names the accounts that `sees` says the caller may be told of, and counts the others.
        """
        return await self._uninterrupted(self._halting.kill(reason, "kill_switch", call, sees))

    def alive(self) -> None:
        """Somebody is there: the dead man's timer begins anew."""
        self._halting.touch()

    def ended(self, scope: str) -> None:
        """A caller has gone: its previews go with it."""
        self.previews.forget(scope)
        self.confirmations.drop(scope)

    async def look(self) -> None:
        """Do what has fallen due; a started desk does it by itself."""
        await self._halting.look()

    # --- reading

    async def known(self, account: str, client_order_id: str) -> dict[str, Any] | None:
        """What the ledger knows of an order of the account, for when the venue tells nothing of it.

        By its name alone: what the venue does not answer proves nobody to be the account's.
        """
        order = await in_thread(lambda: self.ledger.order(client_order_id))
        return None if order is None or order.account != account else answers.known(order)

    def status(self, party: Party | None = None, *, sees: Sees = everything) -> dict[str, Any]:
        """What this desk may send, for a party if one is given, and what it waits for."""
        halt = self.switch.halt
        limits = self.settings.caps
        return {
            "mode": self.settings.mode,
            "sends_orders": halt is None and self.settings.mode != "read_only",
            "missing": caps.missing(self.settings, "" if party is None else party.profile),
            "halted": None if halt is None else halt.document(),
            "confirmation": "required" if confirming.is_needed(self.settings) else "not asked",
            "allowed_symbols": list(self.settings.allowed_symbols) or "all",
            "caps": {name: getattr(limits, name) for name in type(limits).__slots__},
            "sweep": self._halting.swept(halt, sees),
            "dead_man": self._halting.document(),
            "unresolved": [order.shown() for order in self.ledger.unresolved() if sees(order.account)],
        }

    async def resolve(self, ref: str) -> Source | None:
        """The entry of the order audit behind a reference; its `principal` says whom it is for."""
        return await in_thread(lambda: self.ledger.resolve(ref))

    async def _uninterrupted(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end whatever becomes of the caller: what was begun must be written down."""
        return await whatever_happens(self._tracked(work))

    def _tracked(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work that the desk waits for when it closes."""
        task = asyncio.create_task(work)
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)
        return task


def _by(call: Call[Any] | None) -> list[Edge]:
    return [] if call is None else [Edge("recorded_as", f"tracedesk://calls/{call.id}")]
