"""What the benchmarks' command lines share: options, progress, claims as text, and how a run ends."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import supported
from benchmarks.messages import Misbehaved

Claim = dict[str, Any]
Found = dict[str, Any]

QUIET: Final = 0.1
NEIGHBOURS: Final = (
    "CPU that other processes or the host took during the run, in cores; above "
    f"{QUIET} the figures are unfit for claims"
)
_NAME_WIDTH: Final = 36


def say(what: str) -> None:
    """Tell whoever waits what is being done."""
    print(f"measuring {what}", file=sys.stderr, flush=True)


def parser(name: str, document: str | None, *, quick: str | None = None) -> argparse.ArgumentParser:
    """The options of every benchmark; `quick` says what `--quick` leaves out, without it there is none."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=document)
    made.add_argument("--json", action="store_true", help="print everything as JSON")
    if quick is not None:
        made.add_argument("--quick", action="store_true", help=quick)
    return made


def run(measure: Callable[[Path], Found], as_text: Callable[[Found], str], *, as_json: bool) -> int:
    """Measure in a folder that is gone afterwards, and print what was found."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = measure(Path(folder))
        except Misbehaved as fault:
            print(fault, file=sys.stderr)
            return 1
    print(json.dumps(found, indent=2) if as_json else as_text(found))
    return 0


def main(
    name: str,
    document: str | None,
    measure: Callable[[Path, bool], Found],
    as_text: Callable[[Found], str],
    argv: Sequence[str] | None,
) -> int:
    """The whole command of a benchmark that reads the kernel's figures; `measure` hears of `--quick`."""
    made = parser(name, document, quick="less of everything: shows that it works")
    options = made.parse_args(argv)
    if not supported():
        print("CPU per thread cannot be read here: this needs Linux with schedstat", file=sys.stderr)
        return 0
    return run(lambda folder: measure(folder, options.quick), as_text, as_json=options.json)


def claim_lines(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of claims, its head first."""
    return [f"{'claim':{_NAME_WIDTH}}{'ratio':>11}{'bar':>9}", *map(_line, claims)]


def _line(claim: Mapping[str, Any]) -> str:
    verdict = {None: "no bar", True: "met", False: "MISSED"}[claim["met"]]
    bar = "" if claim["bar"] is None else claim["bar"]
    against = claim["against"]
    return f"{claim['name']:{_NAME_WIDTH}}{claim['ratio']:>11}{bar:>9}  {verdict}, against {against}"


def busy_lines(machine: Mapping[str, Any]) -> list[str]:
    """A warning, where others used the machine meanwhile."""
    others = machine["neighbours_cores"]
    if others <= QUIET:
        return []
    return [f"Others used {others} cores meanwhile: measure again on an idle machine."]
