"""Fuzz speed beside an older commit: `python -m benchmarks.fuzz_before CHECKOUT [--json] [--calls N]`.

CHECKOUT is a work tree of that commit with a `.venv` of its own (`git worktree add`, `make setup`). Prints
ratios; it judges nothing by its exit code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import command
from benchmarks.fuzz_ours import CONTRACT, SOURCE
from benchmarks.measure import Neighbours, machine, paired_ratio
from benchmarks.messages import Misbehaved

BAR: Final = 1.03
ROUNDS: Final = 9
HERE: Final = Path(__file__).parents[1]
METHOD: Final = {
    "ratio": "median over rounds of this commit's CPU for a campaign / the older one's; the two sides of a "
    "round are measured moments apart and take turns at being first; `spread` is the least and the largest",
    "contract": f"{SOURCE}: one worker, the round's number as seed; calls, gas and coverage must be equal",
    "cpu": "user seconds of a process of its own for the campaign, after a short one that warms it up",
    "neighbours_cores": command.NEIGHBOURS,
}
_CHILD: Final = """
import json, resource, sys
sys.path.insert(0, ".")
from benchmarks import fuzz_ours
from tests.fuzz.cases import compiled
calls, seed = map(int, sys.argv[1:])
project = compiled.project(fuzz_ours.SOURCE)
def ran(limit):
    keys = {"workers": 1, "seed": seed, "testLimit": limit}
    began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    status = fuzz_ours.campaign(project, fuzz_ours.CONTRACT, keys)
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - began
    return {"seconds": spent, "same": [status[key] for key in ("calls", "gas", "coverage_points")]}
ran(2_000)
print(json.dumps(ran(calls)))
"""


def _ran(checkout: Path, calls: int, seed: int) -> dict[str, Any]:
    """A campaign of one commit, in a process of its own."""
    python = checkout / ".venv" / "bin" / "python"
    done = subprocess.run(
        [python, "-P", "-c", _CHILD, str(calls), str(seed)], cwd=checkout, capture_output=True, check=False
    )
    if done.returncode:
        raise Misbehaved(f"{checkout} cannot run a campaign: {done.stderr.decode()[-500:]}")
    return json.loads(done.stdout)


def measure(older: Path, calls: int) -> command.Found:
    """Both commits in turns."""
    neighbours = Neighbours()
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(ROUNDS):
        command.say(f"round {number + 1} of {ROUNDS}")
        turns = (HERE, older) if number % 2 else (older, HERE)
        found = {checkout: _ran(checkout, calls, number) for checkout in turns}
        if found[HERE]["same"] != found[older]["same"]:
            raise Misbehaved(f"seed {number}: the two commits do not make the same campaign: {found}")
        ours.append(found[HERE]["seconds"])
        theirs.append(found[older]["seconds"])
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    ratio = round(paired_ratio(ours, theirs), 3)
    claim = {
        "name": "fuzz speed, CPU",
        "ratio": ratio,
        "bar": BAR,
        "met": ratio <= BAR,
        "against": older.name,
    }
    return {
        "claims": [claim],
        "spread": [round(ratios[0], 3), round(ratios[-1], 3)],
        "seeds": list(range(ROUNDS)),
        "rivals": [str(older.name)],
        "calls": calls,
        "seconds": {"ours": ours, "theirs": theirs},
        "contract": CONTRACT,
        "method": METHOD,
        "machine": {**machine(), "neighbours_cores": round(neighbours.cores(), 2)},
    }


def _text(found: command.Found) -> str:
    least, largest = found["spread"]
    lines = [*command.claim_lines(found["claims"]), f"spread over {ROUNDS} rounds: {least} to {largest}"]
    return "\n".join((*lines, *command.busy_lines(found["machine"])))


def main(argv: Sequence[str] | None = None) -> int:
    """The whole command."""
    parser = command.parser("fuzz_before", __doc__)
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT")
    parser.add_argument("--calls", type=int, default=250_000)
    options = parser.parse_args(argv)
    older: Path = options.checkout.absolute()
    return command.run(lambda _: measure(older, options.calls), _text, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
