"""Desks that are killed while they trade: a server forks them, a harness kills them and audits the ledger.

A script says what step follows which, so that every desk knows what the ones before it did. A desk answers a
step through the whole dispatch, and acknowledges it with the bytes of the reply after the handler returned.
The next desk sends the last steps again under their ids: what was acknowledged must come back byte for byte,
and the one in flight must be done once. Whose a change is shows in its numbers (a fraction of a share, a
field of the event, the instant of the move), not in the ids that the executor under test gives it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import uvloop

from tests.journal.forks import Server, fork_server, say_ready
from tests.trading import kills
from tests.trading.kills import SYMBOLS, Killer, acknowledge, is_begun, serve
from tracedesk.config import Settings
from tracedesk.desk import Desk, open_desk
from tracedesk.market import calendar
from tracedesk.market.dataset import EMBEDDED
from tracedesk.primitives import json
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.time import HOUR, format
from tracedesk.trading import clockwork, draft, execution
from tracedesk.trading.ledger import Entry, Ledger, LedgerReader, New
from tracedesk.trading.model import CASH
from tracedesk.trading.trader import Trader
from tracedesk.trading.units import money, price, quantity
from tracedesk.wire.dispatch import Origin
from tracedesk.wire.door import Silence

OPENING: Final = Decimal("1000000.00")
FIRST: Final = date(2005, 1, 3)
"""The script begins eight weeks before a split, with thousands of sessions ahead."""
MOST_ACKNOWLEDGED: Final = 8
"""A desk lives for up to this many acknowledged steps, and then for a random part of one more."""
MOST_REPEATED: Final = 4

_SHARE: Final = 10**9
_STARTUP_SECONDS: Final = 0.03
_REFUSALS: Final = ("INSUFFICIENT_POSITION", "MARKET_CLOSED")
_EVERY: Final = 20
"""Kills between two audits of the whole file; each kill's own entries are always examined."""


def settings(home: Path, **trading: Any) -> Settings:
    """A desk whose limits leave room for a long script."""
    limits = {
        "max_order_notional": 10**9,
        "max_position_weight": 1,
        "max_var_95_1d": 1,
        "max_daily_loss": 1,
        "max_orders_per_minute": 10**9,
    }
    table = {"cash": OPENING, "limits": limits, "window": 40, **trading}
    return Settings(home=home, toolsets=("trading",), tables={"trading": table})


@asynccontextmanager
async def trading_desk(chosen: Settings) -> AsyncGenerator[tuple[Desk, Trader]]:
    async with open_desk(chosen) as desk:
        yield desk, cast("Trader", desk.states["trading"])


# --- the script


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a desk is asked for: a call under its id, or a move of the clock."""

    number: int
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    to_ns: int = 0

    @property
    def id(self) -> str:
        return f"step-{self.number}"


class Script:
    """Steps without end, the same for the same seed; what one asks for depends on those before it."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._steps: list[Step] = []
        self._session = FIRST
        self._is_open = True
        self._rested: list[int] = []
        self.moves: dict[int, int] = {}
        """The step that moves the clock to an instant."""

    def __getitem__(self, number: int) -> Step:
        while len(self._steps) <= number:
            self._steps.append(self._next(len(self._steps)))
        return self._steps[number]

    def _next(self, number: int) -> Step:
        kinds = (self._trade, self._rest, self._cancel, self._note, self._advance)
        return self._dice.choices(kinds, (10, 3, 2, 2, 3))[0](number)

    def _trade(self, number: int) -> Step:
        legs = [self._leg(number, symbol) for symbol in self._dice.sample(SYMBOLS, self._dice.randint(1, 3))]
        return self._call(number, "trade_execute", trades=legs)

    def _leg(self, number: int, symbol: str) -> dict[str, Any]:
        side, whole = self._dice.choice((("buy", 4), ("buy", 4), ("sell", 2)))
        shares = self._dice.randint(1, whole) + _mark(number)
        return {"symbol": symbol, "action": side, "quantity": shares, "order_type": "market"}

    def _rest(self, number: int) -> Step:
        """A buy below the open, which later sessions reach or not."""
        symbol = self._dice.choice(SYMBOLS)
        opening = EMBEDDED[symbol].open_on(self._session)
        assert opening is not None
        limit = round(opening * self._dice.randint(960, 999) / 1000, 2)
        leg = {"symbol": symbol, "action": "buy", "quantity": 1 + _mark(number), "order_type": "limit"}
        self._rested.append(number)
        tif = self._dice.choice(("day", "gtc"))
        return self._call(number, "trade_execute", trades=[{**leg, "price": limit, "time_in_force": tif}])

    def _cancel(self, number: int) -> Step:
        if not self._rested:
            return self._note(number)
        order = draft.order_id("default", f"step-{self._rested[-1]}", 0)
        return self._call(number, "cancel_trade_order", order_id=order)

    def _note(self, number: int) -> Step:
        return self._call(number, "log_event", event_type="signal", data={"step": number})

    def _advance(self, number: int) -> Step:
        """An hour into the next session, or after this one's close, where orders are refused."""
        if self._is_open and self._dice.random() < 0.2:
            self._is_open = False
            to_ns = calendar.close_ns(self._session) + HOUR
        else:
            self._is_open = True
            self._session = calendar.next_session(self._session)
            to_ns = calendar.open_ns(self._session) + HOUR
        self.moves[to_ns] = number
        return Step(number, "advance", to_ns=to_ns)

    @staticmethod
    def _call(number: int, tool: str, **arguments: Any) -> Step:
        step = Step(number, tool, arguments)
        return replace(step, arguments={"tool_call_id": step.id, **arguments})


