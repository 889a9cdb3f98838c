"""How a failure is shown again: as a list of calls, or as a Foundry test that replays it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracedesk.fuzz.foundry_test import foundry
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.target import Target

__all__ = ["calls", "foundry"]

Tx = Mapping[str, Any]


def calls(sequence: Sequence[Tx], target: Target, engine: Engine) -> list[dict[str, Any]]:
    """The calls of a reproducer as the tools show them."""
    return [_call(tx, target, engine) for tx in sequence]


def _call(tx: Tx, target: Target, engine: Engine) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "call": target.text(tx, engine),
        "sender": tx["from"],
        "value": str(tx["value"]),
    }
    if tx["to"] != target.main.address:
        shown["to"] = tx["to"]
    return {**shown, "delay": tx["delay"]} if any(tx.get("delay", ())) else shown
