"""Without the native core: every tool and command says what to do, and the rest of the desk works."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.desks import agent, started, vault
from tests.support import BOUND, run
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.errors import ToolError
from tracedesk.fuzz import native
from tracedesk.fuzz.native import EngineMissing


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core cannot be imported, as where no wheel fits and Rust is missing."""
    monkeypatch.setitem(sys.modules, "tracedesk_evm", None)


@pytest.mark.usefixtures("hidden")
def test_the_core_says_what_to_do_when_it_is_missing() -> None:
    with pytest.raises(EngineMissing) as missing:
        native.engine()
    assert missing.value.code == "INTERNAL_ERROR"
    assert "Install Rust" in missing.value.message
    assert "make setup" in missing.value.message
    assert (missing.value.details or {})["kind"] == "ENGINE_MISSING"
    assert not native.is_there()


@pytest.mark.usefixtures("hidden")
def test_every_tool_that_needs_the_core_says_so_and_the_desk_serves_on(tmp_path: Path) -> None:
    async def main() -> None:
        vault(tmp_path)
        async with agent(tmp_path / "home") as found:
            for tool, arguments in (
                ("start_campaign", {"path": "Vault.vy"}),
                ("get_corpus_size", {}),
                ("inject_transaction", {"sequence": ["f()"]}),
            ):
                error = await found.refused(tool, **arguments)
                assert error["details"]["kind"] == "ENGINE_MISSING", tool
                assert "make setup" in error["message"]
            assert (await found.call("desk_status"))["toolsets"]

    run(main())


@pytest.mark.usefixtures("hidden")
def test_a_desk_with_every_toolset_opens_without_the_core(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_desk(Settings(home=tmp_path)) as desk:
            assert {"start_campaign", "get_portfolio", "describe_run"} <= set(desk.registry.tools)

    asyncio.run(main())


def test_what_a_campaign_left_is_read_without_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = started(tmp_path / "home", vault(tmp_path), testLimit=2_000)
    campaign.wait()
    monkeypatch.setitem(sys.modules, "tracedesk_evm", None)

    async def main() -> None:
        async with agent(tmp_path / "home") as found:
            assert (await found.call("campaign_status"))["state"] == "ended"
            assert (await found.call("get_corpus_size"))["size"] > 0
            assert (await found.call("show_coverage"))["overallCoverage"] > 0
            error = await found.refused("execute_sequence", sequence=["deposit()"])
            assert error["details"]["kind"] == "ENGINE_MISSING"

    run(main())


@pytest.mark.parametrize(
    "words", [("run", "Vault.vy"), ("replay", "Vault.vy", "Vault.vy"), ("shrink", "Vault.vy", "Vault.vy")]
)
def test_commands_say_what_to_do(tmp_path: Path, words: tuple[str, ...]) -> None:
    vault(tmp_path)
    blocker = tmp_path / "blocked" / "tracedesk_evm.py"
    blocker.parent.mkdir()
    blocker.write_text("raise ImportError('no core here')\n")
    done = subprocess.run(
        [sys.executable, "-m", "tracedesk.cli", "--home", str(tmp_path / "home"), "fuzz", *words, "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(blocker.parent)},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert done.returncode == 2, "1 would say that a test was falsified: " + done.stderr
    assert "make setup" in json.loads(done.stdout)["error"]["message"]


def test_the_refusal_is_a_tool_error() -> None:
    assert issubclass(EngineMissing, ToolError)