def _mark(number: int) -> Decimal:
    """The fraction of a share that marks the orders of a step."""
    return Decimal(number + 1).scaleb(-6)


def _marked(nanos: int) -> int:
    return nanos % _SHARE // 1_000 - 1


# --- executors that the harness must catch


def _split_commit(
    ledger: Ledger, trader: Trader, request: Any, intent: Any, market: Any, *, record_first: bool
) -> bytes:
    """The trade and its id in two transactions, one after the other."""
    with ledger.writing() as writer:
        orders = tuple(replace(order, id=f"naive-{uuid7()}") for order in intent.orders)
        found = execution.judge(trader, writer, request, replace(intent, orders=orders), market)
    body = json.dumps(execution.answer(found, request))
    legs = found.draft.legs
    trade = New(
        "trade",
        request.account,
        request.now_ns,
        orders=[leg.order for leg in legs],
        states=[leg.state for leg in legs],
        fills=found.draft.fills,
        postings=found.draft.postings,
    )
    record = New("record", request.account, request.now_ns, call=execution.row(request, body))
    for entry in (record, trade) if record_first else (trade, record):
        with ledger.writing() as writer:
            writer.append(entry)
    return body


EXECUTORS: Final[dict[str, Callable[..., bytes]]] = {
    "ours": execution._commit,  # pyright: ignore[reportPrivateUsage]
    "fills_first": partial(_split_commit, record_first=False),
    "records_first": partial(_split_commit, record_first=True),
}


# --- the desk's side


@dataclass(frozen=True, slots=True)
class Life:
    """What one desk is to do, as a line of the server's input."""

    home: str
    executor: str
    seed: int
    first: int
    until: int
    """The step to end before; below zero for a desk that works until it is killed."""
    early: bool
    """Whether it is ready to be killed before it has opened anything."""

    def line(self) -> str:
        values = (self.home, self.executor, self.seed, self.first, self.until, int(self.early))
        return "\t".join(map(str, values))

    @staticmethod
    def of(line: str) -> Life:
        home, executor, *numbers = line.split("\t")
        seed, first, until, early = map(int, numbers)
        return Life(home, executor, seed, first, until, bool(early))


def live(line: str) -> None:
    life = Life.of(line)
    execution._commit = EXECUTORS[life.executor]  # pyright: ignore[reportPrivateUsage]
    if life.early:
        say_ready()
    uvloop.run(_work(life))


async def _work(life: Life) -> None:
    script, number = Script(life.seed), life.first
    start = format(calendar.open_ns(FIRST) + HOUR)
    async with trading_desk(settings(Path(life.home), clock=start)) as (desk, trader):
        if not life.early:
            say_ready()
        while number != life.until:
            acknowledge(number, *await _answer(desk, trader, script[number]))
            number += 1


async def _answer(desk: Desk, trader: Trader, step: Step) -> tuple[str | None, bytes]:
    if step.tool == "advance":
        return None, await trader.commit(lambda ledger: _move(ledger, desk, trader, step.to_ns))
    reply = await desk.dispatch.call(step.tool, step.arguments, Origin("stdio:crash", Silence()))
    return reply.code, reply.body


