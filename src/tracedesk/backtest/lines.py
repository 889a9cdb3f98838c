"""A seed event object as one line of JSONL: read without losing a digit, and written the same way each time.

What cannot be read as it is, is still an event: it keeps the words that were given, and says what is wrong.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from json import JSONDecoder
from typing import Any, Final, TypedDict, cast

import orjson

from tracedesk.backtest.bodies import DEEPEST, nests_deeper
from tracedesk.backtest.ids import guid_bytes
from tracedesk.backtest.model import CATEGORIES, RAW, SEVERITIES, TYPES, Category, EventType, Severity
from tracedesk.primitives import json, time

CARRIER: Final = EventType.StateChange
"""The type of an event whose own cannot be known: nothing is required of it, and it names no state."""

_SHOWN: Final = 80
_BLANK: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[ \t\r\n]+')
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_PROPERTIES: Final = b'"properties":'
_DECODER: Final = JSONDecoder()
_TOO_DEEP: Final = f"Nests deeper than {DEEPEST} levels"


class Fault(TypedDict):
    """One validation error, as the contract shows it."""

    Field: str
    Error: str
    Severity: str


@dataclass(slots=True)
class Line:
    """An event as a line gives it; ids are not resolved yet."""

    body: bytes
    properties: Mapping[str, Any]
    """The body, parsed exactly."""
    type: EventType = CARRIER
    time_ns: int | None = None
    run: str | None = None
    guid: bytes | None = None
    parent: bytes | None = None
    severity: Severity | None = None
    category: Category | None = None
    faults: list[Fault] = field(default_factory=list[Fault])
    is_typed: bool = False
    """True if the type is the line's own, and not the one for lines without a known type."""


def fault(name: str, problem: str, severity: str = "Error") -> Fault:
    return {"Field": name, "Error": problem, "Severity": severity}


def read(raw: bytes) -> Line:
    """The event that a line holds, whatever the line is."""
    try:
        members = _parsed(raw)
    except ValueError as problem:
        return _kept(raw, fault("Line", f"Malformed JSON: {str(problem)[:_SHOWN]}"))
    if not isinstance(members, dict):
        return _kept(raw, fault("Line", "Not a JSON object"))
    return _shallow(raw, cast("dict[str, Any]", members))


def _shallow(raw: bytes, members: dict[str, Any]) -> Line:
    """The event, unless its members nest so deeply that nothing could be said of them."""
    others = (value for name, value in members.items() if name != "properties")
    if _may_nest(raw) and any(map(nests_deeper, others)):
        return _kept(raw, fault("Line", _TOO_DEEP))
    try:
        return _event(raw, members)
    except RecursionError:
        return _kept(raw, fault("Line", _TOO_DEEP))


def _may_nest(raw: bytes) -> bool:
    """A quick no for lines that have too few brackets."""
    return raw.count(b"{") + raw.count(b"[") > DEEPEST


def _parsed(raw: bytes) -> Any:
    """The line's values; the quick parser has no numbers past a float's range, the exact one has."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return json.loads(raw)


def _kept(raw: bytes, *problems: Fault) -> Line:
    """The whole line as the text of an event that says why."""
    return _line({RAW: raw.decode("utf-8", "backslashreplace")}, *problems)


def _line(properties: dict[str, Any], *problems: Fault) -> Line:
    return Line(json.dumps(properties), properties, severity=Severity.Error, faults=list(problems))


def _event(raw: bytes, members: dict[str, Any]) -> Line:
    kind = members.get("eventType")
    if not isinstance(kind, str) or kind not in TYPES:
        # More than the raw text alone, because the line is sound JSON; only its type is unknown.
        properties = {RAW: raw.decode(), "_eventType": kind}
        line = _line(properties, fault("EventType", f"Unknown event type {_short(kind)}"))
    else:
        faults: list[Fault] = []
        line = Line(*_body(raw, members, faults), TYPES[kind], is_typed=True, faults=faults)
        line.severity = _named(SEVERITIES, "severity", members, faults)
        line.category = _named(CATEGORIES, "category", members, faults)
        faults += _given(members.get("validationErrors"), faults)
    line.time_ns = _time(members.get("timestamp"), line.faults)
    line.run = _text(members.get("runId"), "RunId", line.faults)
    line.guid = _guid("EventId", members.get("eventId"), line.faults)
    line.parent = _guid("ParentEventId", members.get("parentEventId"), line.faults)
    return line


# --- the properties, byte for byte ------------------------------------------------------------


def _body(raw: bytes, members: dict[str, Any], faults: list[Fault]) -> tuple[bytes, Mapping[str, Any]]:
    """The properties as they are written in the line, without the blanks between their tokens; and parsed."""
    if _may_nest(raw) and nests_deeper(members.get("properties")):
        faults.append(fault("Properties", _TOO_DEEP))
        return _kept_text(_slow(raw).decode())
    if not isinstance(members.get("properties"), dict):
        return _no_object(members, faults)
    found = _quick(raw, members) or _slow(raw)
    if b" " in found or b"\n" in found or b"\t" in found or b"\r" in found:
        found = _BLANK.sub(lambda token: token[0] if token[0][:1] == b'"' else b"", found)
    try:
        return found, json.loads(found)
    except ValueError as problem:
        faults.append(fault("Properties", f"Not strict JSON: {str(problem)[:_SHOWN]}"))
        return _kept_text(found.decode("utf-8"))


def _no_object(members: dict[str, Any], faults: list[Fault]) -> tuple[bytes, Mapping[str, Any]]:
    value = members.get("properties")
    if value is None:
        faults.append(fault("Properties", "Missing required field"))
        return b"{}", {}
    faults.append(fault("Properties", "Not a JSON object"))
    return _kept_text(value if isinstance(value, str) else json.dumps(value).decode())


def _kept_text(text: str) -> tuple[bytes, Mapping[str, Any]]:
    return json.dumps({RAW: text}), {RAW: text}


def _quick(raw: bytes, members: dict[str, Any]) -> bytes | None:
    """The slice where a line in the usual order has them, if it can be proved to be theirs."""
    start = raw.find(_PROPERTIES) + len(_PROPERTIES)
    end = raw.rfind(b',"parentEventId":')
    if end < start or start < len(_PROPERTIES) or raw[start : start + 1] != b"{":
        return None
    try:
        if orjson.loads(raw[:start] + b"null" + raw[end:]) != {**members, "properties": None}:
            return None
        return raw[start:end] if orjson.loads(raw[start:end]) == members["properties"] else None
    except orjson.JSONDecodeError:
        return None


def _slow(raw: bytes) -> bytes:
    """The slice found by walking the line's members; the last one of that name counts, as for the parser."""
    text = raw.decode("utf-8").removeprefix("\ufeff")
    place = _after(text, text.index("{") + 1)
    found = "{}"
    while text[place] != "}":
        name, place = _DECODER.raw_decode(text, place)
        start = _after(text, _after(text, place) + 1)
        place = _DECODER.raw_decode(text, start)[1]
        if name == "properties":
            found = text[start:place]
        place = _after(text, place)
        if text[place] == ",":
            place = _after(text, place + 1)
    return found.encode()


