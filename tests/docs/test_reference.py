"""The generated pages and the tool lock are what the declarations say."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.support import ROOT
from tracedesk import contracts, docs
from tracedesk.config import Settings
from tracedesk.docs import commands, lock, schema, settings, tools
from tracedesk.docs.lock import Lock, Unannounced
from tracedesk.toolsets import TOOLSETS, built, load

SEEDED = ("backtest", "fuzz", "codegraph", "trading")


def test_no_generated_file_is_stale() -> None:
    assert docs.stale(ROOT) == [], "run: python -m tracedesk.docs"


def test_every_tool_is_in_the_reference_and_the_unbuilt_ones_say_so() -> None:
    page = tools.page()
    seeds = [name for toolset in SEEDED for name in contracts.names(toolset)]
    assert len(seeds) >= 28
    for name in (*seeds, *contracts.names("desk")):
        assert f"\n### {name}\n" in page
    for toolset in TOOLSETS:
        assert (f"\n## {toolset}\n\n*Not built yet.*" in page) == (toolset not in built())


def test_no_place_of_a_contract_is_told_twice() -> None:
    for toolset in (*SEEDED, "desk"):
        for name in contracts.names(toolset):
            contract = contracts.load(toolset, name)
            for side in (contract.input, contract.output or {}):
                paths = [field.path for field in schema.flatten(side)]
                assert len(paths) == len(set(paths)), name


def test_every_parameter_of_a_built_tool_is_in_the_reference() -> None:
    page = tools.page()
    for toolset in load(built()):
        for tool in toolset.tools.values():
            section = page.split(f"\n### {tool.name}\n")[1].split("\n### ")[0]
            for name in tool.input.get("properties", {}):
                assert f"`{name}`" in section


def test_every_setting_is_explained_with_its_variable() -> None:
    page = settings.page()
    for field in fields(Settings):
        if field.name != "tables":
            assert f"| `{field.name}` |" in page
            assert f"`TRACEDESK_{field.name.upper()}`" in page


def test_every_setting_of_a_toolset_is_explained_under_its_table() -> None:
    page = settings.page()
    assert "## `[trading.limits]`" in page
    assert "| `max_order_notional` | `10000` | The most one order may be worth. |" in page


def test_every_command_is_in_the_reference() -> None:
    page = commands.page()
    for path in (
        "serve",
        "doctor",
        "install",
        "uninstall",
        "config show",
        "token list",
        "token add",
        "token revoke",
        "trace tail",
        "trace show",
        "trace verify",
        "hosts list",
        "hosts stop",
        "backup",
        "prune",
    ):
        assert f"\n## tracedesk {path}\n" in page


# --- the lock ----------------------------------------------------------------------------------


def _checkout(folder: Path, tools: dict[str, str], changelog: str | None = None) -> Lock:
    """A checkout whose lock holds what is published now, with `tools` laid over it."""
    now = lock.current()
    (folder / "docs").mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / lock.FILE).write_text(lock.text(replace(now, tools={**now.tools, **tools})))
    if changelog is not None:
        (folder / lock.CHANGELOG).write_text(changelog)
    return now


def test_the_lock_holds_every_published_tool_of_this_version() -> None:
    held = lock.read(ROOT)
    assert held is not None
    assert held == lock.current()
    assert {"desk_status", "get_source", "trace"} <= held.tools.keys()


@pytest.mark.parametrize(
    "changelog",
    [None, "# Changelog\n\n## Unreleased\n\n- faster\n\n## 0.0.9\n\n- trace changed\n", "- trace changed\n"],
    ids=["no changelog", "told under an older version", "told nowhere in particular"],
)
def test_a_changed_tool_that_the_changelog_does_not_name_cannot_be_locked(
    tmp_path: Path, changelog: str | None
) -> None:
    now = _checkout(tmp_path, {"trace": "0" * 64}, changelog)
    before = (tmp_path / lock.FILE).read_text()
    with pytest.raises(Unannounced, match=r"raise the version: trace\.$"):
        docs.write(tmp_path)
    assert (tmp_path / lock.FILE).read_text() == before
    assert lock.changed(Lock("", {"trace": "0"}), Lock("", {"trace": "1"})) == ["trace"]
    assert now.version


def test_a_changed_tool_that_the_changelog_names_is_locked(tmp_path: Path) -> None:
    now = _checkout(tmp_path, {"trace": "0" * 64}, "## [Unreleased]\n\n- `trace` says more.\n\n## 0.0.9\n")
    assert lock.FILE in docs.write(tmp_path)
    assert lock.read(tmp_path) == now
    assert docs.stale(tmp_path) == []


def test_a_removed_tool_must_be_named_too(tmp_path: Path) -> None:
    _checkout(tmp_path, {"gone_tool": "0" * 64}, "## Unreleased\n\n- trace\n")
    with pytest.raises(Unannounced, match="gone_tool"):
        docs.write(tmp_path)


def test_a_raised_version_locks_whatever_it_publishes(tmp_path: Path) -> None:
    now = _checkout(tmp_path, {})
    (tmp_path / lock.FILE).write_text(lock.text(Lock("0.0.1", {"trace": "0" * 64})))
    docs.write(tmp_path)
    assert lock.read(tmp_path) == now


def test_the_command_checks_refuses_and_writes(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tracedesk.docs", *words, "--root", str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("--check").returncode == 2
    _checkout(tmp_path, {"trace": "0" * 64})
    checked = run("--check")
    assert checked.returncode == 1
    assert f"stale: {lock.FILE}" in checked.stdout
    refused = run()
    assert refused.returncode == 1
    assert "Name what changed under Unreleased in CHANGELOG.md" in refused.stderr
