"""Sizes and areas: one test is short in a judge and long in a proof, and every area has its minutes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.judges import __main__ as runner
from tests.judges import areas
from tests.judges.size import JUDGE, PROOF, SLACK
from tests.support import ROOT

TESTS = ROOT / "tests"
_MARKED = re.compile(r"^\s*(?:pytestmark = .*|@|.*marks=)pytest\.mark\.(?:judge|prove)\b", re.MULTILINE)


def test_a_size_is_short_in_a_judge_and_long_in_a_proof() -> None:
    assert (JUDGE.of(judge=20, prove=300), PROOF.of(judge=20, prove=300)) == (20, 300)


def test_a_timed_bar_fails_a_judge_only_beyond_twice_its_value_and_a_proof_at_once() -> None:
    JUDGE.at_most(10, 10 * SLACK, "a wait, ms")
    JUDGE.at_least(10, 10 / SLACK, "calls a second")
    PROOF.at_most(10, 10, "a wait, ms")
    PROOF.at_least(10, 10, "calls a second")
    with pytest.raises(AssertionError, match=r"a wait, ms: 20\.1 is above 20 \(the bar is 10\)"):
        JUDGE.at_most(10, 20.1, "a wait, ms")
    with pytest.raises(AssertionError, match=r"calls a second: 4\.9 is below 5 \(the bar is 10\)"):
        JUDGE.at_least(10, 4.9, "calls a second")
    with pytest.raises(AssertionError, match="above 10"):
        PROOF.at_most(10, 10.1, "a wait, ms")
    with pytest.raises(AssertionError, match="below 10"):
        PROOF.at_least(10, 9.9, "calls a second")


@pytest.mark.sizes("number", judge=[1, 2], prove=[1, 2, 3])
def test_a_test_is_parametrised_by_the_size_of_its_run(number: int) -> None:
    assert number in (1, 2, 3)


# --- siblings -----------------------------------------------------------------------------------------

_CHECK = re.compile(r"check_\w+|run_original|replay")
"""Functions that a proof over a checkout and its sibling share."""


def test_every_proof_over_a_checkout_has_a_small_sibling_that_makes_the_same_check() -> None:
    proofs: list[str] = []
    alone: list[str] = []
    for file in sorted(TESTS.rglob("test_*.py")):
        found = ast.parse(file.read_text("utf-8")).body
        tests = [
            node for node in found if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        own = [test for test in tests if _is_proof(test)]
        others = [_checks(test) for test in tests if test not in own]
        proofs += [test.name for test in own]
        alone += [test.name for test in own if not any(_checks(test) & sibling for sibling in others)]
    assert len(proofs) > 8
    assert alone == []


def _is_proof(test: ast.FunctionDef) -> bool:
    return any(ast.unparse(mark).startswith("pytest.mark.prove") for mark in test.decorator_list)


def _checks(test: ast.FunctionDef) -> set[str]:
    calls = [ast.unparse(node.func) for node in ast.walk(test) if isinstance(node, ast.Call)]
    return {name for call in calls if _CHECK.fullmatch(name := call.rpartition(".")[2])}


# --- areas ------------------------------------------------------------------------------------------


def test_every_file_with_judges_or_proofs_has_an_area() -> None:
    marked = [file for file in sorted(TESTS.rglob("test_*.py")) if _MARKED.search(file.read_text("utf-8"))]
    assert len(marked) > 40
    names = [file.relative_to(ROOT).as_posix() for file in marked]
    assert [name for name in names if areas.area_of(name) is None] == []


def test_the_minutes_of_all_areas_are_forty_and_each_place_belongs_to_one() -> None:
    assert sum(areas.MINUTES.values()) == 40
    assert areas.BUDGET["tests"].keys() == areas.MINUTES.keys()
    places = [place for listed in areas.BUDGET["tests"].values() for place in listed]
    assert len(places) == len(set(places))
    planned = {"tests/panel"}
    assert [place for place in places if not (ROOT / place).exists() and place not in planned] == []


def test_the_longest_place_decides_the_area_of_a_test() -> None:
    assert areas.area_of("tests/codegraph/etg/test_crash.py::test_x") == "codegraph"
    assert areas.area_of("tests/codegraph/embed/test_minilm.py::test_x[1]") == "install"
    assert areas.area_of("tests/judges/test_unheard_of.py::test_x") is None


def test_an_area_passes_its_minutes_over_all_sessions_together(tmp_path: Path) -> None:
    file = tmp_path / "times"
    assert areas.over(areas.total(file)) == []
    areas.add(file, {"install": 60.0, "wire": 10.0})
    assert areas.over(areas.total(file)) == []
    areas.add(file, {"install": 60.1})
    spent = areas.total(file)
    assert areas.over(spent) == ["install"]
    assert areas.lines(spent)[0] == "wire: 0.2 of 6 min"
    assert areas.lines(spent)[-1] == f"install: 2.0 of 2 min{areas.OVER}"


@pytest.mark.parametrize(("seconds", "passed", "code"), [(119.0, True, 0), (121.0, True, 1), (1.0, False, 1)])
def test_a_run_of_judges_fails_when_an_area_passes_its_minutes_or_a_test_fails(
    seconds: float,
    passed: bool,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def sessions(options: object, times: Path) -> bool:
        areas.add(times, {"install": seconds})
        return passed

    monkeypatch.setattr(runner, "_sessions", sessions)
    assert runner.main([]) == code
    printed = capsys.readouterr().out
    assert f"install: {seconds / 60:.1f} of 2 min" in printed
    assert (areas.OVER in printed) is (seconds > 120)


# --- the options, in a project of three tests ---------------------------------------------------------

_PROJECT = """
from pytest import mark

