"""kill -9 of desks that send orders to a broker: the broker gets no order twice, and the ledger is its truth.

A server forks desks, as in `tests.trading.crash`. Each sends the calls that the ones before it left open,
under the same ids, to a broker that also drops connections. Whose an order is shows in its quantity, not in
its id.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop

from scripts.proof.record import Recorder
from tests.journal.forks import Server, fork_server, say_ready
from tests.judges.size import Size
from tests.trading import kills
from tests.trading.crash import settings, trading_desk
from tests.trading.kills import SYMBOLS, Killer, acknowledge, serve
from tests.trading.loopback_broker import LoopbackBroker, Venue, venue
from tracedesk.desk import Desk
from tracedesk.primitives import json
from tracedesk.primitives.ids import uuid7
from tracedesk.trading import book, execution, outbox
from tracedesk.trading.broker import NEVER_ARRIVED, believed
from tracedesk.trading.draft import order_id
from tracedesk.trading.ledger import Ledger, LedgerReader, New
from tracedesk.trading.units import notional
from tracedesk.wire.dispatch import Origin
from tracedesk.wire.door import Silence

MOST_ACKNOWLEDGED: Final = 3
"""A desk lives for up to this many answers, and then for a random part of one more."""
SEED: Final = 7
DELAY_S: Final = 0.002
"""How long the broker thinks, so that kills fall into the wait."""

_OPENING: Final = 100_000_000
_FATES: Final = ("ok", "partial", "reject", "close-after", "close-before")


def legs(number: int) -> list[dict[str, Any]]:
    """What call `number` asks for."""
    dice = random.Random(number)
    bought = dice.sample(SYMBOLS, dice.randint(1, 3))
    shares = 1 + Decimal(number + 1).scaleb(-6)
    return [{"symbol": s, "action": "buy", "quantity": shares, "order_type": "market"} for s in bought]


def fates(number: int) -> dict[str, str]:
    """What the broker does with the orders of call `number`, by client id."""
    dice = random.Random(-number - 1)
    chosen = dice.choices(_FATES, (12, 2, 2, 2, 1), k=len(legs(number)))
    return {order_id("default", f"call-{number}", leg): fate for leg, fate in enumerate(chosen)}


# --- a sender that the harness must catch ------------------------------------------------------


async def sends_first(trader: Any, request: Any, intent: Any, market: Any) -> bytes:
    """Naive: sends under ids of the moment, and then writes down what it did."""
    heard = [
        believed(order, await trader.broker.submit(order))
        for order in (replace(order, client_id=uuid7()) for order in intent.orders)
    ]

    def record(ledger: Ledger) -> bytes:
        with ledger.writing() as writer:
            found = execution.judge(trader, writer, request, intent, market)
            body = json.dumps(execution.answer(found, request))
            fills = [each.fill for each in heard if each.fill]
            writer.append(
                New(
                    "trade",
                    request.account,
                    request.now_ns,
                    call=execution.row(request, body),
                    orders=intent.orders,
                    states=[each.state for each in heard if each.state],
                    fills=fills,
                    postings=[posting for fill in fills for posting in book.for_fill(fill)],
                )
            )
        return body

    return await trader.commit(record)


SENDERS: Final[dict[str, Callable[..., Any]]] = {"ours": outbox.execute, "sends_first": sends_first}


# --- the desk's side ---------------------------------------------------------------------------


def live(line: str) -> None:
    home, port, sender, first, until, asks = line.split("\t")
    outbox.execute = SENDERS[sender]
    uvloop.run(_work(Path(home), int(port), int(first), int(until), asks == "asks"))


async def _work(home: Path, port: int, number: int, until: int, asks: bool) -> None:
    async with trading_desk(settings(home, live_trading=True)) as (desk, trader):
        trader.broker = LoopbackBroker(port)
        say_ready()
        if asks:
            await outbox.reconcile(trader)
        while number != until:
            acknowledge(number, *await _answer(desk, number))
            number += 1
        await outbox.reconcile(trader)


async def _answer(desk: Desk, number: int) -> tuple[str | None, bytes]:
    """Send a call until its outcome is known."""
    arguments = {"tool_call_id": f"call-{number}", "trades": legs(number)}
    while True:
        reply = await desk.dispatch.call("trade_execute", arguments, Origin("stdio:kill", Silence()))
        if reply.code != "OUTCOME_UNKNOWN":
            return reply.code, reply.body


# --- the killer's side -------------------------------------------------------------------------


@dataclass(slots=True)
class Tally(kills.Tally):
    """What so many kills showed, and where they fell."""

    intended_not_sent: int = 0
    """Orders that a kill left written down, and the broker without."""
    sent_not_booked: int = 0
    """Orders that a kill left at the broker, and the ledger without an outcome."""
    statuses: Counter[str] = field(default_factory=Counter[str])
    surprises: int = 0


class Harness(Killer):
    """Kills desks of one home that send to a venue, and compares the books of both."""

    def __init__(self, server: Server, home: Path, at: Venue, sender: str) -> None:
        self.tally = Tally()
        super().__init__(server, home, self.tally, seed=SEED, pace=0.02)
        self._at, self._sender = at, sender
        self._scripted = 0

    def round(self) -> None:
        """One desk's life and death."""
        self._script()
        self._next = max(0, len(self._answers) - self._dice.randint(0, 1))
        self._kill(self._life(-1, asks=self._dice.random() < 0.3), MOST_ACKNOWLEDGED)
        self._look()

    def end(self) -> None:
        """A last desk is sent every call again and ends in its own time; then the books are compared."""
        self._next = 0
        self._script()
        self._let_live(self._life(len(self._answers) + 1, asks=True))
        self._compare()

    def _script(self) -> None:
        """Tell the broker of the calls that may come before the next kill."""
        ahead = range(self._scripted, len(self._answers) + 200)
        if len(ahead) > 100:
            naive = self._sender != "ours"
            told = {} if naive else {id: fate for n in ahead for id, fate in fates(n).items()}
            self._at.tell(told, delay_s=DELAY_S)
            self._scripted = ahead.stop

    def _life(self, until: int, *, asks: bool) -> str:
        values = (self._home, self._at.port, self._sender, self._next, until, "asks" if asks else "")
        return "\t".join(map(str, values))

    def _look(self) -> None:
        """Where the kill fell."""
        if not kills.is_begun(self._home / "ledger.db"):
            return
        with LedgerReader(self._home / "ledger.db") as ledger:
            sent = {order.id for order, state in ledger.open_orders() if state.status == "sent"}
        known = self._at.orders if sent else {}
        self.tally.sent_not_booked += len(sent.intersection(known))
        self.tally.intended_not_sent += len(sent.difference(known))

    # --- the books

    def _compare(self) -> None:
        traded, paid = self._at_the_broker()
        booked = Counter[tuple[int, str]]()
        with LedgerReader(self._home / "ledger.db") as ledger, ledger.at_once() as now:
            for entry in now.walk():
                self.tally.surprises += len(entry.fills) if entry.kind == "surprise" else 0
                for fill in entry.fills:
                    booked[fill.quantity, fill.symbol] += 1
            account = now.portfolio("default")
            orders = now.orders("default", limit=10**6)
        self._compare_fills(traded, booked)
        if account.cash != _OPENING - paid:
            self._blame(f"the account has {account.cash}, and the broker says {_OPENING - paid}")
        held = Counter[str]()
        for (quantity, symbol), count in traded.items():
            held[symbol] += quantity * count
        if {s: p.quantity for s, p in account.positions.items()} != dict(held):
            self._blame(f"the account holds {account.positions}, and the broker says {held}")
        for order, state in orders:
            word = NEVER_ARRIVED if state.reason == NEVER_ARRIVED else state.status
            self.tally.statuses[word] += 1
            if state.status == "sent":
                self._blame(f"order {order.id} has no known outcome")
        self._audit()

    def _at_the_broker(self) -> tuple[Counter[tuple[int, str]], int]:
        """What was traded, by quantity and symbol, and what it cost."""
        traded, paid = Counter[tuple[int, str]](), 0
        for order in self._at.orders.values():
            if order["quantity"]:
                traded[order["quantity"], order["symbol"]] += 1
                paid += notional(order["quantity"], order["price"]) + order["fees"]
        for id, times in self._at.submissions.items():
            if times > 1:
                self._blame(f"order {id} was sent {times} times")
        return traded, paid

    def _compare_fills(self, traded: Counter[tuple[int, str]], booked: Counter[tuple[int, str]]) -> None:
        for key in {*traded, *booked}:
            if traded[key] > 1:
                self._blame(f"{key} is {traded[key]} orders at the broker: doubled")
            elif traded[key] != booked[key]:
                self._blame(f"{key} is traded {traded[key]} times and booked {booked[key]} times: lost")


