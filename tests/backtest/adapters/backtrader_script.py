"""Runs a sample script of backtrader, alone or recorded: `backtrader_script.py SCRIPT EVENTS|- [ARGUMENT…]`.

Dice are seeded, and nothing is drawn. With a file for the events, each `Cerebro` of the script is recorded in
a run of its own. The file gets the counts of all runs by type, and what their fault events say.
"""

from __future__ import annotations

import importlib
import json
import random
import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.backtest.adapters.sinks import Memory, obey
from tracedesk.backtest.adapters import backtrader, guard

SEED = 7


def record_every_run(sinks: list[Memory]) -> None:
    """Record each run of each `Cerebro` that the script makes."""
    cerebro: Any = importlib.import_module("backtrader").Cerebro
    own = cerebro.run

    def run(self: Any, *given: Any, **named: Any) -> Any:
        if "recorded" in vars(self):
            return own(self, *given, **named)
        sinks.append(Memory())
        self.recorded = True
        try:
            backtrader.record(self, sinks[-1])
            return self.run(*given, **named)
        finally:
            del self.recorded

    cerebro.run = run


def draw_nothing(*_: Any, **__: Any) -> list[Any]:
    """Stand in for the engine's drawing, which needs matplotlib and a screen."""
    return []


def summary(sinks: list[Memory]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for sink in sinks:
        obey(sink)
        counts.update(sink.counts())
    risks = [event.properties for sink in sinks for event in sink.of("RiskEvent")]
    own = [risk for risk in risks if risk["RiskType"] in (guard.FAULT, guard.NOT_RECORDED)]
    return {"runs": len(sinks), "counts": counts, "faults": own}


def main(script: Path, events: Path | None, arguments: list[str]) -> None:
    random.seed(SEED)
    importlib.import_module("backtrader").Cerebro.plot = draw_nothing
    importlib.import_module("numpy").random.seed(SEED)
    sinks: list[Memory] = []
    if events is not None:
        record_every_run(sinks)
    sys.argv = [script.name, *arguments]
    sys.path.insert(0, "")
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        if events is not None:
            events.write_text(json.dumps(summary(sinks)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), None if sys.argv[2] == "-" else Path(sys.argv[2]), sys.argv[3:])
