"""What tools say of a campaign's state, the same whether it runs or is read from its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracedesk.foreign import listed
from tracedesk.fuzz import reproducers
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.refusals import invalid
from tracedesk.fuzz.target import Target
from tracedesk.primitives import json
from tracedesk.primitives.tokens import estimate

State = Mapping[str, Any]
"""`{"status": the answer of campaign_status, "tests": tests with their sequences}`."""

FAILED: Final = ("solved", "shrinking")
UNSUPPORTED: Final = "unsupported"
_ROOM: Final = 400
"""Tokens kept free for what surrounds a list."""


def fitting(rows: Sequence[Any], budget: int) -> list[Any]:
    """As many whole rows as a budget of tokens holds, at least one."""
    kept: list[Any] = []
    spent = _ROOM
    for each in rows:
        spent += estimate(json.dumps(each)) + 1
        if kept and spent > budget:
            break
        kept.append(each)
    return kept


def status(state: State, budget: int) -> dict[str, Any]:
    """What `campaign_status` says: failing tests first, then those without a verdict, when not all fit."""
    answer = dict(state["status"])
    tests: Sequence[Mapping[str, Any]] = answer["tests"]
    ordered = sorted(tests, key=lambda test: (test["status"] not in FAILED, test["status"] != UNSUPPORTED))
    kept = fitting(ordered, budget)
    names = {test["name"] for test in kept}
    answer["tests"] = [test for test in tests if test["name"] in names]
    return {**answer, "truncated": True} if len(kept) < len(tests) else answer


def falsified(state: State) -> list[str]:
    """The names of the tests that failed; an optimization never does."""
    tests: Sequence[Mapping[str, Any]] = state["status"]["tests"]
    return [test["name"] for test in tests if test["status"] in FAILED and test["type"] != "optimization"]


def target(found: Target, state: State, facts: Mapping[str, Any], budget: int) -> dict[str, Any]:
    """What `target` says."""
    places = [
        {"name": place.contract, "address": place.address, "functions": [_shown(f) for f in place.functions]}
        for place in found.places
    ]
    kept = fitting(places, budget)
    answer: dict[str, Any] = {
        "campaign_id": state["status"]["campaign_id"],
        "contract": found.main.contract,
        "address": found.main.address,
        "contracts": kept,
        "tests": [test["name"] for test in state["status"]["tests"]],
        **facts,
    }
    return {**answer, "truncated": True} if len(kept) < len(places) else answer


def _shown(function: Any) -> str:
    nature = " payable" if function.payable else " view" if function.view else ""
    return f"{function.signature}{nature}"


def reproduced(
    state: State,
    found: Target,
    engine: Engine,
    *,
    name: str | None,
    form: str,
    budget: int,
    source: str,
    deployer: str,
) -> dict[str, Any]:
    """What `get_reproducers` says: a row for each test and way it fails, each optimization with its best."""
    rows: list[dict[str, Any]] = []
    for test in _wanted(state, name):
        sequence: Sequence[Mapping[str, Any]] = test["sequence"]
        row = {key: test.get(key) for key in ("contract", "status", "reason", "value", "ref")}
        row = {"test": test["name"], "type": test["type"], **{k: v for k, v in row.items() if v is not None}}
        if form == "foundry":
            row["solidity"] = reproducers.foundry(test, sequence, found, engine, source, deployer)
        else:
            row["calls"] = reproducers.calls(sequence, found, engine)
        rows.append(row)
    kept = fitting(rows, budget)
    answer: dict[str, Any] = {"campaign_id": state["status"]["campaign_id"], "reproducers": kept}
    return {**answer, "truncated": True} if len(kept) < len(rows) else answer


def _wanted(state: State, name: str | None) -> list[Mapping[str, Any]]:
    tests: Sequence[Mapping[str, Any]] = state["tests"]
    named = [test for test in tests if name is None or name in (test["name"], test["id"])]
    if not named:
        known = [str(test["name"]) for test in tests][:12]
        raise invalid(
            "UNKNOWN_TEST", f"test: there is no test {str(name)[:80]!r}. There are: {listed(known)}."
        )
    return [found for test in named for found in failures(state, test)]


def failures(state: State, test: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A test once for each reason and place that it fails with; an optimization with its best value."""
    if test["type"] == "optimization":
        return [test] if test.get("sequence") else []
    own: list[Mapping[str, Any]] = [each for each in state["failures"] if each["test"] == test["id"]]
    return [
        {
            **test,
            "reason": each["reason"],
            "sequence": each["sequence"],
            "status": "shrinking" if each["shrunk_by"] is None else "solved",
        }
        for each in own
    ]
