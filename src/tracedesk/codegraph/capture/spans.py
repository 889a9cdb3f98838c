"""Spans of a trace as events of an attempt: those that our own exports wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tracedesk.codegraph.capture import genai
from tracedesk.codegraph.capture.fields import payload_of
from tracedesk.codegraph.capture.otlp import Span, SpanEvent
from tracedesk.codegraph.etg.model import NewEvent

START: Final = ".start"
END: Final = ".end"


def is_ours(span: Span) -> bool:
    return span.scope == genai.SCOPE and isinstance(span.attributes.get(genai.ATTEMPT), str)


def events(span: Span) -> Iterator[NewEvent]:
    """The events that a span was made from, as they were."""
    for event in span.events:
        kind = genai.EVENT_NAMES.get(event.name)
        if kind is not None:
            yield _event(span, kind, payload_of(kind, event.attributes), event)
    told = span.attributes
    if genai.EVENT_ID in told:
        yield _event(span, "context_retrieved", payload_of("context_retrieved", told), span)
    for kind, part in (("tool_start", START), ("tool_end", END)):
        if genai.EVENT_ID + part in told:
            payload = {"tool": told.get(genai.TOOL, ""), **payload_of(kind, told, part)}
            yield _event(span, kind, payload, span, part)


def _event(
    span: Span, kind: str, payload: dict[str, Any], holder: Span | SpanEvent, part: str = ""
) -> NewEvent:
    told = holder.attributes
    exact = told.get(genai.EVENT_TIME + part)
    project = span.resource.get(genai.PROJECT)
    return NewEvent(
        attempt_id=span.attributes[genai.ATTEMPT],
        kind=kind,
        payload=payload,
        timestamp_ns=exact if type(exact) is int else _time(holder),
        project=project if isinstance(project, str) and project else None,
        outcome=told.get(genai.EVENT_OUTCOME),
        call_id=told.get(genai.EVENT_CALL + part),
        event_id=told.get(genai.EVENT_ID + part),
        source="self" if told.get(genai.EVENT_SELF + part) is True else "otlp",
    )


def _time(holder: Span | SpanEvent) -> int:
    return holder.time_ns if isinstance(holder, SpanEvent) else holder.start_ns
