"""One index or update of a project at a time, over all processes of a home; who holds it can be asked."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracedesk.primitives import json
from tracedesk.primitives.time import SystemClock, format

_RETRY_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes a project, and what it does."""

    pid: int
    action: str
    since: str

    def document(self) -> dict[str, object]:
        return {"pid": self.pid, "action": self.action, "since": self.since}


class ProjectBusy(Exception):
    """Another process indexes or updates the project."""

    def __init__(self, root: str, holder: Holder | None) -> None:
        who = f"process {holder.pid} ({holder.action} since {holder.since})" if holder else "another process"
        super().__init__(f"{root} is being written by {who}; wait for it, then call again")
        self.holder = holder


class Locks:
    """The lock files beside a graph."""

    def __init__(self, graph: Path) -> None:
        self._folder = graph.with_name("graph.locks")

    @contextmanager
    def held(
        self, root: str, action: str, seconds: float, cancelled: Callable[[], None] = lambda: None
    ) -> Generator[None]:
        """Hold a project's lock; `ProjectBusy` when it is not free in time."""
        descriptor = self._open(root)
        try:
            self._wait(descriptor, root, time.monotonic() + seconds, cancelled)
            note = {"pid": os.getpid(), "action": action, "since": format(SystemClock().now_ns())}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(note), 0)
            yield
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def holder(self, root: str) -> Holder | None:
        """Who writes the project now; None when nobody does."""
        path = self._path(root)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            return _read(descriptor)
        finally:
            os.close(descriptor)

    def _wait(self, descriptor: int, root: str, until: float, cancelled: Callable[[], None]) -> None:
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise ProjectBusy(root, _read(descriptor)) from None
            cancelled()
            time.sleep(_RETRY_SECONDS)

    def _open(self, root: str) -> int:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(self._path(root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _path(self, root: str) -> Path:
        return self._folder / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:24]}.lock"


def _read(descriptor: int) -> Holder | None:
    try:
        note = json.loads(os.pread(descriptor, 4_096, 0))
        return Holder(note["pid"], note["action"], note["since"])
    except (ValueError, KeyError, TypeError):
        return None
