"""Control characters in strangers' text: no command sends one to the terminal, as text or as JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from typing import Final

import pytest

from tests.backtest import desks as runs
from tests.cli.conftest import COMMAND, Shell
from tests.codegraph import desks as code
from tests.support import run
from tests.trading import desks as trading

ATTACKS: Final = (
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "\x9b31m",
    "\x9d0;owned\x9c",
    "\x90q\x9c",
    "\x85",
    "\x7f",
    "\x08",
)
TEXT: Final = "".join(f"a{attack}" for attack in ATTACKS)
RAW: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def poisoned(shell: Shell) -> Shell:
    """A home in which every text from outside holds control characters."""
    with runs.record(shell.home, name=TEXT) as kept:
        parent = kept.emit("OrderPlaced", runs.T0, {"OrderId": TEXT, "SecuritySymbol": TEXT, "Quantity": 1})
        reason = {"OrderId": TEXT, "SecuritySymbol": TEXT, "RejectionReason": TEXT}
        kept.emit("OrderRejection", runs.T0, reason, parent=parent)
    named = TEXT.replace("\x08", "")
    (shell.project / f"{named}.py").write_text(f'"""{named}"""\n\n\ndef f():\n    """{named}"""\n')

    async def main() -> None:
        async with code.agent(shell.home, shell.project) as agent:
            root = str(shell.project)
            await agent.call("graph_index_project", project_root=root, files=["."])
            event = {
                "attempt_id": TEXT,
                "project_root": root,
                "kind": "checkpoint",
                "payload": {"message": TEXT},
            }
            await agent.raw("etg_log_event", event)
            await agent.raw("etg_log_event", {**event, "attempt_id": "a1"})
            await agent.raw("graph_search", {"query": TEXT})
        async with trading.agent(shell.home) as desk:
            await desk.raw("log_event", TEXT, event_type="signal", data={"note": TEXT})

    run(main())
    return shell


COMMANDS: Final = (
    ("backtest", "runs"),
    ("backtest", "show", "RUN"),
    ("backtest", "show", TEXT.replace("\x00", "")),
    ("graph", "search", "f"),
    ("graph", "status"),
    ("graph", "context", "."),
    ("graph", "context", f"{TEXT}.py"),
    ("ledger", "show"),
    ("ledger", "verify"),
    ("market", "show"),
    ("trace", "tail"),
    ("trace", "show", "CALL"),
    ("trace", "show", "a1"),
    ("trace", "show", TEXT),
    ("trace", "export", "a1"),
    ("verify",),
    ("doctor",),
    (TEXT,),
)


def test_no_command_prints_a_control_character(poisoned: Shell) -> None:
    [listed] = poisoned("--json", "backtest", "runs").json["runs"]
    calls = poisoned("--json", "trace", "tail", "-n", "1").out.splitlines()
    known = {"RUN": listed["runId"], "CALL": json.loads(calls[0])["id"]}
    found: list[tuple[str, str]] = []
    for command in COMMANDS:
        words = [known.get(word, word) for word in command]
        for form in ((), ("--json",)):
            done = poisoned(*form, *words)
            if RAW.search(done.out + done.err):
                found.append((" ".join((*form, *words)), repr(done.out + done.err)[:300]))
    assert found == []


def _on_a_terminal(shell: Shell, *words: str) -> str:
    """The bytes that reach a terminal."""
    reader, writer = pty.openpty()
    environment = shell.environment(TERM="dumb", NO_COLOR="1")
    done = subprocess.run(
        [COMMAND, *words], stdout=writer, stderr=writer, stdin=subprocess.DEVNULL, env=environment,
        cwd=shell.project, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 0, words
    heard = b""
    try:
        while piece := os.read(reader, 65_536):
            heard += piece
    except OSError:
        pass  # the end of a terminal that nobody writes to
    finally:
        os.close(reader)
    return heard.decode("utf-8").replace("\r\n", "\n")


def test_an_export_to_a_terminal_moves_no_cursor(poisoned: Shell) -> None:
    [listed] = poisoned("--json", "backtest", "runs").json["runs"]
    for words in (
        ("backtest", "export", listed["runId"]),
        ("ledger", "export", "--format", "csv"),
        ("backtest", "runs"),
    ):
        assert not RAW.search(_on_a_terminal(poisoned, *words)), words


def test_json_with_escapes_is_the_same_document(poisoned: Shell) -> None:
    [listed] = poisoned("--json", "backtest", "runs").json["runs"]
    assert listed["name"] == TEXT
