"""A parsing process that one file ends, as a grammar can that takes memory without end."""

from __future__ import annotations

import os
import signal

from tracedesk.codegraph.graph import native, parse, worker
from tracedesk.codegraph.graph.model import Extract
from tracedesk.codegraph.graph.reading import Source
from tracedesk.codegraph.graph.rows import Task

_extract = parse.extract


def _deadly(path: str, text: bytes, language: str, *, timeout_s: float = 2.0) -> Extract:
    if path == os.environ["DESKTEST_DEADLY"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return _extract(path, text, language, timeout_s=timeout_s)


def _in_python(task: Task, file: Source, seconds: float) -> bytes | None:
    return None


if __name__ == "__main__":
    native.rows = _in_python
    parse.extract = _deadly
    worker.main()
