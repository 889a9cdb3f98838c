"""One call's record: opened before the handler runs, closed before the reply leaves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, Protocol, cast

from tracedesk.calls.attempt import attempt_ref
from tracedesk.contract import Call, Edge, Source, Tool
from tracedesk.journal import Entry
from tracedesk.primitives import json
from tracedesk.primitives.redaction import Secrets, is_plain, redact
from tracedesk.primitives.time import format

PREFIX: Final = "tracedesk://calls/"
PAYLOADS: Final = "tracedesk://payloads/"
INLINE: Final = 2_048
"""A result up to this size is kept in the record itself; a larger one is a payload of its own."""

LARGEST_ARGUMENTS: Final = 65_536
Outcome = Literal["ok", "error", "cancelled", "input_required"]


@dataclass(slots=True)
class CallRecord:
    """What dispatch knows of a call while it runs, and its entry once it has ended."""

    id: str
    tool: str
    toolset: str
    arguments: Any
    scope: str
    principal: str | None
    attempt: str | None
    started_ns: int
    durable: bool
    outcome: Outcome | None = None
    code: str | None = None
    result: bytes = b""
    duration_us: int = 0
    committed: Any = field(default=None, repr=False)
    """What waits for the record to be on the disk."""
    sealed: Entry | None = None
    """The entry, once the call has ended; from then on the arguments themselves are not held."""
    edges: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    """What the answer was made from: (relation, reference), in the order they were cited."""
    problem: Exception | None = None
    """What kept it from there."""
    stored: bool = False
    """Whether its toolset has committed it together with its effect."""

    @property
    def ref(self) -> str:
        return PREFIX + self.id

    def seal(self, secrets: Secrets) -> None:
        """Turn the ended call into its entry, and let go of what must not be kept."""
        self.sealed = self.entry(secrets)
        self.arguments = None

    def entry(self, secrets: Secrets) -> Entry:
        """The record as a journal entry: arguments redacted before anything is hashed."""
        body = b'{"id":"%b",%b,"arguments":%b,"outcome":"%b","us":%d%b%b%b}' % (
            self.id.encode(),
            _caller(self.tool, self.toolset, self.scope, self.principal, self.attempt),
            _arguments(self.arguments, secrets),
            (self.outcome or "running").encode(),
            self.duration_us,
            b"" if self.code is None else b',"code":"%b"' % self.code.encode(),
            b',"edges":%b' % json.dumps(list(self.edges)) if self.edges else b"",
            _result(self.result) if self.result else b"",
        )
        return Entry("call", self.started_ns, body)


@lru_cache(maxsize=1_024)
def _caller(tool: str, toolset: str, scope: str, principal: str | None, attempt: str | None) -> bytes:
    """The members that a caller's next record repeats."""
    facts = {"tool": tool, "toolset": toolset, "scope": scope, "principal": principal, "attempt": attempt}
    return json.dumps({key: value for key, value in facts.items() if value is not None})[1:-1]


def _arguments(arguments: Any, secrets: Secrets) -> bytes:
    document = json.dumps(arguments)
    if len(document) > LARGEST_ARGUMENTS:
        return json.dumps({"omitted": "too large to keep", "bytes": len(document)})
    return document if is_plain(document, secrets) else json.dumps(redact(arguments, secrets))


def is_inline(result: bytes) -> bool:
    """Whether a result is kept in the record itself: it is short, and it is text."""
    return len(result) <= INLINE and (result.isascii() or _is_text(result))


def _is_text(result: bytes) -> bool:
    try:
        result.decode()
    except UnicodeDecodeError:
        return False
    return True


def _result(result: bytes) -> bytes:
    if is_inline(result):
        return b',"result":{"bytes":%d,"text":%b}' % (len(result), json.quote(result))
    digest = hashlib.sha256(result).hexdigest().encode()
    return b',"result":{"bytes":%d,"sha256":"%b"}' % (len(result), digest)


class Recorder(Protocol):
    """Where dispatch reports each call."""

    def open(self, call: Call[Any], tool: Tool, arguments: Any) -> CallRecord: ...

    def close(
        self, record: CallRecord, outcome: Outcome, code: str | None, result: bytes, us: int
    ) -> None: ...

    @property
    def is_full(self) -> bool:
        """Whether so many records wait that calls must wait too."""
        ...

    async def room(self) -> None:
        """Return when records can be taken again."""
        ...

    async def settle(self, record: CallRecord) -> None:
        """Return when the record is on the disk; a call that changes state is not answered before."""
        ...


def source(body: Mapping[str, Any], time_ns: int) -> Source:
    """What `get_source` shows of a record: its facts, and where its result and citations lead."""
    facts = {key: value for key, value in body.items() if key not in ("id", "us", "edges")}
    facts |= {"startedAt": format(time_ns), "durationUs": body["us"]}
    return Source(PREFIX + body["id"], "call", facts, _edges(body))


def _edges(body: Mapping[str, Any]) -> tuple[Edge, ...]:
    result: Mapping[str, Any] = body.get("result") or {}
    edges = [Edge(relation, ref) for relation, ref in body.get("edges", ())]
    edges += [Edge("cites", ref) for ref in _citations(result.get("text"))]
    if result and "text" not in result:
        edges.append(Edge("result", PAYLOADS + result["sha256"]))
    attempt = body.get("attempt")
    if attempt is not None and attempt != body.get("scope"):
        edges.append(Edge("attempt", attempt_ref(attempt)))
    return tuple(edges)


def _citations(text: str | None) -> list[str]:
    """The references that a result names as its sources."""
    if text is None or '"source_refs"' not in text:
        return []
    try:
        value = json.loads(text)
    except ValueError:
        return []
    refs: Any = cast("dict[str, Any]", value).get("source_refs") if isinstance(value, dict) else None
    return [ref for ref in cast("list[Any]", refs) if isinstance(ref, str)] if isinstance(refs, list) else []
