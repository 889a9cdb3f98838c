"""Eight desks on one home are sent one `tool_call_id` at the same moment: it is done once, and told alike."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import uvloop

from tests.judges.size import Size
from tests.trading.crash import OPENING, settings, trading_desk
from tracedesk.primitives import json
from tracedesk.trading import audit
from tracedesk.trading.ledger import LedgerReader
from tracedesk.trading.trader import REPLAYED
from tracedesk.trading.units import money
from tracedesk.wire.dispatch import Origin
from tracedesk.wire.door import Silence

DESKS: Final = 8
BOUND: Final = 30.0
_CONTEXT: Final = multiprocessing.get_context("forkserver")


class Asked(NamedTuple):
    """A call, as one of its equal spellings."""

    tool: str
    arguments: dict[str, Any]


class Answered(NamedTuple):
    code: str | None
    body: bytes
    replayed: bool


# --- a desk's side


def _sit(home: Path, number: int, ours: Connection, gate: Connection) -> None:
    """Open a desk, and answer every call as soon as the gate opens."""
    uvloop.run(_answer_all(home, number, ours, gate.fileno()))


async def _answer_all(home: Path, number: int, ours: Connection, gate: int) -> None:
    origin = Origin(f"stdio:{number}", Silence())
    async with trading_desk(settings(home, clock="2012-12-03T15:30:00Z")) as (desk, _):
        ours.send("open")
        while (asked := ours.recv()) is not None:
            ours.send("armed")
            os.read(gate, 1)
            reply = await desk.dispatch.call(asked.tool, asked.arguments, origin)
            ours.send(Answered(reply.code, reply.body, bool((reply.meta or {}).get(REPLAYED))))


# --- the starter's side


class Desks:
    """Eight desks in processes of their own; a byte each through one pipe lets all of them go at once."""

    def __init__(self, lines: list[Connection], gate: Connection) -> None:
        self._lines = lines
        self._gate = gate
        self._hear_from_all()

    def race(self, spellings: list[Asked]) -> list[Answered]:
        for line, asked in zip(self._lines, spellings, strict=True):
            line.send(asked)
        assert set(self._hear_from_all()) == {"armed"}
        os.write(self._gate.fileno(), b"." * len(self._lines))
        return self._hear_from_all()

    def _hear_from_all(self) -> list[Any]:
        assert all(line.poll(BOUND) for line in self._lines), "a desk says nothing"
        return [line.recv() for line in self._lines]


@contextmanager
def desks(home: Path) -> Generator[Desks]:
    _CONTEXT.set_forkserver_preload([__name__])
    exit_gate, gate = _CONTEXT.Pipe(duplex=False)
    pairs = [_CONTEXT.Pipe() for _ in range(DESKS)]
    sitting = [
        _CONTEXT.Process(target=_sit, args=(home, number, theirs, exit_gate), daemon=True)
        for number, (_, theirs) in enumerate(pairs)
    ]
    for process in sitting:
        process.start()
    try:
        yield Desks([line for line, _ in pairs], gate)
        for line, _ in pairs:
            line.send(None)
        for process in sitting:
            process.join(BOUND)
        assert [process.exitcode for process in sitting] == [0] * DESKS
    finally:
        for process in sitting:
            process.kill()


# --- what is asked


def _spellings(number: int, dice: random.Random) -> list[Asked]:
    """The call of a round, spelled in ways that mean the same."""
    make = dice.choices((_trade, _too_much, _not_held, _rest, _note), (10, 2, 2, 2, 3))[0]
    return [make(f"round-{number}", spelling % 2 == 1) for spelling in range(DESKS)]


def _trade(id: str, other: bool) -> Asked:
    buy = {"symbol": " ibm" if other else "IBM", "action": "buy", "order_type": "market"}
    quantity = Decimal("1.50") if other else Decimal("1.5")
    legs = [{**buy, "quantity": quantity}, {**buy, "symbol": "AAPL", "quantity": 1}]
    return Asked(
        "trade_execute", {"trades": legs, "tool_call_id": id} | ({"rationale_refs": []} if other else {})
    )


def _too_much(id: str, other: bool) -> Asked:
    leg = {"symbol": "AAPL", "action": "buy", "quantity": 99_999.5 if other else Decimal("99999.50")}
    return Asked("trade_execute", {"tool_call_id": id, "trades": [{**leg, "order_type": "market"}]})


def _not_held(id: str, other: bool) -> Asked:
    leg = {"symbol": "GOOG", "action": "sell", "quantity": Decimal("7.10") if other else Decimal("7.1")}
    return Asked("trade_execute", {"tool_call_id": id, "trades": [{"order_type": "market", **leg}]})


def _rest(id: str, other: bool) -> Asked:
    price = Decimal("20") if other else 20
    leg = {"symbol": "MSFT", "action": "buy", "quantity": 1, "order_type": "limit", "price": price}
    return Asked("trade_execute", {"tool_call_id": id, "trades": [{**leg, "time_in_force": "gtc"}]})


def _note(id: str, other: bool) -> Asked:
    severity = {"severity": "low"} if other else {}
    return Asked("log_event", {"tool_call_id": id, "event_type": "alert", "data": {"n": 1}, **severity})


# --- the tests


def _race(home: Path, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    told: dict[str, Answered] = {}
    codes, first = Counter[str | None](), Counter[int]()
    with desks(home) as eight:
        for number in range(rounds):
            answers = eight.race(_spellings(number, dice))
            assert len({(a.code, a.body) for a in answers}) == 1, answers
            told[f"round-{number}"] = answers[0]
            codes[answers[0].code] += 1
            if answers[0].code is None:
                makers = [i for i, answer in enumerate(answers) if not answer.replayed]
                assert len(makers) == 1, "one desk did it, and seven repeated what it said"
                first[makers[0]] += 1
    print(codes, first)
    assert set(codes) == {None, "INSUFFICIENT_FUNDS", "INSUFFICIENT_POSITION"}
    assert len(first) > 1, "more than one desk won"
    _assert_done_once(home / "ledger.db", told)


def _assert_done_once(path: Path, told: dict[str, Answered]) -> None:
    assert audit.verify(path).faults == []
    with LedgerReader(path) as ledger:
        entries = list(ledger.walk())
        cash = ledger.portfolio("default").cash
    made = [entry for entry in entries if entry.kind not in ("open", "open-clock")]
    assert Counter(entry.call.tool_call_id for entry in made if entry.call) == Counter(list(told))
    assert len(made) == len(told)
    legs = [leg for answer in told.values() for leg in _legs(answer)]
    assert sum(len(entry.orders) for entry in made) == len(legs)
    assert sum(len(entry.fills) for entry in made) == sum(leg["status"] == "filled" for leg in legs)
    assert money(cash) == OPENING - sum(leg["total_cost"] for leg in legs)


def _legs(answer: Answered) -> list[dict[str, Any]]:
    return json.loads(answer.body).get("execution", {}).get("trades", [])


def test_100_races_of_eight_desks_do_one_id_once_and_answer_alike(tmp_path: Path) -> None:
    _race(tmp_path / "home", 100, seed=1)


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_many_races_of_eight_desks_do_one_id_once_and_answer_alike(tmp_path: Path, size: Size) -> None:
    _race(tmp_path / "home", size.of(judge=250, prove=1_000), seed=2)
