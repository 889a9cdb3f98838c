"""An event as the journal keeps it: redacted, bounded, with all that its projections are made from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tracedesk.codegraph.etg.checks import FIELDS
from tracedesk.codegraph.etg.files import Named, named
from tracedesk.codegraph.etg.model import LARGEST_PAYLOAD, NewEvent, Source, canonical
from tracedesk.codegraph.etg.runners import Result, output_of, result_of
from tracedesk.errors import ToolError
from tracedesk.journal import Entry
from tracedesk.payloads import Payloads
from tracedesk.primitives import json
from tracedesk.primitives.redaction import Secrets, is_plain, redact

_PAYLOADS: Final = "tracedesk://payloads/"
_CUTS: Final = (4_096, 1_024, 256, 64)
"""Characters that texts of a too large payload are cut to, one after the other until it fits."""

_MOST_ITEMS: Final = 200
_LARGEST_FILES: Final = 32_768


@dataclass(slots=True)
class Facts:
    """What the desk adds to an event that it takes."""

    event_id: str
    received_ns: int
    hint: str | None = None
    """The project it is probably of, when it names none."""
    graph: str | None = None
    """The graph's version now, for the attempt that this event begins."""
    known: bool | None = None
    """Whether a graph has or had the version that a checkpoint names."""
    skewed: bool = False
    by: str | None = None
    """The desk's call that logged it."""


@dataclass(slots=True)
class Prepared:
    """An event ready to be appended."""

    event: NewEvent
    facts: Facts
    attempt: str
    event_id: str
    """As it is kept, like the attempt: without secrets."""
    entry: Entry
    digest: int
    is_timed: bool
    cut: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """An event read back from its journal row."""

    event: int
    kind: str
    time_ns: int
    attempt: str
    event_id: str
    payload: Mapping[str, Any]
    source: Source
    digest: int
    body: Mapping[str, Any] = field(repr=False)

    @property
    def call_id(self) -> str | None:
        return self.body.get("call")

    @property
    def outcome(self) -> str | None:
        return self.body.get("outcome")

    @property
    def files(self) -> list[Named]:
        kept = self.body.get("files")
        return [(path, role) for path, role in kept] if kept is not None else named(self.kind, self.payload)

    @property
    def spoken(self) -> Result | None:
        """The result that a tool's output speaks of."""
        if "cut" in self.body:
            return self.body.get("spoken")
        return result_of(output_of(self.payload)) if self.kind == "tool_end" else None

    @property
    def payload_ref(self) -> str | None:
        """Where the whole payload is, when it was too large to be kept here."""
        cut: Mapping[str, Any] = self.body.get("cut") or {}
        digest = cut.get("sha256")
        return _PAYLOADS + digest if digest else None


def prepare(event: NewEvent, facts: Facts, secrets: Secrets, payloads: Payloads) -> Prepared:
    """Redact an event, move what is too large into a payload, and encode it."""
    frame, payload, document = _redacted(event, facts, secrets)
    digest = digest_of(event.kind, frame.get("call"), payload)
    frame["hash"] = f"{digest:016x}"
    cut = len(document) > LARGEST_PAYLOAD
    if cut:
        document = _cut(event.kind, payload, document, frame, payloads)
    time_ns = facts.received_ns if event.timestamp_ns is None else event.timestamp_ns
    frame["payload"] = json.Raw(document)
    entry = Entry(event.kind, time_ns, json.dumps(frame))
    timed = event.timestamp_ns is not None
    return Prepared(event, facts, frame["attempt"], frame["id"], entry, _signed(digest), timed, cut)


def read(event: int, kind: str, time_ns: int, body: bytes) -> Stored:
    """The event of a journal row."""
    found = json.loads(body)
    digest = _signed(int(found["hash"], 16))
    return Stored(
        event, kind, time_ns, found["attempt"], found["id"], found["payload"], found["source"], digest, found
    )


