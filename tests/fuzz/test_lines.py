"""Lines and branches, checked against a run on a second machine."""

from __future__ import annotations

import shutil
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import targets
from tests.fuzz.machine import Machine
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.lines import ContractMap, Coverage, FileCoverage, coverage, percent
from tracedesk.fuzz.project import Project

CAP = 200
VYPER = targets.HERE / "vyper"


def ran(project: Project, name: str = "Ledger") -> Machine:
    """A ledger after calls that take every way but a few."""
    init = project.contract(name).init.data
    machine = Machine.deploy(name, init, CAP.to_bytes(32, "big") if name == "Ledger" else b"")
    for amount in (6, 60, 4, 5, 500):
        machine.call("add(uint256)", amount)
    machine.call("count(uint256)", 3)
    machine.call("count(uint256,uint256)", 12, 1)
    machine.call("reset()")
    machine.call("reset()", sender=5)
    return machine


@cache
def covered(way: str = "plain") -> Coverage:
    project = targets.project(way)
    maps = {"Ledger": ContractMap.of(project, project.contract("Ledger"))}
    return coverage(project, maps, ran(project).rows())


def by_text(found: Coverage, path: str = "Ledger.sol") -> dict[str, int]:
    """Hits by the text of the line."""
    lines = found.project.sources[path].lines
    return {lines[line - 1].strip().split(";")[0]: hits for line, hits in found.files[path].lines.items()}


def sides(file: FileCoverage) -> dict[tuple[int, str], tuple[int, int]]:
    return {(b.line, b.kind): (b.held, b.failed) for b in file.branches.values()}


HITS = {
    "address public owner = msg.sender": 1,
    'require(msg.sender == owner, "not the owner")': 2,
    "uint256 public total = 7": 1,
    "cap = limit": 1,
    "if (limit == 0) {": 1,
    "revert TooMuch(limit)": 0,
    'require(amount < cap, "over the cap")': 5,
    "if (amount > 5 && amount < 100) {": 4,
    "held[msg.sender] += amount": 2,
    "} else if (amount == 4) {": 2,
    "held[msg.sender] = 0": 1,
    "revert TooMuch(amount)": 1,
    'string memory text = "require(false) ? if (x) {"': 3,
    "total = amount > 50 ? amount : total": 3,
    "assert(bytes(text).length != total)": 3,
    "return total": 3,
    "for (uint256 i = 0": 14,
    "if (i == 9) break": 13,
    "sum += i": 12,
    "while (sum > 20) sum -= 3": 8,
    "do {": 3,
    "sum++": 3,
    "} while (sum < 5)": 3,
    "return count(turns) + more": 1,
    "total = 0": 1,
    "if eq(callvalue(), 1) {": 1,
    "sstore(1, 1)": 0,
    "return 1": 0,
}
BRANCHES = {
    (9, "require"): (1, 1),
    (23, "if"): (0, 1),
    (29, "require"): (4, 1),
    (30, "if"): (2, 2),
    (32, "if"): (1, 1),
    (38, "ternary"): (1, 2),
    (39, "assert"): (3, 0),
    (44, "for"): (13, 1),
    (45, "if"): (1, 12),
    (48, "while"): (6, 2),
    (49, "do"): (1, 2),
    (61, "if"): (0, 1),
}


def test_every_line_has_the_hits_that_its_statement_ran() -> None:
    assert by_text(covered()) == HITS


def test_every_decision_and_nothing_else_is_a_branch() -> None:
    """The dispatcher, the decoder and checked arithmetic jump as well, and are none."""
    assert sides(covered().files["Ledger.sol"]) == BRANCHES


@pytest.mark.parametrize("way", targets.WAYS)
def test_however_solc_compiles_a_branch_that_is_found_counts_the_same(way: str) -> None:
    found = sides(covered(way).files["Ledger.sol"])
    assert found.items() <= BRANCHES.items()
    assert len(found) >= {"plain": 12, "optimized": 12, "yul": 11, "yul_optimized": 6}[way]


@pytest.mark.parametrize("way", targets.WAYS)
def test_however_solc_compiles_what_never_ran_is_never_shown_as_run(way: str) -> None:
    found = by_text(covered(way))
    never = {text for text, hits in HITS.items() if not hits}
    assert {text for text, hits in found.items() if not hits} <= never
    assert all(hits == 0 for text, hits in found.items() if text in never)


def test_functions_count_their_calls_from_outside_and_inside() -> None:
    routines = covered().files["Ledger.sol"].routines.values()
    assert sorted((r.line, r.name, r.hits) for r in routines) == [
        (21, "Ledger.constructor", 1),
        (28, "Ledger.add", 5),
        (43, "Ledger.count", 2),
        (54, "Ledger.count", 1),
        (58, "Ledger.reset", 2),
        (67, "Ledger.never", 0),
    ]


def test_a_call_that_cannot_be_decoded_is_no_call_of_the_function() -> None:
    project = targets.project()
    machine = ran(project)
    assert machine.call("add(uint256)").reason == "Revert"
    maps = {"Ledger": ContractMap.of(project, project.contract("Ledger"))}
    routines = coverage(project, maps, machine.rows()).files["Ledger.sol"].routines.values()
    assert [r.hits for r in routines if r.name == "Ledger.add"] == [5]


