"""The code graph's benchmark runs on any folder and says what it should; its figures are not tested."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import measure
from benchmarks.codegraph import at, percentiles
from tests.support import ROOT

FOLDER = ROOT / "src" / "tracedesk" / "journal"


def _benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.codegraph", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of source that a benchmark may spoil."""
    place = tmp_path_factory.mktemp("checkout") / "journal"
    shutil.copytree(FOLDER, place, ignore=shutil.ignore_patterns("__pycache__"))
    return place


@pytest.fixture(scope="module")
def figures(checkout: Path) -> dict[str, Any]:
    if not measure.supported():
        pytest.skip("needs Linux with schedstat")
    before = _contents(checkout)
    ran = _benchmark("--quick", "--json", str(checkout))
    assert ran.returncode == 0, ran.stderr
    assert _contents(checkout) == before, "a checkout is only read"
    return json.loads(ran.stdout)


def test_every_claim_has_the_verdict_that_its_figure_and_its_bar_give(figures: dict[str, Any]) -> None:
    claims = {claim["name"]: claim for claim in figures["claims"]}
    assert claims.keys() == {
        "seconds per MLOC",
        "resident MB",
        "one-file update p95, ms",
        "log p99 while indexing",
    }
    for claim in claims.values():
        assert claim["ratio"] > 0
        assert claim["met"] is (claim["ratio"] <= claim["bar"])
        assert claim["against"]


def test_what_was_indexed_is_counted_and_named_without_its_folder(
    figures: dict[str, Any], checkout: Path
) -> None:
    lines = sum(text.count(b"\n") for text in _contents(checkout).values())
    assert figures["checkout"]["name"] == "journal"
    assert figures["checkout"]["lines"] == lines
    assert all(found["counts"]["symbols"] > 100 for found in figures["rows"]["tracedesk, one core"])
    assert str(ROOT) not in json.dumps(figures)
    assert str(checkout) not in json.dumps(figures)


def test_waits_are_told_as_percentiles(figures: dict[str, Any]) -> None:
    told = [figures["update_ms"], *figures["log_ms"].values(), *figures["questions_ms"].values()]
    assert figures["log_ms"].keys() == {"etg_log_event", "bare commit"}
    for waits in told:
        assert waits["count"] >= 10
        assert 0 < waits["p50"] <= waits["p95"] <= waits["p99"] <= waits["max"]


def test_a_rival_that_was_left_out_is_named(figures: dict[str, Any]) -> None:
    assert figures["not_measured"] == ["aider 0.86.2"]
    assert {"aider", "full index", "log"} <= figures["method"].keys()
    assert {"cpus", "python", "load_average", "neighbours_cores"} <= figures["machine"].keys()


def test_a_folder_without_source_and_no_folder_at_all_are_refused(tmp_path: Path) -> None:
    if not measure.supported():
        pytest.skip("needs Linux with schedstat")
    ran = _benchmark("--quick", str(tmp_path))
    assert ran.returncode == 1
    assert "no file in a language that is parsed" in ran.stderr
    assert _benchmark(str(tmp_path / "missing")).returncode == 2


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [at(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [51.0, 96.0, 100.0, 100.0]
    assert percentiles([2.0]) == {"count": 1, "p50": 2.0, "p95": 2.0, "p99": 2.0, "max": 2.0}
