"""Foundry's suites: the contracts of a project that hold tests, and one run of all tests of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from time import monotonic
from typing import Any, Final, Literal

from tracedesk.errors import ToolError
from tracedesk.fuzz import native, oracles, reproducers, spec, unsupported
from tracedesk.fuzz.abi import Member, members
from tracedesk.fuzz.answers import FAILED, UNSUPPORTED
from tracedesk.fuzz.bench import campaign_of
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.foundry_settings import MOST_CALLS, Inline, inline
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.project import Contract, Project
from tracedesk.fuzz.target import Target

Status = Literal["passed", "failed", "unsupported", "skipped", "undecided"]
Kind = Literal["unit", "fuzz", "invariant", "setup"]
Row = dict[str, Any]
STATUSES: Final[tuple[Status, ...]] = ("passed", "failed", "unsupported", "skipped", "undecided")
_TABLE: Final = "table"
_NO_TABLES: Final = "Table tests are not supported here."
_NO_ARGUMENTS: Final = "An invariant takes no arguments."
_NO_PREPARATION: Final = "beforeTestSetup(bytes4), which prepares it, is not called here."
_KINDS: Final[Mapping[Kind, str]] = {"unit": "assertion", "fuzz": "assertion", "invariant": "property"}
"""The kinds of the core's tests by ours."""
_LOOK: Final = 0.1
"""Seconds between two looks at a campaign."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The tests of one suite and how they ended."""

    suite: str
    rows: tuple[Row, ...]
    seconds: float
    seed: int | None = None
    warnings: tuple[str, ...] = ()

    def count(self, status: str) -> int:
        return sum(row["status"] == status for row in self.rows)

    def document(self) -> dict[str, Any]:
        """The suite as `--json` shows it."""
        return {
            "suite": self.suite,
            **{status: self.count(status) for status in STATUSES},
            "seconds": round(self.seconds, 2),
            "seed": self.seed,
            "tests": list(self.rows),
            "warnings": list(self.warnings),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Outcome:
        """An outcome from its document."""
        rows, warnings = tuple(document["tests"]), tuple(document["warnings"])
        return cls(document["suite"], rows, document["seconds"], document["seed"], warnings)


def find(project: Project) -> list[Contract]:
    """The suites of a project: contracts with tests that are created without arguments, by path and name."""
    found = [each for each in project.candidates() if _is_suite(each)]
    return sorted(found, key=lambda each: (each.path, each.name))


def _is_suite(contract: Contract) -> bool:
    makers = (entry for entry in contract.abi if entry.get("type") == "constructor")
    return not any(entry.get("inputs") for entry in makers) and any(map(kind_of, members("", contract)))


def kind_of(member: Member) -> Kind | None:
    """The kind of test that a function is by its name; none for other functions."""
    if member.form != "abi":
        return None
    if member.name.startswith(("test", _TABLE)):
        is_table = member.name.startswith(_TABLE)
        return "fuzz" if member.types else None if is_table else "unit"
    return "invariant" if member.name.startswith(("invariant", "statefulFuzz")) else None


# --- one suite -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """Tests that one campaign runs, and its configuration."""

    kind: Kind
    config: Config
    tests: tuple[Member, ...]


@dataclass(slots=True)
class Runner:
    """Runs the tests of one suite, each kind in a campaign of its own."""

    project: Project
    contract: Contract
    config: Config
    engine: Engine
    budget: Budget
    warnings: dict[str, None] = field(default_factory=dict[str, None])
    seed: int | None = None
    ended: Callable[[], bool] = field(default=lambda: False)
    """Asked now and then; true ends the campaign that runs."""

    def run(self) -> Outcome:
        """Every test of the suite with its verdict."""
        began = monotonic()
        self.project = narrowed(self.project, self.contract)
        every = members("", self.contract)
        hooks = frozenset(each.signature for each in every)
        found = [each for each in every if kind_of(each)]
        rows = [row for each in found if (row := _refused(each, hooks))]
        named = {row["name"] for row in rows}
        left = [each for each in found if each.signature not in named]
        try:
            for group in self._groups(left):
                rows += self._judged(group, *self._ran(group))
        except ToolError as fault:
            done = {row["name"] for row in rows}
            rows += self._stopped(fault, [each for each in left if each.signature not in done])
        order = {each.signature: place for place, each in enumerate(found)}
        rows.sort(key=lambda row: order.get(row["name"], -1))
        return Outcome(self.name, tuple(rows), monotonic() - began, self.seed, tuple(self.warnings))

    def tests(self, found: Sequence[Member]) -> Iterator[dict[str, Any]]:
        """What the core says of each campaign over some unit and fuzz tests."""
        self.project = narrowed(self.project, self.contract)
        for group in self._groups(found):
            yield self._ran(group)[0]

    @property
    def name(self) -> str:
        """The file below the root and the contract."""
        source = self.project.sources.get(self.contract.path)
        path = source.relative_to(self.project.root) if source else self.contract.path
        return f"{path}:{self.contract.name}"

    def _groups(self, found: Sequence[Member]) -> Iterator[_Group]:
        """Unit tests, fuzz tests by their number of runs, invariants by their settings."""
        said = self._inline()
        grouped: dict[tuple[Kind, Config], list[Member]] = defaultdict(list)
        for member in found:
            kind = kind_of(member) or "unit"
            own = said.of(self.config, self.contract.name, member.name)
            grouped[kind, replace(own, fuzz_runs=None) if kind == "unit" else own].append(member)
        ordered = sorted(grouped.items(), key=lambda item: ("unit", "fuzz", "invariant").index(item[0][0]))
        return (_Group(kind, config, tuple(tests)) for (kind, config), tests in ordered)

    def _inline(self) -> Inline:
        source = self.project.sources.get(self.contract.path)
        if source is None or source.language != "solidity":
            return Inline()
        said = inline(source.text, self.contract.path)
        self.warnings |= dict.fromkeys(said.warnings)
        return said

    def _ran(self, group: _Group) -> tuple[dict[str, Any], Target]:
        document, target = self._document(group)
        campaign = campaign_of(self.engine, native.text(document), self.budget)
        if group.kind == "unit":
            to = target.main.address
            campaign.load(native.text([[_unit(to, test["function"])] for test in document["tests"]]))
        campaign.start(self.budget.left())
        while not campaign.wait(_LOOK):
            if self.ended():
                campaign.stop()
        return native.read(campaign.status()), target

    def _document(self, group: _Group) -> tuple[dict[str, Any], Target]:
        made = spec.build(
            self.project, self._config(group), self.contract.qualified, self.engine, self.budget
        )
        self.seed = self.seed if self.seed is not None else made.seed
        self.warnings |= dict.fromkeys(made.warnings)
        document = dict(made.document)
        names = {test.name if group.kind == "invariant" else test.signature for test in group.tests}
        document["tests"] = [
            test for test in document["tests"] if test["name"] in names or test["kind"] != _KINDS[group.kind]
        ]
        target = Target.of(document)
        if group.kind == "invariant":
            return document, target
        called = [test["function"] for test in document["tests"]] if group.kind == "fuzz" else []
        [main] = document["targets"]
        document["targets"] = [{**main, "functions": called}]
        if group.kind == "fuzz" and group.config.fuzz_runs is not None:
            document["test_limit"] = min(group.config.fuzz_runs * len(called), MOST_CALLS)
        return document, target

    def _config(self, group: _Group) -> Config:
        if group.kind == "invariant":
            return replace(group.config, seed=self._seed())
        asked = tuple(each for each in oracles.prefixes(group.config) if oracles.is_of_calls(each))
        return replace(group.config, seed=self._seed(), prefixes=asked)

    def _seed(self) -> int | None:
        return self.config.seed if self.config.seed is not None else self.seed

    # --- verdicts

    def _judged(self, group: _Group, status: Mapping[str, Any], target: Target) -> list[Row]:
        functions = {each["id"]: each for each in status["functions"]}
        own = {each["id"]: f"{target.main.contract}.{each['name']}" for each in status["tests"]}
        self.warnings |= dict.fromkeys(unsupported.warnings(status["functions"], frozenset(own.values())))
        broken = [worker["error"] for worker in status["workers"] if worker["error"]]
        rows: list[Row] = []
        for test in status["tests"]:
            counts = functions.get(own[test["id"]])
            if group.kind == "invariant" or counts is None:
                counts = {"calls": status["calls"], "reverts": 0}
            undecided = "; ".join(broken) or self._undecided(group.kind, counts)
            name = f"{test['name']}()" if test["kind"] == "property" else test["name"]
            row: Row = {"name": name, "kind": group.kind, "calls": counts["calls"]}
            rows.append({**row, **self._verdict(test, undecided, target)})
        return rows

    def _undecided(self, kind: Kind, counts: Mapping[str, int]) -> str:
        """Why the runs that were made are no verdict; empty where they are."""
        calls = counts["calls"]
        if kind != "unit" and self.budget.is_over():
            return f"the time was over after {calls} runs"
        if kind == "invariant":
            return ""
        if not calls:
            return "it was never called"
        return f"vm.assume rejected all {calls} runs" if calls == counts["reverts"] else ""

    def _verdict(self, test: Mapping[str, Any], undecided: str, target: Target) -> Row:
        names: list[str] = test.get("unsupported", [])
        if test["status"] in FAILED:
            shown = reproducers.calls(test["sequence"] or [], target, self.engine)
            return {"status": "failed", "reason": test["reason"] or "it reverted", "sequence": shown}
        if test["status"] == UNSUPPORTED:
            return _open(names)
        if undecided or test["status"] == "error":
            return {"status": "undecided", "reason": undecided or "it could not be run"}
        return {"status": "passed"}

    def _stopped(self, fault: ToolError, left: Sequence[Member]) -> list[Row]:
        """Rows of tests that could not begin, for the deployment failed or reached a limit."""
        details = fault.details or {}
        reason: Row = {"calls": 0, "reason": fault.message}
        if details.get("kind") == "DEPLOYMENT_FAILED":
            return [{"name": oracles.SET_UP, "kind": "setup", **reason, "status": "failed"}]
        verdict: Row = {"status": "undecided"}
        if details.get("kind") == unsupported.KIND:
            verdict = _open(details["cheatcodes"])
        return [{"name": each.signature, "kind": kind_of(each), **reason, **verdict} for each in left]


def _open(names: list[str]) -> Row:
    """The verdict on a test that reached cheatcodes which the core does not have, or asked to be skipped."""
    if unsupported.is_skip(names):
        return {"status": "skipped", "reason": "vm.skip"}
    return {"status": UNSUPPORTED, "reason": unsupported.words(names), "unsupported": names}


def _unit(address: str, function: str) -> dict[str, Any]:
    """The call of a test without arguments."""
    none: list[Any] = []
    return {"to": address, "call": {"function": function, "args": none}}


def _refused(member: Member, hooks: frozenset[str]) -> Row | None:
    """A form of test that Foundry refuses, or that is not run here."""
    kind = kind_of(member)
    reason = ""
    if member.name.startswith(oracles.FAIL_FORM):
        reason = oracles.GONE
    elif member.name.startswith(_TABLE):
        reason = _NO_TABLES
    elif kind == "invariant" and member.types:
        reason = _NO_ARGUMENTS
    elif oracles.PREPARES in hooks and kind != "invariant":
        reason = _NO_PREPARATION
    row: Row = {"name": member.signature, "kind": kind, "calls": 0, "status": UNSUPPORTED}
    return {**row, "reason": reason, "unsupported": []} if reason else None


# --- the part of a project that one suite needs ------------------------------------------------------

_BY_NAME: Final = (
    *("getCode(string)", "getDeployedCode(string)", "deployCode(string)", "deployCode(string,bytes)"),
    *("deployCode(string,uint256)", "deployCode(string,bytes32)", "deployCode(string,bytes,uint256)"),
    *("deployCode(string,bytes,bytes32)", "deployCode(string,uint256,bytes32)"),
)


@cache
def _by_name() -> tuple[bytes, ...]:
    return tuple(keccak(name.encode())[:4] for name in _BY_NAME)


def narrowed(project: Project, contract: Contract) -> Project:
    """A project with only the contracts that one can create, and their sources.

    A project of many suites holds far more code than any of them deploys, and each campaign pays for all of
    its own.
    """
    there = [each for each in project.contracts if each.deployable]
    found = {contract.qualified: contract}
    waiting = [contract]
    while waiting:
        current = waiting.pop()
        if any(mark in current.init.data for mark in _by_name()):
            found = {each.qualified: each for each in there}
            break
        new = [each for each in there if each.qualified not in found and _creates(current, each)]
        found |= {each.qualified: each for each in new}
        waiting += new
    needed = {path for each in found.values() for path in (each.path, *each.needs)}
    sources = {path: source for path, source in project.sources.items() if path in needed}
    return replace(project, contracts=tuple(found.values()), sources=sources, targets=(contract.path,))


def _creates(contract: Contract, other: Contract) -> bool:
    """Whether a contract holds the code of another, or is linked with it."""
    linked = {(link.path, link.library) for code in (contract.init, contract.runtime) for link in code.links}
    return other.init.data in contract.init.data or any(
        library == other.name and path in ("", other.path) for path, library in linked
    )


def totals(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Tests by status over all suites."""
    done = list(outcomes)
    return {status: sum(each.count(status) for each in done) for status in STATUSES}
