"""The machine against pyrevm: the same calls give the same answers, logs, storage and balances.

pyrevm is built on revm too, an older one: what is on trial is how we drive it. The workers' own way through
the machine is then held to what `execute` says, call by call.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from tests.fuzz.cases import compiled, oracle, programs
from tests.fuzz.cases.oracle import Answer, Oracle, Slot
from tests.judges.size import Size
from tracedesk.fuzz import config, native, spec
from tracedesk.primitives import json

CALLS = 20_000
LENGTH = 20
GAS = 60_000_000
KINDS = {"CREATE", "CREATE2", "CALL", "DELEGATECALL", "STATICCALL", "CALLCODE"}

Sequence = list[dict[str, Any]]


def _document(**changes: Any) -> dict[str, Any]:
    """A campaign of nothing but the interpreter, on the fork that the oracle knows."""
    told = config.of({"testMode": "exploration", "seed": 1, "workers": 1, "seqLen": LENGTH}).config
    built = spec.build(compiled.project("interpreter.sol"), told, "Interpreter", native.engine())
    block = {**built.document["block"], "coinbase": f"0x{0xC0FFEE:040x}", "prevrandao": f"0x{5**100:064x}"}
    return {**built.document, "block": block, "spec_id": oracle.FORK.lower(), "cheats": False, **changes}


def _campaign(document: Mapping[str, Any]) -> native.Campaign:
    return native.engine().Campaign(json.dumps(document).decode())


def _sequences(document: Mapping[str, Any], count: int, seed: int) -> Iterator[Sequence]:
    chance = random.Random(seed)
    for _ in range(count):
        yield [_transaction(chance, document) for _ in range(LENGTH)]


def _transaction(chance: random.Random, document: Mapping[str, Any]) -> dict[str, Any]:
    place = document["targets"][0]["address"]
    return {
        **_sent(document, programs.program(chance, place)),
        "from": chance.choice(document["senders"]),
        "value": str(chance.choice((0, 0, 1, 7))),
        "delay": [chance.choice((0, 0, 1, 86_400)), chance.choice((0, 0, 1, 99))],
    }


def _sent(document: Mapping[str, Any], program: bytes) -> dict[str, Any]:
    plain = {"value": "9", "gas": GAS, "gas_price": "0", "delay": [0, 0]}
    ends = {"to": document["targets"][0]["address"], "from": document["senders"][0]}
    return {**ends, **plain, "call": {"data": "0x" + program.hex()}}


def _ours(row: Mapping[str, Any]) -> Answer:
    status = row["status"] if row["status"] in ("success", "revert") else "halt"
    told = tuple((log["address"], tuple(log["topics"]), log["data"][2:]) for log in row["logs"])
    return Answer(status, row["return"], told if status == "success" else ())


def _calls(node: Mapping[str, Any] | None) -> Iterator[str]:
    if node is not None:
        yield "precompile" if 0 < int(node["code_address"], 16) < 10 else str(node["kind"]).upper()
        for child in node["calls"]:
            yield from _calls(child)


def _usual(places: Iterable[str]) -> Iterator[Slot]:
    """The slots that programs and generated contracts use."""
    return ((place, slot) for place in places for slot in (*range(16), *range(256, 272)))


def _compare(document: Mapping[str, Any], sequence: Sequence, rows: list[dict[str, Any]]) -> Counter[str]:
    """One sequence on both; what it did, for the record."""
    (code,) = document["codes"]
    judge = Oracle(document, bytes.fromhex(code["runtime"]))
    seen: Counter[str] = Counter()
    places = [document["targets"][0]["address"]]
    held: dict[Slot, int] = {}
    for tx, row in zip(sequence, rows, strict=True):
        places += row["created"]
        held |= {slot: 0 for slot in _usual(places) if slot not in held}
        held |= {(c["address"], int(c["slot"], 16)): int(c["after"], 16) for c in row["storage"]}
        theirs = judge.send(tx, bytes.fromhex(tx["call"]["data"][2:]), held)
        assert _ours(row) == theirs
        assert {slot: judge.slot(slot) for slot in held} == held
        for account in row["balances"]:
            assert judge.balance(account["address"]) == int(account["balance"]), account
        seen.update((theirs.status, *_calls(row["trace"])))
        seen["transient"] += programs.is_transient(bytes.fromhex(tx["call"]["data"][2:]))
        seen["logs"] += len(theirs.logs)
        seen["slots"] += len(row["storage"])
    return seen


@pytest.mark.judge
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="pyrevm has no build for this Python")
def test_generated_calls_end_as_they_do_in_pyrevm(size: Size) -> None:
    calls = size.of(judge=CALLS, prove=10 * CALLS)
    document = _document()
    campaign = _campaign(document)
    seen: Counter[str] = Counter()
    for sequence in _sequences(document, calls // LENGTH, seed=1):
        rows = json.loads(campaign.execute(json.dumps(sequence).decode(), True))["transactions"]
        seen += _compare(document, sequence, rows)
    # A generator that lost a kind would make the comparison worthless.
    assert seen["success"] + seen["revert"] + seen["halt"] == calls
    for kind in (*KINDS, "precompile", "transient", "success", "revert", "halt", "logs", "slots"):
        assert seen[kind] > calls // 50, (kind, seen)


@pytest.mark.parametrize(("sequences", "workers"), [(50, 1), (50, 2)])
def test_workers_execute_loaded_sequences_exactly_as_a_replay_does(sequences: int, workers: int) -> None:
    """Each on a state reset from the one before; the gas of a call tells its digest."""
    document = _document(test_limit=sequences * LENGTH, workers=workers)
    given = list(_sequences(document, sequences, seed=2))
    _expect_the_same_gas(document, given)


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_workers_execute_many_loaded_calls_exactly_as_a_replay_does(size: Size) -> None:
    calls = size.of(judge=CALLS, prove=5 * CALLS)
    document = _document(test_limit=calls)
    _expect_the_same_gas(document, list(_sequences(document, calls // LENGTH, seed=3)))


def _expect_the_same_gas(document: Mapping[str, Any], given: list[Sequence]) -> None:
    campaign = _campaign(document)
    campaign.load(json.dumps(given).decode())
    campaign.start()
    assert campaign.wait(300)
    status = json.loads(campaign.status())
    assert status["calls"] >= len(given) * LENGTH
    corpus = json.loads(campaign.corpus(0, len(given) * LENGTH))["transactions"]
    replayed = [
        row["gas"]
        for sequence in given
        for row in json.loads(campaign.execute(json.dumps(sequence).decode(), False))["transactions"]
    ]
    assert [row["gas_used"] for row in corpus] == replayed


def test_a_contract_destroyed_by_the_transaction_that_made_it_is_gone_and_any_other_stays() -> None:
    """EIP-6780, which pyrevm cannot show, since it knows no end of a transaction."""
    make = programs.step_of(25, 1, 0, programs.deployer(bytes.fromhex("60015f5533ff")))
    visit = programs.step_of(32, 0, 0)
    document = _document()
    campaign = _campaign(document)

    def created(*steps: bytes) -> list[list[str]]:
        given = [_sent(document, program) for program in steps]
        rows = json.loads(campaign.execute(json.dumps(given).decode(), False))["transactions"]
        assert {row["status"] for row in rows} == {"success"}
        return [row["created"] for row in rows]

    first, second = created(make + visit, make)
    assert first == second
    assert len(first) == 1
    first, destroyed, again = created(make, visit, make)
    assert (len(first), destroyed, again) == (1, [], [])
