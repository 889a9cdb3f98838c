"""`fuzz run` of a project: every suite in turn, each test with a verdict, and how the command ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.desks import no_host_left
from tests.fuzz.test_fuzz_cli import Shell
from tests.support import BOUND

VM = """# pragma version ~=0.4.0
interface Vm:
    def warp(t: uint256): nonpayable
    def assume(holds: bool): nonpayable
    def createSelectFork(url: String[64]) -> uint256: nonpayable
VM: constant(address) = 0x7109709ECfa91a80626fF3989D68f67F5b1DD12D
n: uint256
"""
GOOD = """
@external
def setUp():
    self.n = 7
    extcall Vm(VM).warp(1000)
@external
def test_starts_as_set_up():
    assert self.n == 7
    self.n = 0
@external
def test_starts_as_set_up_again():
    assert self.n == 7
    assert block.timestamp == 1000
@external
def testFuzz_any(x: uint256):
    assert x // 2 <= x
"""
BAD = """
@external
def test_reverts():
    assert self.n == 1, "one is wanted"
@external
def testFuzz_small(x: uint256):
    assert x < 2**200, "too large"
"""
FORKS = """
@external
def test_needs_a_fork():
    assert extcall Vm(VM).createSelectFork("mainnet") == 0
@external
def test_catches_its_revert():
    ok: bool = raw_call(VM, method_id("createSelectFork(string)"), revert_on_failure=False)
@external
def test_needs_none():
    assert True
@external
def testFail_old():
    assert self.n == 1
"""
BROKEN = """
@external
def setUp():
    assert self.n == 1, "nothing is set up"
@external
def test_never_runs():
    assert True
"""
INVARIANTS = """
@external
def add(k: uint8):
    self.n += convert(k, uint256)
@external
def test_beside():
    assert self.n == 0
@external
@view
def invariant_small():
    assert self.n < 300, "too big"
@external
@view
def invariant_true():
    assert True
"""
HOOKS = """
@external
def beforeTestSetup(test: bytes4):
    self.n = 5
@external
def afterInvariant():
    assert self.n > 999
@external
def test_prepared():
    assert self.n == 5
@external
@view
def invariant_true():
    assert True
@external
@view
def invariant_of(x: uint256):
    assert True
"""
NEVER = """
@external
def testFuzz_rejects(x: uint256):
    extcall Vm(VM).assume(False)
"""
TOML = "[fuzz]\nruns = 300\n[invariant]\nruns = 40\ndepth = 50\n"
SUITES = {"Good": GOOD, "Bad": BAD, "Forks": FORKS, "Broken": BROKEN, "Inv": INVARIANTS, "Never": NEVER}


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    (tmp_path / "test").mkdir()
    (tmp_path / "foundry.toml").write_text(TOML)
    with no_host_left(tmp_path / "home"):
        yield Shell(tmp_path)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The document of one run of all suites above."""
    folder = tmp_path_factory.mktemp("suites")
    (folder / "test").mkdir()
    (folder / "foundry.toml").write_text(TOML)
    shell = Shell(folder)
    place(shell, *SUITES)
    with no_host_left(folder / "home"):
        return shell.json("run", "--seed", 1, code=1)


def place(shell: Shell, *names: str) -> None:
    for name in names:
        (shell.folder / "test" / f"{name}.vy").write_text(VM + SUITES[name])


def rows_of(found: Any, name: str) -> dict[str, Any]:
    [suite] = [each for each in found["suites"] if each["suite"] == f"test/{name}.vy:{name}"]
    return {test["name"]: test for test in suite["tests"]}


def statuses(found: Any, name: str) -> dict[str, str]:
    return {test: row["status"] for test, row in rows_of(found, name).items()}