def test_a_contract_inherited_twice_is_one_file_with_the_hits_of_both() -> None:
    project = targets.project()
    names = ("Ledger", "Child")
    maps = {name: ContractMap.of(project, project.contract(name)) for name in names}
    rows = [row for name in names for row in ran(project, name).rows()]
    both = coverage(project, maps, rows)
    assert list(both.files) == ["Ledger.sol"]
    assert by_text(both)["cap = limit"] == 2
    assert by_text(both)["total = total * 2"] == 0
    ledger, child = both.contracts
    assert ledger.tally == covered().contracts[0].tally
    assert {72: 1, 74: 0, 75: 0}.items() <= both.files["Ledger.sol"].lines.items()
    assert child.tally.lines == ledger.tally.lines + 3
    assert both.tally.lines == ledger.tally.lines + child.tally.lines


def test_a_contract_that_never_ran_is_wholly_uncovered() -> None:
    project = targets.project()
    nothing = coverage(project, {"Ledger": ContractMap.of(project, project.contract("Ledger"))}, [])
    assert by_text(nothing).keys() == HITS.keys()
    assert nothing.tally.lines_hit == nothing.tally.branches_hit == 0
    assert nothing.tally.line_percent == Decimal("0.0")


def test_codes_that_nobody_knows_are_left_out() -> None:
    project = targets.project()
    stranger: dict[str, Any] = {
        "code": None,
        "kind": "runtime",
        "blocks": [[0, 9]],
        "branches": [],
        "halts": [],
    }
    found = coverage(project, {"Ledger": ContractMap.of(project, project.contract("Ledger"))}, [stranger])
    assert found.tally.lines_hit == 0


def test_files_can_be_left_out() -> None:
    project = targets.project()
    maps = {"Ledger": ContractMap.of(project, project.contract("Ledger"))}
    found = coverage(project, maps, ran(project).rows(), lambda path: path == "Ledger.sol")
    assert found.files == {}
    assert found.tally.line_percent == Decimal("100.0")


def test_what_comes_after_the_end_of_a_frame_in_its_block_did_not_run() -> None:
    project = targets.project()
    map_ = ContractMap.of(project, project.contract("Ledger"))
    source = project.sources["Ledger.sol"]
    line = next(n for n, text in enumerate(source.lines, 1) if "total = 0;" in text)
    place = next(iter(map_.runtime.lines[_id(project), line]))
    block = map_.runtime.layout.blocks[place.block]
    row = {"code": "Ledger", "kind": "runtime", "blocks": [[block.start, 3]], "branches": []}
    before = {**row, "halts": [[block.start, "OutOfGas", 2]]}
    assert place.pc > block.start
    assert coverage(project, {"Ledger": map_}, [{**row, "halts": []}]).files["Ledger.sol"].lines[line] == 3
    assert coverage(project, {"Ledger": map_}, [before]).files["Ledger.sol"].lines[line] == 1


def _id(project: Project) -> int:
    return next(n for n, path in project.contract("Ledger").source_ids.items() if path == "Ledger.sol")


def test_frames_that_end_on_a_line_leave_their_mark() -> None:
    file = covered().files["Ledger.sol"]
    assert file.marks == {9: {"r"}, 29: {"r"}, 35: {"r"}}


# --- Vyper ------------------------------------------------------------------------------------------


def test_a_vyper_contract_is_covered_through_its_modules(tmp_path: Path) -> None:
    project = compile_project(Path(shutil.copytree(VYPER, tmp_path / "vyper"), "ledger.vy"))
    machine = Machine.deploy("ledger", project.contract("ledger").init.data, (9).to_bytes(32, "big"))
    ends = [machine.call("add(uint256)", amount).reason for amount in (6, 3, 2, 7, 10**19, 6)]
    ends += [machine.call("repeat(uint256)", times).reason for times in (3, 11)]
    assert ends == ["Return"] * 3 + ["Revert"] * 2 + ["Return", "Stop", "Revert"]
    found = coverage(project, {"ledger": ContractMap.of(project, project.contract("ledger"))}, machine.rows())
    own, module = (found.files[path] for path in ("ledger.vy", "steps.vy"))
    assert sides(own) == {
        (23, "assert"): (5, 1),
        (24, "assert"): (4, 1),
        (25, "if"): (2, 2),
        (27, "if"): (1, 1),
        (31, "for"): (8, 4),
        (34, "ternary"): (2, 2),
        (40, "for"): (3, 1),
    }
    assert sides(module) == {(7, "if"): (2, 5)}
    assert {26: 2, 28: 1, 30: 1, 32: 12, 33: 4, 34: 4, 35: 4, 46: 1}.items() <= own.lines.items()
    assert module.lines == {7: 7, 8: 2}
    assert {r.name: r.hits for r in (*own.routines.values(), *module.routines.values())} == {
        "__init__": 1,
        "add": 6,
        "repeat": 2,
        "_half": 1,
        "note": 7,
    }
    assert own.marks == {23: {"r"}, 24: {"r"}}


# --- percentages -----------------------------------------------------------------------------------


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_percentage_is_half_up_to_a_tenth_and_complete_only_when_it_is(one: int, other: int) -> None:
    hit, total = min(one, other), max(one, other)
    share = percent(hit, total)
    assert share.as_tuple().exponent == -1
    assert (share == 100) == (hit == total)
    if hit < total:
        exact = Fraction(100 * hit, total)
        rounded = Fraction(int(exact * 10 + Fraction(1, 2)), 10)
        assert Fraction(share) == min(rounded, Fraction(999, 10))


def test_nothing_to_cover_is_covered() -> None:
    assert str(percent(0, 0)) == "100.0"
    assert str(percent(1, 8)) == "12.5"
    assert str(percent(9999, 10000)) == "99.9"
