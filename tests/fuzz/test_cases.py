"""The cases: each contract gives the answer of the table, from every seed, within its calls."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

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
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("case", "original"), ORIGINALS, ids=[case.id for case, _ in ORIGINALS])
def test_the_original_of_a_case_has_its_answer_too(case: Case, original: Original, seed: int) -> None:
    """Needs a checkout, named by the last part of its repository: TRACEDESK_ECHIDNA, TRACEDESK_MEDUSA."""
    variable = f"TRACEDESK_{original.repository.rpartition('/')[2].upper()}"
    if variable not in os.environ:
        pytest.skip(f"{variable} names no checkout of {original.repository}")
    assert runner.run_original(original, Path(os.environ[variable]), seed) == []
