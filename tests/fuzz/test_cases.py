"""The cases: each contract gives the answer of the table, from every seed, within its calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.proof.record import Recorder
from tests.fuzz.cases import compiled, runner
from tests.fuzz.cases.table import CASES, SEEDS, Case, Original

ORIGINALS = [(case, case.original) for case in CASES if case.original]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case_has_its_answer_from_every_seed(case: Case, seed: int) -> None:
    assert runner.run(case, seed) == []


def test_the_answer_of_a_case_can_be_wrong() -> None:
    """The runner tells a property that holds from one that does not, both ways, and a value not reached."""
    latch = compiled.project("latch.sol")
    found = runner.campaign(latch, "Latch", 1, 2_000, {})
    claim = Case("latch.sol", "Latch", "", ("echidna_nothing_to_see",), ("echidna_stays_shut",))
    told = list(runner.shortfalls(claim, found))
    assert any("echidna_nothing_to_see should be falsified" in line for line in told)
    assert any("echidna_stays_shut should hold" in line for line in told)


def test_every_contract_of_the_cases_is_compiled_as_it_stands() -> None:
    assert {case.source for case in CASES} <= {file.name for file in compiled.sources()}
    for file in compiled.sources():
        assert compiled.project(file.name).contracts


@pytest.mark.judge
@pytest.mark.timeout(600)
def test_the_compiled_contracts_are_what_the_pinned_compiler_makes_of_the_sources() -> None:
    committed = json.loads(compiled.COMPILED.read_text(encoding="utf-8"))
    assert compiled.compile_every() == committed


@pytest.mark.judge
def test_a_case_in_a_checkout_has_its_answer(tmp_path: Path) -> None:
    """The small sibling of the proof below, on a checkout that is made here."""
    text = (compiled.CONTRACTS / "latch.sol").read_text(encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "latch.sol").write_text(text, encoding="utf-8")
    claim = Original("own/checkout", "tests/latch.sol", "Latch", falsified=("echidna_stays_shut",))
    assert runner.run_original(claim, tmp_path, 1) == []
    wrong = replace(claim, falsified=(), holds=("echidna_stays_shut",))
    assert runner.run_original(wrong, tmp_path, 1) != []


@pytest.mark.prove
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", ["echidna", "medusa"])
def test_the_original_of_a_case_has_its_answer_too(
    name: str, checkout: Callable[[str], Path], prove: Recorder
) -> None:
    folder = checkout(name)
    tried = [original for _, original in ORIGINALS if original.repository.endswith(f"/{name}")]
    found = {
        f"{original.file}, seed {seed}": runner.run_original(original, folder, seed)
        for original in tried
        for seed in SEEDS
    }
    wrong = {run: said for run, said in found.items() if said}
    prove.record(
        f"fuzz-originals-{name}",
        len(wrong),
        seeds=SEEDS,
        checkouts={name: folder},
        details={"runs": len(found), "wrong": wrong},
    )
    assert tried
    assert wrong == {}