def _move(ledger: Ledger, desk: Desk, trader: Trader, to_ns: int) -> bytes:
    """A move has no id: whoever repeats it looks at the clock first."""
    if (ledger.clock_ns() or 0) < to_ns:
        clockwork.advance(ledger, desk.payloads, trader.settings, lambda clock: clock.set(to_ns))
    return b"%d" % to_ns


# --- the killer's side


@dataclass(slots=True)
class Tally(kills.Tally):
    """What so many kills showed, and of which entries."""

    in_flight_kept: int = 0
    entries: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])

    def add(self, more: Tally) -> None:
        self.kills += more.kills
        self.acknowledged += more.acknowledged
        self.repeated += more.repeated
        self.in_flight_kept += more.in_flight_kept
        self.entries += more.entries
        self.kinds += more.kinds
        self.problems += more.problems


class Inquest:
    """The ledger as the kills left it, against what was acknowledged; entries are read once each."""

    def __init__(self, path: Path, script: Script, tally: Tally) -> None:
        self._path = path
        self._script = script
        self._tally = tally
        self._seen = 0
        self._done = Counter[int]()
        self._filled: dict[int, list[tuple[Any, ...]]] = {}
        self._cash = Decimal(0)
        self._holdings = Counter[str]()
        self._is_moving = False
        self._acts: set[tuple[str, str, int]] = set()
        self._kept: set[int] = set()

    def examine(self, answers: list[bytes]) -> list[str]:
        """What is wrong after a kill, with one more step perhaps in flight."""
        assert self._script[len(answers)].number == len(answers), "the script is known that far"
        if not is_begun(self._path):
            return ["the ledger is gone"] if answers else []
        with LedgerReader(self._path) as ledger, ledger.at_once() as now:
            problems = [p for entry in now.entries(self._seen, 10**6) for p in self._read(entry)]
            account = now.portfolio("default")
        if self._is_moving:
            problems.append("what a move brought about is there, and the move is not: lost")
        held = {symbol: position.quantity for symbol, position in account.positions.items()}
        if (money(account.cash), held) != (self._cash, dict(+self._holdings)):
            problems.append(f"the account is {account}, and not {self._cash} and {self._holdings}")
        self._kept |= {len(answers)} if self._done[len(answers)] else set()
        self._tally.in_flight_kept = len(self._kept)
        return problems + [p for number in range(len(answers) + 1) for p in self._compare(number, answers)]

    # --- reading

    def _read(self, entry: Entry) -> Generator[str]:
        self._seen = entry.seq
        self._tally.entries += 1
        self._tally.kinds[entry.kind] += 1
        sums = Counter[str]()
        for posting in entry.postings:
            sums[posting.asset] += posting.units
            if posting.book == "position":
                self._holdings[posting.asset] += posting.units
        if any(sums.values()):
            yield f"entry {entry.seq} does not balance: {sums}"
        number = self._step(entry)
        if number is not None:
            self._done[number] += 1
        for fill in entry.fills:
            self._cash -= money(fill.total_cost)
            told = (
                fill.symbol,
                fill.side,
                quantity(fill.quantity),
                price(fill.price),
                money(fill.total_cost),
            )
            self._filled.setdefault(_marked(fill.quantity), []).append(told)
        if entry.kind in ("open", "dividend"):
            self._cash += sum(money(p.units) for p in entry.postings if (p.book, p.asset) == ("cash", CASH))
        yield from self._acted(entry)

    def _acted(self, entry: Entry) -> Generator[str]:
        """Splits and dividends: once each, and all of those that a move passed with the share held."""
        if entry.kind in ("split", "dividend"):
            deed = (entry.kind, entry.body["symbol"], entry.clock_ns)
            if deed in self._acts:
                yield f"entry {entry.seq}: the {deed} is there twice: doubled"
            self._acts.add(deed)
        if entry.kind in ("split", "dividend", "fill", "order", "clock"):
            self._is_moving = entry.kind != "clock"
        if entry.kind == "clock":
            missing = _due(entry.body["from_ns"], entry.body["to_ns"], +self._holdings) - self._acts
            if missing:
                yield f"entry {entry.seq}: the move left out {missing}: lost"

    def _step(self, entry: Entry) -> int | None:
        """The step that an entry is the deed of."""
        if entry.kind == "trade":
            return _marked(entry.orders[0].trade.quantity)
        if entry.kind == "event":
            return entry.body["data"]["step"]
        if entry.kind == "clock":
            return self._script.moves.get(entry.body["to_ns"], -1)
        if entry.kind in ("cancel", "refusal") and entry.call is not None:
            return int(entry.call.tool_call_id.removeprefix("step-"))
        return None

    # --- comparing

    def _compare(self, number: int, answers: list[bytes]) -> Generator[str]:
        step, done, filled = self._script[number], self._done[number], self._filled.get(number, [])
        if number == len(answers):
            if done > 1:
                yield f"{step.tool} {number} was in flight, and is done {done} times: doubled"
            return
        code, body = answers[number].split(b" ", 1)
        wanted = 0 if code == b"INVALID_INPUT" else 1
        if done != wanted:
            word = "doubled" if done > wanted else "lost"
            yield f"{step.tool} {number} was acknowledged with {code}, and is done {done} times: {word}"
        if code != b"ok" and not _is_fair(step, code.decode()):
            yield f"step {number} was refused: {answers[number]}"
        told = _told(body) if code == b"ok" and step.tool == "trade_execute" else []
        if "time_in_force" in str(step.arguments) and code == b"ok":
            # It rests, so that its fill is a later session's.
            if told or len(filled) > 1:
                yield f"the resting order of step {number} was told {told} and has {filled}"
        elif sorted(told) != sorted(filled):
            yield f"step {number} was told {told}, and the ledger has {filled}"