def test_every_suite_of_a_project_is_run_and_counted(everything: Any) -> None:
    found = everything
    assert [each["suite"] for each in found["suites"]] == [
        f"test/{name}.vy:{name}" for name in sorted(SUITES)
    ]
    assert found["totals"] == {
        "suites": 6,
        "passed": 6,
        "failed": 4,
        "unsupported": 3,
        "skipped": 0,
        "undecided": 1,
    }
    assert set(statuses(found, "Good").values()) == {"passed"}
    assert statuses(found, "Bad") == {"test_reverts()": "failed", "testFuzz_small(uint256)": "failed"}
    assert "one is wanted" in rows_of(found, "Bad")["test_reverts()"]["reason"]


def test_unit_tests_run_once_and_fuzz_tests_as_often_as_foundry_toml_says(
    shell: Shell, everything: Any
) -> None:
    place(shell, "Good")
    found = rows_of(everything, "Good")
    assert found["test_starts_as_set_up()"]["calls"] == 1
    assert found["testFuzz_any(uint256)"]["calls"] == 300
    assert rows_of(shell.json("run", "--fuzz-runs", 17), "Good")["testFuzz_any(uint256)"]["calls"] == 17


def test_a_test_that_needs_an_unsupported_cheatcode_is_neither_passed_nor_failed(
    shell: Shell, everything: Any
) -> None:
    assert statuses(everything, "Forks") == {
        "test_needs_a_fork()": "unsupported",
        "test_catches_its_revert()": "unsupported",
        "test_needs_none()": "passed",
        "testFail_old()": "unsupported",
    }
    rows = rows_of(everything, "Forks")
    assert rows["test_needs_a_fork()"]["unsupported"] == ["createSelectFork(string)"]
    assert "vm.expectRevert" in rows["testFail_old()"]["reason"]
    place(shell, "Forks")
    assert shell.json("run", code=2)["error"] == "no verdict on some tests (3 unsupported)"


def test_a_set_up_that_fails_is_the_failure_of_its_suite(everything: Any) -> None:
    assert statuses(everything, "Broken") == {"setUp()": "failed"}
    assert "nothing is set up" in rows_of(everything, "Broken")["setUp()"]["reason"]


def test_tests_beside_invariants_are_run_too(everything: Any) -> None:
    assert statuses(everything, "Inv") == {
        "test_beside()": "passed",
        "invariant_small()": "failed",
        "invariant_true()": "passed",
    }
    assert len(rows_of(everything, "Inv")["invariant_small()"]["sequence"]) >= 2


def test_a_test_none_of_whose_runs_count_has_no_verdict(everything: Any) -> None:
    row = rows_of(everything, "Never")["testFuzz_rejects(uint256)"]
    assert (row["status"], row["reason"]) == ("undecided", "vm.assume rejected all 300 runs")
    error = "no verdict on some tests (3 unsupported, 1 undecided)"
    assert (everything["success"], everything["error"]) == (False, error)


def test_people_see_a_line_for_each_suite_then_the_failures_and_a_table(shell: Shell) -> None:
    place(shell, "Good", "Bad")
    done = shell.run("run", ".")
    assert done.returncode == 1
    assert "test/Good.vy:Good: 3 passed in" in done.stderr
    assert "test/Bad.vy:Bad test_reverts(): failed" in done.stdout
    head, *rows = done.stdout[done.stdout.index("SUITE") :].splitlines()
    assert head.split() == ["SUITE", "PASSED", "FAILED", "UNSUPPORTED", "SKIPPED", "UNDECIDED", "TIME"]
    assert [row.split()[:3] for row in rows] == [
        ["test/Bad.vy:Bad", "0", "2"],
        ["test/Good.vy:Good", "3", "0"],
        ["2", "suites", "3"],
    ]


def test_a_project_without_a_suite_is_refused(shell: Shell) -> None:
    (shell.folder / "test" / "None.vy").write_text(VM + "@external\ndef other():\n    pass\n")
    assert "there is no suite" in shell.json("run", code=2)["error"]["message"]


