"""OTLP/HTTP in JSON: a posted document into spans, and spans into a document.

Ids are hexadecimal here (OTLP says so, against protobuf's own JSON), 64-bit numbers are texts, unknown
members are passed over. A span that breaks a rule is rejected by itself, and the others are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, cast

from tracedesk.primitives import json

MOST_SPANS: Final = 2_000
"""Spans of one document: as many as a slow disk takes in while a sender waits."""
MOST_ATTRIBUTES: Final = 512
DEEPEST: Final = 32
INTERNAL: Final = 1
ERROR: Final = 2
_TRACE: Final = re.compile(r"(?!0{32})[0-9a-fA-F]{32}")
_SPAN: Final = re.compile(r"(?!0{16})[0-9a-fA-F]{16}")

Attributes = dict[str, Any]


class NotOtlp(ValueError):
    """A document that is no trace export at all."""


class _Bad(ValueError):
    """A span that breaks a rule."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened during a span."""

    name: str
    time_ns: int
    attributes: Attributes = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Span:
    """One step of a trace."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes = field(default_factory=dict[str, Any])
    events: tuple[SpanEvent, ...] = ()
    is_error: bool = False
    message: str = ""
    resource: Attributes = field(default_factory=dict[str, Any])
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Received:
    """The spans of a document, how many were rejected, and why the first few were."""

    spans: tuple[Span, ...]
    rejected: int = 0
    problems: tuple[str, ...] = ()


# --- reading ------------------------------------------------------------------------------------


def read(document: bytes | Mapping[str, Any]) -> Received:
    """The spans of an ExportTraceServiceRequest in JSON; raises `NotOtlp`."""
    body = _parsed(document) if isinstance(document, bytes) else document
    spans: list[Span] = []
    problems: list[str] = []
    rejected = 0
    for number, (span, resource, scope) in enumerate(_walk(body)):
        try:
            if number >= MOST_SPANS:
                raise _Bad(f"a document may have at most {MOST_SPANS} spans; send smaller batches")
            spans.append(_span(span, resource, scope))
        except _Bad as fault:
            rejected += 1
            problems.append(f"span {number}: {fault}")
    return Received(tuple(spans), rejected, tuple(dict.fromkeys(problems))[:3])


def _parsed(document: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(document, levels=json.DEEPEST)
    except ValueError as fault:
        raise NotOtlp(f"the body is not JSON: {fault}") from None
    if not isinstance(body, dict):
        raise NotOtlp("the body is JSON, but not an object with resourceSpans")
    return cast("dict[str, Any]", body)


def _walk(body: Mapping[str, Any]) -> Iterator[tuple[Any, Attributes, str]]:
    for group in _list(body, "resourceSpans"):
        resource = _lenient(_object(group, "resourceSpans").get("resource"))
        for part in _list(group, "scopeSpans"):
            scope: Any = _object(part, "scopeSpans").get("scope")
            name = cast("dict[str, Any]", scope).get("name") if isinstance(scope, dict) else None
            for span in _list(part, "spans"):
                yield span, resource, name if isinstance(name, str) else ""


def _lenient(resource: Any) -> Attributes:
    try:
        return _attributes(cast("dict[str, Any]", resource)) if isinstance(resource, dict) else {}
    except _Bad as fault:
        raise NotOtlp(f"a resource is not as OTLP writes it: {fault}") from None


def _list(holder: Any, name: str) -> list[Any]:
    found = holder.get(name, [])
    if found is None:
        return []
    if not isinstance(found, list):
        raise NotOtlp(f"{name} must be a list")
    return cast("list[Any]", found)


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NotOtlp(f"{name} must be a list of objects")
    return cast("dict[str, Any]", value)


def _span(value: Any, resource: Attributes, scope: str) -> Span:
    if not isinstance(value, dict):
        raise _Bad("it is not an object")
    told = cast("dict[str, Any]", value)
    status: Any = told.get("status")
    state = cast("dict[str, Any]", status) if isinstance(status, dict) else {}
    message = state.get("message")
    return Span(
        trace_id=_hex(told, "traceId", _TRACE, 32),
        span_id=_hex(told, "spanId", _SPAN, 16),
        parent_id=_hex(told, "parentSpanId", _SPAN, 16) if told.get("parentSpanId") else None,
        name=_name(told),
        start_ns=_nanos(told, "startTimeUnixNano"),
        end_ns=_nanos(told, "endTimeUnixNano"),
        attributes=_attributes(told),
        events=tuple(_events(told)),
        is_error=state.get("code") in (ERROR, "STATUS_CODE_ERROR"),
        message=message if isinstance(message, str) else "",
        resource=resource,
        scope=scope,
    )


def _events(span: Mapping[str, Any]) -> Iterator[SpanEvent]:
    events: Any = span.get("events") or []
    if not isinstance(events, list):
        raise _Bad("events must be a list")
    for event in cast("list[Any]", events):
        if not isinstance(event, dict):
            raise _Bad("events must be a list of objects")
        told = cast("dict[str, Any]", event)
        yield SpanEvent(_name(told), _nanos(told, "timeUnixNano"), _attributes(told))


def _name(told: Mapping[str, Any]) -> str:
    name = told.get("name", "")
    if not isinstance(name, str):
        raise _Bad("name must be a text")
    return name


def _hex(told: Mapping[str, Any], name: str, pattern: re.Pattern[str], digits: int) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _Bad(f"{name} must have {digits} hexadecimal digits, not all of them 0")
    return value.lower()


def _nanos(told: Mapping[str, Any], name: str) -> int:
    value = _integer(told.get(name))
    if value is None or not 0 < value < 2**63:
        raise _Bad(f"{name} must be nanoseconds since 1970, as a text or a number")
    return value


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        return int(value)
    if isinstance(value, Decimal) and value == value.to_integral_value() and abs(value) < 2**63:
        return int(value)
    return None


def _attributes(holder: Mapping[str, Any]) -> Attributes:
    listed: Any = holder.get("attributes") or []
    if not isinstance(listed, list) or len(cast("list[Any]", listed)) > MOST_ATTRIBUTES:
        raise _Bad(f"attributes must be a list of at most {MOST_ATTRIBUTES}")
    return _pairs(cast("list[Any]", listed), 0)


def _pairs(listed: Iterable[Any], depth: int) -> Attributes:
    found: Attributes = {}
    for pair in listed:
        told = cast("dict[str, Any]", pair) if isinstance(pair, dict) else {}
        key = told.get("key")
        if not isinstance(key, str):
            raise _Bad("each attribute must have a key and a value")
        found[key] = _value(told.get("value"), depth)
    return found


def _value(value: Any, depth: int) -> Any:
    """An AnyValue as plain JSON; one that is empty is None."""
    if depth > DEEPEST:
        raise _Bad(f"an attribute is nested deeper than {DEEPEST}")
    told = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    for kind, given in told.items():
        match kind:
            case "stringValue" | "bytesValue" if isinstance(given, str):
                return given
            case "boolValue" if isinstance(given, bool):
                return given
            case "intValue" if (number := _integer(given)) is not None:
                return number
            case "doubleValue" if isinstance(given, int | Decimal | float | str):
                return given
            case "arrayValue":
                return [_value(item, depth + 1) for item in _values(given)]
            case "kvlistValue":
                return _pairs(_values(given), depth + 1)
            case _:
                continue
    return None


def _values(given: Any) -> list[Any]:
    values = cast("dict[str, Any]", given).get("values") if isinstance(given, dict) else None
    if values is not None and not isinstance(values, list):
        raise _Bad("an attribute's values must be a list")
    return cast("list[Any]", values or [])


# --- writing ------------------------------------------------------------------------------------


def write(spans: Iterable[Span], *, version: str) -> dict[str, Any]:
    """Spans of one resource and scope as an ExportTraceServiceRequest in JSON."""
    listed = list(spans)
    resource = listed[0].resource if listed else {}
    scope = {"name": listed[0].scope if listed else "", "version": version}
    told = [_written(span) for span in listed]
    part = {"scope": scope, "spans": told}
    return {"resourceSpans": [{"resource": {"attributes": _listed(resource)}, "scopeSpans": [part]}]}


def _written(span: Span) -> dict[str, Any]:
    told: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id is not None:
        told["parentSpanId"] = span.parent_id
    status: dict[str, Any] = {"code": ERROR, "message": span.message} if span.is_error else {}
    return {
        **told,
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _listed(span.attributes),
        "events": [
            {"timeUnixNano": str(e.time_ns), "name": e.name, "attributes": _listed(e.attributes)}
            for e in span.events
        ],
        "status": status,
    }


def _listed(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _wrapped(value)} for key, value in attributes.items()]


def _wrapped(value: str | bool | int | list[str]) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
    return {"stringValue": value}


def partial(received: Received) -> dict[str, Any]:
    """The answer to an export: empty when everything was taken, as OTLP wants it."""
    if not received.rejected:
        return {}
    told = {"rejectedSpans": str(received.rejected), "errorMessage": "; ".join(received.problems)}
    return {"partialSuccess": told}
