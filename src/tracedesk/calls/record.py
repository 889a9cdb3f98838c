"""One call's record: opened before the handler runs, closed before the reply leaves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, Protocol, cast

from tracedesk.calls.attempt import attempt_ref
from tracedesk.contract import Call, Edge, Source, Tool
from tracedesk.primitives import json
from tracedesk.primitives.redaction import Secrets, is_figures, is_plain, is_simple, redact, redact_text
from tracedesk.primitives.time import format

PREFIX: Final = "tracedesk://calls/"
PAYLOADS: Final = "tracedesk://payloads/"
INLINE: Final = 2_048
"""A result up to this size is kept in the record itself; a larger one is a payload of its own."""

LARGEST_ARGUMENTS: Final = 65_536
_MOST_VALUES: Final = LARGEST_ARGUMENTS // 2
"""Values that such arguments can have: each takes a character, and a comma or bracket."""
_REDACTED_AT_ONCE: Final = 4_096
"""Bytes of arguments that are redacted as the call ends; longer ones are left to the writer's thread."""
_OMITTED: Final = b'{"omitted":'
Outcome = Literal["ok", "error", "cancelled", "input_required"]


@dataclass(eq=False)
class CallRecord:
    """What dispatch knows of a call while it runs, and its entry once it has ended.

    What few calls have, or only later, is not set when one is made: every call makes one.
    """

    id: str
    tool: str
    toolset: str
    arguments: Any
    scope: str
    principal: str | None
    attempt: str | None
    started_ns: int
    durable: bool
    outcome: Outcome | None = field(default=None, init=False)
    code: str | None = field(default=None, init=False)
    result: bytes = field(default=b"", init=False)
    duration_us: int = field(default=0, init=False)
    committed: Any = field(default=None, init=False, repr=False)
    """What waits for the record to be on the disk."""
    sealed: bytes | None = field(default=None, init=False)
    """The entry's body, once the call has ended and unless it is put off."""
    document: bytes | None = field(default=None, init=False)
    """Long arguments of an ended call, encoded; the writer redacts them, for that takes a while."""
    put_off: tuple[dict[str, Any], bytes, int] | None = field(default=None, init=False)
    """Or what the body will be made of: arguments, result and microseconds, as they were at the end."""
    held: int = field(default=0, init=False)
    """Bytes that it counts among the records that wait for the writer."""
    problem: Exception | None = field(default=None, init=False)
    """What kept it from there."""
    stored: bool = field(default=False, init=False)
    """Whether its toolset has committed it together with its effect."""
    alias: tuple[str, str, str] | None = field(default=None, init=False)
    """A name that every desk of the home finds the call by: its holder, a space of names, and the name."""
    _edges: dict[tuple[str, str], None] | None = field(default=None, init=False)

    @property
    def ref(self) -> str:
        return PREFIX + self.id

    @property
    def size(self) -> int:
        """Bytes of its bodies."""
        return len(self.result) + len(self.sealed or b"") + len(self.document or b"")

    @property
    def is_sealed(self) -> bool:
        """True when the body is made, or all data is there from which the writer makes it."""
        return self.sealed is not None or self.put_off is not None or self.document is not None

    @property
    def edges(self) -> dict[tuple[str, str], None]:
        """What the answer was made from: (relation, reference), in the order they were cited."""
        if self._edges is None:
            self._edges = {}
        return self._edges

    def seal(self, secrets: Secrets) -> None:
        """Turn the ended call into its entry's body, and let go of what must not be kept.

        Where nothing can fail or be a secret, the body is put off: the writer, which makes many in one go,
        takes half as long for it.
        """
        result, arguments = self.result, self.arguments
        if (
            self.outcome == "ok"
            and self.code is None
            and not self._edges
            and 0 < len(result) <= INLINE
            and result.isascii()
            and is_figures(arguments)
            and secrets.are_none
        ):
            self.put_off = (arguments.copy(), result, self.duration_us)
        else:
            self.sealed = self._simple(secrets) or self._long(secrets)
        self.arguments = None

    def _simple(self, secrets: Secrets) -> bytes | None:
        """The body, where nothing in it can be a secret."""
        if self.outcome == "error" or not is_simple(self.arguments):
            return None
        body = self._with(self.arguments)
        return None if secrets.occur_in(body) else body

    def _long(self, secrets: Secrets) -> bytes | None:
        """The body with redacted arguments; None where they are so long that the writer redacts them."""
        document = _document(self.arguments)
        # A live value may be let go of before the writer comes to it.
        if len(document) <= _REDACTED_AT_ONCE or secrets.occur_in(document):
            return self._kept(document, secrets)
        self.document = document
        return None

    def give_up(self, problem: BaseException) -> None:
        """Keep the record without the arguments, which could not be encoded or redacted."""
        self.put_off = self.document = None
        self._edges = None
        self.arguments = {"omitted": f"could not be kept ({type(problem).__name__})"}
        self.sealed = self._with(self.arguments)
        self.arguments = None

    def body(self, secrets: Secrets) -> bytes:
        """What the entry says: arguments redacted before anything is hashed."""
        if self.sealed is not None:
            return self.sealed
        if self.put_off is not None:
            return json.dumps(self.later())
        if self.document is not None:
            return self._kept(self.document, secrets)
        return self._simple(secrets) or self._kept(_document(self.arguments), secrets)

    def _kept(self, document: bytes, secrets: Secrets) -> bytes:
        """The body without secrets: an answer may repeat what it was asked, a refusal what it refuses."""
        arguments = _redacted(document, secrets)
        is_less = arguments is not document or document.startswith(_OMITTED)
        if self.result and (is_less or self.outcome == "error"):
            self.result = _without_secrets(self.result, secrets)
        return self._with(json.Raw(arguments))

    def later(self) -> dict[str, Any]:
        """What the body says that was put off."""
        assert self.put_off is not None
        arguments, result, us = self.put_off
        facts = self._facts(arguments, "ok", us)
        facts["result"] = {"bytes": len(result), "text": result.decode("ascii")}
        return facts

    def _facts(self, arguments: Any, outcome: str, us: int) -> dict[str, Any]:
        """What every body says; made in one go, and what is not known is taken out again."""
        facts: dict[str, Any] = {
            "id": self.id,
            "tool": self.tool,
            "toolset": self.toolset,
            "scope": self.scope,
            "principal": self.principal,
            "attempt": self.attempt,
            "arguments": arguments,
            "outcome": outcome,
            "us": us,
        }
        if self.principal is None:
            del facts["principal"]
        if self.attempt is None:
            del facts["attempt"]
        return facts

    def _with(self, arguments: Any) -> bytes:
        """The body with these arguments, encoded in one go."""
        facts = self._facts(arguments, self.outcome or "running", self.duration_us)
        if self.code is not None:
            facts["code"] = self.code
        if self._edges:
            facts["edges"] = list(self._edges)
        if self.result:
            facts["result"] = _result(self.result)
        return json.dumps(facts)


