"""A trace with its parts at hand: what was logged is read as a second process would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from tracedesk.codegraph.etg import read
from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.etg.model import Logged, NewEvent, World
from tracedesk.codegraph.etg.read import AttemptView
from tracedesk.journal import Reader
from tracedesk.payloads import Payloads
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import ManualClock, parse

T = TypeVar("T")
NOON: Final = parse("2026-11-15T12:00:00Z").ns
SECOND: Final = 1_000_000_000

PAYLOADS: Final[Mapping[str, dict[str, Any]]] = {
    "tool_start": {"tool": "shell_run", "arguments": {"cmd": "npm test"}},
    "tool_end": {"tool": "shell_run", "status": "ok"},
    "checkpoint": {"message": "Wrote a patch", "graph_version": "cg-1"},
    "context_retrieved": {"files": ["app/main.py"]},
    "answer_rendered": {"content": "Here is the patch. It works."},
}
"""The least that each kind needs."""


class Bench:
    """An `Etg` on a manual clock."""

    def __init__(
        self, folder: Path, world: World | None = None, *, left: Callable[[], None] | None = None
    ) -> None:
        self.path = folder / "trace.db"
        self.clock = ManualClock(NOON)
        self.secrets = Secrets()
        self.payloads = Payloads(folder / "payloads")
        self.etg = Etg(self.path, self.clock, self.secrets, self.payloads, world, left=left)

    def log(self, attempt: str, kind: str, payload: dict[str, Any] | None = None, **facts: Any) -> Logged:
        """Log an event; without a payload, the least its kind needs."""
        return self.etg.log(NewEvent(attempt, kind, PAYLOADS[kind] if payload is None else payload, **facts))

    def start(self, attempt: str, tool: str, arguments: dict[str, Any] | None = None, **facts: Any) -> Logged:
        return self.log(attempt, "tool_start", {"tool": tool, "arguments": arguments or {}}, **facts)

    def end(self, attempt: str, tool: str, status: str = "ok", **facts: Any) -> Logged:
        return self.log(attempt, "tool_end", {"tool": tool, "status": status}, **facts)

    def read(self, work: Callable[[Reader], T]) -> T:
        self.etg.catch_up()
        with Reader(self.path) as reader:
            return work(reader)

    def find(self, name: str) -> AttemptView | None:
        return self.read(lambda reader: read.attempt(reader, name, self.clock.now_ns()))

    def view(self, name: str) -> AttemptView:
        found = self.find(name)
        assert found is not None
        return found

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.read(lambda reader: list(reader.connection.execute(query)))
