"""`tracedesk backup`: made beside a running desk, checked, and restored."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

from tests.cli.conftest import COMMAND, Served, Shell
from tests.home.filling import Filled
from tracedesk.home import Home


def test_a_home_in_use_is_backed_up_and_the_copy_is_sound(served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "copy"
    made = served.shell("backup", folder, "--json")
    assert (made.code, made.err) == (0, "")
    assert made.json["folder"] == str(folder)
    assert made.json["files"] >= 3
    assert made.json["homeFormat"] == 1
    checked = served.shell("backup", "--verify", folder, "--json")
    assert (checked.code, checked.json["sound"], checked.json["faults"]) == (0, True, [])
    assert checked.json["bytes"] == made.json["bytes"]


def test_a_backup_is_a_home(shell: Shell, tmp_path: Path) -> None:
    filled = Filled(Home.open(shell.home))
    filled.run("r1", events=4, days=60)
    assert "4 events" in shell("backup", tmp_path / "copy").out
    issued = shell("--home", tmp_path / "copy", "token", "add", "me")
    assert issued.code == 0
    pruned = shell("--home", tmp_path / "copy", "prune", "--older-than", "30d", "--yes", "--json")
    assert [stream["stream"] for stream in pruned.json["streams"]] == ["r1"]
    used = shell("backup", "--verify", tmp_path / "copy")
    assert used.code == 1, "a backup that was used as a home is no longer what was written"


def test_an_unsound_backup_exits_1_and_names_each_fault(shell: Shell, tmp_path: Path) -> None:
    Filled(Home.open(shell.home)).run("r1")
    shell("backup", tmp_path / "copy")
    (tmp_path / "copy" / "format.json").write_text("{}")
    (tmp_path / "copy" / "runs" / "r1.db").unlink()
    done = shell("backup", "--verify", tmp_path / "copy")
    assert done.code == 1
    assert done.out.splitlines() == [
        "runs/r1.db: it is missing.",
        "format.json: it is not what was written: its digest differs.",
        "Not sound.",
    ]
    document = shell("backup", "--verify", tmp_path / "copy", "--json").json
    assert document["sound"] is False
    assert document["faults"][0] == {"path": "runs/r1.db", "problem": "it is missing"}


def test_what_cannot_be_done_is_one_sentence(shell: Shell, tmp_path: Path) -> None:
    nowhere = shell("backup", tmp_path / "copy")
    assert nowhere.code == 1
    assert nowhere.err == f"tracedesk: there is no home at {shell.home}; name it with --home.\n"
    Home.open(shell.home)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    assert "is there already" in shell("backup", tmp_path / "full").err
    assert "lies in the home itself" in shell("backup", shell.home / "copy").err
    error = shell("backup", "--verify", tmp_path / "full", "--json").json["error"]
    assert (error["code"], "is not a backup" in error["message"]) == ("FAILED", True)
    assert shell("backup").code == 2


def test_progress_is_painted_on_a_terminal_and_nowhere_else(shell: Shell, tmp_path: Path) -> None:
    Filled(Home.open(shell.home)).run("r1")
    assert shell("backup", tmp_path / "quiet").err == ""
    leader, follower = pty.openpty()
    try:
        done = subprocess.run(
            [COMMAND, "backup", str(tmp_path / "shown")],
            stdout=subprocess.PIPE,
            stderr=follower,
            env=shell.environment(),
            timeout=60,
            check=True,
        )
        painted = os.read(leader, 65536)
    finally:
        os.close(leader)
        os.close(follower)
    assert b"backup  [" in painted
    assert done.stdout.startswith(b"Backed up ")
