"""The hook's script, run as a client runs it: quick, silent, whole files, and never in the way."""

from __future__ import annotations

import json
import os
import stat
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.proof.record import Recorder
from tests.codegraph.capture.support import PATIENCE, SCRIPT, run_hook
from tests.judges.size import Size
from tests.support import BOUND
from tracedesk import config
from tracedesk.codegraph.capture import inbox
from tracedesk.home import Home

BODY = json.dumps({"session_id": "s", "hook_event_name": "Stop", "last_assistant_message": "Done."}).encode()


def dropped(home: Path) -> list[Path]:
    return sorted((home / "inbox").glob("[0-9]*.json"))


def test_a_hook_leaves_one_private_file_that_the_inbox_can_read(tmp_path: Path) -> None:
    said = run_hook(tmp_path, "Stop", BODY)
    assert (said.code, said.out, said.err) == (0, b"", b"")
    (path,) = dropped(tmp_path)
    drop = inbox.Inbox(tmp_path / "inbox").read(path)
    assert (drop.client, drop.event, drop.hook) == ("qwen-code", "Stop", json.loads(BODY))
    assert abs(drop.received_ns - time.time_ns()) < 60_000_000_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_home_that_is_missing_is_begun_and_a_desk_can_open_it(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    assert run_hook(home, "Stop", BODY).code == 0
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert len(dropped(Home.open(home).path)) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    said = run_hook(tmp_path, "Stop", BODY)
    tmp_path.chmod(0o700)
    assert (said.code, said.out, said.err) == (0, b"", b"")


@pytest.mark.parametrize("place", ["a file", "below a file"])
def test_a_home_that_is_no_folder_is_left_alone(tmp_path: Path, place: str) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    said = run_hook(file if place == "a file" else file / "home", "UserPromptSubmit", b'{"prompt": "x"}')
    assert (said.code, said.out, said.err) == (0, b"", b"")
    assert file.read_text() == "mine"


@pytest.mark.parametrize("words", [[], ["qwen-code"], ["qwen-code", "Stop", ""]])
def test_a_command_line_that_says_too_little_still_ends_well(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), *words],
        input=BODY,
        capture_output=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        timeout=BOUND,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("body", [b"", b"not json", b"[1]", b"\xff\xfe", b'{"prompt": 7}'])
def test_whatever_a_client_says_the_hook_ends_well_and_prints_nothing(tmp_path: Path, body: bytes) -> None:
    said = run_hook(tmp_path, "UserPromptSubmit", body)
    assert (said.code, said.out, said.err) == (0, b"", b"")


def test_a_client_that_never_ends_its_input_does_not_keep_the_hook(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SCRIPT), "qwen-code", "Stop", str(tmp_path)], stdin=subprocess.PIPE
    )
    assert process.wait(BOUND) == 0
    assert process.stdin is not None
    process.stdin.close()
    assert inbox.Inbox(tmp_path / "inbox").take_losses() == {"late": 1}


def test_long_texts_are_cut_until_the_drop_fits(tmp_path: Path) -> None:
    body = {"session_id": "s", "tool_response": {"a": ["x" * 3_000_000, "short"]}, "tool_name": "t"}
    run_hook(tmp_path, "PostToolUse", json.dumps(body).encode())
    (path,) = dropped(tmp_path)
    assert path.stat().st_size < 300_000
    hook = inbox.Inbox(tmp_path / "inbox").read(path).hook
    long, short = hook["tool_response"]["a"]
    assert long.startswith("xxx")
    assert long.endswith(f"[cut by the hook: {3_000_000 - 16_384} characters]")
    assert (short, hook["session_id"]) == ("short", "s")


def test_what_cannot_be_cut_is_counted_as_lost(tmp_path: Path) -> None:
    run_hook(tmp_path, "PostToolUse", json.dumps({"n": list(range(100_000))}).encode())
    assert dropped(tmp_path) == []
    assert inbox.Inbox(tmp_path / "inbox").take_losses() == {"large": 1}


def test_what_could_not_be_cut_in_time_is_counted_as_lost_and_read_to_its_end(tmp_path: Path) -> None:
    body = json.dumps({"n": [0] * 3_000_000}).encode()
    said = run_hook(tmp_path, "PostToolUse", body)
    assert (said.code, said.out, said.err) == (0, b"", b"")
    assert dropped(tmp_path) == []
    assert inbox.Inbox(tmp_path / "inbox").take_losses() == {"large": 1}


def test_a_full_inbox_takes_no_more_and_counts_what_it_loses(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    for number in range(inbox.MOST_FILES):
        (folder / f"{number:020}-1.json").touch()
    for _ in range(2):
        assert run_hook(tmp_path, "Stop", BODY).code == 0
    assert len(dropped(tmp_path)) == inbox.MOST_FILES
    assert inbox.Inbox(folder).take_losses() == {"full": 2}
    assert inbox.Inbox(folder).take_losses() == {}


def test_the_default_home_is_the_desks(tmp_path: Path) -> None:
    for number, environ in enumerate(
        (
            {"HOME": str(tmp_path / "a")},
            {"HOME": str(tmp_path / "b"), "XDG_DATA_HOME": str(tmp_path / "data")},
            {"HOME": str(tmp_path / "c"), "XDG_DATA_HOME": "relative"},
            {"HOME": str(tmp_path / "d"), "TRACEDESK_HOME": str(tmp_path / "named")},
            {"HOME": str(tmp_path / "e"), "TRACEDESK_HOME": "~/mine"},
        )
    ):
        words = [sys.executable, "-c", "from tracedesk.config import locate; print(locate())"]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
        home = Path(done.stdout.strip())
        for _ in range(PATIENCE):  # a busy machine may leave it no time
            run_hook(None, "Stop", BODY, **environ)
            if dropped(home):
                break
        assert len(dropped(home)) == 1, number
    assert config.locate("x").name == "x"


def test_the_scripts_limits_are_the_inboxs() -> None:
    import runpy

    script = runpy.run_path(str(SCRIPT))
    assert script["FORMAT"] == inbox.FORMAT
    assert script["MOST_FILES"] == inbox.MOST_FILES
    assert script["LOSSES"] == inbox.LOSSES
    assert script["MOST_BYTES"] < inbox.LARGEST
    assert script["ASKING_SECONDS"] < script["SECONDS"] < 1


@pytest.mark.judge
@pytest.mark.alone
def test_a_hook_takes_at_most_a_tenth_of_a_second(tmp_path: Path, size: Size, prove: Recorder) -> None:
    taken: list[float] = []
    for _ in range(21):
        began = time.perf_counter()
        run_hook(tmp_path, "PostToolUse", BODY)
        taken.append(time.perf_counter() - began)
    spent = statistics.median(taken) * 1e3
    prove.record("codegraph-hook", round(spent, 1), seeds=(), details={"hooks": len(taken)})
    size.at_most(100, spent, "a hook, ms")
