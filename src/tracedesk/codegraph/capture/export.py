"""An attempt as a trace: one span for the whole, one for each tool call and retrieval."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import tracedesk
from tracedesk.codegraph.capture import genai, otlp
from tracedesk.codegraph.capture.fields import attributes
from tracedesk.codegraph.capture.messages import message
from tracedesk.codegraph.capture.otlp import Span, SpanEvent
from tracedesk.codegraph.capture.spans import END, START
from tracedesk.codegraph.etg.model import DEFAULT_PROJECT

if TYPE_CHECKING:
    from tracedesk.codegraph.etg.read import AttemptView

_TRACE: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_EVENT_OF: Final = {kind: name for name, kind in genai.EVENT_NAMES.items()}


class Event(Protocol):
    """One event as the trace keeps it."""

    @property
    def event_id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def time_ns(self) -> int: ...
    @property
    def payload(self) -> Mapping[str, Any]: ...
    @property
    def call_id(self) -> str | None: ...
    @property
    def outcome(self) -> str | None: ...
    @property
    def source(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """What of an attempt goes into its trace."""

    attempt_id: str
    events: Sequence[Event]
    project: str | None = None
    query: str | None = None
    outcome: str | None = None
    graph_version: str | None = None
    complete: bool = True
    """Whether these are all its events."""

    @classmethod
    def of(cls, view: AttemptView) -> Attempt:
        """An attempt as it was read from the trace."""
        brief = view.brief
        queries = (event.payload.get("query") for event in view.events)
        return cls(
            attempt_id=brief.attempt_id,
            events=view.events,
            project=None if brief.project == DEFAULT_PROJECT else brief.project,
            query=next((query for query in queries if isinstance(query, str) and query), None),
            outcome=brief.verdict.outcome,
            graph_version=brief.graph_version,
            complete=not view.more,
        )


def export(attempt: Attempt) -> dict[str, Any]:
    """The attempt as an OTLP ExportTraceServiceRequest in JSON; reading it back gives the same events."""
    return otlp.write(spans(attempt), version=tracedesk.__version__)


def trace_id(attempt_id: str) -> str:
    """The trace of an attempt: its own where its name is one or comes from one, else made from its name."""
    found = _TRACEPARENT.fullmatch(attempt_id)
    if found is not None:
        return found[1]
    return attempt_id if _TRACE.fullmatch(attempt_id) else _digest("trace", attempt_id, 32)


def _digest(*parts: str | int) -> str:
    *texts, digits = parts
    return hashlib.sha256("\0".join(map(str, texts)).encode("utf-8", "surrogatepass")).hexdigest()[
        : int(digits)
    ]


def spans(attempt: Attempt) -> list[Span]:
    """The root, then its children in the order they began."""
    if not attempt.events:
        return []
    ordered = sorted(attempt.events, key=lambda event: event.time_ns)
    made = [_span(attempt, pair) for pair in _pairs(ordered)]
    beside = [event for event in ordered if _is_moment(event)]
    return [_root(attempt, ordered, beside), *sorted(made, key=lambda span: span.start_ns)]


def _is_moment(event: Event) -> bool:
    """Whether an event is told on the root: it took no time, or is a question that retrieved nothing."""
    return event.kind in ("checkpoint", "answer_rendered") or (
        event.kind == "context_retrieved" and not event.payload.get("files")
    )


# --- the root -------------------------------------------------------------------------------------


def _root(attempt: Attempt, ordered: Sequence[Event], beside: Iterable[Event]) -> Span:
    told: dict[str, Any] = {
        genai.OPERATION: genai.INVOKE_AGENT,
        genai.CONVERSATION: attempt.attempt_id,
        genai.ATTEMPT: attempt.attempt_id,
    }
    if attempt.query:
        told[genai.INPUT] = message("user", attempt.query)
    for name, value in (
        (genai.ATTEMPT_OUTCOME, attempt.outcome),
        (genai.ATTEMPT_VERSION, attempt.graph_version),
    ):
        told |= {name: value} if value else {}
    if not attempt.complete:
        told[genai.ATTEMPT_CUT] = True
    return _made(
        attempt,
        "",
        name=genai.INVOKE_AGENT,
        times=(ordered[0].time_ns, ordered[-1].time_ns),
        told=told,
        events=tuple(_moment(event) for event in beside),
    )


def _moment(event: Event) -> SpanEvent:
    told = {**_identity(event), **attributes(event.kind, event.payload)}
    return SpanEvent(_EVENT_OF[event.kind], _positive(event.time_ns), told)


# --- its children ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pair:
    """The events of one child: a tool's start and end, either alone, or a retrieval."""

    first: Event
    last: Event | None = None


