"""When a process started: with its pid, the only name of a process that is never given twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from tracedesk.surroundings import for_children

_STATE: Final = 0
_STARTED: Final = 19
"""Fields 3 and 22 of `/proc/<pid>/stat`, counted after the name, which may hold anything."""
_DEAD: Final = "ZXx"


class Processes(Protocol):
    """Tells processes apart even when a pid is used again."""

    def started(self, pid: int) -> str | None:
        """When the process of that pid started, as an opaque text; None when none is running."""
        ...


class LinuxProcesses:
    """Start times from `/proc`: clock ticks since a boot that has an id of its own."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root

    def started(self, pid: int) -> str | None:
        try:
            stat = (self._root / str(pid) / "stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = stat[stat.rindex(b")") + 1 :].decode("ascii").split()
        # A killed child that nobody has waited for keeps its pid and its start time.
        if fields[_STATE] in _DEAD:
            return None
        return f"{self._boot()}:{fields[_STARTED]}"

    def _boot(self) -> str:
        return (self._root / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _ps(words: Sequence[str]) -> str:
    environment = {**for_children(), "LC_ALL": "C", "TZ": "UTC"}
    done = subprocess.run(
        ["ps", *words], capture_output=True, text=True, env=environment, timeout=5, check=False
    )
    return done.stdout


class PsProcesses:
    """Start times from `ps`, to the second, where there is no `/proc`."""

    def __init__(self, ps: Callable[[Sequence[str]], str] = _ps) -> None:
        self._ps = ps

    def started(self, pid: int) -> str | None:
        words = self._ps(("-o", "stat=", "-o", "lstart=", "-p", str(pid))).split()
        if not words or words[0][0] in _DEAD:
            return None
        return " ".join(words[1:])


@cache
def system_processes() -> Processes:
    """The processes of this machine."""
    return LinuxProcesses() if sys.platform == "linux" else PsProcesses()
