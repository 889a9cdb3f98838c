"""Tries projects: names of the table's rows come in, a line each; how each ended goes out as JSON.

The memory of this process is limited as that of a campaign's host is.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fuzz.evil.table import EVERY, Evil
from tracedesk.errors import ToolError
from tracedesk.fuzz import native, result, spec, traces
from tracedesk.fuzz.bench import campaign_of
from tracedesk.fuzz.building import options
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.config import of
from tracedesk.fuzz.limits import MIB, Budget, Limits
from tracedesk.fuzz.target import Target
from tracedesk.hosts import confined


def tried(evil: Evil) -> str:
    """The words in which a project was refused, or its campaign ended."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        evil.build(folder)
        os.chdir(folder)
        try:
            words = _ran(evil, folder)
        except ToolError as refusal:
            words = refusal.message
        os.chdir("/")
        return f"{words} TAKEN" if (folder / "taken").exists() else words


def _ran(evil: Evil, folder: Path) -> str:
    engine = native.engine()
    config = of({"seed": 1, "workers": 1, "seqLen": 5, "testLimit": 50, **evil.config}).config
    budget = Budget(replace(Limits(), **evil.limits), evil.timeout)
    chosen, _ = options(config, trusted=evil.trusted, budget=budget)
    made = spec.build(compile_project(folder / evil.path, chosen), config, None, engine, budget)
    document = native.text(made.document)
    campaign = campaign_of(engine, document, budget)
    target = Target.of(native.read(document))
    if evil.execute:
        shown = traces.executed(campaign, engine, target, list(evil.execute), traces.Asked(True, 1_000_000))
        return json.dumps(shown, ensure_ascii=False)
    campaign.start(budget.left())
    while not campaign.wait(1.0):
        pass
    status = native.read(campaign.status())
    said = "; ".join(result.verdict(_test(test)) for test in status["tests"])
    over = "the time was over" if budget.is_over() else ""
    names = "; ".join(f"{test['name']}: {result.verdict(_test(test))}" for test in status["tests"])
    return "; ".join((names or said, over, *made.warnings))


def _test(test: dict[str, Any]) -> dict[str, Any]:
    return {**test, "type": test["kind"]}


def main() -> None:
    confined.limit_own_memory(1024 * MIB)
    rows = {evil.name: evil for evil in EVERY}
    for line in sys.stdin:
        began = time.process_time()
        words = tried(rows[line.strip()])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds = time.process_time() - began
        print(json.dumps({"words": words, "peak": peak, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
