"""Cheatcodes in Solidity: the verdicts are forge's, and without a cheatcode there is none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks import fuzz_forge, fuzz_ours
from tests.fuzz.cases import compiled
from tests.judges.support import ROOT

SOURCE: Final = ROOT / "tests" / "judges" / "fuzz" / "cheatcodes.sol"
KEYS: Final = {"testMode": "foundry", "workers": 1, "seed": 3, "testLimit": 600, "shrinkLimit": 10}
ETHER: Final = 2**96 - 1
"""What forge gives to the contract of the tests."""
VERDICTS: Final = {"Success": "passed", "Failure": "solved"}


def test_a_test_has_foundrys_verdict_or_none_without_its_cheatcode() -> None:
    status = fuzz_ours.campaign(compiled.project("cheats.sol"), "CheatsTest", KEYS)
    endings = {"passes": "passed", "fails": "solved", "open": "unsupported"}
    for test in status["tests"]:
        wanted = endings[test["name"].partition("(")[0].rpartition("_")[2]]
        assert test["status"] == wanted, test
        assert test["unsupported"] == (["readFile(string)"] if wanted == "unsupported" else []), test
    assert len(status["tests"]) == 9
    assert status["unsupported"] == ["readFile(string)"]


def forge_verdicts(folder: Path) -> dict[str, dict[str, str]]:
    """forge's verdict on each test, by contract."""
    forge = fuzz_forge.binary()
    assert forge is not None
    text = SOURCE.read_text(encoding="utf-8")
    made = fuzz_forge.Project.make(folder, forge, {f"test/{SOURCE.name}": text})
    command = [forge, "test", "--json", "--allow-failure"]
    ran = subprocess.run(command, cwd=made.folder, capture_output=True, text=True, check=False)
    line = next(each for each in ran.stdout.splitlines() if each.startswith("{"))
    return {
        suite.rpartition(":")[2]: {name: row["status"] for name, row in told["test_results"].items()}
        for suite, told in json.loads(line).items()
    }


@pytest.mark.judge
def test_every_cheatcode_has_the_verdict_of_forge_on_a_test_that_passes_and_on_one_that_fails(
    tmp_path: Path,
) -> None:
    found = forge_verdicts(tmp_path)
    text = SOURCE.read_bytes()
    output = compiled.compile_source(f"test/{SOURCE.name}", text)
    project = compiled.project_of(f"test/{SOURCE.name}", text, output)
    differences: list[Any] = []
    for suite, verdicts in found.items():
        status = fuzz_ours.campaign(project, suite, {**KEYS, "balanceContract": ETHER})
        ours = {test["name"]: test["status"] for test in status["tests"]}
        wanted = {name: VERDICTS[verdict] for name, verdict in verdicts.items()}
        names = sorted(ours.keys() | wanted.keys())
        differences += [
            (suite, name, ours.get(name), wanted.get(name))
            for name in names
            if ours.get(name) != wanted.get(name)
        ]
        for name, verdict in verdicts.items():
            expected = "Success" if name.partition("(")[0].endswith("_passes") else "Failure"
            assert verdict == expected, f"forge does not see {suite}.{name} as its name does"
    assert not differences
    assert sum(map(len, found.values())) > 100
