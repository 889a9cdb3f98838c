"""Suites of public libraries, test by test beside forge: whatever passes there is not called failed here.

A failure of ours that forge did not meet stands only where a test with the same arguments fails in forge too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fuzz.test_fuzz_cli import Shell
from tests.fuzz.test_solc import shim
from tests.judges.install import FORGE
from tracedesk.fuzz import native
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.target import split

HERE: Final = Path(__file__).parent / "suites"
LONGEST: Final = 1_200
Verdicts = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Project:
    """A Foundry project that forge builds and tests, and that we test from what forge built."""

    root: Path
    tests: str
    """Where its tests are."""

    def forge(self, *words: object) -> subprocess.CompletedProcess[str]:
        binary = next(FORGE.require("node_modules", "@foundry-rs").glob("forge-*/bin/forge"))
        environment = {"HOME": str(self.root.parent), "PATH": os.defpath}
        solc = shim(self.root.parent / "solc")
        command = [binary, *words, "--root", self.root, "--use", solc, "--offline"]
        return subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
            env=environment,
        )

    def by_forge(self, *words: object) -> Verdicts:
        """forge's verdict on every test."""
        told = json.loads(self.forge("test", "--json", *words).stdout)
        return {
            (suite, test): row["status"]
            for suite, rows in told.items()
            for test, row in rows["test_results"].items()
        }

    def by_us(self, runs: int) -> dict[tuple[str, str], Any]:
        """Our row on every test."""
        shell = Shell(self.root)
        command = [*shell.command("run", "--fuzz-runs", runs, "--seed", 1), "--json"]
        done = subprocess.run(
            command, cwd=self.root, capture_output=True, text=True, check=False, timeout=LONGEST
        )
        told = json.loads(done.stdout)
        assert "suites" in told, told
        assert told["unbuilt"] == []
        return {(each["suite"], row["name"]): row for each in told["suites"] for row in each["tests"]}

    def shown(self, failures: Mapping[tuple[str, str], Any]) -> set[tuple[str, str]]:
        """The failures of ours that forge meets too when it is given their arguments."""
        folder = self.root / self.tests / "shown"
        folder.mkdir(parents=True, exist_ok=True)
        places: dict[str, tuple[str, str]] = {}
        for number, (place, row) in enumerate(failures.items()):
            path, contract = place[0].rsplit(":", 1)
            places[f"Shown{number}"] = place
            (folder / f"Shown{number}.t.sol").write_text(
                _SHOWN.format(
                    path=os.path.relpath(self.root / path, folder),
                    contract=contract,
                    number=number,
                    data=_data(place[1], row["sequence"][0]["call"]).hex(),
                )
            )
        if not places:
            return set()
        verdicts = self.by_forge("--match-test", "test_shown")
        return {
            places[suite.rpartition(":")[2]]
            for (suite, test), status in verdicts.items()
            if status == "Failure" and test == "test_shown()"
        }


_SHOWN: Final = """// SPDX-License-Identifier: MIT
pragma solidity >=0.8.0;
import {{{contract}}} from "{path}";
contract Shown{number} is {contract} {{
    function test_shown() public {{
        (bool ok, bytes memory why) = address(this).delegatecall(hex"{data}");
        if (!ok) assembly {{ revert(add(why, 32), mload(why)) }}
    }}
}}
"""


def _data(signature: str, call: str) -> bytes:
    """The calldata of a call that is written as text."""
    types = native.text(split(signature.partition("(")[2][:-1]))
    values = native.engine().parse_args(types, call.partition("(")[2][:-1])
    return keccak(signature.encode())[:4] + native.engine().abi_encode(types, values)


def check_verdicts(project: Project, runs: int) -> tuple[int, list[Any], list[Any]]:
    """The number of tests that forge passes, failures of ours that it does not share, tests left open."""
    built = project.forge("build")
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    passed = {place for place, status in project.by_forge().items() if status == "Success"}
    ours = project.by_us(runs)
    assert passed <= ours.keys(), sorted(passed - ours.keys())[:5]
    failed = {place: ours[place] for place in passed if ours[place]["status"] == "failed"}
    false = failed.keys() - project.shown(failed)
    left = [ours[place] for place in passed if ours[place]["status"] not in ("passed", "failed")]
    return len(passed), [(place, ours[place]) for place in false], left


