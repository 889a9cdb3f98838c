"""Exercises of toolsets: what cannot run is named with its remedy, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Shell, ended, serving
from tracedesk.exercise import exercise
from tracedesk.toolsets import TOOLSETS

BROKEN = {"fuzz": "tracedesk_evm", "exchange": "aiohttp", "codegraph": "tree_sitter_python"}
"""Modules that an installation without its extras lacks, by the toolset that needs them."""
REMEDIES = {"fuzz": "Install Rust (rustup)", "exchange": "Install tracedesk[exchange]"}
REMEDIES["codegraph"] = "Install tracedesk[codegraph]"
"""What is to be done about each."""


@pytest.fixture
def crippled(tmp_path: Path) -> dict[str, str]:
    """An environment in which these modules cannot be imported."""
    folder = tmp_path / "crippled"
    folder.mkdir()
    for module in BROKEN.values():
        (folder / f"{module}.py").write_text(f'raise ImportError("No module named {module}")\n')
    return {"PYTHONPATH": str(folder)}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, empty again in the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    assert list(folder.iterdir()) == []


def processes_of(folder: Path) -> list[str]:
    """The commands that run with a path in a folder among their words."""
    listed = subprocess.run(["ps", "-axww", "-o", "command="], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if f"{folder}/" in line]


@pytest.mark.parametrize("toolset", ["fuzz", "exchange", "codegraph"])
def test_each_toolset_does_a_small_piece_of_its_work_and_leaves_nothing(
    toolset: str, temporary: Path
) -> None:
    done = exercise(toolset)
    assert (done.can_run, done.remedy) == (True, None), done.detail
    assert done.detail
    assert processes_of(temporary) == []


def test_doctor_names_each_toolset_that_cannot_run_with_its_remedy(
    shell: Shell, crippled: dict[str, str]
) -> None:
    done = shell("doctor", "--json", TRACEDESK_PORT="0", **crippled)
    assert (done.code, done.json["healthy"]) == (1, False)
    found = {check["check"]: check for check in done.json["checks"]}
    for toolset in TOOLSETS:
        if toolset in BROKEN:
            assert found[toolset]["status"] == "fail"
            assert found[toolset]["detail"].startswith("cannot run: ")
            assert REMEDIES[toolset] in found[toolset]["remedy"]
        else:
            assert found[toolset]["status"] == "ok"


def test_a_desk_says_after_its_banner_which_toolsets_cannot_run(
    shell: Shell, crippled: dict[str, str]
) -> None:
    with serving(shell, **crippled) as (process, served):
        assert process.stderr is not None
        told = [process.stderr.readline().removeprefix("tracedesk: ") for _ in BROKEN]
        assert sorted(line.split()[0] for line in told) == sorted(BROKEN), told
        for line in told:
            toolset = line.split()[0]
            assert line.startswith(f"{toolset} cannot run: ")
            assert REMEDIES[toolset] in line
        with urlopen(f"{served.url}/health") as answer:
            health = json.load(answer)
        assert health["status"] == "degraded"
        named = sorted(problem["what"] for problem in health["problems"])
        assert named == [f"The toolset {toolset} cannot run." for toolset in sorted(BROKEN)]


def test_a_desk_that_stops_at_once_ends_its_exercises(shell: Shell, temporary: Path) -> None:
    with serving(shell) as (process, _):
        ended(process)
    assert processes_of(temporary) == []
    assert list(temporary.iterdir()) == []
