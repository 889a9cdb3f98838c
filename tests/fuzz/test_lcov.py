"""LCOV and Echidna's text: what the reports of a coverage say, and that genhtml reads it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fuzz import targets
from tests.fuzz.machine import Machine
from tests.fuzz.test_lines import covered, ran
from tracedesk.fuzz import lcov, marked
from tracedesk.fuzz.lines import ContractMap, Coverage, FileCoverage, coverage


def both() -> Coverage:
    """Two contracts of one file, one of them inherited by the other, and a library of another file."""
    project = targets.project()
    maps = {c.name: ContractMap.of(project, c) for c in project.contracts if c.deployable}
    rows = [row for name in ("Ledger", "Child") for row in ran(project, name).rows()]
    return coverage(project, maps, rows)


def records(text: str) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for record in text.split("end_of_record\n")[:-1]:
        fields: dict[str, list[str]] = defaultdict(list)
        for line in record.splitlines():
            key, _, value = line.partition(":")
            fields[key].append(value)
        assert list(fields)[:2] == ["TN", "SF"]
        found[fields["SF"][0]] = fields
    assert text.endswith("end_of_record\n")
    return found


def test_a_file_has_one_record_and_its_totals_add_up() -> None:
    found = records(lcov.text(both()))
    assert list(found) == ["Ledger.sol", "Libraries.sol"]
    for fields in found.values():
        hits = [int(row.split(",")[1]) for row in fields["DA"]]
        assert fields["LF"] == [str(len(hits))]
        assert fields["LH"] == [str(sum(hit > 0 for hit in hits))]
        taken = [row.split(",")[3] for row in fields["BRDA"]]
        assert fields["BRF"] == [str(len(taken))]
        assert fields["BRH"] == [str(sum(side not in ("-", "0") for side in taken))]
        calls = [int(row.split(",")[0]) for row in fields["FNDA"]]
        assert fields["FNF"] == [str(len(calls))]
        assert fields["FNH"] == [str(sum(call > 0 for call in calls))]


@pytest.mark.parametrize("way", targets.WAYS)
def test_every_branch_is_on_a_line_that_has_hits(way: str) -> None:
    fields = records(lcov.text(covered(way)))["Ledger.sol"]
    lines = {row.split(",")[0] for row in fields["DA"]}
    assert {row.split(",")[0] for row in fields["BRDA"]} <= lines
    assert fields["DA"] == sorted(fields["DA"], key=lambda row: int(row.split(",")[0]))


@pytest.mark.parametrize("way", targets.WAYS)
def test_a_loop_spread_over_lines_is_a_branch_on_its_first(way: str) -> None:
    project = targets.project(way)
    machine = Machine.deploy("Spread", project.contract("Spread").init.data)
    machine.call("sum(uint256)", 3)
    maps = {"Spread": ContractMap.of(project, project.contract("Spread"))}
    fields = records(lcov.text(coverage(project, maps, machine.rows())))["Libraries.sol"]
    assert fields["BRDA"] == ["24,0,0,3", "24,0,1,1"]
    [hits] = [int(row.split(",")[1]) for row in fields["DA"] if row.startswith("24,")]
    assert hits > 0


def test_a_side_not_taken_is_zero_and_a_decision_not_reached_is_a_dash() -> None:
    text = lcov.text(covered())
    assert "BRDA:39,6,0,3\nBRDA:39,6,1,0\n" in text
    project = targets.project()
    nothing = coverage(project, {"L": ContractMap.of(project, project.contract("Ledger"))}, [])
    assert {row.split(",")[3] for row in records(lcov.text(nothing))["Ledger.sol"]["BRDA"]} == {"-"}


def test_overloads_have_names_of_their_own() -> None:
    fields = records(lcov.text(covered()))["Ledger.sol"]
    assert "43,Ledger.count.0" in fields["FN"]
    assert "54,Ledger.count.1" in fields["FN"]
    assert len(set(fields["FN"])) == len(fields["FN"])
    assert "2,Ledger.count.0" in fields["FNDA"]


def test_paths_are_relative_to_the_root_of_the_project() -> None:
    found = covered()
    moved = replace(found, project=replace(found.project, root=targets.HERE.parent))
    assert list(records(lcov.text(moved))) == ["targets/Ledger.sol"]


def test_a_file_name_cannot_forge_a_record() -> None:
    found = covered()
    name = "x\nDA:1,9\nend_of_record\n.sol"
    source = replace(found.project.sources["Ledger.sol"], path=name, file=None)
    project = replace(found.project, sources={name: source})
    forged = replace(found, project=project, files={name: found.files["Ledger.sol"]})
    assert lcov.text(forged).count("end_of_record\n") == 1


def test_nothing_covered_is_an_empty_file() -> None:
    project = targets.project()
    assert lcov.text(coverage(project, {}, [])) == ""


def test_echidnas_text_marks_each_line_of_the_source() -> None:
    lines = marked.text(covered()).split("\n")
    assert lines[0] == "Ledger.sol"
    assert lines[1] == " 1 |     | // SPDX-License-Identifier: MIT"
    assert lines[24] == "24 |     |             revert TooMuch(limit);"
    assert lines[29] == '29 | *r  |         require(amount < cap, "over the cap"); // if (this) were code'
    assert lines[31] == "31 | *   |             held[msg.sender] += amount;"
    assert "€" in lines[2]


def test_marks_stand_in_echidnas_order() -> None:
    file = FileCoverage("a", {1: 2, 2: 0}, marks={1: {"e", "o", "r"}, 2: {"o"}})
    assert [marked.marks(file, line) for line in (1, 2, 3)] == ["*roe", "o", ""]


@pytest.mark.judge
def test_genhtml_reads_the_trace_with_the_same_totals(tmp_path: Path) -> None:
    genhtml = shutil.which("genhtml")
    if genhtml is None:
        pytest.skip("genhtml is not installed; Debian's package is lcov")
    found = both()
    trace = tmp_path / "trace.lcov"
    trace.write_text(lcov.text(found), encoding="utf-8")
    command = [
        genhtml,
        "--branch-coverage",
        "--function-coverage",
        "--output-directory",
        tmp_path / "html",
        trace,
    ]
    done = subprocess.run(command, cwd=targets.HERE, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower()
    whole = [file.tally for file in found.files.values()]
    told = {
        name: (int(hit), int(total))
        for name, hit, total in re.findall(r"(lines|branches)\.*: [\d.]+% \((\d+) of (\d+)", done.stdout)
    }
    assert told == {
        "lines": (sum(t.lines_hit for t in whole), sum(t.lines for t in whole)),
        "branches": (sum(t.branches_hit for t in whole), sum(t.branches for t in whole)),
    }
