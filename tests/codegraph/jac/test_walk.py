"""What a walk says when it cannot begin."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.codegraph.jac.graphs import shop
from tracedesk.codegraph.jac.walk import JacMissing, walk
from tracedesk.errors import ToolError

WALKER = "import from graph { Project }\nwalker Idle { can rest with Project entry { report 1; } }\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "idle.jac"
    path.write_text(WALKER, encoding="utf-8")
    return path


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python may have jaclang")
def test_an_older_python_is_told_what_to_do(file: Path) -> None:
    with pytest.raises(JacMissing, match=r"this is Python 3\.11.*tracedesk\[jac\].*--python") as refused:
        walk(shop(), file)
    assert refused.value.code == "JAC_UNAVAILABLE"


@pytest.mark.skipif(find_spec("jaclang") is not None, reason="jaclang is installed")
def test_a_python_without_jaclang_is_told_what_to_do(file: Path) -> None:
    with pytest.raises(JacMissing, match=r"jaclang cannot be imported by Python 3.*tracedesk\[jac\]"):
        walk(shop(), file, python=Path(sys.executable))


def test_a_python_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(JacMissing, match=r"'/nowhere/python' cannot be run: No such file"):
        walk(shop(), file, python=Path("/nowhere/python"))


@pytest.mark.parametrize("name", ["walker.txt", "missing.jac"])
def test_only_a_jac_file_is_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "walker.txt").write_text(WALKER, encoding="utf-8")
    with pytest.raises(ToolError, match=r"walker: .* is not a \.jac file") as refused:
        walk(shop(), tmp_path / name, python=Path(sys.executable))
    assert refused.value.code == "INVALID_PARAMETER"


def test_a_walker_may_not_be_called_like_the_graphs_types(tmp_path: Path) -> None:
    path = tmp_path / "graph.jac"
    path.write_text(WALKER, encoding="utf-8")
    with pytest.raises(ToolError, match="Rename"):
        walk(shop(), path, python=Path(sys.executable))