def test_a_run_that_is_ended_reports_the_suites_that_it_finished(shell: Shell) -> None:
    place(shell, "Good", "Inv")
    (shell.folder / "foundry.toml").write_text("[invariant]\nruns = 4000000\ndepth = 500\n")
    process = subprocess.Popen(
        shell.command("run"), cwd=shell.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=BOUND)
    assert first.startswith("test/Good.vy:Good: 3 passed")
    assert process.returncode == 2
    assert "Incomplete: the run was ended after 1 of 2 suites." in out


def test_a_suite_that_takes_longer_than_its_time_has_no_verdict(shell: Shell) -> None:
    place(shell, "Inv")
    (shell.folder / "foundry.toml").write_text("[invariant]\nruns = 4000000\ndepth = 500\n")
    shell.home.mkdir()
    (shell.home / "tracedesk.toml").write_text("[fuzz.limits]\nsuite_seconds = 4\n")
    done = shell.run("run", "--json")
    found = json.loads(done.stdout)
    assert statuses(found, "Inv")["invariant_true()"] == "undecided"
    assert "the time was over" in rows_of(found, "Inv")["invariant_true()"]["reason"]
    assert done.returncode in (1, 2)
    assert found["success"] is False


def test_the_timeout_holds_while_the_artifacts_are_read(shell: Shell) -> None:
    folder = shell.folder / "out" / "A.sol"
    folder.mkdir(parents=True)
    (shell.folder / "out" / "build-info").mkdir()
    (shell.folder / "out" / "build-info" / "b.json").write_text('{"source_id_to_path": {"0": "test/A.sol"}}')
    (shell.folder / "test" / "A.sol").write_text("contract A {}")
    (folder / "A.json").write_text('{"abi": [' + "1," * 500_000 + "1]}")
    for number in range(1_000):
        os.link(folder / "A.json", folder / f"A{number}.json")
    error = shell.json("run", "--timeout", 1, code=2)["error"]
    assert "1 s of the campaign were over during the compilation" in error["message"]


def test_a_suite_of_one_file_can_be_named(shell: Shell) -> None:
    place(shell, "Good", "Bad")
    found = shell.json("run", "test/Good.vy", "--test-mode", "foundry")
    assert [each["suite"] for each in found["suites"]] == ["test/Good.vy:Good"]


def test_a_suite_whose_process_dies_costs_no_other_one_its_verdict(shell: Shell) -> None:
    place(shell, "Good", "Inv")
    (shell.folder / "test" / "Last.vy").write_text(VM + GOOD)
    (shell.folder / "foundry.toml").write_text("[invariant]\nruns = 4000000\ndepth = 500\n")
    process = subprocess.Popen(
        shell.command("run"), cwd=shell.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    # After the first suite no compiler runs, and the only child is the next suite.
    assert process.stderr.readline().startswith("test/Good.vy:Good: 3 passed")
    os.kill(_child(process), signal.SIGKILL)
    out, err = process.communicate(timeout=BOUND)
    assert process.returncode == 2
    assert "test/Inv.vy:Inv invariant_true(): undecided (the suite's process was ended by SIGKILL" in out
    assert "test/Last.vy:Last: 3 passed" in err


def _child(process: subprocess.Popen[str]) -> int:
    while process.poll() is None:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            pid, parent = map(int, line.split())
            if parent == process.pid:
                return pid
    raise AssertionError("the run ended before its suite")


def test_what_only_foundry_calls_leaves_no_false_verdict(shell: Shell) -> None:
    (shell.folder / "test" / "Hooks.vy").write_text(VM + HOOKS)
    found = shell.json("run", code=2)
    assert statuses(found, "Hooks") == {
        "test_prepared()": "unsupported",
        "invariant_true()": "passed",
        "invariant_of(uint256)": "unsupported",
    }
    [suite] = found["suites"]
    assert [each for each in suite["warnings"] if each.startswith("afterInvariant()")]