def _pairs(ordered: Iterable[Event]) -> Iterator[_Pair]:
    """Tool calls by their call id, else the latest open call of that tool; each event once."""
    open_calls: list[Event] = []
    pairs: list[_Pair] = []
    for event in ordered:
        if event.kind == "tool_start":
            open_calls.append(event)
        elif event.kind == "tool_end":
            start = _start_of(event, open_calls)
            if start is not None:
                open_calls.remove(start)
            pairs.append(_Pair(event) if start is None else _Pair(start, event))
        elif not _is_moment(event):
            pairs.append(_Pair(event))
    yield from pairs
    yield from map(_Pair, open_calls)


def _start_of(end: Event, open_calls: Sequence[Event]) -> Event | None:
    for start in reversed(open_calls):
        if start.payload.get("tool") == end.payload.get("tool") and start.call_id == end.call_id:
            return start
    return None


def _span(attempt: Attempt, pair: _Pair) -> Span:
    first, last = pair.first, pair.last or pair.first
    if first.kind == "context_retrieved":
        told = {**_identity(first), **attributes(first.kind, first.payload)}
        name = genai.RETRIEVAL
    else:
        told = _tool(pair)
        name = f"{genai.EXECUTE_TOOL} {told[genai.TOOL]}"
    operation = genai.RETRIEVAL if name == genai.RETRIEVAL else genai.EXECUTE_TOOL
    status = last.payload.get("status") if last.kind == "tool_end" else "ok"
    failed = isinstance(status, str) and status != "ok"
    error = {genai.ERROR_TYPE: status} if failed else {}
    return _made(
        attempt,
        first.event_id,
        name=name,
        times=(first.time_ns, last.time_ns),
        told={genai.OPERATION: operation, genai.ATTEMPT: attempt.attempt_id, **told, **error},
        is_error=failed,
    )


def _tool(pair: _Pair) -> dict[str, Any]:
    """The attributes of a tool's span; its name stands on it once, whichever event says it."""
    told: dict[str, Any] = {genai.TOOL: str(pair.first.payload.get("tool", ""))}
    for event in (pair.first, *((pair.last,) if pair.last else ())):
        part = START if event.kind == "tool_start" else END
        payload = {k: v for k, v in event.payload.items() if k != "tool" or v != told[genai.TOOL]}
        told |= {**_identity(event, part), **attributes(event.kind, payload, part)}
    if pair.first.call_id is not None:
        told[genai.CALL_ID] = pair.first.call_id
    return told


def _identity(event: Event, part: str = "") -> dict[str, Any]:
    told: dict[str, Any] = {genai.EVENT_ID + part: event.event_id, genai.EVENT_TIME + part: event.time_ns}
    if event.call_id is not None:
        told[genai.EVENT_CALL + part] = event.call_id
    if event.outcome is not None:
        told[genai.EVENT_OUTCOME] = event.outcome
    return {**told, genai.EVENT_SELF + part: True} if event.source == "self" else told


def _made(
    attempt: Attempt,
    id: str,
    *,
    name: str,
    times: tuple[int, int],
    told: dict[str, Any],
    events: tuple[SpanEvent, ...] = (),
    is_error: bool = False,
) -> Span:
    start, end = map(_positive, times)
    resource = {genai.SERVICE_NAME: "tracedesk"}
    return Span(
        trace_id=trace_id(attempt.attempt_id),
        span_id=_digest("span", attempt.attempt_id, id, 16),
        parent_id=_digest("span", attempt.attempt_id, "", 16) if id else None,
        name=name,
        start_ns=start,
        end_ns=max(start, end),
        attributes=told,
        events=events,
        is_error=is_error,
        resource={**resource, genai.PROJECT: attempt.project} if attempt.project else resource,
        scope=genai.SCOPE,
    )


def _positive(time_ns: int) -> int:
    """OTLP counts from 1970; what an event before it says of its time stands in its attributes."""
    return max(1, time_ns)
