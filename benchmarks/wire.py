"""What a call costs on the wire: `python -m benchmarks.wire [--json] [--quick] [--rounds N] [--no-rivals]`.

Prints ratios; it judges nothing by its exit code, which is 0 unless a server answers wrongly.
"""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import command, report, runs
from benchmarks.lineup import Contestant, absent, lineup
from benchmarks.measure import Neighbours, machine, supported
from benchmarks.messages import ERAS, Misbehaved
from benchmarks.process import client_placed


def measure(contestants: Sequence[Contestant], plan: runs.Plan) -> report.Results:
    """Every measurement, in the order of the report."""
    results = report.Results()
    for era in ERAS:
        command.say(f"stdio {era}")
        results.rows[f"stdio {era}"], holdings = runs.stdio(contestants, plan, era)
        results.memory.setdefault("stdio", holdings)
    command.say("cold start")
    results.rows["cold start"] = runs.cold(contestants, plan)
    rows, results.memory["http"] = runs.http(contestants, plan, command.say)
    results.rows |= rows
    return results


def facts(contestants: Sequence[Contestant], plan: runs.Plan, *, with_rivals: bool) -> dict[str, Any]:
    """What the figures were made with, and who was left out."""
    return {
        "contestants": {c.name: c.label for c in contestants},
        "not_installed": absent() if with_rivals else [],
        "cold_command": Path(contestants[0].cold[0]).name + " " + " ".join(contestants[0].cold[1:3]),
        "rounds": plan.rounds,
        "warm_calls": plan.warm,
        "calls_per_round": {"stdio": plan.stdio_calls, "http": plan.calls_by_width()},
        "seeds": [],
        "machine": machine(),
    }


def notes(known: dict[str, Any]) -> list[str]:
    """What a reader of the table should know about it."""
    at = known["machine"]
    lines = [
        f"Rounds: {known['rounds']}. Machine: {at['cpus']} CPUs ({at['cpu']}), load {at['load_average']} "
        f"at the start, Python {at['python']}, mcp {at['packages']['mcp']}.",
        f"Cold start of ours: {known['cold_command']}.",
    ]
    lines += command.busy_lines(at)
    if known["not_installed"]:
        missing = ", ".join(known["not_installed"])
        lines.append(f"Not installed, so not measured: {missing}. `python -m benchmarks.rivals` installs.")
    return lines


def _options(argv: Sequence[str] | None) -> Namespace:
    parser = command.parser("wire", __doc__, quick="few calls: shows that it works, not how fast")
    parser.add_argument("--rounds", type=int, help="rounds per row (default 9, or 1 with --quick)")
    parser.add_argument("--no-rivals", action="store_true", help="measure ours and stock mcp only")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    if not supported():
        print("CPU per thread cannot be read here: this needs Linux with schedstat", file=sys.stderr)
        return 0
    rounds = options.rounds or (1 if options.quick else 9)
    plan = runs.quick(rounds) if options.quick else runs.Plan(rounds)
    with tempfile.TemporaryDirectory() as home:
        neighbours = Neighbours()
        contestants = lineup(Path(home), with_rivals=not options.no_rivals)
        known = facts(contestants, plan, with_rivals=not options.no_rivals)
        try:
            with client_placed():
                results = measure(contestants, plan)
        except Misbehaved as fault:
            print(fault, file=sys.stderr)
            return 1
    known["machine"]["neighbours_cores"] = round(neighbours.cores(), 2)
    if options.json:
        print(json.dumps(report.as_json(results, known), indent=2))
    else:
        labels = {c.name: c.label for c in contestants}
        print(report.as_text(results, labels, notes(known)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
