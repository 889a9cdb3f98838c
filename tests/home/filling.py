"""What tests put into a home."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracedesk.home import Home
from tracedesk.journal import Entry, Journal, Status
from tracedesk.primitives.time import DAY, ManualClock, SystemClock

NOW = SystemClock().now_ns()


@dataclass(slots=True)
class Filled:
    """A home, and short ways to put things in."""

    home: Home
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))

    def stream(
        self,
        file: Path,
        name: str,
        bodies: list[bytes],
        *,
        kind: str = "calls",
        status: Status | None = None,
        days: float = 0,
        meta: Mapping[str, Any] | None = None,
    ) -> Path:
        """A stream with these bodies; with `status` it was sealed so many days ago."""
        clock = ManualClock(NOW - int(days * DAY))
        with Journal(file, clock) as journal:
            journal.open(name, kind, meta)
            journal.append(name, [Entry("call", NOW, body) for body in bodies])
            if status is not None:
                journal.seal(name, status)
        return file

    def run(self, id: str, *, events: int = 3, status: Status | None = "ended", days: float = 0) -> Path:
        bodies = [b'{"n":%d}' % n for n in range(events)]
        file = self.home.run_file(id)
        return self.stream(file, id, bodies, kind="backtest", status=status, days=days)

    def payload(self, body: bytes, *, days: float = 2) -> Path:
        path = self.home.payload(hashlib.sha256(body).hexdigest())
        path.parent.mkdir(exist_ok=True, mode=0o700)
        path.write_bytes(body)
        self.touch(path, days)
        return path

    def touch(self, path: Path, days: float) -> None:
        then = NOW - int(days * DAY)
        os.utime(path, ns=(then, then))