def digest_of(kind: str, call_id: str | None, payload: Any) -> int:
    """Equal for events that say the same, in whatever order their members come."""
    head = f"{kind}\n{call_id or ''}\n".encode()
    return int.from_bytes(hashlib.sha256(head + json.dumps(payload, ordered=True)).digest()[:8], "big")


def _signed(digest: int) -> int:
    return digest - (1 << 64) if digest >> 63 else digest


def _redacted(
    event: NewEvent, facts: Facts, secrets: Secrets
) -> tuple[dict[str, Any], Mapping[str, Any], bytes]:
    frame = _frame(event, facts)
    payload: Mapping[str, Any] = event.payload
    told, document = json.dumps(frame), _document(payload)
    # One look for both: nearly always there is nothing in either.
    if not is_plain(told + document, secrets):
        if not is_plain(told, secrets):
            frame = redact(frame, secrets)
        if not is_plain(document, secrets):
            payload = redact(payload, secrets)
            document = json.dumps(payload)
    if facts.by is not None:
        frame["by"] = facts.by  # the desk's own reference: as an address it would have all looked through
    return frame, payload, document


def _document(payload: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(payload)
    except TypeError as problem:
        message = f"payload: cannot be kept as JSON ({problem}); nest less, and use plain values."
        raise ToolError("INVALID_PARAMETER", message, {"fields": [{"field": "payload"}]}) from None


def _frame(event: NewEvent, facts: Facts) -> dict[str, Any]:
    frame: dict[str, Any] = {
        "id": facts.event_id,
        "attempt": canonical(event.attempt_id),
        "source": event.source,
        "at": facts.received_ns,
    }
    for name, value in (
        ("project", event.project),
        ("hint", facts.hint),
        ("outcome", event.outcome),
        ("call", event.call_id),
        ("graph", facts.graph),
        ("known", facts.known),
        ("skewed", facts.skewed or None),
    ):
        if value is not None:
            frame[name] = value
    return frame


# --- payloads that are too large ---------------------------------------------------------------


def _cut(
    kind: str, payload: Mapping[str, Any], document: bytes, frame: dict[str, Any], payloads: Payloads
) -> bytes:
    """A payload that fits; the whole goes to `payloads/`, and the files it names stay here."""
    sha256 = payloads.put(document)
    frame["cut"] = {"bytes": len(document), "sha256": sha256}
    frame["files"] = _bounded(named(kind, payload))
    if kind == "tool_end" and (spoken := result_of(output_of(payload))):
        frame["spoken"] = spoken
    small = _fitting(kind, payload)
    if kind == "tool_end" and sha256 is not None:
        small.setdefault("output_ref", _PAYLOADS + sha256)
    return json.dumps(small)


def _bounded(files: list[Named]) -> list[Named]:
    kept: list[Named] = []
    size = 0
    for path, role in files:
        size += len(path.encode(errors="surrogatepass")) + 16
        if size > _LARGEST_FILES:
            break
        kept.append((path, role))
    return kept


def _fitting(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    for longest in _CUTS:
        small = cast("dict[str, Any]", _shortened(payload, longest))
        if len(json.dumps(small)) <= LARGEST_PAYLOAD - 256:
            return small
    return {name: _least(payload[name]) for name, *_ in FIELDS[kind] if name in payload}


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else value[:longest] + "…"
    if isinstance(value, Mapping):
        items = list(cast("Mapping[str, Any]", value).items())[:_MOST_ITEMS]
        return {name[:longest]: _shortened(item, longest) for name, item in items}
    if isinstance(value, list):
        return [_shortened(item, longest) for item in cast("list[Any]", value)[:_MOST_ITEMS]]
    return value


def _least(value: Any) -> Any:
    """What is left of a field whose parts are too many."""
    if isinstance(value, str):
        return value[:64]
    return {} if isinstance(value, Mapping) else [] if isinstance(value, list) else value
