"""A posted trace export into the trace: what can be taken is, and what cannot is counted and explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tracedesk.codegraph.capture import foreign, otlp, spans
from tracedesk.codegraph.capture.bounds import DEEPEST, is_deep
from tracedesk.codegraph.capture.drain import Trace
from tracedesk.codegraph.capture.otlp import Received, Span
from tracedesk.codegraph.etg.checks import check
from tracedesk.codegraph.etg.model import Logged, NewEvent
from tracedesk.errors import ToolError


def take(document: bytes, trace: Trace) -> tuple[dict[str, Any], Sequence[Logged]]:
    """Log what the spans of a document say: OTLP's answer, and what was logged. Raises `NotOtlp`."""
    received, events = events_of(document)
    logged = trace.log_many(events) if events else ()
    return otlp.partial(received), logged


def events_of(document: bytes | dict[str, Any]) -> tuple[Received, list[NewEvent]]:
    """The events of a document, in the order of time, and which of its spans were not fit."""
    received = otlp.read(document)
    found: list[NewEvent] = []
    for span in received.spans:
        try:
            found += _checked(span)
        except Exception as fault:
            problems = (*received.problems, f"span {span.span_id}: {_reason(fault)}")[:3]
            received = replace(received, rejected=received.rejected + 1, problems=problems)
    return received, sorted(found, key=lambda event: event.timestamp_ns or 0)


def _checked(span: Span) -> list[NewEvent]:
    found = [*(spans.events(span) if spans.is_ours(span) else foreign.events(span))]
    for event in found:
        check(event, lambda: None)
        if is_deep(event.payload):
            raise ValueError(f"what it says nests deeper than {DEEPEST}")
        if not -(2**63) <= (event.timestamp_ns or 0) < 2**63:
            raise ValueError("its time must be nanoseconds since 1970, in 64 bits")
    return found


def _reason(fault: Exception) -> str:
    if isinstance(fault, ToolError):
        return fault.message
    return str(fault) if isinstance(fault, ValueError) else f"it cannot be read ({type(fault).__name__})"
