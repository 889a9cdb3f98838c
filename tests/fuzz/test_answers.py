"""What is said of a campaign's state: whole rows within a budget, each way to fail, and Foundry tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz.test_target import ADDRESS, BANK, SENDER, function, target
from tracedesk.errors import ToolError
from tracedesk.fuzz import answers, native, reproducers, result
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.target import EventType, Target
from tracedesk.fuzz.traces import Teller


def tx(
    name: str, *args: Any, types: tuple[str, ...] = (), value: str = "0", delay: tuple[int, int] = (0, 0)
) -> Any:
    return {
        "to": BANK.main.address,
        "from": SENDER,
        "value": value,
        "gas": 12_500_000,
        "gas_price": "0",
        "delay": list(delay),
        "call": {"name": name, "types": list(types), "args": list(args)},
    }


def row(name: str, status: str = "solved", kind: str = "property", **more: Any) -> dict[str, Any]:
    facts = {"id": f"Bank.{name}", "name": name, "contract": "Bank", "type": kind, "kind": kind}
    return {**facts, "status": status, **more}


def failure(test: str, reason: str, *sequence: Any, shrunk: int | None = 5) -> dict[str, Any]:
    return {"test": f"Bank.{test}", "reason": reason, "sequence": list(sequence), "shrunk_by": shrunk}


STATE: dict[str, Any] = {
    "status": {"campaign_id": "bank-1", "tests": [], "state": "ended"},
    "tests": [
        row("echidna_a"),
        row("echidna_b", "passed"),
        row(
            "echidna_best",
            "solved",
            "optimization",
            value="42",
            sequence=[tx("set", "42", types=("uint256",))],
        ),
    ],
    "failures": [
        failure("echidna_a", "false", tx("deposit", value="5", delay=(7, 1))),
        failure("echidna_a", "Panic(0x01)", tx("set", "1", types=("uint256",)), shrunk=None),
    ],
}


def reproduced(name: str | None = None, form: str = "calls", budget: int = 8_000) -> dict[str, Any]:
    return answers.reproduced(
        STATE,
        BANK,
        native.engine(),
        name=name,
        form=form,
        budget=budget,
        source="src/Bank.sol",
        deployer=ADDRESS,
    )


def test_a_test_has_a_row_for_each_reason_it_fails_with_and_an_optimization_its_best() -> None:
    rows = reproduced()["reproducers"]
    assert [(r["test"], r["status"], r.get("reason")) for r in rows] == [
        ("echidna_a", "solved", "false"),
        ("echidna_a", "shrinking", "Panic(0x01)"),
        ("echidna_best", "solved", None),
    ]
    assert rows[0]["calls"] == [{"call": "deposit()", "sender": SENDER, "value": "5", "delay": [7, 1]}]
    assert rows[2]["value"] == "42"
    assert reproduced("echidna_b")["reproducers"] == []


def test_rows_that_do_not_fit_are_left_out_whole_and_said_so() -> None:
    cut = reproduced(budget=1)
    assert (len(cut["reproducers"]), cut["truncated"]) == (1, True)
    assert "truncated" not in reproduced()


def test_of_many_tests_the_failing_ones_are_shown_first() -> None:
    tests = [row(f"t{number}", "fuzzing") for number in range(500)] + [row("broken")]
    state = {"status": {"tests": tests}, "tests": tests}
    told = answers.status(state, 1_000)
    assert told["truncated"] is True
    assert told["tests"][-1]["name"] == "broken"
    assert len(told["tests"]) < 100


def test_an_optimization_is_never_falsified() -> None:
    tests = [row("a"), row("b", "shrinking"), row("c", "passed"), row("d", "solved", "optimization")]
    assert answers.falsified({"status": {"tests": tests}}) == ["a", "b"]


def test_an_unknown_test_is_refused_with_the_known() -> None:
    with pytest.raises(ToolError, match="There are: echidna_a, echidna_b, echidna_best"):
        reproduced("nothing")


def foundry(test: dict[str, Any], *sequence: Any, source: str = "src/Bank.sol") -> str:
    return reproducers.foundry(test, sequence, BANK, native.engine(), source, ADDRESS)


def test_text_from_a_contract_cannot_leave_its_place_in_the_test() -> None:
    evil = 'a"; selfdestruct(); //\n}'
    text = foundry(row("echidna_a", reason=evil), tx("pay", evil, types=("string",)))
    assert "selfdestruct(); //\n" not in text
    assert "\\x22; selfdestruct(); //\\x0a}" in text


def test_the_outcome_in_words_shows_each_failure_with_its_calls() -> None:
    lines = list(result.lines(STATE, BANK, native.engine()))
    assert lines[:3] == [
        "echidna_a: failed (false)",
        "  Call sequence:",
        f"    deposit()  (value 5, from {SENDER}, after 7 s and 1 blocks)",
    ]
    assert "echidna_a: failed (Panic(0x01)), still being shortened" in lines
    assert "echidna_b: passed" in lines
    assert "echidna_best: best value 42" in lines


def test_events_are_told_by_name_with_hashes_for_what_no_topic_can_hold() -> None:
    declared = EventType("Paid(address,string,uint256,bytes)", (True, True, False, False))
    shop = Target(target(Shop=[function("Shop", "f")]).places, (), (declared,))
    teller = Teller(shop, native.engine())
    topic = "0x" + keccak(b"Paid(address,string,uint256,bytes)").hex()
    data = native.engine().abi_encode('["uint256","bytes"]', '["7","0xbeef"]').hex()
    log = {
        "address": ADDRESS,
        "topics": [topic, "0x" + "0" * 24 + ADDRESS[2:], "0x" + "ab" * 32],
        "data": data,
    }
    assert teller.event(log) == f"Paid({ADDRESS}, 0x{'ab' * 32}, 7, 0xbeef)"
    assert teller.event({**log, "topics": ["0x" + "cd" * 32]}).startswith(f"{ADDRESS}: 0xcdcd")
    assert "no topic" in teller.event({**log, "topics": []})


def test_a_test_that_fails_in_many_ways_is_printed_with_the_first_few_and_a_count() -> None:
    many = [
        failure("echidna_a", f"reason {number}", tx("set", "1", types=("uint256",))) for number in range(64)
    ]
    state = {**STATE, "tests": [row("echidna_a")], "failures": many}
    told = list(result.lines(state, BANK, native.engine()))
    assert sum(line.startswith("echidna_a: failed") for line in told) == result.WAYS
    assert told[-1] == "echidna_a: fails in 61 more ways; their calls are in the corpus."
