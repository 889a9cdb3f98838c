"""The layout's rules: who may import whom, and how long a module may be."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

SOURCE = ROOT / "src" / "tracedesk"
TOOLSETS = ("backtest", "fuzz", "exchange", "codegraph", "trading")
MODULES = sorted(SOURCE.rglob("*.py"))


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_keeps_to_its_place(path: Path) -> None:
    place = path.relative_to(SOURCE)
    names = _imports(path)
    if place.as_posix() != "wire/sdk.py":
        assert not {n for n in names if n.split(".")[0] in ("mcp", "mcp_types")}, (
            "only wire/sdk.py names the SDK"
        )
    if place.parts[0] in (*TOOLSETS, "primitives", "contracts", "journal", "market"):
        assert not {n for n in names if n.startswith("tracedesk.wire")}, "the domain does not know the wire"
    if place.parts[0] in TOOLSETS:
        others = {f"tracedesk.{t}" for t in TOOLSETS if t != place.parts[0]}
        assert not {n for n in names if any(n == o or n.startswith(f"{o}.") for o in others)}
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 600


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_process_of_ours_runs_no_module_of_the_folder_it_starts_in(path: Path) -> None:
    """Without -P Python looks for modules where it was started, which may be a stranger's project."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"sys\.executable,\s*\"-m\"", text)


def test_no_committed_file_names_a_local_path_or_a_registry() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    local = ("/" + "work/", "/" + "root/", "/" + "tmp/lab")
    registries = ("registry." + "npmjs", "pypi" + ".org", "pythonhosted" + ".org", "static." + "crates.io")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and path.suffix not in (".png", ".gz"):
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not [mark for mark in (*local, *registries) if mark in text], name