def _after(text: str, place: int) -> int:
    blank = _SPACE.match(text, place)
    return blank.end() if blank else place


# --- the other members ------------------------------------------------------------------------


def _named(known: Any, name: str, members: dict[str, Any], faults: list[Fault]) -> Any:
    value = members.get(name)
    if value is None:
        return None
    if isinstance(value, str) and value in known:
        return known[value]
    faults.append(
        fault(name.capitalize(), f"Unknown {name} {_short(value)}; the type's own is used", "Warning")
    )
    return None


def _given(value: Any, own: Sequence[Fault]) -> list[Fault]:
    """The validation errors that the event brings; what is none of the contract's kind is told as text."""
    if value is None or value == []:
        return []
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    known = {(one["Field"], one["Error"]) for one in own}
    found = [_one_given(item) for item in items]
    return [one for one in found if (one["Field"], one["Error"]) not in known]


def _one_given(item: Any) -> Fault:
    if isinstance(item, dict):
        members = cast("dict[str, Any]", item)
        texts = [members.get(name) for name in ("Field", "Error", "Severity")]
        if all(isinstance(text, str) for text in texts) and texts[2] in ("Error", "Warning"):
            return fault(str(texts[0]), str(texts[1]), str(texts[2]))
    return fault("ValidationErrors", json.dumps(item).decode())


def _time(value: Any, faults: list[Fault]) -> int | None:
    if value is None:
        faults.append(fault("Timestamp", "Missing required field"))
        return None
    try:
        instant = _instant(value if isinstance(value, str) else str(value))
    except ValueError:
        faults.append(fault("Timestamp", f"{_short(value)} is not an ISO 8601 time"))
        return None
    if instant.zone_assumed:
        faults.append(fault("Timestamp", "No zone; taken as UTC", "Warning"))
    return instant.ns


_instant: Final = lru_cache(maxsize=4_096)(time.parse)
"""Events come in bunches that share their time."""


def _text(value: Any, name: str, faults: list[Fault]) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    faults.append(fault(name, f"{_short(value)} is not a text", "Warning"))
    return json.dumps(value).decode()


def _guid(name: str, value: Any, faults: list[Fault]) -> bytes | None:
    """An id of another form gets the GUID that its text has within every import."""
    if value is None or value == "":
        return None
    try:
        return _bytes(value if isinstance(value, str) else "")
    except ValueError:
        text = value if isinstance(value, str) else json.dumps(value).decode()
        if name == "EventId":
            faults.append(fault(name, f"{_short(value)} is not a GUID; one was made from it", "Warning"))
        return foreign(text)


def _bytes(text: str) -> bytes:
    """A GUID's bytes; the usual form is read at once, others as `guid_bytes` allows them."""
    if len(text) == 36 and text[8] == text[13] == text[18] == text[23] == "-":
        raw = bytes.fromhex(text.replace("-", ""))
        if len(raw) == 16:
            return raw
    return guid_bytes(text)


def foreign(text: str) -> bytes:
    """A GUID (version 8) for an id that is none."""
    digest = bytearray(
        hashlib.sha256(b"tracedesk event id\0" + text.encode("utf-8", "replace")).digest()[:16]
    )
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value).decode()
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


# --- writing ----------------------------------------------------------------------------------


def write(
    event_id: str,
    run_id: str,
    time_ns: int,
    names: tuple[str, str, str],
    body: bytes,
    parent_id: str | None,
    faults: bytes | None,
) -> bytes:
    """The line of an event, compact, in the contract's order; `names` are type, severity, category."""
    parent = f'"{parent_id}"' if parent_id else "null"
    head = (
        f'{{"eventId":"{event_id}","runId":"{run_id}","timestamp":"{time.format(time_ns)}",'
        f'"eventType":"{names[0]}","severity":"{names[1]}","category":"{names[2]}","properties":'
    )
    return b'%s%s,"parentEventId":%s,"validationErrors":%s}\n' % (
        head.encode(),
        body,
        parent.encode(),
        faults or b"null",
    )


__all__ = ["CARRIER", "Fault", "Line", "fault", "foreign", "read", "write"]
