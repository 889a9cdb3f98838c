"""`tracedesk hosts`: list and stop."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Shell, make_shell
from tests.hosts.support import found, started
from tests.support import BOUND
from tracedesk.hosts.finding import claim


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return make_shell(tmp_path)


def _forge(home: Path, id: str) -> None:
    held = claim(home, "tick", id)
    document = {**held.info.document(), "pid": 2**22 - 1}
    held.release()
    (home / "run" / f"tick-{id}.json").write_text(json.dumps(document))


def test_live_and_stale_hosts_are_listed_and_the_stale_ones_once(shell: Shell) -> None:
    with started(shell.home) as process:
        _forge(shell.home, "old")
        info = found(shell.home)
        listed = shell("hosts", "list")
        assert listed.code == 0
        head, live, stale = (line.split() for line in listed.out.splitlines())
        assert head == ["KIND", "ID", "STATE", "PID", "STARTED"]
        assert live == ["tick", "a", "live", str(process.pid), info.started_at]
        assert stale[:3] == ["tick", "old", "stale"]
        document = {**info.document(), "state": "live"}
        assert shell("hosts", "list", "--json").json == {"hosts": [document]}


def test_a_home_without_hosts_says_so(shell: Shell) -> None:
    assert shell("hosts", "list").out == "No hosts.\n"
    assert shell("hosts", "list", "--json").json == {"hosts": []}


def test_a_stopped_host_has_ended_when_the_command_returns(shell: Shell) -> None:
    with started(shell.home) as process:
        done = shell("hosts", "stop", "tick", "a")
        assert (done.code, done.out) == (0, "Stopped tick a.\n")
        assert process.wait(BOUND) == 0
    with started(shell.home) as process:
        answer = {"kind": "tick", "id": "a", "pid": process.pid, "stopped": True}
        assert shell("hosts", "stop", "tick", "a", "--json").json == answer


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["tick", "gone"], 1, "No tick 'gone' is running; tracedesk hosts list shows what is."),
        (["../x", "a"], 2, "'../x' is no kind of host"),
        (["tick", "a/b"], 2, "'a/b' is no host id"),
    ],
)
def test_what_cannot_be_stopped_is_said(shell: Shell, words: list[str], code: int, sentence: str) -> None:
    done = shell("hosts", "stop", *words)
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err


def test_a_host_that_does_not_end_in_time_is_named_with_its_pid(shell: Shell) -> None:
    with started(shell.home) as process:
        os.kill(process.pid, signal.SIGSTOP)
        done = shell("hosts", "stop", "tick", "a", "--timeout", "0.2")
        assert done.code == 1
        assert f"End process {process.pid} if you must." in done.err
        os.kill(process.pid, signal.SIGCONT)
