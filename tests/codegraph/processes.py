"""The processes that a process has started, and waiting for one that is not ours to end."""

from __future__ import annotations

import os
import select
import subprocess


def children(parent: int, module: str) -> list[int]:
    """Those that run a module of ours and have not ended."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()[1:]]
    return [int(pid) for pid, above, args in rows if int(above) == parent and module in args]


def ends(handle: int, seconds: float) -> bool:
    """Whether the process behind a handle of `os.pidfd_open` ends in time."""
    ready = select.select([handle], [], [], seconds)[0]
    os.close(handle)
    return bool(ready)
