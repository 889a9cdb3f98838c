"""A desk as users start it, `tracedesk serve`, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.judges.support import ROOT, end


@dataclass(frozen=True, slots=True)
class Served:
    """A desk that answers, and where."""

    process: subprocess.Popen[str]
    home: Path
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def memory_kib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def cores() -> tuple[int, int]:
    """The first and the last core; the same one where there is but one."""
    found = sorted(os.sched_getaffinity(0))
    return found[0], found[-1]


def pinned(core: int, *module: str) -> list[str]:
    """The command that runs a module on one core."""
    return ["taskset", "-c", str(core), sys.executable, "-m", *module]


@contextmanager
def serving(home: Path, *options: str, module: str = "tracedesk.cli") -> Generator[Served]:
    """A desk over HTTP on the first core and any free port, ended when the body ends."""
    command = pinned(cores()[0], module, "--home", str(home), "serve", "--port", "0", *options)
    with (home.parent / "desk.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield Served(process, home, _port(process), (home / "token").read_text(encoding="ascii").strip())
        finally:
            end(process)


def _port(process: subprocess.Popen[str]) -> int:
    """The port in the banner of a desk that answers."""
    assert process.stdout is not None
    for line in process.stdout:
        _, found, rest = line.partition("http://127.0.0.1:")
        if found:
            return int(rest.split("/")[0].split()[0])
    raise AssertionError("the desk ended before it announced its port")
