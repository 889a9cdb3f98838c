"""One file from its path to its rows: what a worker does with each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tracedesk.codegraph.graph import native
from tracedesk.codegraph.graph.extract import extract
from tracedesk.codegraph.graph.frames import Plain, outcome, plain
from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.reading import Reading, Source, decoded
from tracedesk.codegraph.graph.rows import Outcome, Same, Skipped, Task, file_rows
from tracedesk.primitives.paths import Jail


class Parser:
    """Parses files of one project."""

    def __init__(self, reading: Reading, limits: Limits) -> None:
        self._reading = reading
        self._limits = limits

    def answer(self, task: Task) -> Plain:
        """The rows of a file; or that the graph has its content already; or why it is left out."""
        source = self._reading.read(task.path)
        if isinstance(source, str):
            return plain(Skipped(task.path, source))
        if task.known is not None and hashlib.sha256(source.data).digest() == task.known:
            return plain(Same(task.path, source.mtime_ns))
        return native.rows(task, source, self._limits.parse_seconds) or plain(self._read(task, source))

    def _read(self, task: Task, source: Source) -> Outcome:
        text = decoded(source.data)
        if text is None:
            return Skipped(task.path, "undecodable")
        found = extract(task.path, source.data, task.language, timeout_s=self._limits.parse_seconds)
        return file_rows(task, source.data, text, source.mtime_ns, found)


def answers(jail: Jail, root: str, limits: Limits, tasks: Iterable[Task]) -> list[Plain]:
    """The outcome of each task, as it passes between processes."""
    with Reading(jail, root, limits) as reading:
        parser = Parser(reading, limits)
        return [parser.answer(task) for task in tasks]


def parse(jail: Jail, root: str, limits: Limits, tasks: Iterable[Task]) -> list[Outcome]:
    """The outcome of each task."""
    return [outcome(answer) for answer in answers(jail, root, limits, tasks)]
