"""Processes to be killed: a server forks one for each line it is sent, and says what they say.

A server has paid for the imports once, and holds nothing open that a fork would share.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from select import PIPE_BUF
from typing import IO, Final, cast

ROOT: Final = Path(__file__).parents[2]
BOUND: Final = 30.0


# --- the server's side -------------------------------------------------------------------------


def serve(live: Callable[[str], None]) -> None:
    """Fork a process for each line of the input, which lives by that line."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _live(live, line.rstrip("\n"))
        os.waitpid(child, 0)
        say(b"dead")


def _live(live: Callable[[str], None], line: str) -> None:
    code = 1
    try:
        live(line)
        code = 0
    except BaseException as problem:
        say(f"error {type(problem).__name__}: {problem}".encode())
    finally:
        os._exit(code)


def say(line: bytes) -> None:
    # A line that fits the pipe's buffer is written whole or not at all, whenever the kill comes.
    assert len(line) < PIPE_BUF, line
    os.write(1, line + b"\n")


def say_ready() -> None:
    """The process may be killed from here on."""
    say(b"ready %d" % os.getpid())


# --- the killer's side -------------------------------------------------------------------------


class Lines:
    """The server's lines, each read with an upper bound."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._fd = stream.fileno()
        self._ready: list[bytes] = []
        self._rest = b""

    def next(self, seconds: float = BOUND) -> str | None:
        """The next line, or nothing when none came in time."""
        until = time.monotonic() + seconds
        while not self._ready:
            left = until - time.monotonic()
            if left < 0 or not select.select([self._fd], [], [], left)[0]:
                return None
            data = os.read(self._fd, 65536)
            if not data:
                raise AssertionError("the worker's server ended")
            *self._ready, self._rest = (self._rest + data).split(b"\n")
        line = self._ready.pop(0).decode()
        if line.startswith("error"):
            raise AssertionError(line)
        return line

    def expect(self, word: str) -> str:
        line = self.next()
        assert line is not None, f"no {word!r} in time"
        assert line.startswith(word), line
        return line


class Server:
    """A running server: takes lines, and forks a process for each."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._orders = cast("IO[bytes]", process.stdin)
        self.lines = Lines(cast("IO[bytes]", process.stdout))

    def begin(self, line: str) -> int:
        """The pid of a process that lives by the line, once it is ready to be killed."""
        self._orders.write(line.encode() + b"\n")
        self._orders.flush()
        return int(self.lines.expect("ready").split()[1])


@contextmanager
def fork_server(module: str) -> Generator[Server]:
    """The server of a module that serves when it is run."""
    command = [sys.executable, "-m", module]
    surroundings = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Server(process)
        finally:
            process.kill()
