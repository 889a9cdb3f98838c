"""One campaign of ours: in this process, or in one of its own that says what it cost.

`python -m benchmarks.fuzz_ours JSON` runs the benchmark's contract with the keys that the JSON holds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from benchmarks.measure import memory
from tests.fuzz.cases import compiled
from tracedesk.fuzz import config, native, spec
from tracedesk.fuzz.project import Project

SOURCE: Final = "purse.sol"
CONTRACT: Final = "Purse"
_PATIENCE: Final = 3_600.0
_TICK: Final = 0.2


def campaign(
    project: Project, contract: str, keys: Mapping[str, Any], watch: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Run to the end of its budget; `watch` gets the number of calls now and then."""
    engine = native.engine()
    built = spec.build(project, config.of(keys).config, contract, engine)
    running = engine.Campaign(json.dumps(built.document, default=str))
    deadline = time.monotonic() + _PATIENCE
    running.start()
    while not running.wait(_TICK):
        assert time.monotonic() < deadline, "the campaign does not end"
        if watch is not None:
            watch(sum(worker["calls"] for worker in json.loads(running.counters())))
    return json.loads(running.status())


def main() -> None:
    keys: dict[str, Any] = json.loads(sys.argv[1])
    resident: list[tuple[int, int]] = []
    status = campaign(
        compiled.project(SOURCE),
        CONTRACT,
        keys,
        lambda calls: resident.append((calls, memory(os.getpid()).rss)),
    )
    resident.append((status["calls"], memory(os.getpid()).rss))
    states = {test["name"]: test["status"] for test in status["tests"]}
    told = {"calls": status["calls"], "reverts": status["reverts"], "points": status["coverage_points"]}
    print(json.dumps({**told, "gas": status["gas"], "tests": states, "resident": resident}))


if __name__ == "__main__":
    main()
