"""Spans of other programs as events of an attempt: their tools, retrievals, questions and answers.

The attempt is the trace: its id is the trace's, so that batches that arrive apart, and calls of this desk
that carry the same `traceparent`, meet in one. A model's own spans say nothing that its agent's do not, and a
span inside a tool's, which some programs give the tool's name as well, is no second call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from tracedesk.codegraph.capture import genai
from tracedesk.codegraph.capture.bounds import LONGEST_TOOL, is_tool
from tracedesk.codegraph.capture.messages import text_of
from tracedesk.codegraph.capture.otlp import Span
from tracedesk.codegraph.etg.model import NewEvent, is_own
from tracedesk.primitives import json
from tracedesk.primitives.time import MILLISECOND

_STATUSES: Final = ("timeout", "cancelled", "denied")
_LONGEST_ID: Final = 100


def events(span: Span) -> Iterator[NewEvent]:
    """What a span says; most say nothing to us."""
    operation = span.attributes.get(genai.OPERATION)
    if operation == genai.EXECUTE_TOOL or (operation is None and _text(span, genai.CALL_ID)):
        yield from _tool(span)
    elif operation == genai.RETRIEVAL:
        yield _event(span, "context_retrieved", span.start_ns, "retrieval", _retrieved(span))
    elif operation == genai.INVOKE_AGENT or span.parent_id is None:
        yield from _conversation(span)


def _tool(span: Span) -> Iterator[NewEvent]:
    tool = _text(span, genai.TOOL) or span.name.strip() or "unknown"
    if not is_tool(tool):
        raise ValueError(f"its tool's name is not a visible text of 1 to {LONGEST_TOOL} characters")
    arguments = _plain(span.attributes.get(genai.ARGUMENTS))
    started = {"tool": tool, "arguments": _object(arguments)}
    took = max(0, span.end_ns - span.start_ns) // MILLISECOND
    done: dict[str, Any] = {"tool": tool, "status": _status(span), "duration_ms": took}
    result = span.attributes.get(genai.RESULT)
    if result is not None:
        done["output"] = result if isinstance(result, str) else json.dumps(result).decode()
    if span.message:
        done["error"] = span.message
    yield _event(span, "tool_start", span.start_ns, "start", started, tool)
    yield _event(span, "tool_end", max(span.start_ns, span.end_ns), "end", done, tool)


def _status(span: Span) -> str:
    error = span.attributes.get(genai.ERROR_TYPE)
    if error is None and not span.is_error:
        return "ok"
    return error if error in _STATUSES else "error"


def _retrieved(span: Span) -> dict[str, Any]:
    files = span.attributes.get(genai.FILES)
    listed = (
        [files] if isinstance(files, str) else cast("list[Any]", files if isinstance(files, list) else [])
    )
    told: dict[str, Any] = {"files": [file for file in listed if isinstance(file, str)]}
    if query := _text(span, genai.QUERY):
        told["query"] = query
    documents = _plain(span.attributes.get(genai.DOCUMENTS))
    return told if documents is None else {**told, "documents": documents}


def _conversation(span: Span) -> Iterator[NewEvent]:
    asked = text_of(span.attributes.get(genai.INPUT), "user")
    if asked:
        yield _event(span, "context_retrieved", span.start_ns, "prompt", {"files": [], "query": asked})
    answer = text_of(span.attributes.get(genai.OUTPUT), "assistant")
    if answer is None:
        return
    told: dict[str, Any] = {"content": answer}
    tokens = span.attributes.get(genai.OUTPUT_TOKENS)
    if type(tokens) is int and 0 <= tokens < 2**53:
        told["token_count"] = tokens
    yield _event(span, "answer_rendered", max(span.start_ns, span.end_ns), "answer", told)


def _event(
    span: Span, kind: str, time_ns: int, part: str, payload: dict[str, Any], tool: str | None = None
) -> NewEvent:
    call = _text(span, genai.CALL_ID)
    known = call if call.isprintable() and 0 < len(call) <= _LONGEST_ID else span.span_id
    return NewEvent(
        attempt_id=span.trace_id,
        kind=kind,
        payload=payload,
        timestamp_ns=time_ns,
        call_id=known if tool is not None else None,
        event_id=f"{span.trace_id}:{span.span_id}:{part}",
        source="self" if tool is not None and is_own(tool) else "otlp",
    )


def _text(span: Span, name: str) -> str:
    value = span.attributes.get(name)
    return value.strip() if isinstance(value, str) else ""


def _plain(value: Any) -> Any:
    """A value that may be its own JSON, as some write it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, levels=json.DEEPEST)
    except json.TooDeep:
        raise  # it is JSON, and not to be kept as a text
    except ValueError:
        return value


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {} if value is None else {"value": value}