def _due(from_ns: int, to_ns: int, held: Counter[str]) -> set[tuple[str, str, int]]:
    """The splits and dividends of shares that a move passes."""
    every = [(type(a).__name__.lower(), s, a.ex_date) for s in held for a in EMBEDDED[s].actions]
    due = [(kind, symbol, calendar.open_ns(day)) for kind, symbol, day in every]
    return {deed for deed in due if from_ns < deed[2] <= to_ns}


def _is_fair(step: Step, code: str) -> bool:
    return code == "INVALID_INPUT" if step.tool == "cancel_trade_order" else code in _REFUSALS


def _told(body: bytes) -> list[tuple[Any, ...]]:
    """The fills that an answer tells of."""
    legs = json.loads(body)["execution"]["trades"]
    names = ("symbol", "action", "quantity", "price", "total_cost")
    return [tuple(leg[name] for name in names) for leg in legs if leg["status"] == "filled"]


class Harness(Killer):
    """Kills desks of one home, round after round, and looks at the ledger after each."""

    def __init__(self, server: Server, home: Path, executor: str, seed: int) -> None:
        self.tally = Tally()
        super().__init__(server, home, self.tally, seed, pace=0.005)
        self._executor = executor
        self._seed = seed
        self._inquest = Inquest(home / "ledger.db", Script(seed), self.tally)

    def round(self) -> None:
        """One desk's life and death, and the inquest."""
        early = self._dice.random() < 0.2
        self._next = max(0, len(self._answers) - self._dice.randint(0, MOST_REPEATED))
        self._kill(self._life(-1, early), MOST_ACKNOWLEDGED, _STARTUP_SECONDS if early else None)
        self._blame_all(self._inquest.examine(self._answers))
        if self.tally.kills % _EVERY == 0:
            self._audit()

    def repeat_everything(self) -> None:
        """A last desk is sent every step again, and ends in its own time."""
        self._next = 0
        self._let_live(self._life(len(self._answers), False))
        self._blame_all(self._inquest.examine(self._answers))
        self._audit()

    def _life(self, until: int, early: bool) -> str:
        return Life(str(self._home), self._executor, self._seed, self._next, until, early).line()


def kill_desks(folder: Path, executor: str, count: int, *, seed: int = 1, per_home: int = 200) -> Tally:
    """Kill so many desks, `per_home` of them on the same home; stop at the first problem."""
    total = Tally()
    with fork_server("tests.trading.crash") as server:
        for start in range(0, count, per_home):
            harness = Harness(server, folder / f"{executor}-{start}", executor, seed + start)
            for _ in range(min(per_home, count - start)):
                harness.round()
                if harness.tally.problems:
                    break
            else:
                harness.repeat_everything()
            total.add(harness.tally)
            if total.problems:
                break
    return total


if __name__ == "__main__":
    serve(live)
