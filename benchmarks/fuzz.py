"""What a fuzzed call costs: `python -m benchmarks.fuzz [--json] [--quick]`.

Prints ratios; it judges nothing by its exit code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import command, fuzz_forge, fuzz_medusa, fuzz_step
from benchmarks.command import Claim
from benchmarks.fuzz_forge import Ran, timed
from benchmarks.fuzz_ours import CONTRACT, SOURCE
from benchmarks.measure import Neighbours, best_ratio, machine, paired_ratio, supported
from benchmarks.messages import Misbehaved
from tests.fuzz.cases import compiled
from tracedesk.fuzz import native

OURS: Final = "tracedesk"
UNCOVERED: Final = "tracedesk, coverage off"
TWO: Final = "tracedesk, two workers"
PLAIN: Final = f"forge {fuzz_forge.VERSION} plain"
GUIDED: Final = f"forge {fuzz_forge.VERSION} guided"
MEDUSA: Final = "medusa"
DEPTH: Final = 100
GROWTH_MB: Final = 50.0
BARS: Final = {"guided": 5.0, "plain": 2.0, "coverage": 1.2, "workers": 1.15, "growth": GROWTH_MB}
AT_MOST: Final = frozenset(("cost of coverage", "CPU per call, two workers", "growth in MB", "EVM step"))
METHOD: Final = {
    "rate": "calls per CPU second of the whole process, after taking off calls and seconds of the shortest "
    "run, which are start-up and (ours) Python; best round. Contestants take turns, and each round begins "
    "with another",
    "ratio": "best round of one / best round of the other",
    "paired_ratio": "median over rounds of the ratio within a round",
    "contract": f"{SOURCE}: four functions are called, two properties are asked after every call, none ever "
    "fails; sequences of 100, one worker, one seed; compiled by the same solc without optimizing",
    "forge": "npm's own binary, `forge test --threads 1`, one invariant that asks both properties; guided "
    "means that `corpus_dir` is set; fail_on_revert off",
    "medusa": "where a binary is on the PATH: one worker on one core, property mode, coverage on; it notices "
    "its limit late, so its calls are those that it reports",
    "coverage": "CPU per call with coverage / without, where the corpus does not grow and nothing is mutated",
    "workers": "CPU per call with two workers / with one; the wall clock's ratio is in `two_workers`",
    "growth": "the largest resident memory after a tenth of the calls, less that at the tenth, in MB",
    "step": "CPU for the gas of loops that call nothing and store nothing: ours in a campaign with coverage "
    "/ pyrevm's bare revm 8.0 in a loop, on the same code; no bar",
    "neighbours_cores": command.NEIGHBOURS,
}

_TEST: Final = f"""// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;
import {{{CONTRACT}}} from "../src/{SOURCE}";
contract CampaignTest {{
    struct FuzzSelector {{ address addr; bytes4[] selectors; }}
    {CONTRACT} private target;
    function setUp() external {{ target = new {CONTRACT}(); }}
    function targetContracts() external view returns (address[] memory found) {{
        found = new address[](1);
        found[0] = address(target);
    }}
    function targetSelectors() external view returns (FuzzSelector[] memory found) {{
        bytes4[] memory called = new bytes4[](4);
        called[0] = {CONTRACT}.setLimit.selector;
        called[1] = {CONTRACT}.deposit.selector;
        called[2] = {CONTRACT}.withdraw.selector;
        called[3] = {CONTRACT}.balanceOf.selector;
        found = new FuzzSelector[](1);
        found[0] = FuzzSelector(address(target), called);
    }}
    function invariant_both_hold() external view {{
        require(target.echidna_limit_is_sane() && target.echidna_holds_no_more_than_all());
    }}
}}
"""

Campaign = Callable[[int], Ran]
"""Runs so many calls."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of each; the defaults are for claims."""

    rounds: int = 5
    calls: int = 2_000_000
    rival_calls: int = 200_000
    growth_calls: int = 10_000_000
    step_calls: int = 20_000
    has_rivals: bool = True


QUICK: Final = Plan(1, 100_000, 5_000, 500_000, 2_000, has_rivals=False)


# --- contestants ------------------------------------------------------------------------------------


def ours(keys: Mapping[str, Any]) -> Campaign:
    """Our campaign in a process of its own."""
    return lambda calls: _ours(calls, keys)[0]


