"""kill -9 of desks that send orders to a broker: the broker gets no order twice, and the ledger is its truth.

A server forks desks, as in `tests.trading.crash`. Each sends the calls that the ones before it left open,
under the same ids, to a broker that also drops connections. Whose an order is shows in its quantity, not in
its id.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from select import PIPE_BUF
from typing import IO, Any, Final, cast

import pytest
import uvloop

from tests.journal.crash import ROOT, Lines
from tests.trading.crash import settings, trading_desk
from tests.trading.loopback_broker import LoopbackBroker, Venue, venue
from tracedesk.desk import Desk
from tracedesk.market.dataset import EMBEDDED
from tracedesk.primitives import json
from tracedesk.primitives.ids import uuid7
from tracedesk.trading import audit, book, execution, outbox
from tracedesk.trading.broker import NEVER_ARRIVED, believed
from tracedesk.trading.draft import order_id
from tracedesk.trading.ledger import Ledger, LedgerReader, New
from tracedesk.trading.units import notional
from tracedesk.wire.dispatch import Origin
from tracedesk.wire.door import Silence

SYMBOLS: Final = ("AAPL", "IBM", "MSFT")
MOST_ACKNOWLEDGED: Final = 3
"""A desk lives for up to this many answers, and then for a random part of one more."""
DELAY_S: Final = 0.002
"""How long the broker thinks, so that kills fall into the wait."""

_OPENING: Final = 100_000_000
_LATE: Final = (
    "encodings.utf_16_be",
    "numpy",
    "tracedesk.desk_tools",
    "tracedesk.trading.opening",
    "tracedesk.trading.sources.embedded",
    "tracedesk.trading.sources.files",
    "tracedesk.trading.tools",
)
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


def serve() -> None:
    """Fork a desk for each line of the input. What a desk imports late and reads is here already."""
    for name in _LATE:
        import_module(name)
    assert all(len(EMBEDDED[symbol]) for symbol in SYMBOLS)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _live(*line.rstrip("\n").split("\t"))
        os.waitpid(child, 0)
        _say(b"dead")


def _live(home: str, port: str, sender: str, first: str, until: str, asks: str) -> None:
    try:
        outbox.execute = SENDERS[sender]
        uvloop.run(_work(Path(home), int(port), int(first), int(until), asks == "asks"))
    except BaseException as problem:
        _say(f"error {type(problem).__name__}: {problem}".encode())
    finally:
        os._exit(0)


async def _work(home: Path, port: int, number: int, until: int, asks: bool) -> None:
    async with trading_desk(settings(home, live_trading=True)) as (desk, trader):
        trader.broker = LoopbackBroker(port)
        _say(b"ready %d" % os.getpid())
        if asks:
            await outbox.reconcile(trader)
        while number != until:
            _say(b"ack %d %s" % (number, await _answer(desk, number)))
            number += 1
        await outbox.reconcile(trader)


async def _answer(desk: Desk, number: int) -> bytes:
    """Send a call until its outcome is known."""
    arguments = {"tool_call_id": f"call-{number}", "trades": legs(number)}
    while True:
        reply = await desk.dispatch.call("trade_execute", arguments, Origin("stdio:kill", Silence()))
        if reply.code != "OUTCOME_UNKNOWN":
            return (reply.code or "ok").encode() + b" " + reply.body


def _say(line: bytes) -> None:
    # A line that fits the pipe's buffer is written whole or not at all, whenever the kill comes.
    assert len(line) < PIPE_BUF, line
    os.write(1, line + b"\n")


# --- the killer's side -------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What so many kills showed."""

    kills: int = 0
    acknowledged: int = 0
    intended_not_sent: int = 0
    """Orders that a kill left written down, and the broker without."""
    sent_not_booked: int = 0
    """Orders that a kill left at the broker, and the ledger without an outcome."""
    statuses: Counter[str] = field(default_factory=Counter[str])
    surprises: int = 0
    problems: list[str] = field(default_factory=list[str])


