"""Coverage of real campaigns: what the native core counts adds up, line by line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.fuzz import targets
from tracedesk.fuzz import native, spec
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.lines import ContractMap, Coverage, FileCoverage, coverage
from tracedesk.fuzz.project import Project

CALLS = 5_000
WAIT_S = 60.0


def fuzzed(project: Project, name: str, arguments: str = "") -> Coverage:
    """What a short campaign covers of a project."""
    engine = native.engine()
    config = Config(mode="exploration", test_limit=CALLS, seed=1, workers=1, constructor_args=arguments)
    told = spec.build(project, config, name, engine)
    campaign = engine.Campaign(json.dumps(told.document))
    campaign.start()
    assert campaign.wait(WAIT_S)
    maps = {id: ContractMap.of(project, contract) for id, contract in told.contracts.items()}
    return coverage(project, maps, json.loads(campaign.coverage()))


def sides(file: FileCoverage, line: int) -> tuple[int, int]:
    [branch] = [branch for branch in file.branches.values() if branch.line == line]
    return branch.held, branch.failed


def test_the_ways_through_a_function_add_up_to_its_calls() -> None:
    found = fuzzed(targets.project(), "Ledger", "200")
    file = found.files["Ledger.sol"]
    hits = file.lines
    assert sorted(line for line in hits if not hits[line] and line < 70) == [24, 62]
    assert hits[29] == sum(sides(file, 29)) == next(r.hits for r in file.routines.values() if r.line == 28)
    assert sides(file, 29) == (hits[30], hits[29] - hits[30])
    assert sides(file, 30) == (hits[31], hits[32])
    assert sides(file, 32) == (hits[33], hits[35])
    assert hits[37] == hits[31] + hits[33] == sum(sides(file, 38))
    assert sides(file, 44) == (hits[45], hits[44] - hits[45])
    assert sides(file, 45) == (hits[45] - hits[46], hits[46])
    assert sides(file, 9) == (hits[59], hits[9] - hits[59])
    assert sides(file, 61) == (hits[62], hits[61])
    assert file.marks == {9: {"r"}, 29: {"r"}, 35: {"r"}}


def test_libraries_are_covered_where_they_are_called() -> None:
    found = fuzzed(targets.project(), "User")
    lines = found.files["Libraries.sol"].lines
    assert {line for line in lines if lines[line]} == {6, 12, 18}
    assert lines[18] == lines[12] > 0
    assert lines[6] == 2 * lines[12]


def test_a_vyper_campaign_is_covered_with_its_modules(tmp_path: Path) -> None:
    project = compile_project(Path(shutil.copytree(targets.HERE / "vyper", tmp_path / "vyper"), "ledger.vy"))
    found = fuzzed(project, "ledger", "9")
    own, module = found.files["ledger.vy"], found.files["steps.vy"]
    assert all(own.lines.values())
    assert sides(own, 23) == (own.lines[24], own.lines[23] - own.lines[24])
    assert sides(own, 25)[0] == own.lines[26]
    assert sides(own, 27) == (own.lines[28], own.lines[30])
    assert sides(module, 7)[0] == module.lines[8]
    assert sum(sides(module, 7)) == module.lines[7]
    assert found.tally.branch_percent == 100
