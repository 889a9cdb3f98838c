"""Runs NautilusTrader while the recording fails at one place after another; prints what came of it."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.backtest.adapters.nautilus_engine import Cross, engine, outcome
from tests.backtest.adapters.sinks import Memory
from tracedesk.backtest.adapters import nautilus
from tracedesk.backtest.adapters.tape import Tape

PLACES = ("bar", "indicator", "placed", "executed", "rejected", "cancelled", "position", "marked", "account")


class Failing(Cross):
    """A strategy with an error of its own."""

    def on_bar(self, bar: Any) -> None:
        super().on_bar(bar)
        if self.calls == 60:
            raise ZeroDivisionError("the strategy's own fault")


def ran(sink: Memory | None) -> dict[str, Any]:
    strategy = Cross()
    made = engine(strategy)
    if sink is None:
        made.run()
    else:
        with nautilus.record(made, sink):
            made.run()
    found = {**outcome(made), "hooked": "register_indicator_for_bars" in vars(strategy)}
    made.dispose()
    return found


def broken(place: str) -> dict[str, Any]:
    """A run whose recording fails at the second call of one method of the tape."""
    own, calls, sink = getattr(Tape, place), [0], Memory()

    def fail(self: Tape, *given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise RuntimeError(f"no {place}")
        return own(self, *given, **named)

    setattr(Tape, place, fail)
    try:
        result = ran(sink)
    finally:
        setattr(Tape, place, own)
    faults = [event.properties["Message"] for event in sink.of("RiskEvent")]
    return {"result": result, "faults": faults, "last": sink.events[-1].type}


def own_error() -> str:
    made = engine(Failing())
    try:
        with nautilus.record(made, Memory()):
            made.run()
    except ZeroDivisionError as problem:
        return str(problem)
    finally:
        made.dispose()
    return ""


def main() -> None:
    answer = {"plain": ran(None), "broken": {place: broken(place) for place in PLACES}, "own": own_error()}
    json.dump(answer, sys.stdout, default=str)


if __name__ == "__main__":
    main()
