"""The fuzz benchmark: what it states, and the claims that no busy machine can hide."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import fuzz, fuzz_forge, fuzz_step, measure
from benchmarks.fuzz import AT_MOST, GUIDED, OURS, PLAIN, TWO, UNCOVERED
from tests.judges.size import Size

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not measure.supported(), reason="needs Linux with schedstat")


def _check(figures: dict[str, Any]) -> set[str]:
    """Every claim has the verdict that its ratio and its bar give; returns their names."""
    for claim in figures["claims"]:
        assert claim["ratio"] >= 0, claim
        assert claim["against"], claim
        if claim["bar"] is None:
            assert claim["met"] is None, claim
        elif abs(claim["ratio"] - claim["bar"]) > 0.01:
            is_below = claim["ratio"] < claim["bar"]
            assert claim["met"] is (is_below if claim["name"] in AT_MOST else not is_below), claim
    assert {"cpus", "python", "load_average", "neighbours_cores"} <= figures["machine"].keys()
    assert figures["method"]
    assert str(ROOT) not in json.dumps(figures)
    return {claim["name"] for claim in figures["claims"]}


def test_the_fuzz_benchmark_states_coverage_workers_and_growth_and_names_what_it_left_out() -> None:
    command = [sys.executable, "-m", "benchmarks.fuzz", "--quick", "--json"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout)
    assert _check(figures) == {"cost of coverage", "CPU per call, two workers", "growth in MB"}
    assert figures["rows"].keys() == {OURS, UNCOVERED, TWO}
    assert {PLAIN, GUIDED, fuzz_step.RIVAL} <= set(figures["not_measured"])


@pytest.mark.judge
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_guided_call_costs_a_fifth_of_forges_and_half_of_its_plain_one(tmp_path: Path, size: Size) -> None:
    if fuzz_forge.binary() is None:
        pytest.skip(f"forge {fuzz_forge.VERSION} has no binary for this machine")
    plan = fuzz.Plan(rounds=2, calls=400_000, rival_calls=40_000, growth_calls=2_000_000, step_calls=2_000)
    figures = fuzz.measure(tmp_path, plan)
    assert {f"calls, {GUIDED}", f"calls, {PLAIN}"} <= _check(figures)
    claims = {claim["name"]: claim for claim in figures["claims"]}
    for name in (f"calls, {GUIDED}", f"calls, {PLAIN}"):
        size.at_least(claims[name]["bar"], claims[name]["ratio"], name)
    assert claims["growth in MB"]["met"]
