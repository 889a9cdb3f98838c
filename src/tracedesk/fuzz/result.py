"""A campaign's outcome: Echidna's result object with real names, and the same in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tracedesk.foreign import quoted
from tracedesk.fuzz import native, reproducers
from tracedesk.fuzz.answers import FAILED, UNSUPPORTED, failures, falsified
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.target import WAIT, Target
from tracedesk.fuzz.unsupported import words

State = Mapping[str, Any]
_CORES: Final = re.compile(r"(?:Panic\(0x[0-9a-f]{1,16}\): )?[a-z ]{1,60}(?: \([a-z ]{1,40}\))?")
WAYS: Final = 3
"""Ways in which one test fails that are printed; all are counted."""


def document(state: State, coverage: Mapping[str, Any], target: Target, engine: Engine) -> dict[str, Any]:
    """What `fuzz run --json` prints."""
    status = state["status"]
    return {
        "success": trouble(state) is None,
        "error": trouble(state),
        "campaign": status["campaign_id"],
        "contract": status["contract"],
        "seed": status["seed"],
        "calls": status["calls"],
        "seconds": status["elapsedSeconds"],
        "falsified": len(falsified(state)),
        "unsupported": not_judged(state),
        "warnings": list(status.get("warnings", ())),
        "tests": [_test(state, test, target, engine) for test in state["tests"]],
        "coverage": dict(coverage),
    }


def not_judged(state: State) -> list[str]:
    """The tests without a verdict, for they need cheatcodes that are not supported."""
    return [test["name"] for test in state["tests"] if test["status"] == UNSUPPORTED]


def _test(state: State, test: Mapping[str, Any], target: Target, engine: Engine) -> dict[str, Any]:
    sequence: Sequence[Mapping[str, Any]] | None = test.get("sequence")
    found = failures(state, test) if test["type"] != "optimization" else []
    shown: dict[str, Any] = {
        "contract": test["contract"],
        "name": test["name"],
        "status": test["status"],
        "error": None,
        "reason": test.get("reason"),
        "type": test["type"],
        "transactions": [_transaction(tx, target, engine) for tx in sequence] if sequence else None,
        "failures": [_failure(each, target, engine) for each in found],
        "unsupported": test.get("unsupported", []),
    }
    if test["type"] == "optimization":
        shown["value"] = test.get("value")
    return shown


def _failure(failure: Mapping[str, Any], target: Target, engine: Engine) -> dict[str, Any]:
    """One way in which a test fails."""
    transactions = [_transaction(tx, target, engine) for tx in failure["sequence"]]
    return {"reason": failure.get("reason"), "transactions": transactions}


def _transaction(tx: Mapping[str, Any], target: Target, engine: Engine) -> dict[str, Any]:
    function, arguments = _call(tx, engine)
    return {
        "contract": target.contract_at(tx["to"]) or tx["to"],
        "function": function,
        "arguments": arguments,
        "gas": str(tx["gas"]),
        "gasprice": str(tx["gas_price"]),
        "value": str(tx["value"]),
        "sender": tx["from"],
        "delay": tx["delay"],
    }


def _call(tx: Mapping[str, Any], engine: Engine) -> tuple[str, list[str] | None]:
    call: Mapping[str, Any] | None = tx.get("call")
    if call is None:
        return WAIT, None
    if "args" not in call:
        name, data = call.get("name"), str(call["data"])
        return (data, None) if name is None else (name, [] if name == "receive" else [data])
    pairs = zip(call["types"], call["args"], strict=True)
    shown = (engine.print_call("f", native.text([kind]), native.text([value])) for kind, value in pairs)
    return call["name"], [text[2:-1] for text in shown]


def lines(state: State, target: Target, engine: Engine) -> Iterator[str]:
    """The outcome for people: each test, and the calls that broke it."""
    for test in state["tests"]:
        found = failures(state, test)
        for each in found[:WAYS] or [test]:
            yield f"{each['name']}: {verdict(each)}"
            if each["status"] in FAILED and each.get("sequence"):
                yield "  Call sequence:"
                for row in reproducers.calls(each["sequence"], target, engine):
                    yield f"    {row['call']}{_circumstances(row)}"
        if len(found) > WAYS:
            yield f"{test['name']}: fails in {len(found) - WAYS} more ways; their calls are in the corpus."


def trouble(state: State) -> str | None:
    """Why a campaign did not end properly, in words; None when it did."""
    status = state["status"]
    if status["state"] != "ended":
        why = status.get("endReason", "its process has not ended")
        return f"{why}; this is how it stood at {status['asOf']}" if "asOf" in status else str(why)
    broken = [
        f"worker {worker['id']}: {worker['error']}" for worker in status["workers"] if "error" in worker
    ]
    broken += [f"{test['name']} could not be run" for test in state["tests"] if test["status"] == "error"]
    return "; ".join(broken) or None


def because(reason: str) -> str:
    """Return why a call failed, with a contract's own words between marks.

    In the core's reasons those words follow a quotation mark or `assertion failed:`.
    """
    return reason if _CORES.fullmatch(reason) else quoted(reason)


def verdict(test: Mapping[str, Any]) -> str:
    """A test's state in words."""
    if test["type"] == "optimization":
        return f"best value {test['value']}" if test.get("value") is not None else "no value yet"
    if test["status"] == UNSUPPORTED:
        return f"unsupported ({words(test['unsupported'])})"
    if test["status"] in FAILED:
        reason = f" ({because(test['reason'])})" if test.get("reason") else ""
        return f"failed{reason}{', still being shortened' if test['status'] == 'shrinking' else ''}"
    return "holds so far" if test["status"] == "fuzzing" else str(test["status"])


def _circumstances(row: Mapping[str, Any]) -> str:
    parts = [f"value {row['value']}"] if row["value"] != "0" else []
    parts.append(f"from {row['sender']}")
    if "delay" in row:
        parts.append(f"after {row['delay'][0]} s and {row['delay'][1]} blocks")
    return f"  ({', '.join(parts)})"


def summary(state: State) -> str:
    """One line: how much was done."""
    status = state["status"]
    pace = f"{status['callsPerSecond']:,.0f} a second"
    return (
        f"{status['calls']:,} calls in {status['elapsedSeconds']} s, {pace}, "
        f"{status['coveragePoints']:,} points covered, {status['corpusSequences']:,} sequences kept, "
        f"seed {status['seed']}"
    )