def bodies(records: Sequence[CallRecord], secrets: Secrets) -> list[bytes]:
    """The bodies of ended calls, in order."""
    late = [record.later() for record in records if record.put_off is not None]
    made = json.dumps_each(late)
    if len(late) == len(records):
        return made
    rest = iter(made)
    return [record.body(secrets) if record.put_off is None else next(rest) for record in records]


def _document(arguments: Any) -> bytes:
    """The arguments as JSON, or what stands for those that are too large to keep."""
    if json.count_values(arguments, _MOST_VALUES) > _MOST_VALUES:
        return json.dumps({"omitted": "too large to keep"})
    document = json.dumps(arguments)
    if len(document) > LARGEST_ARGUMENTS:
        return json.dumps({"omitted": "too large to keep", "bytes": len(document)})
    return document


def _redacted(document: bytes, secrets: Secrets) -> bytes:
    if is_plain(document, secrets):
        return document
    return json.dumps(redact(json.loads(document), secrets))


def _without_secrets(result: bytes, secrets: Secrets) -> bytes:
    if is_plain(result, secrets):
        return result
    try:
        return json.dumps(redact(json.loads(result), secrets))
    except ValueError:
        return redact_text(result.decode(errors="replace"), secrets).encode()


@lru_cache(maxsize=1_024)
def kept_name(name: str) -> str:
    """Return an attempt's name as it is kept: clients choose it, and some put more into it than a name."""
    return redact_text(name)


def is_inline(result: bytes) -> bool:
    """Whether a result is kept in the record itself: it is short, and it is text."""
    return len(result) <= INLINE and (result.isascii() or _is_text(result))


def _is_text(result: bytes) -> bool:
    try:
        result.decode()
    except UnicodeDecodeError:
        return False
    return True


def _result(result: bytes) -> dict[str, Any]:
    if is_inline(result):
        return {"bytes": len(result), "text": result.decode()}
    return {"bytes": len(result), "sha256": hashlib.sha256(result).hexdigest()}


class Recorder(Protocol):
    """Where dispatch reports each call."""

    def open(self, call: Call[Any], tool: Tool, arguments: Any) -> CallRecord: ...

    def close(
        self, record: CallRecord, outcome: Outcome, code: str | None, result: bytes, us: int
    ) -> None: ...

    def is_full(self, *, stranger: bool) -> bool:
        """True when so many records wait that calls must wait too, those without a token first."""
        ...

    async def room(self, *, stranger: bool) -> None:
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