class Harness:
    """Kills desks of one home, and knows what each call was answered with."""

    def __init__(self, server: subprocess.Popen[bytes], home: Path, at: Venue, sender: str) -> None:
        self.tally = Tally()
        self._home, self._at, self._sender = home, at, sender
        self._dice = random.Random(7)
        self._input = cast("IO[bytes]", server.stdin)
        self._lines = Lines(cast("IO[bytes]", server.stdout))
        self._answers: list[bytes] = []
        self._next = 0
        self._scripted = 0
        self._pace = 0.02

    def round(self) -> None:
        """One desk's life and death."""
        self._script()
        self._next = max(0, len(self._answers) - self._dice.randint(0, 1))
        pid = self._begin(-1, asks=self._dice.random() < 0.3)
        self._until_the_moment()
        os.kill(pid, signal.SIGKILL)
        self._drain()
        self.tally.kills += 1
        self._look()

    def end(self) -> None:
        """A last desk is sent every call again and ends in its own time; then the books are compared."""
        self._next = 0
        self._script()
        self._begin(len(self._answers) + 1, asks=True)
        self._drain()
        self._compare()

    def _script(self) -> None:
        """Tell the broker of the calls that may come before the next kill."""
        ahead = range(self._scripted, len(self._answers) + 200)
        if len(ahead) > 100:
            naive = self._sender != "ours"
            told = {} if naive else {id: fate for n in ahead for id, fate in fates(n).items()}
            self._at.tell(told, delay_s=DELAY_S)
            self._scripted = ahead.stop

    def _begin(self, until: int, *, asks: bool) -> int:
        values = (self._home, self._at.port, self._sender, self._next, until, "asks" if asks else "")
        self._input.write("\t".join(map(str, values)).encode() + b"\n")
        self._input.flush()
        return int(self._lines.expect("ready").split()[1])

    def _until_the_moment(self) -> None:
        began = time.monotonic()
        wanted = self._dice.randint(0, MOST_ACKNOWLEDGED)
        for _ in range(wanted):
            self._hear(self._lines.expect("ack"))
        if wanted:
            self._pace = (time.monotonic() - began) / wanted
        until = time.monotonic() + self._dice.uniform(0, 2 * self._pace)
        while (left := until - time.monotonic()) > 0 and (line := self._lines.next(left)) is not None:
            self._hear(line)

    def _drain(self) -> None:
        while (line := self._lines.next()) != "dead":
            assert line is not None, "the server says nothing"
            self._hear(line)

    def _hear(self, line: str) -> None:
        word, number, answer = line.encode().split(b" ", 2)
        assert (word, int(number)) == (b"ack", self._next), line
        if self._next == len(self._answers):
            self._answers.append(answer)
            self.tally.acknowledged += 1
        elif self._answers[self._next] != answer:
            self._blame(f"call {self._next} was {self._answers[self._next]}, and repeated is {answer}")
        self._next += 1

    def _look(self) -> None:
        """Where the kill fell."""
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
        for fault in audit.verify(self._home / "ledger.db").faults:
            self._blame(str(fault))

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

    def _blame(self, problem: str) -> None:
        self.tally.problems.append(f"after {self.tally.kills} kills: {problem}")


@contextmanager
def fork_server() -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.trading.test_outbox_kill"]
    surroundings = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        try:
            yield server
        finally:
            server.kill()


def kill_senders(folder: Path, sender: str, kills: int) -> Tally:
    with venue(folder / "orders.jsonl") as at, fork_server() as server:
        harness = Harness(server, folder / "home", at, sender)
        for _ in range(kills):
            harness.round()
        harness.end()
    print(harness.tally)
    return harness.tally


def _assert_the_ledger_is_the_brokers_truth(tally: Tally, kills: int) -> None:
    assert tally.problems == []
    assert tally.kills == kills
    assert tally.acknowledged > kills, "desks lived long enough to prove something"
    assert tally.sent_not_booked > 0, "no kill fell between a send and its outcome"
    assert tally.intended_not_sent > 0, "no kill fell between an intent and its send"
    for status in ("filled", "partial", "rejected", NEVER_ARRIVED):
        assert tally.statuses[status] > 0, f"no order was {status}"


def test_60_kills_while_sending_double_no_order_and_lose_none(tmp_path: Path) -> None:
    _assert_the_ledger_is_the_brokers_truth(kill_senders(tmp_path, "ours", 60), 60)


@pytest.mark.judge
@pytest.mark.timeout(600)
def test_400_kills_while_sending_double_no_order_and_lose_none(tmp_path: Path) -> None:
    _assert_the_ledger_is_the_brokers_truth(kill_senders(tmp_path, "ours", 400), 400)


def test_the_harness_catches_a_desk_that_sends_before_it_writes(tmp_path: Path) -> None:
    tally = kill_senders(tmp_path, "sends_first", 30)
    assert any("doubled" in problem for problem in tally.problems), tally.problems


if __name__ == "__main__":
    serve()