@mark.judge
def test_judged(size, prove):
    assert size.of(judge="short", prove="long") == "short"
    prove.record("trading-bytes", 0.1, seeds=[])

@mark.prove
def test_proved(checkout):
    assert checkout("django").name == "django"

@mark.judge
@mark.sizes("seed", judge=[1], prove=[1, 2, 3])
def test_sized(seed):
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Tests under this project's own rules, in a file whose area is `wire`."""
    place = tmp_path / "tests" / "wire"
    place.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"))
    here = f"import sys\n\nsys.path.insert(0, {str(ROOT)!r})\n"
    (place.parent / "conftest.py").write_text(f"{here}from tests.conftest import *  # noqa: F403\n")
    (place / "test_small.py").write_text(_PROJECT)
    return tmp_path


def _run(
    project: Path, *words: str, file: str = "tests/wire/test_small.py"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", file, "-rs", *words]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=100, check=False)


def test_proofs_are_deselected_in_a_judge_and_skipped_with_a_reason_without_a_checkout(project: Path) -> None:
    judged = _run(project, "-m", "judge", f"--times={project / 'times'}")
    assert "2 passed, 1 deselected" in judged.stdout, judged.stdout + judged.stderr
    assert areas.total(project / "times").keys() == {"wire"}
    proved = _run(project, "-m", "prove")
    assert "1 skipped" in proved.stdout
    assert "needs django/django, with its history: name a folder with django" in proved.stdout
    (project / "folder").mkdir()
    missing = _run(project, "-m", "prove", "--checkouts=folder")
    assert "the folder of checkouts has no django" in missing.stdout
    (project / "folder" / "django").mkdir()
    assert "1 passed" in _run(project, "-m", "prove", "--checkouts=folder").stdout


def test_one_area_and_the_size_of_a_proof_are_chosen_by_options(project: Path) -> None:
    assert "3 deselected" in _run(project, "-m", "judge", "--area=fuzz").stdout
    listed = _run(project, "-m", "judge", "--area=wire", "--prove", "--collect-only").stdout
    assert listed.count("test_sized") == 3


def test_a_judge_without_an_area_is_refused(project: Path) -> None:
    (project / "tests" / "test_new.py").write_text(_PROJECT)
    refused = _run(project, file="tests/test_new.py")
    assert refused.returncode != 0
    assert "has no area. Add its file to tests/judges/budget.toml." in refused.stdout + refused.stderr