def kill_senders(folder: Path, sender: str, count: int) -> Tally:
    with venue(folder / "orders.jsonl") as at, fork_server("tests.trading.test_outbox_kill") as server:
        harness = Harness(server, folder / "home", at, sender)
        for _ in range(count):
            harness.round()
        harness.end()
    print(harness.tally)
    return harness.tally


def _assert_the_ledger_is_the_brokers_truth(tally: Tally, count: int) -> None:
    assert tally.problems == []
    assert tally.kills == count
    assert tally.acknowledged > count, "desks lived long enough to prove something"
    assert tally.sent_not_booked > 0, "no kill fell between a send and its outcome"
    assert tally.intended_not_sent > 0, "no kill fell between an intent and its send"
    for status in ("filled", "partial", "rejected", NEVER_ARRIVED):
        assert tally.statuses[status] > 0, f"no order was {status}"


def test_60_kills_while_sending_double_no_order_and_lose_none(tmp_path: Path) -> None:
    _assert_the_ledger_is_the_brokers_truth(kill_senders(tmp_path, "ours", 60), 60)


@pytest.mark.judge
@pytest.mark.timeout(600)
def test_many_kills_while_sending_double_no_order_and_lose_none(
    tmp_path: Path, size: Size, prove: Recorder
) -> None:
    count = size.of(judge=150, prove=400)
    tally = kill_senders(tmp_path, "ours", count)
    prove.record("trading-kills-sending", len(tally.problems), seeds=[SEED], details={"kills": count})
    _assert_the_ledger_is_the_brokers_truth(tally, count)


def test_the_harness_catches_a_desk_that_sends_before_it_writes(tmp_path: Path) -> None:
    tally = kill_senders(tmp_path, "sends_first", 30)
    assert any("doubled" in problem for problem in tally.problems), tally.problems


if __name__ == "__main__":
    serve(live)
