"""Cancelling everything: on every account, and again until each has confirmed that nothing rests there."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from tracedesk.contract import Edge
from tracedesk.errors import ToolError
from tracedesk.exchange.client.errors import ClientError, OutcomeUnknown, VenueError
from tracedesk.exchange.orders.party import Party
from tracedesk.exchange.orders.trouble import FAULTS
from tracedesk.exchange.orders.turn import Occupied, turn
from tracedesk.jobs import in_thread

if TYPE_CHECKING:
    from tracedesk.exchange.orders.desk import OrderDesk

log = logging.getLogger(__name__)
T = TypeVar("T")

PATIENCE_S: Final = 20.0
"""How long cancelling waits for an order that is being sent; an order takes no longer."""
NOTHING_RESTS: Final = -2011
"""How the venue refuses to cancel where there is nothing to cancel."""
_ROUNDS: Final = 3
"""How often an account's open orders are cancelled and looked at again in one try."""
_LONGEST_S: Final = 30.0
"""The longest wait between two tries; the first is a second, and each is twice the one before."""
_DOUBLINGS: Final = 5

Cause = Literal["halt", "dead_man"]
_KINDS: Final[dict[Cause, str]] = {"halt": "swept", "dead_man": "dead_man"}


Sees = Callable[[str], bool]
"""Whether one who asks may be told of an account."""
_OTHERS: Final = "other accounts"
"""Where those are told of that could not be opened."""
_ALL: Final = "all accounts"
_LABELS: Final = (_OTHERS, _ALL)
_NO_KEY: Final = "it cannot be signed for now, and orders of the ledger may rest there"
_NO_LEDGER: Final = (
    "the order ledger could not be used, which knows of orders that may be there or still arrive"
)
_OTHER_KEY: Final = "orders of the ledger that went out with another key of this name may rest there"


def everything(_: str) -> bool:
    return True


@dataclass(slots=True)
class Sweep:
    """The cancelling of everything for one cause, and how far it has come."""

    cause: Cause
    body: dict[str, Any] = field(default_factory=dict[str, Any])
    edges: Sequence[Edge] = ()
    cancelled: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Accounts and their orders."""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Names of accounts where orders may still rest, and why."""
    told_by: dict[str, str] = field(default_factory=dict[str, str])
    """What those accounts are told by, for one may have several names."""
    cleared: set[str] = field(default_factory=set[str])
    """What accounts are told by whose venue has said that nothing rests."""
    is_confirmed: bool = False
    again: bool = False
    """Whether orders turned up since, so that no account counts as cleared."""
    tries: int = 0
    due: float = -math.inf
    """When it is tried again, on the monotonic clock; never while a try is under way."""
    run: object = None
    """The venue's process at the last try."""
    written: tuple[int, frozenset[str]] | None = None

    @property
    def news(self) -> tuple[int, frozenset[str]]:
        """What the ledger is told of, when it differs from what it was told before."""
        return len(self.cancelled), frozenset(self.failed)

    def clear(self, identity: str, names: Iterable[str]) -> None:
        """Nothing rests on an account, under any of its names."""
        self.cleared.add(identity)
        self.told_by |= dict.fromkeys(names, identity)
        for name in [name for name, each in self.told_by.items() if each == identity]:
            self.failed.pop(name, None)

    def fail(self, identity: str, problems: dict[str, str]) -> None:
        """Orders may rest on an account, which was tried under these names."""
        self.failed |= problems
        self.told_by |= dict.fromkeys(problems, identity)

    def bars(self, name: str, identity: str) -> bool:
        """Whether an account is still to be cleared."""
        return name in self.failed or any(self.told_by.get(each) == identity for each in self.failed)

    def document(self, sees: Sees = everything) -> dict[str, Any]:
        """What is told to one who may know of some accounts; of the others, how many things are left out."""
        cancelled = [f"{account}: {order}" for account, order in self.cancelled if sees(account)]
        told = [account for account in self.failed if account in _LABELS or sees(account)]
        document: dict[str, Any] = {
            **self.body,
            "cancelled": cancelled,
            "failed": [f"{account}: {self.failed[account]}" for account in told],
            "confirmed": self.is_confirmed,
            "tries": self.tries,
        }
        others = len(self.cancelled) - len(cancelled), len(self.failed) - len(told)
        if any(others):
            document["of_others"] = {"cancelled": others[0], "failed": others[1]}
        return document


