"""Call records: what was asked, by whom, and how it ended."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from tracedesk.contract import Call, Source, Tool
from tracedesk.primitives.ids import is_uuid
from tracedesk.primitives.redaction import Secrets, redact
from tracedesk.primitives.time import Clock, format

PREFIX: Final = "tracedesk://calls/"
Outcome = Literal["ok", "error", "cancelled", "input_required"]


@dataclass(slots=True)
class CallRecord:
    """One call: opened before the handler runs, closed before the reply leaves."""

    id: str
    tool: str
    toolset: str
    arguments: Any
    scope: str
    principal: str | None
    attempt: str | None
    started_ns: int
    outcome: Outcome | None = None
    code: str | None = None
    bytes: int = 0
    duration_us: int = 0

    @property
    def ref(self) -> str:
        return PREFIX + self.id


class Recorder(Protocol):
    """Where dispatch reports each call."""

    def open(self, call: Call[Any], tool: Tool, arguments: Any) -> CallRecord: ...

    def close(self, record: CallRecord, outcome: Outcome, code: str | None, size: int, us: int) -> None: ...


@dataclass(slots=True)
class CallLog:
    """The newest calls of this process, in memory, with their arguments redacted."""

    clock: Clock
    secrets: Secrets
    capacity: int = 2_000
    total: int = 0
    errors: int = 0
    _records: OrderedDict[str, CallRecord] = field(default_factory=OrderedDict[str, CallRecord])

    def open(self, call: Call[Any], tool: Tool, arguments: Any) -> CallRecord:
        record = CallRecord(
            call.id,
            tool.name,
            tool.toolset,
            redact(arguments, self.secrets),
            call.scope,
            call.principal,
            call.attempt,
            self.clock.now_ns(),
        )
        self._records[call.id] = record
        self.total += 1
        if len(self._records) > self.capacity:
            self._records.popitem(last=False)
        return record

    def close(self, record: CallRecord, outcome: Outcome, code: str | None, size: int, us: int) -> None:
        record.outcome, record.code, record.bytes, record.duration_us = outcome, code, size, us
        if outcome == "error":
            self.errors += 1

    def source(self, ref: str) -> Source | None:
        """The record behind `tracedesk://calls/<uuid>`, or behind a bare call id."""
        identity = ref.removeprefix(PREFIX)
        record = self._records.get(identity) if is_uuid(identity) else None
        return None if record is None else Source(record.ref, "call", _body(record))


def _body(record: CallRecord) -> dict[str, Any]:
    return {
        "tool": record.tool,
        "toolset": record.toolset,
        "arguments": record.arguments,
        "principal": record.principal,
        "attempt": record.attempt,
        "startedAt": format(record.started_ns),
        "outcome": record.outcome or "running",
        "code": record.code,
        "resultBytes": record.bytes,
        "durationUs": record.duration_us,
    }
