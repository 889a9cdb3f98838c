"""How an event's payload and a span's attributes say the same: one rule each way, by kind.

A value that has a name and the right type becomes an attribute of that name; everything else of the
payload travels as JSON under `etg.event.payload`. So others read what they know, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tracedesk.codegraph.capture import genai
from tracedesk.codegraph.capture.messages import message, text_of
from tracedesk.primitives import json

_UNFIT: Final = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a payload and the attribute it becomes; either way may answer `_UNFIT`."""

    name: str
    attribute: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else _UNFIT


def _count(value: Any) -> Any:
    return value if type(value) is int and abs(value) < 2**63 else _UNFIT


def _texts(value: Any) -> Any:
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))
    return cast("Any", value) if is_list else _UNFIT


def _as_json(value: Any) -> Any:
    return json.dumps(value).decode() if isinstance(value, dict | list) else _UNFIT


def _from_json(value: Any) -> Any:
    if not isinstance(value, str):
        return cast("Any", value) if isinstance(value, dict | list) else _UNFIT
    try:
        found = json.loads(value, levels=json.DEEPEST)
    except json.TooDeep:
        raise  # it is JSON, and not to be kept as a text
    except ValueError:
        return _UNFIT
    return cast("Any", found) if isinstance(found, dict | list) else _UNFIT


def _answer(value: Any) -> Any:
    return message("assistant", value) if isinstance(value, str) else _UNFIT


def _answered(value: Any) -> Any:
    found = text_of(value, "assistant")
    return _UNFIT if found is None else found


FIELDS: Final[Mapping[str, tuple[Field, ...]]] = {
    "tool_start": (
        Field("tool", genai.TOOL, _text, _text),
        Field("arguments", genai.ARGUMENTS, _as_json, _from_json),
    ),
    "tool_end": (
        Field("status", genai.STATUS, _text, _text),
        Field("duration_ms", genai.DURATION, _count, _count),
        Field("output", genai.RESULT, _text, _text),
    ),
    "checkpoint": (
        Field("message", genai.MESSAGE, _text, _text),
        Field("graph_version", genai.GRAPH_VERSION, _text, _text),
        Field("files", genai.FILES, _texts, _texts),
    ),
    "context_retrieved": (
        Field("files", genai.FILES, _texts, _texts),
        Field("query", genai.QUERY, _text, _text),
        Field("snippets", genai.DOCUMENTS, _as_json, _from_json),
    ),
    "answer_rendered": (
        Field("content", genai.OUTPUT, _answer, _answered),
        Field("token_count", genai.OUTPUT_TOKENS, _count, _count),
    ),
}


def attributes(kind: str, payload: Mapping[str, Any], suffix: str = "") -> dict[str, Any]:
    """A payload as attributes; `suffix` tells the rests of two events on one span apart."""
    told: dict[str, Any] = {}
    for field in FIELDS[kind]:
        if field.name in payload and (value := field.write(payload[field.name])) is not _UNFIT:
            told[field.attribute] = value
    known = payload_of(kind, told)
    rest = {name: value for name, value in payload.items() if name not in known}
    return {**told, genai.REST + suffix: json.dumps(rest).decode()} if rest else told


def payload_of(kind: str, told: Mapping[str, Any], suffix: str = "") -> dict[str, Any]:
    """The payload that attributes say."""
    found: dict[str, Any] = {}
    for field in FIELDS[kind]:
        if field.attribute in told and (value := field.read(told[field.attribute])) is not _UNFIT:
            found[field.name] = value
    rest = _from_json(told.get(genai.REST + suffix))
    return {**found, **rest} if isinstance(rest, dict) else found
