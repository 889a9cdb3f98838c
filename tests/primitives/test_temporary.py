"""Work folders: gone in the end, swept once their process has gone, and never taken from one that lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import BOUND
from tracedesk.primitives.temporary import held, sweep, work_folder

HOLDER = """
import sys
from pathlib import Path
from tracedesk.primitives.temporary import work_folder
with work_folder(Path(sys.argv[1])) as made:
    (made / "file").write_text("x")
    print(made, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def holder(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a work folder until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_work_folder_is_this_users_alone_and_gone_in_the_end(folder: Path) -> None:
    with work_folder() as made:
        assert (made.parent, made.stat().st_mode & 0o777) == (folder, 0o700)
        (made / "inner").mkdir()
    assert list(folder.iterdir()) == []


def test_the_folder_of_a_process_that_lives_is_not_swept_and_that_of_a_killed_one_is(folder: Path) -> None:
    process, made = holder(folder)
    sweep(folder)
    assert (made / "file").exists()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=BOUND)
    assert (made / "file").exists()
    with held(made):
        sweep(folder)
        assert (made / "file").exists(), "a second process had its work there"
    sweep(folder)
    assert not made.exists()


def test_nothing_else_is_swept(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    (folder / "tracedesk-work-linked00").symlink_to(tmp_path / "mine")
    (folder / "tracedesk-work-filename").write_text("x")
    for name in ("tracedesk-abcdefgh", "tracedesk-work-notes.2026", "tracedesk-work-my notes"):
        (folder / name).mkdir()
    before = sorted(folder.iterdir())
    sweep(folder)
    assert sorted(folder.iterdir()) == before
    assert (tmp_path / "mine" / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_folder_of_another_user_is_not_swept(folder: Path) -> None:
    other = folder / "tracedesk-work-otheruse"
    assert len("otheruse") == 8
    other.mkdir()
    os.chown(other, 65534, 65534)
    sweep(folder)
    assert other.exists()
    os.chown(other, os.geteuid(), os.getegid())
    sweep(folder)
    assert not other.exists()
