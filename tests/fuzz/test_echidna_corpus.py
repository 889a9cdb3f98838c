"""Sequences that a real Echidna (2.0.2, from npm) kept of `cases/contracts/bank.sol`, as it wrote them.

It calls a fallback that the contract does not have by an empty name, and spells its keys the old way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.fuzz.cases import compiled
from tracedesk.fuzz import config, corpus_files, native, spec
from tracedesk.fuzz.replay import load, loadable
from tracedesk.fuzz.target import Target
from tracedesk.primitives import json

WRITTEN: Final = Path(__file__).parent / "cases" / "echidna"
KEPT: Final = corpus_files.load(WRITTEN)
pytestmark = pytest.mark.skipif(not native.is_there(), reason="needs the native core")


def campaign(calls: int) -> tuple[Any, Target]:
    keys = {"testLimit": calls, "seed": 1, "workers": 1, "shrinkLimit": 0}
    built = spec.build(compiled.project("bank.sol"), config.of(keys).config, "Bank", native.engine())
    made = native.engine().Campaign(json.dumps(built.document).decode())
    return made, Target.of(built.document)


def statuses(sequence: Any) -> list[str]:
    running, _ = campaign(1)
    told = json.loads(running.execute(json.dumps(list(sequence)).decode(), False))
    return [each["status"] for each in told["transactions"]]


def test_every_file_is_read_whole() -> None:
    assert KEPT.problems == ()
    assert [len(sequence) for sequence in KEPT.sequences] == [20, 20, 20]
    called = {tx["call"]["name"] for sequence in KEPT.sequences for tx in sequence}
    assert called == {"", "deposit", "many", "move", "note", "say", "tick"}


def test_what_is_written_again_reads_as_the_same() -> None:
    for sequence in KEPT.sequences:
        assert tuple(corpus_files.read(corpus_files.write(sequence))) == sequence


def test_all_of_them_fit_the_target_and_are_replayed_first() -> None:
    running, target = campaign(60)
    fit = loadable(KEPT.named, target, native.engine())
    assert fit.skipped == ()
    taken = load(running, fit.sequences)
    assert taken.skipped == ()
    running.start()
    assert running.wait(60)
    status = json.loads(running.status())
    assert status["calls"] >= 60
    kept = json.loads(running.corpus(0, 60))["transactions"]
    first = [each["tx"]["call"].get("name", "") for each in kept if each["sequence"] == 0]
    assert first == [tx["call"]["name"] for tx in KEPT.sequences[0]]


def test_a_replay_does_what_the_contract_says_of_every_call() -> None:
    for sequence in KEPT.sequences:
        for tx, status in zip(sequence, statuses(sequence), strict=True):
            assert (status == "success") is succeeds(tx), tx


def succeeds(tx: Any) -> bool:
    """By the source: what reverts is a missing fallback, money for what takes none, and three conditions."""
    call, value = tx["call"], int(tx["value"])
    if call["name"] == "" or (value and call["name"] != "deposit"):
        return False
    match call["name"]:
        case "deposit":
            return int(call["args"][0]) < 10**30
        case "move":
            return int(call["args"][0]) != 77
        case _:
            return True
