"""A shell of its own for each test: the real command, an empty user folder, an empty home."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import BOUND

COMMAND: Final = Path(sys.executable).with_name("tracedesk")
GRACE: Final = BOUND


@dataclass(frozen=True, slots=True)
class Done:
    """What one run left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs `tracedesk` as a user with nothing but a home folder would."""

    user: Path
    home: Path
    project: Path

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRACEDESK_", "XDG_", "CLAUDE_"))}
        return {**kept, "HOME": str(self.user), "TRACEDESK_HOME": str(self.home), **more}

    def __call__(self, *words: str | Path, input: str = "", **environ: str) -> Done:
        done = subprocess.run(
            [COMMAND, *map(str, words)],
            input=input,
            capture_output=True,
            text=True,
            env=self.environment(**environ),
            cwd=self.project,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str | Path, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [COMMAND, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(**environ),
            cwd=self.project,
        )


def make_shell(folder: Path) -> Shell:
    shell = Shell(folder / "user", folder / "home", folder / "project")
    shell.user.mkdir()
    shell.project.mkdir()
    return shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return make_shell(tmp_path)


@dataclass(frozen=True, slots=True)
class Served:
    """A desk that is being served, and what it said when it began."""

    shell: Shell
    greeting: str
    url: str
    token: str

    @property
    def port(self) -> str:
        return self.url.rpartition(":")[2]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """One desk over HTTP for all tests that only need one to be there; it must end cleanly."""
    shell = make_shell(tmp_path_factory.mktemp("served"))
    with serving(shell) as (process, served):
        yield served
        assert ended(process) == (0, "", "")


@contextmanager
def serving(shell: Shell, **environ: str) -> Generator[tuple[subprocess.Popen[str], Served]]:
    """A desk over HTTP that has said its banner; it is ended with the body."""
    process = shell.start("serve", "--port", "0", **environ)
    try:
        lines = _until(process, "Stop with Ctrl-C.")
        url = lines[0].split()[-1]
        token = next(line.split()[1] for line in lines if line.strip().startswith("Token"))
        yield process, Served(shell, "".join(lines), url, token)
    finally:
        ended(process)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Ask a desk to end: its exit code, and the rest of what it said. Once ended, it says nothing more."""
    if process.poll() is not None and process.stdout is not None and process.stdout.closed:
        return process.returncode, "", ""
    process.send_signal(signal.SIGTERM)
    rest, err = process.communicate(timeout=GRACE)
    return process.returncode, rest, err


def _until(process: subprocess.Popen[str], last: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if last in line:
            return lines
    raise AssertionError(f"it ended before it was ready: {process.communicate()[1]}")
