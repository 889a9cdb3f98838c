"""README's transcripts run as they are printed, against a desk of this machine."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import COMMAND, Served, Shell, serving
from tests.support import BOUND, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def fresh(shell: Shell) -> Iterator[Served]:
    """A desk that nobody has traded on; its local exchange is stopped in the end."""
    with serving(shell) as (_, served):
        yield served
        shell("exchange", "stop")


def _calls(text: str) -> list[str]:
    """The `call` lines of all console blocks, with the settings of variables between them."""
    return [
        line
        for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        for line in _commands(block)
        if re.match(r"call |\w+='", line)
    ]


def _commands(block: str) -> Iterator[str]:
    """Each command after its prompt; one whose quotes are open goes on in the next line."""
    command = ""
    for line in block.splitlines():
        if not command and not line.startswith("$ "):
            continue
        command = f"{command}\n{line}" if command else line.removeprefix("$ ")
        if _is_whole(command):
            yield command
            command = ""


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def _run(served: Served, command: str, before: str) -> Any:
    """The answer of one command, typed after those before it."""
    (function,) = re.findall(r"^\$ (call\(\) .*)$", README, re.MULTILINE)
    script = "\n".join((function.replace(":3000", f":{served.port}"), before, command))
    done = subprocess.run(
        ["bash", "-c", script],
        env={**served.shell.environment(), "TOKEN": served.token, "PATH": f"{COMMAND.parent}:{_path()}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout) if done.stdout else None


def _path() -> str:
    return str(Path(shutil.which("curl") or "/usr/bin/curl").parent) + ":/usr/bin:/bin"


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="README's calls need curl")
def test_every_call_of_the_readme_succeeds_as_it_is_printed(fresh: Served) -> None:
    commands = _calls(README)
    assert sum(command.startswith("call ") for command in commands) == 7
    answers: dict[str, Any] = {}
    variables = ""
    for command in commands:
        if not command.startswith("call "):
            variables = command
            continue
        token = answers.get("preview_order", {}).get("preview_token", "…")
        tool = command.split()[1]
        answer = _run(fresh, command.replace("…", token), variables)
        assert "error" not in answer, (command, answer)
        if tool == "trade_execute" and tool in answers:
            assert answer == answers[tool]
        answers[tool] = answer
    assert answers["place_order"]["status"] == "FILLED"
    assert answers["place_order"]["executed_quantity"].startswith("0.01")
    assert "593.9468" in README
    assert answers["trade_execute"]["execution"]["trades"][0]["price"] == 593.9468
    assert answers["trade_simulate"]["simulation"]["portfolio_after"]["cash"] == 94059.53
    assert answers["advance_clock"]["to"] == "2012-12-03T21:00:00Z"
    assert answers["trace"]["root"].startswith("tracedesk://trading/ledger/")
