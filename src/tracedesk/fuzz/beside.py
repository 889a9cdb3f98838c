"""Test functions of a contract whose invariants are tried: they run first, each on what `setUp()` left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracedesk.errors import ToolError
from tracedesk.fuzz import oracles
from tracedesk.fuzz.abi import Member, members
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.native import Engine
from tracedesk.fuzz.project import Project
from tracedesk.fuzz.spec import Spec
from tracedesk.fuzz.suites import Runner

Test = Mapping[str, Any]


@dataclass(slots=True)
class Beside:
    """The tests beside a campaign's invariants, with what the core says of them."""

    runner: Runner
    members: tuple[Member, ...]
    tests: list[Test]
    failures: list[Test] = field(default_factory=list[Test])
    _is_stopped: bool = False

    @classmethod
    def of(cls, project: Project, spec: Spec, config: Config, engine: Engine, budget: Budget) -> Beside:
        """The tests of a contract that its campaign leaves out; none but in Foundry's mode."""
        found = [each for each in members("", spec.contract) if oracles.is_fuzz_test(each, config)]
        own = {test["name"] for test in spec.document["tests"]}
        left = tuple(each for each in found if each.signature not in own)
        runner = Runner(project, spec.contract, config, engine, budget)
        runner.seed = spec.seed
        return cls(runner, left, [_waiting(each, spec) for each in left])

    def run(self, note: Callable[[Test], None]) -> None:
        """Run them to their end; each failure is noted as soon as its campaign has ended."""
        self.runner.ended = lambda: self._is_stopped
        if not self.members:
            return
        try:
            for status in self.runner.tests(self.members):
                self._take(status, note)
        except ToolError as fault:
            open_ = [{**each, "status": "error", "reason": fault.message} for each in self._open()]
            self._replace(open_)

    def _take(self, status: Mapping[str, Any], note: Callable[[Test], None]) -> None:
        for failure in status["failures"]:
            note(failure)
        self.failures += status["failures"]
        self._replace(status["tests"])

    def _open(self) -> list[Test]:
        return [each for each in self.tests if each["status"] == "fuzzing"]

    def _replace(self, rows: Sequence[Test]) -> None:
        """Put what is known now in the place of what was known, in one step for readers."""
        fresh = {row["name"]: row for row in rows}
        self.tests = [fresh.get(each["name"], each) for each in self.tests]

    def stop(self) -> None:
        self._is_stopped = True


def _waiting(member: Member, spec: Spec) -> Test:
    """A test as the core describes one that runs."""
    name = spec.contract.name
    row = {
        "id": f"{name}.{member.signature}",
        "kind": "assertion",
        "name": member.signature,
        "contract": name,
    }
    return {**row, "status": "fuzzing", "reason": None, "sequence": None, "unsupported": []}