class Sweeping:
    """What one desk has to cancel."""

    def __init__(self, desk: OrderDesk) -> None:
        self._desk = desk
        self.current: Sweep | None = None

    def begin(self, cause: Cause, edges: Sequence[Edge] = (), **body: Any) -> Sweep:
        """Owe a cancelling from now on; it takes the place of what was owed before."""
        self.current = Sweep(cause, body, edges)
        return self.current

    def rearmed(self) -> None:
        """The operator has ended the halt: what still rests may rest."""
        if self.current is not None and self.current.cause == "halt":
            self.current = None

    def check(self, account: str, identity: str) -> None:
        """Refuse to add to an account that is still to be cleared after a silence."""
        sweep = self.current
        if sweep is None or sweep.cause != "dead_man" or not sweep.bars(account, identity):
            return
        message = (
            f"Nobody called for so long that the open orders of {account} are being cancelled, which the "
            "venue has not confirmed yet. Nothing was sent; look with provider_status, then try again."
        )
        raise ToolError("VENUE_UNAVAILABLE", message, {"account": account, "retryAfterSeconds": 5})

    def document(self, sees: Sees) -> dict[str, Any] | None:
        """For the status: how many were cancelled, and what is left."""
        if self.current is None:
            return None
        shown = self.current.document(sees)
        return {"cause": self.current.cause, **shown, "cancelled": len(self.current.cancelled)}

    # --- trying

    async def go_on(self) -> None:
        """Try again what is not confirmed, when its time has come."""
        sweep = self.current
        if sweep is not None:
            self._heed_waking(sweep)
        if sweep is None or sweep.is_confirmed or self._desk.clock.monotonic() < sweep.due:
            return
        await self.attempt(sweep)
        if sweep.news != sweep.written:
            await self.write(sweep)

    def _heed_waking(self, sweep: Sweep) -> None:
        """A venue that has come back since the last try is tried at once, and for a halt asked about all."""
        run = self._desk.run()
        if run in (None, sweep.run) or sweep.due == math.inf:
            return
        sweep.due, sweep.tries = -math.inf, 0
        if sweep.cause == "halt":
            sweep.again, sweep.is_confirmed = True, False

    async def anew(self) -> None:
        """An order turned up after everything was cancelled; a try that is under way may have missed it."""
        sweep = self.current
        if sweep is None:
            return
        sweep.again, sweep.is_confirmed = True, False
        if sweep.due < math.inf:
            sweep.due = -math.inf
            await self.go_on()

    async def attempt(self, sweep: Sweep) -> None:
        """Cancel what rests on every account that is not cleared; what is left is tried again later."""
        sweep.due, sweep.run = math.inf, self._desk.run()
        sweep.tries += 1
        if sweep.again:
            sweep.again = False
            sweep.cleared.clear()
        try:
            await self._attempt(sweep)
            sweep.is_confirmed = not sweep.failed and not sweep.again
        finally:
            wait = min(_LONGEST_S, self._desk.pace.sweep * 2 ** min(sweep.tries - 1, _DOUBLINGS))
            sweep.due = self._desk.clock.monotonic() + wait

    async def write(self, sweep: Sweep) -> None:
        """Tell the ledger how far it has come."""
        note = partial(self._desk.ledger.note, _KINDS[sweep.cause], sweep.document(), sweep.edges)
        if await noted(note) is not None:
            sweep.written = sweep.news

    async def _attempt(self, sweep: Sweep) -> None:
        desk = self._desk
        if desk.settings.mode == "read_only":
            sweep.failed[_ALL] = "exchange.mode is read_only, in which this desk cancels nothing"
            return
        at_hand = desk.parties()
        await self._clear(at_hand, sweep)
        # Opening the others may take its time.
        problem = await desk.gather()
        # One whose venue has moved meanwhile is reached at another place.
        tried = {(party.account, id(party.venue)) for party in at_hand}
        others = (each for each in desk.parties() if (each.account, id(each.venue)) not in tried)
        await self._clear(others, sweep)
        sweep.failed.pop(_OTHERS, None)
        if problem is not None:
            sweep.failed[_OTHERS] = problem
        await self._out_of_reach(sweep)

    async def _clear(self, parties: Iterable[Party], sweep: Sweep) -> None:
        names: dict[str, list[Party]] = {}
        for party in parties:
            names.setdefault(await self._identity(party), []).append(party)
        for identity in sweep.cleared & names.keys():
            sweep.clear(identity, (party.account for party in names.pop(identity)))
        await asyncio.gather(*(self._clear_one(identity, each, sweep) for identity, each in names.items()))

    async def _identity(self, party: Party) -> str:
        found = await noted(lambda: self._desk.ledger.identity(party.identity))
        return found or next(iter(party.marks), party.account)

    async def _clear_one(self, identity: str, parties: Sequence[Party], sweep: Sweep) -> None:
        """Clear an account by the first of its names that can: a key may be refused, and another not."""
        problems: dict[str, str] = {}
        for party in parties:
            try:
                problem = await self._cleared(party, sweep)
            except Exception as fault:
                log.exception("the orders of %s could not be cancelled", party.account)
                problem = f"cancelling failed inside this desk ({type(fault).__name__})"
            if problem is None:
                return sweep.clear(identity, (each.account for each in parties))
            problems[party.account] = problem
        return sweep.fail(identity, problems)

    async def _out_of_reach(self, sweep: Sweep) -> None:
        """Orders of accounts that this desk cannot sign for now rest where they are."""
        ledger, mode = self._desk.ledger, self._desk.settings.mode
        known = await noted(lambda: [*ledger.open(), *ledger.unresolved()])
        if known is None:
            sweep.failed.setdefault(_OTHERS, _NO_LEDGER)
            return
        parties = self._desk.parties()
        reached = {party.account for party in parties}
        told_by = {await self._identity(party) for party in parties}
        # What is under a name alone was sent before keys were told apart, and goes with it.
        told_by |= reached
        here = (order for order in known if order.mode == mode and order.identity not in told_by)
        resting = {order.account for order in here}
        for account in set(sweep.failed) - reached - resting - {_OTHERS}:
            del sweep.failed[account]
        sweep.failed |= dict.fromkeys(resting - reached, _NO_KEY)
        sweep.failed = dict.fromkeys(resting & reached, _OTHER_KEY) | sweep.failed

    # --- one account

    async def _cleared(self, party: Party, sweep: Sweep) -> str | None:
        """What rests goes at once; what is just being sent goes when it has arrived."""
        problem = await self._cancel_all(party, sweep)
        try:
            async with turn(self._desk.home, party.account, lambda: self._identity(party), PATIENCE_S):
                in_doubt = await self._settled(party)
                return await self._cancel_all(party, sweep) or in_doubt
        except Occupied:
            return problem or "an order is still being sent"

    async def _settled(self, party: Party) -> str | None:
        """What is found now to have arrived can be cancelled now; returns what may yet arrive."""
        try:
            left = await self._desk.settle(party)
        except FAULTS:
            log.exception("orders of unknown outcome could not be settled")
            return _NO_LEDGER
        return f"{len(left)} order(s) of unknown outcome may be there, or still arrive" if left else None

    async def _cancel_all(self, party: Party, sweep: Sweep) -> str | None:
        """Cancel until nothing rests; returns what kept it from that.

        What the ledger knows goes first: the venue may have no patience left for a long list.
        """
        problem = "orders still rest after they were cancelled"
        known = await noted(lambda: self._desk.ledger.open(party.identity))
        symbols = {order.symbol for order in known or ()}
        for _ in range(_ROUNDS):
            try:
                for symbol in sorted(symbols):
                    await self._cancel_symbol(party, symbol, sweep)
                resting: Any = await party.venue.open_orders()
                if resting == []:
                    return None
                symbols = {order["symbol"] for order in resting}
            except OutcomeUnknown as silence:
                problem = f"whether they were cancelled is not known: {silence.reason}"
            except ClientError as refusal:
                problem = refusal.message
            except (KeyError, TypeError, AttributeError) as fault:
                problem = f"the venue's answer cannot be read ({type(fault).__name__})"
        return problem

    async def _cancel_symbol(self, party: Party, symbol: str, sweep: Sweep) -> None:
        try:
            cancelled = await party.venue.cancel_open_orders(symbol)
        except VenueError as refusal:
            if refusal.venue_code == NOTHING_RESTS:
                return
            raise
        for told in cancelled:
            name = told.get("origClientOrderId") or told.get("clientOrderId")
            sweep.cancelled.append((party.account, f"{symbol} {told.get('orderId')} {name}"))
            try:
                await self._desk.observe(party.identity, told)
            except FAULTS:
                log.exception("order %s was cancelled, which could not be written down", name)


async def noted(work: Callable[[], T]) -> T | None:
    """What the ledger says, or nothing where it cannot: a full disk keeps nothing from being cancelled."""
    try:
        return await in_thread(work)
    except FAULTS:
        log.exception("the ledger could not be used while everything was cancelled")
        return None
