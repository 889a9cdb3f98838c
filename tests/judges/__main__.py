"""Runs judges, or the same in full size as proofs: `python -m tests.judges [--prove] [--area AREA]`.

Judges that measure time run last, with nothing beside them. A judge's areas are held to their minutes. A
proof runs the benchmarks of its areas too, writes docs/proof, and makes docs/performance.md again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.proof import benchmarks
from scripts.proof.__main__ import main as write_page
from tests.judges import areas
from tests.judges.support import ROOT

NONE_COLLECTED: Final = 5
"""pytest's exit code where an area has no test of a kind."""


def _options(argv: Sequence[str] | None) -> Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.judges", description=__doc__)
    parser.add_argument("--prove", action="store_true", help="full size, exact bars, and proofs are written")
    parser.add_argument("--area", choices=tuple(areas.MINUTES), help="one area alone")
    parser.add_argument("--checkouts", type=Path, help="folder with checkouts of public repositories")
    parser.add_argument("--benchmarks", action="store_true", help="with --prove: benchmarks without tests")
    parser.add_argument("-n", type=int, default=2, help="tests at once that measure no time (default 2)")
    return parser.parse_args(argv)


def _sessions(options: Namespace, times: Path) -> bool:
    """Run the tests beside each other, then those alone; true when all passed."""
    kinds = "(judge or prove)" if options.prove else "judge"
    shared = [f"--times={times}", *(["--prove"] if options.prove else [])]
    shared += [f"--area={options.area}"] if options.area else []
    shared += [f"--checkouts={options.checkouts.resolve()}"] if options.checkouts else []
    plans = (["-n", str(options.n), "-m", f"{kinds} and not alone"], ["-m", f"{kinds} and alone"])
    codes = [_pytest([*plan, "-rA", "--durations=15", *shared]) for plan in plans]
    return all(code in (0, NONE_COLLECTED) for code in codes)


def _pytest(words: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False).returncode


def _judge(options: Namespace, times: Path) -> int:
    well = _sessions(options, times)
    spent = areas.total(times)
    print(*areas.lines(spent, options.area), sep="\n")
    return 0 if well and not areas.over(spent) else 1


def _prove(options: Namespace, times: Path) -> int:
    well = options.benchmarks or _sessions(options, times)
    outcome = benchmarks.run(options.area, options.checkouts)
    write_page([])
    print(*outcome.notes, *(f"MISSED {line}" for line in outcome.missed), sep="\n")
    return 0 if well and not outcome.missed else 1


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times"
        return _prove(options, times) if options.prove else _judge(options, times)


if __name__ == "__main__":
    sys.exit(main())