def solmate(folder: Path) -> Project:
    """The package with its tests and a library of assertions; forms that Foundry removed are renamed."""
    root = folder / "solmate"
    shutil.copytree(FORGE.require("node_modules", "solmate", "src"), root / "src")
    library = root / "lib" / "ds-test" / "src" / "test.sol"
    library.parent.mkdir(parents=True)
    shutil.copy(HERE / "DSTest.sol", library)
    for file in (root / "src" / "test").rglob("*.sol"):
        text = re.sub(r"\bfunction testFail", "function removedFail", file.read_text())
        file.write_text(re.sub(r"pragma solidity 0\.8\.\d+;", "pragma solidity >=0.8.0;", text))
    (root / "foundry.toml").write_text(
        '[profile.default]\nsrc = "src"\ntest = "src/test"\noptimizer = true\noptimizer_runs = 1000000\n'
        'evm_version = "cancun"\nremappings = ["ds-test/=lib/ds-test/src/"]\n'
    )
    return Project(root, "src/test")


def solady(folder: Path, checkout: Path) -> Project:
    """The checkout with settings that its tests run with here: another compiler, Cancun, and no `g/`."""
    root = folder / "solady"
    shutil.copytree(checkout, root, ignore=shutil.ignore_patterns(".git", "out", "cache"))
    toml = (root / "foundry.toml").read_text()
    toml = re.sub(r"^solc_version = .*\n", "", toml, count=1, flags=re.M)
    toml = re.sub(r"^evm_version = .*\n", 'evm_version = "cancun"\n', toml, count=1, flags=re.M)
    (root / "foundry.toml").write_text(toml.replace("skip = [", 'skip = ["*/g/*", ', 1))
    return Project(root, "test")


REVERTING = """// SPDX-License-Identifier: MIT
pragma solidity ^0.8.0;
contract Handler {
    uint256 public n;
    function add(uint8 k) public { n += k; }
    function refuse(uint256 k) public { require(k < 1000, "refused"); n++; }
}
contract Base {
    Handler internal h;
    function setUp() public { h = new Handler(); }
    function targetContracts() public view returns (address[] memory found) {
        found = new address[](1);
        found[0] = address(h);
    }
}
contract StrictTest is Base {
    /// forge-config: default.invariant.fail-on-revert = true
    function invariant_strict() public view { require(h.n() < 2**32); }
}
contract LaxTest is Base {
    function invariant_lax() public view { require(h.n() < 2**32); }
}
"""


@pytest.mark.judge
def test_a_handler_that_reverts_fails_the_invariant_that_forge_fails_and_no_other(tmp_path: Path) -> None:
    root = tmp_path / "reverting"
    (root / "test").mkdir(parents=True)
    (root / "test" / "Reverting.t.sol").write_text(REVERTING)
    (root / "foundry.toml").write_text("[invariant]\nruns = 64\ndepth = 32\nfail_on_revert = false\n")
    project = Project(root, "test")
    forge = project.by_forge()
    ours = project.by_us(runs=64)
    strict = ("test/Reverting.t.sol:StrictTest", "invariant_strict()")
    lax = ("test/Reverting.t.sol:LaxTest", "invariant_lax()")
    assert forge == {strict: "Failure", lax: "Success"}
    assert {place: row["status"] for place, row in ours.items()} == {strict: "failed", lax: "passed"}
    assert ours[strict]["reason"] == 'Error("refused")'


@pytest.mark.judge
@pytest.mark.timeout(LONGEST)
def test_no_test_of_solmate_that_forge_passes_is_called_failed(tmp_path: Path) -> None:
    count, false, left = check_verdicts(solmate(tmp_path), runs=256)
    assert count >= 250
    assert false == []
    assert len(left) <= 0.05 * count, left[:20]


@pytest.mark.prove
@pytest.mark.timeout(3 * LONGEST)
def test_no_test_of_solady_that_forge_passes_is_called_failed(
    tmp_path: Path, checkout: Callable[[str], Path], prove: Any
) -> None:
    source = checkout("solady")
    count, false, left = check_verdicts(solady(tmp_path, source), runs=64)
    assert count >= 1_500
    shared = {"seeds": [1], "checkouts": {"solady": source}}
    prove.record("fuzz-solady-false", len(false), **shared)
    prove.record("fuzz-solady-unsupported", len(left) / count, **shared)
    assert false == []
    assert len(left) <= 0.05 * count, left[:20]
