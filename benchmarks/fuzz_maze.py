"""Labels found in mazes: `python -m benchmarks.fuzz_maze [CHECKOUT] [--json] [--calls N] [--seeds N]`.

Without a checkout the mazes are our own; with one of Consensys/daedaluzz they are its five. Every fuzzer
gets the same number of calls for each maze, one worker, and a campaign that goes on after a find. Prints
counts; it judges nothing by its exit code.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import command, fuzz_forge, fuzz_mazes, fuzz_ours
from benchmarks.measure import Neighbours, machine
from tests.fuzz.cases.compiled import compile_source, project_of
from tracedesk.fuzz.project import Project

OURS: Final = "tracedesk"
PLAIN: Final = "forge plain"
GUIDED: Final = "forge guided"
TARGET: Final = 40
"""Labels in the five mazes of a checkout, for 150,000 calls."""
MAZES: Final = 5
DEPTH: Final = 100
_LABEL: Final = re.compile(r'emit AssertionFailed\("(\d+)"\);\s*assert\(false\);')
_EVENT: Final = re.compile(r'AssertionFailed\("(\d+)"\)')
METHOD: Final = {
    "labels": "distinct labels of AssertionFailed in all mazes together, median over seeds; `found` has each "
    "seed's. In our own mazes every label can be reached; in the others some cannot",
    "calls": "of one maze; sequences of 100; one worker; the same source for all, not optimized",
    "forge": f"forge {fuzz_forge.VERSION}; a failed assertion would end its campaign at the first label, so "
    "its copy of a maze writes the label to a file and reverts; guided means that `corpus_dir` is set",
    "ours": "assertion mode, shrinking off; labels are read from the failures that the campaign tells apart",
    "cpu_s": "CPU seconds of all mazes of one seed, median; forge's include its start-up",
}

_VM: Final = """
interface Vm { function writeLine(string calldata path, string calldata line) external; }
Vm constant VM = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
"""
_CAMPAIGN: Final = """// SPDX-License-Identifier: MIT
pragma solidity ^0.8.19;
import {Maze} from "../src/Maze.sol";
contract CampaignTest {
    Maze private maze;
    function setUp() external { maze = new Maze(); }
    function targetContracts() external view returns (address[] memory found) {
        found = new address[](1);
        found[0] = address(maze);
    }
    function invariant_nothing_is_asked() external view {}
}
"""


@dataclass(frozen=True, slots=True)
class Find:
    """What one fuzzer found in one maze."""

    labels: frozenset[str]
    calls: int
    cpu_s: float


# --- the fuzzers ------------------------------------------------------------------------------------


def ours(project: Project, calls: int, seed: int) -> Find:
    """The labels that our campaign tells apart."""
    keys = {"testMode": "assertion", "shrinkLimit": 0, "seqLen": DEPTH}
    began = time.process_time()
    status = fuzz_ours.campaign(project, "Maze", {**keys, "testLimit": calls, "seed": seed, "workers": 1})
    cpu = time.process_time() - began
    told = (_EVENT.search(failure["reason"]) for failure in status["failures"])
    return Find(frozenset(match[1] for match in told if match), status["calls"], cpu)


def forge_copy(source: str) -> str:
    """A maze that writes its labels down and goes on."""
    said, count = _LABEL.subn(r'VM.writeLine("labels.txt", "\1"); revert();', source)
    assert count, "a maze without labels"
    return said.replace("contract Maze", f"{_VM}contract Maze", 1)


def forge(project: fuzz_forge.Project, calls: int, seed: int, *, is_guided: bool) -> Find:
    """The labels that forge's campaign wrote down."""
    labels = project.folder / "labels.txt"
    labels.unlink(missing_ok=True)
    ran = project.campaign(calls // DEPTH, DEPTH, is_guided=is_guided, seed=seed)
    found = labels.read_text(encoding="utf-8").split() if labels.exists() else []
    return Find(frozenset(found), ran.calls, ran.cpu_s)


# --- the mazes --------------------------------------------------------------------------------------


def sources(checkout: Path | None) -> dict[str, str]:
    """Our own mazes, or those of a checkout."""
    if checkout is None:
        return {f"own-{seed}": fuzz_mazes.make(seed).source() for seed in range(1, MAZES + 1)}
    folder = checkout / "generated-mazes"
    names = [f"maze-{number}" for number in range(MAZES)]
    return {name: (folder / f"{name}.sol").read_text(encoding="utf-8") for name in names}


def measure(
    mazes: Mapping[str, str], calls: int, seeds: Sequence[int], folder: Path, target: int | None
) -> dict[str, Any]:
    """Every fuzzer on every maze from every seed; `target` is a number of labels to reach."""
    neighbours = Neighbours()
    found: dict[str, dict[str, list[Find]]] = {}
    for name, source in mazes.items():
        command.say(name)
        text = source.encode()
        project = project_of(f"{name}.sol", text, compile_source(f"{name}.sol", text))
        found.setdefault(OURS, {})[name] = [ours(project, calls, seed) for seed in seeds]
        binary = fuzz_forge.binary()
        if binary is None:
            continue
        files = {"src/Maze.sol": forge_copy(source), fuzz_forge.TEST: _CAMPAIGN}
        rival = fuzz_forge.Project.make(folder / name, binary, files)
        for who, is_guided in ((PLAIN, False), (GUIDED, True)):
            finds = [forge(rival, calls, seed, is_guided=is_guided) for seed in seeds]
            found.setdefault(who, {})[name] = finds
    return {"claims": _claims(found, target), "seeds": [*seeds], **_report(found, mazes, neighbours)}


def _report(
    found: Mapping[str, Mapping[str, list[Find]]], mazes: Mapping[str, str], neighbours: Neighbours
) -> dict[str, Any]:
    return {
        "labels": {name: len(set(_LABEL.findall(source))) for name, source in mazes.items()},
        "found": {
            who: {
                "total": _totals(by_maze),
                "calls": sum(finds[0].calls for finds in by_maze.values()),
                "cpu_s": round(median(sum(f.cpu_s for f in row) for row in _seeds(by_maze)), 2),
                "mazes": {name: [len(find.labels) for find in finds] for name, finds in by_maze.items()},
            }
            for who, by_maze in found.items()
        },
        "not_installed": [] if GUIDED in found else [f"forge {fuzz_forge.VERSION}"],
        "rivals": {"forge": fuzz_forge.VERSION} if GUIDED in found else {},
        "machine": {**machine(), "neighbours_cores": round(neighbours.cores(), 2)},
        "method": METHOD,
    }


def _seeds(by_maze: Mapping[str, list[Find]]) -> Iterator[tuple[Find, ...]]:
    """Seed by seed, the finds in every maze."""
    return zip(*by_maze.values(), strict=True)


def _totals(by_maze: Mapping[str, list[Find]]) -> list[int]:
    return [sum(len(find.labels) for find in row) for row in _seeds(by_maze)]


def _claims(found: Mapping[str, Mapping[str, list[Find]]], target: int | None) -> list[dict[str, Any]]:
    mine = median(_totals(found[OURS]))
    made = [] if target is None else [_claim("labels", target, mine, "the target")]
    for who in (GUIDED, PLAIN):
        if who in found:
            ratio = round(mine / max(1, median(_totals(found[who]))), 3)
            made.append(_claim(f"labels of {who}", 1.0, ratio, who))
    return made


def _claim(name: str, bar: float, ratio: float, against: str) -> dict[str, Any]:
    return {"name": name, "bar": bar, "ratio": ratio, "met": ratio >= bar, "against": against}


def as_text(found: dict[str, Any]) -> str:
    lines = command.claim_lines(found["claims"])
    lines.append("")
    for who, row in found["found"].items():
        lines.append(
            f"{who:14} labels {row['total']} of {sum(found['labels'].values())}, {row['cpu_s']} CPU s"
        )
        lines += [f"  {name:12} {counts}" for name, counts in row["mazes"].items()]
    return "\n".join([*lines, *command.busy_lines(found["machine"])])


def main(argv: Sequence[str] | None = None) -> int:
    parser = command.parser("fuzz_maze", __doc__)
    parser.add_argument("checkout", nargs="?", type=Path, help="folder of Consensys/daedaluzz")
    parser.add_argument("--calls", type=int, default=30_000, help="for each maze and seed")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    options = parser.parse_args(argv)
    mazes, seeds = sources(options.checkout), range(1, options.seeds + 1)
    target = None if options.checkout is None else TARGET
    return command.run(
        lambda folder: measure(mazes, options.calls, seeds, folder, target), as_text, as_json=options.json
    )


if __name__ == "__main__":
    sys.exit(main())
