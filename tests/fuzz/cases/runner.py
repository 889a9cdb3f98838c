"""Runs a case through the native core: `python -m tests.fuzz.cases.runner [CHECKOUT ...]`.

A checkout is a folder of crytic/echidna or crytic/medusa; their own files are then tried as well, and a line
says how each went. Nothing of theirs is part of this project.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.fuzz.cases import compiled
from tests.fuzz.cases.table import CALLS, CASES, SEEDS, SHRINKS, Case, Original
from tracedesk.errors import ToolError
from tracedesk.fuzz import config, native, spec
from tracedesk.fuzz.project import Project
from tracedesk.primitives import json

PATIENCE: Final = 60.0
HOLDS: Final = ("passed", "fuzzing")
"""States of a test that was not falsified."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a campaign ended."""

    calls: int
    tests: Mapping[str, Mapping[str, Any]]

    def state(self, test: str) -> str:
        return self.tests[test]["status"] if test in self.tests else "absent"


def campaign(project: Project, contract: str, seed: int, calls: int, keys: Mapping[str, Any]) -> Outcome:
    """One worker, from a seed, to the end of its budget."""
    told = {"testLimit": calls, "shrinkLimit": SHRINKS, **keys, "seed": seed, "workers": 1}
    engine = native.engine()
    built = spec.build(project, config.of(told).config, contract, engine)
    running = engine.Campaign(json.dumps(built.document).decode())
    running.start()
    if not running.wait(PATIENCE):
        running.stop()
        raise AssertionError(f"{contract}: the campaign did not end within {PATIENCE:.0f} s")
    status = json.loads(running.status())
    return Outcome(status["calls"], {test["name"]: test for test in status["tests"]})


def shortfalls(case: Case | Original, found: Outcome) -> Iterator[str]:
    """What differs from the answer of the table."""
    for test in case.falsified:
        if found.state(test) != "solved":
            yield f"{test} should be falsified, and is {found.state(test)}"
    for test in case.holds:
        if found.state(test) not in HOLDS:
            yield f"{test} should hold, and is {found.state(test)}"
    for test, least in case.at_least.items():
        value = int(found.tests[test]["value"]) if test in found.tests else None
        if value is None or value < least:
            yield f"{test} should reach {least}, and has {value}"
    strange = {name for name in found.tests if found.state(name) == "solved"} - set(case.falsified)
    if strange and isinstance(case, Case) and not case.at_least:
        yield f"falsified beyond the table: {', '.join(sorted(strange))}"
    if isinstance(case, Case):
        yield from _malformed(case, found)


def _malformed(case: Case, found: Outcome) -> Iterator[str]:
    for test, is_formed in case.reproducer.items():
        sequence = found.tests[test]["sequence"]
        if found.state(test) == "solved" and not is_formed(sequence):
            yield f"{test}: the reproducer is not of its form: {json.dumps(sequence).decode()}"


def run(case: Case, seed: int) -> list[str]:
    """One case from one seed: nothing, or what is wrong."""
    found = campaign(compiled.project(case.source), case.contract, seed, case.calls, case.config)
    return list(shortfalls(case, found))


# --- other fuzzers' own files -----------------------------------------------------------------------


def run_original(original: Original, checkout: Path, seed: int) -> list[str]:
    """The same for a file of a checkout."""
    file = checkout / original.file
    output = compiled.compile_source(file.name, file.read_bytes())
    project = compiled.project_of(file.name, file.read_bytes(), output)
    return list(shortfalls(original, campaign(project, original.contract, seed, CALLS, original.config)))


def _originals(checkout: Path) -> list[tuple[Case, Original]]:
    pairs = ((case, case.original) for case in CASES)
    return [(case, original) for case, original in pairs if original and (checkout / original.file).is_file()]


def _report(label: str, runs: Iterator[list[str]]) -> bool:
    wrong: dict[str, int] = {}
    for shortfall in runs:
        for line in shortfall:
            wrong[line] = wrong.get(line, 0) + 1
    print(f"{'ok  ' if not wrong else 'MISS'} {label}", flush=True)
    for line, count in wrong.items():
        print(f"       {count} of {len(SEEDS)} seeds: {line}", flush=True)
    return not wrong


def _tried(original: Original, checkout: Path) -> Iterator[list[str]]:
    for seed in SEEDS:
        try:
            yield run_original(original, checkout, seed)
        except (ToolError, AssertionError) as fault:
            yield [str(fault)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.cases.runner", description=__doc__)
    parser.add_argument("checkout", nargs="*", type=Path, help="folder of crytic/echidna or crytic/medusa")
    checkouts: list[Path] = parser.parse_args().checkout
    well = [_report(case.id, (run(case, seed) for seed in SEEDS)) for case in CASES]
    for checkout in checkouts:
        for case, original in _originals(checkout):
            label = f"{original.repository} {original.file} (as {case.id})"
            well.append(_report(label, _tried(original, checkout)))
    print(f"{sum(well)} of {len(well)} as expected")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
