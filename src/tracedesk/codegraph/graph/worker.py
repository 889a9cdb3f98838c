"""A process that parses: tasks come in, rows go out, and it ends with its parent."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, Final

from tracedesk.codegraph.graph.frames import LENGTH, READY, packed, unpacked
from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.parse import answers
from tracedesk.codegraph.graph.rows import Task
from tracedesk.primitives.paths import Jail

_NICENESS: Final = 5
"""Whoever asks a desk something while it indexes comes first."""


def main() -> None:
    """Answer each list of tasks until the input ends."""
    os.nice(_NICENESS)
    # What parsing makes has no cycles; looking for some takes a twentieth of the time.
    gc.disable()
    # Whatever a library prints must not come between frames.
    out = os.dup(1)
    os.dup2(2, 1)
    _write(out, packed(READY))
    while (asked := _read()) is not None:
        root, limits, tasks = asked
        found = answers(Jail([root]), root, Limits(*limits), [Task(*task) for task in tasks])
        _write(out, packed(found))


def _read() -> Any:
    head = _exactly(LENGTH.size)
    body = None if head is None else _exactly(LENGTH.unpack(head)[0])
    return None if body is None else unpacked(body)


def _exactly(size: int) -> bytes | None:
    data = sys.stdin.buffer.read(size)
    return data if len(data) == size else None


def _write(fd: int, frame: bytes) -> None:
    view = memoryview(frame)
    while view:
        view = view[os.write(fd, view) :]


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)