def _ours(calls: int, keys: Mapping[str, Any]) -> tuple[Ran, dict[str, Any]]:
    filtered = {"filterFunctions": [f"{CONTRACT}.spin(uint256)"], "seqLen": DEPTH}
    told = json.dumps({**filtered, "seed": 1, "workers": 1, **keys, "testLimit": calls})
    out, cpu, wall = timed((sys.executable, "-m", "benchmarks.fuzz_ours", told), Path(__file__).parents[1])
    found = json.loads(out)
    if set(found["tests"].values()) != {"passed"} or found["calls"] < calls:
        raise Misbehaved(f"our campaign ended otherwise: {found['tests']} after {found['calls']} calls")
    return Ran(found["calls"], cpu, wall), found


def forge(project: fuzz_forge.Project, *, is_guided: bool) -> Campaign:
    return lambda calls: project.campaign(max(1, calls // DEPTH), DEPTH, is_guided=is_guided, seed=1)


@dataclass(slots=True)
class Contestant:
    """A fuzzer, and its rounds."""

    run: Campaign
    calls: int
    start: Ran
    rounds: list[Ran] = field(default_factory=list[Ran])

    @classmethod
    def warmed(cls, run: Campaign, calls: int) -> Contestant:
        """With what a hundred calls cost, the better of two times."""
        return cls(run, calls, min((run(DEPTH) for _ in range(2)), key=lambda ran: ran.cpu_s))

    def round(self) -> None:
        self.rounds.append(self.run(self.calls))

    @property
    def us_per_call(self) -> list[float]:
        """CPU of each round."""
        return [self._spent(ran.cpu_s - self.start.cpu_s, ran) for ran in self.rounds]

    @property
    def wall_us_per_call(self) -> list[float]:
        return [self._spent(ran.wall_s - self.start.wall_s, ran) for ran in self.rounds]

    def _spent(self, seconds: float, ran: Ran) -> float:
        return max(1e-3, seconds * 1e6 / (ran.calls - self.start.calls))

    def figures(self) -> dict[str, Any]:
        return {
            "calls_per_cpu_second": round(1e6 / min(self.us_per_call)),
            "calls_a_round": self.rounds[0].calls,
            "start_cpu_s": round(self.start.cpu_s, 3),
            "cpu_us_per_call": [round(spent, 3) for spent in self.us_per_call],
            "wall_us_per_call": [round(spent, 3) for spent in self.wall_us_per_call],
        }


def lineup(folder: Path, plan: Plan) -> dict[str, Contestant]:
    """Who is there to be measured."""
    found = {
        OURS: Contestant.warmed(ours({}), plan.calls),
        UNCOVERED: Contestant.warmed(ours({"coverage": False}), plan.calls),
        TWO: Contestant.warmed(ours({"workers": 2}), plan.calls),
    }
    binary = fuzz_forge.binary()
    if plan.has_rivals and binary is not None:
        text = (compiled.CONTRACTS / SOURCE).read_text(encoding="utf-8")
        files = {f"src/{SOURCE}": text, fuzz_forge.TEST: _TEST}
        project = fuzz_forge.Project.make(folder / "forge", binary, files)
        for name, is_guided in ((PLAIN, False), (GUIDED, True)):
            found[name] = Contestant.warmed(forge(project, is_guided=is_guided), plan.rival_calls)
    if plan.has_rivals and (medusa := fuzz_medusa.ready(folder / "medusa")) is not None:
        found[MEDUSA] = Contestant.warmed(medusa.run, plan.rival_calls // 2)
    return found


def turns(crew: Mapping[str, Contestant], rounds: int) -> None:
    names = list(crew)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            command.say(f"{name}, round {number + 1} of {rounds}")
            crew[name].round()


# --- claims -----------------------------------------------------------------------------------------


def claims(crew: Mapping[str, Contestant]) -> list[Claim]:
    """Every claim about time, with its bar."""
    mine = crew[OURS].us_per_call
    made = [
        _faster(f"calls, {name}", bar, mine, crew[name].us_per_call, name)
        for name, bar in ((GUIDED, BARS["guided"]), (PLAIN, BARS["plain"]), (MEDUSA, None))
        if name in crew
    ]
    covered = best_ratio(mine, crew[UNCOVERED].us_per_call)
    paired = paired_ratio(mine, crew[UNCOVERED].us_per_call)
    made.append(_at_most("cost of coverage", BARS["coverage"], covered, UNCOVERED, paired))
    two = crew[TWO].us_per_call
    shared = best_ratio(two, mine)
    made.append(_at_most("CPU per call, two workers", BARS["workers"], shared, OURS, paired_ratio(two, mine)))
    return made


def _faster(
    name: str, bar: float | None, mine: Sequence[float], theirs: Sequence[float], against: str
) -> Claim:
    ratio = best_ratio(theirs, mine)
    paired = round(paired_ratio(theirs, mine), 2)
    met = None if bar is None else ratio >= bar
    return {
        "name": name,
        "bar": bar,
        "ratio": round(ratio, 2),
        "paired_ratio": paired,
        "met": met,
        "against": against,
    }


def _at_most(name: str, bar: float | None, ratio: float, against: str, paired: float | None = None) -> Claim:
    met = None if bar is None else ratio <= bar
    claim = {"name": name, "bar": bar, "ratio": round(ratio, 3), "met": met, "against": against}
    return claim if paired is None else {**claim, "paired_ratio": round(paired, 3)}


def growth(calls: int) -> tuple[Claim, dict[str, Any]]:
    """How much more memory a long campaign comes to hold after a tenth of it."""
    _, found = _ours(calls, {})
    later = [rss / 1024 for done, rss in found["resident"] if done >= calls // 10]
    figures = {
        "calls": found["calls"],
        "first_tenth_mb": round(later[0], 1),
        "largest_later_mb": round(max(later), 1),
        "end_mb": round(later[-1], 1),
    }
    grown = max(later) - later[0]
    return _at_most("growth in MB", GROWTH_MB, grown, "its size after a tenth of the calls"), figures


# --- the report -------------------------------------------------------------------------------------


def measure(folder: Path, plan: Plan) -> dict[str, Any]:
    """Everything, in the order of the report."""
    neighbours = Neighbours()
    crew = lineup(folder, plan)
    turns(crew, plan.rounds)
    command.say(f"memory over {plan.growth_calls:,} calls")
    grown, memory = growth(plan.growth_calls)
    command.say("steps")
    step = fuzz_step.measure(plan.step_calls, plan.rounds) if plan.has_rivals else None
    made = [*claims(crew), grown]
    if step is not None:
        made.append(_at_most("EVM step", None, step["ratio"], fuzz_step.RIVAL))
    return {
        "claims": made,
        "rows": {name: contestant.figures() for name, contestant in crew.items()},
        "two_workers": {
            "wall_ratio": round(best_ratio(crew[OURS].wall_us_per_call, crew[TWO].wall_us_per_call), 2)
        },
        "growth": memory,
        "step": step,
        "not_measured": _absent(crew, step),
        "seeds": [1],
        "rivals": _rivals(crew),
        "versions": {"core": native.engine().version(), "medusa": fuzz_medusa.version()},
        "machine": {**machine(), "neighbours_cores": round(neighbours.cores(), 2)},
        "method": METHOD,
    }


def _rivals(crew: Mapping[str, Contestant]) -> dict[str, str]:
    """The versions of the rivals that were measured."""
    known = {"forge": (GUIDED, fuzz_forge.VERSION), "medusa": (MEDUSA, fuzz_medusa.version() or "")}
    return {name: version for name, (label, version) in known.items() if label in crew}


def _absent(crew: Mapping[str, Contestant], step: Mapping[str, Any] | None) -> list[str]:
    names = [name for name in (PLAIN, GUIDED, MEDUSA) if name not in crew]
    return [*names, *([fuzz_step.RIVAL] if step is None else [])]


def as_text(found: dict[str, Any]) -> str:
    lines = command.claim_lines(found["claims"])
    lines += ["", f"{'fuzzer':34}{'calls per CPU second':>24}"]
    lines += [f"{name:34}{row['calls_per_cpu_second']:>24,}" for name, row in found["rows"].items()]
    lines += ["", *(f"{name}: {json.dumps(found[name])}" for name in ("two_workers", "growth", "step"))]
    if found["not_measured"]:
        lines.append(f"Not there, so not measured: {', '.join(found['not_measured'])}.")
    return "\n".join([*lines, *command.busy_lines(found["machine"])])


def main(argv: Sequence[str] | None = None) -> int:
    quick = "less of everything and no rivals: shows that it works"
    options = command.parser("fuzz", __doc__, quick=quick).parse_args(argv)
    if not supported():
        print("Memory of a process cannot be read here: this needs Linux", file=sys.stderr)
        return 0
    if not native.is_there():
        print(native.REMEDY, file=sys.stderr)
        return 1
    return command.run(
        lambda folder: measure(folder, QUICK if options.quick else Plan()), as_text, as_json=options.json
    )


if __name__ == "__main__":
    sys.exit(main())
