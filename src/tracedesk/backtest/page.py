"""Pages of events: addressed by index or continued by cursor, as the contract's objects or as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, cast

from tracedesk.backtest import cursors, tables
from tracedesk.backtest.costs import at_most, cost, cut
from tracedesk.backtest.cursors import Cursor
from tracedesk.backtest.ids import guid_bytes, guid_text, id_bytes
from tracedesk.backtest.model import CATEGORIES, ORDER, POSITION, SEVERITIES, TYPES
from tracedesk.backtest.paths import shallow
from tracedesk.backtest.query import (
    CATEGORY_NAMES,
    SEVERITY_NAMES,
    TYPE_NAMES,
    Recording,
    Row,
    Selection,
    Window,
)
from tracedesk.backtest.schema import INDICATOR_TEXT, ORDER_TEXT, POSITION_TEXT, SYMBOL_TEXT
from tracedesk.backtest.times import Span, span, stamp
from tracedesk.errors import ToolError
from tracedesk.primitives import json
from tracedesk.primitives.ids import is_uuid
from tracedesk.primitives.time import format

FRAME: Final = 220
"""Tokens kept for what surrounds the rows: names, metadata, a cursor."""

_ABSENT: Final = 80
"""Tokens kept for naming fields that no event has."""

_MOST_FIELDS: Final = 64
_LONGEST_FIELD: Final = 256
_SHORT: Final = 12
"""Ids up to this length stay as they are in tables."""

_ENTITIES: Final[Mapping[str, tuple[str, int]]] = {
    "OrderId": ("order_ref", ORDER_TEXT),
    "SecuritySymbol": ("symbol", SYMBOL_TEXT),
    "PositionId": ("position_ref", POSITION_TEXT),
    "IndicatorName": ("indicator", INDICATOR_TEXT),
}
_PREFIXES: Final[Mapping[int, str]] = {ORDER_TEXT: "o", POSITION_TEXT: "p"}
_KINDS: Final[Mapping[str, int]] = {ORDER: ORDER_TEXT, POSITION: POSITION_TEXT}
_FOLDED: Final = (
    "SELECT DISTINCT t.id FROM used u CROSS JOIN text t ON t.id = u.text "
    "WHERE t.kind = ? AND lower(t.value) = lower(?)"
)


@dataclass(slots=True)
class Ask:
    """One question as its tool received it, and the room its answer has."""

    tool: str
    args: Mapping[str, Any]
    budget: int
    max_bytes: int
    started: float = field(default_factory=perf_counter)
    warnings: list[str] = field(default_factory=list[str])

    @property
    def is_table(self) -> bool:
        return self.args.get("format") == "table"

    @property
    def room(self) -> int:
        """Tokens left for rows."""
        return max(1, self.budget - FRAME - sum(cost(warning.encode()) for warning in self.warnings))

    @property
    def query(self) -> str:
        """What its cursors are bound to."""
        return cursors.query_of(self.tool, self.args)

    def elapsed_ms(self) -> int:
        return round((perf_counter() - self.started) * 1000)

    def metadata(self, recording: Recording, **facts: Any) -> dict[str, Any]:
        """What every answer tells about itself."""
        body = {**facts, "queryTimeMs": self.elapsed_ms(), "runStatus": recording.status}
        if not recording.is_indexed:
            body["indexed"] = False
        if self.warnings:
            body["warnings"] = self.warnings
        return body


# --- what is selected -----------------------------------------------------------------------------


def by_type(ask: Ask) -> Selection:
    """The selection of get_events_by_type."""
    args = ask.args
    severity = args.get("severity")
    return Selection(
        types=(TYPES[args["eventType"]],),
        severity=None if severity is None else SEVERITIES[severity],
        categories=_categories(args),
        span=_span(ask),
    )


def by_entity(ask: Ask, recording: Recording) -> Selection:
    """The selection of get_events_by_entity."""
    args = ask.args
    column, kind = _ENTITIES[args["entityType"]]
    refs = find_text(recording, kind, args["entityValue"])
    if not refs:
        ask.warnings.append(f"no event of this run has this {args['entityType']}; values are exact texts")
    types = tuple(dict.fromkeys(TYPES[name].value for name in args.get("eventTypes", ())))
    return Selection(types=types, column=column, refs=refs, categories=_categories(args))


def _categories(args: Mapping[str, Any]) -> tuple[int, ...]:
    name = args.get("category")
    if name is None:
        return ()
    if name not in CATEGORIES:
        message = f"category: {name[:40]!r} is none. Use one of {', '.join(CATEGORIES)}."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["category"]})
    return tuple(category.value for category in CATEGORIES[name].members)


def _span(ask: Ask) -> Span:
    found = span(ask.args)
    ask.warnings += found.warnings
    return found


def find_text(recording: Recording, kind: int, value: str) -> tuple[int, ...]:
    """The numbers of a text: exact; else a symbol in whatever case, or an order by its short id or GUID."""
    text = value.encode("utf-8", "replace").decode()
    for candidate in dict.fromkeys((text, text.lower())):
        found = recording.text(kind, candidate)
        if found is not None and (candidate == text or kind in _PREFIXES):
            return (found,)
    if kind in _PREFIXES:
        return _by_number(recording, kind, text)
    if kind == SYMBOL_TEXT:
        return tuple(id for (id,) in recording.connection.execute(_FOLDED, (kind, text)))
    return ()


def _by_number(recording: Recording, kind: int, text: str) -> tuple[int, ...]:
    number = _number(recording, kind, text)
    if number is None or number >= 1 << 62:
        return ()
    known = "SELECT id FROM text WHERE kind = ? AND id = ?"
    return tuple(id for (id,) in recording.connection.execute(known, (kind, number)))


def _number(recording: Recording, kind: int, text: str) -> int | None:
    if text[:1] == _PREFIXES[kind] and text[1:].isascii() and text[1:].isdecimal():
        return int(text[1:20])
    own = order_guid(recording.run, 0)[:24]
    if kind == ORDER_TEXT and len(text) == 36 and is_uuid(text) and text.lower().startswith(own):
        return int(text[24:], 16)
    return None


def order_guid(run: str, number: int) -> str:
    """The GUID of an order whose own id is none: derived from its run and its number, both ways."""
    import hashlib

    digest = bytearray(hashlib.sha256(f"{run}/order".encode()).digest()[:10])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    digits = digest.hex() + f"{number:012x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def shortener(recording: Recording) -> tables.Shorten:
    """Long order and position ids as oN and pN, which get_events_by_entity takes as well."""
    known: dict[tuple[int, str], str] = {}

    def shorten(name: str, value: Any) -> Any:
        kind = _KINDS.get(name)
        if kind is None or not isinstance(value, str) or len(value) <= _SHORT:
            return value
        if (kind, value) not in known:
            known[kind, value] = _short_id(recording, kind, value)
        return known[kind, value]

    return shorten


def _short_id(recording: Recording, kind: int, value: str) -> str:
    number = recording.text(kind, value)
    if number is None:
        return value
    short = f"{_PREFIXES[kind]}{number}"
    # Another order may really be called so; then the long id is the only clear one.
    return short if recording.text(kind, short) is None else value


# --- events as the contract shows them ------------------------------------------------------------


def event_json(recording: Recording, row: Row, fields: Sequence[str] | None = None) -> bytes:
    """One event as the contract's object; its properties are the bytes that were recorded."""
    seq, ts, kind, severity, category, parent, guid, body, parent_guid, faults = row
    return b'{"eventId":"%s%s%s%s%s,"parentEventId":%s,"validationErrors":%s}' % (
        id_bytes(recording.run, seq) if guid is None else guid_text(guid).encode(),
        _of_run(recording.run),
        stamp(ts),
        _rated(kind, severity, category),
        body if fields is None else json.dumps(picked(shallow(body), fields)),
        b"null" if parent is None else b'"%s"' % _parent_id(recording.run, parent, parent_guid),
        faults or b"null",
    )


def _parent_id(run: str, parent: int, guid: bytes | None) -> bytes:
    return id_bytes(run, parent) if guid is None else guid_text(guid).encode()


@lru_cache(maxsize=64)
def _of_run(run: str) -> bytes:
    return f'","runId":"{run}","timestamp":"'.encode()


@lru_cache(maxsize=256)
def _rated(kind: int, severity: int, category: int) -> bytes:
    """What follows an event's time, up to its properties."""
    return (
        f'","eventType":"{TYPE_NAMES[kind]}","severity":"{SEVERITY_NAMES[severity]}",'
        f'"category":"{CATEGORY_NAMES[category]}","properties":'
    ).encode()


def picked(properties: Any, fields: Sequence[str]) -> dict[str, Any]:
    """Only the named properties, nested ones under their dotted names."""
    kept: dict[str, Any] = {}
    for name in fields:
        trail = _trail(properties, name.removeprefix("$.").split("."))
        if trail is None:
            continue
        found, target = properties, kept
        for step in trail[:-1]:
            found, target = found[step], target.setdefault(step, {})
        target[trail[-1]] = found[trail[-1]]
    return kept


def _trail(properties: Any, steps: Sequence[str]) -> list[str] | None:
    """The keys that lead to a property, nested before those that have dots themselves."""
    if not isinstance(properties, dict):
        return None
    members = cast("dict[str, Any]", properties)
    for size in range(1, len(steps) + 1):
        key = ".".join(steps[:size])
        if key not in members:
            continue
        rest = [] if size == len(steps) else _trail(members[key], steps[size:])
        if rest is not None:
            return [key, *rest]
    return None


def fields_of(args: Mapping[str, Any]) -> list[str] | None:
    """The `fields` parameter, within bounds."""
    names: list[str] | None = args.get("fields")
    if names is None:
        return None
    if len(names) > _MOST_FIELDS or any(len(name) > _LONGEST_FIELD for name in names):
        message = f"fields: at most {_MOST_FIELDS} names of {_LONGEST_FIELD} characters. Name fewer."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["fields"]})
    return names


# --- a page -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Found:
    """The rows of a page, and what lies around them."""

    rows: list[Row]
    total: int
    window: Window
    more: bool
    index: int = 0
    is_cut: bool = False
    """Whether long values of its one row are cut."""


def answer(recording: Recording, ask: Ask, selection: Selection) -> dict[str, Any]:
    """The page that the question asks for, within its room."""
    fields = fields_of(ask.args)
    found = _find(recording, ask, selection)

    def resume(kept: int) -> str | None:
        return next_cursor(recording, found, kept, ask)

    if ask.is_table:
        body, kept = _tables(recording, ask, found, fields, resume)
    else:
        body, kept = _events(recording, ask, found, fields, resume)
    body["metadata"] = _metadata(recording, ask, selection, found, kept, resume(kept))
    return body


def _find(recording: Recording, ask: Ask, selection: Selection) -> Found:
    size: int = ask.args["pageSize"]
    if "cursor" not in ask.args:
        index = ask.args["pageIndex"]
        rows, total = recording.page_of(selection, size, index * size)
        return Found(rows, total, recording.now, index * size + len(rows) < total, index)
    window, total = take_up(recording, ask, lambda: recording.count(selection))
    rows = recording.page(selection, window, size + 1)
    return Found(rows[:size], total, window, len(rows) > size)


def take_up(recording: Recording, ask: Ask, count: Callable[[], int]) -> tuple[Window, int]:
    """The view that a cursor continues, and the total as of its mark."""
    if ask.args.get("pageIndex"):
        message = "pageIndex: a cursor already says where to continue. Leave one of the two out."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["pageIndex"]})
    cursor = cursors.read(ask.args["cursor"], ask.query)
    if max(cursor.floor, cursor.mark or 0) > recording.head:
        message = "cursor: it is of a longer recording of this run. Start again without it."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["cursor"]})
    if cursor.mark is None:
        return Window(recording.head, cursor.floor), count()
    return Window(cursor.mark, cursor.floor, cursor.last), cursor.total


def next_cursor(recording: Recording, found: Found, kept: int, ask: Ask) -> str | None:
    """The cursor after the first `kept` rows; at the end of the view, the one for what came later."""
    if kept and (kept < len(found.rows) or found.more):
        window = found.window
        return Cursor(window.floor, window.mark, found.rows[kept - 1].key, found.total).text(ask.query)
    grows = recording.is_running or found.window.mark < recording.head
    return Cursor(found.window.mark).text(ask.query) if grows else None


def _tables(
    recording: Recording,
    ask: Ask,
    found: Found,
    fields: Sequence[str] | None,
    resume: Callable[[int], str | None],
) -> tuple[dict[str, Any], int]:
    room = ask.room - (_ABSENT if fields else 0)
    built, kept, found.is_cut = tables.fit(found.rows, fields, shortener(recording), room)
    if found.rows and not kept:
        raise too_large(len(found.rows[0].body), ask, resume(1))
    if found.is_cut:
        ask.warnings.append(cut_note(found.rows[0].seq))
    if fields and found.rows and (missing := tables.absent(built, fields)):
        ask.warnings.append(f"no event of this page has {cut(', '.join(missing), 200, _ABSENT - 20)}")
    return {"events": [], "tables": built}, kept


def cut_note(seq: int) -> str:
    return f"long values of event {seq} are cut and end in …; ask by pageIndex with format events for them"


def _events(
    recording: Recording,
    ask: Ask,
    found: Found,
    fields: Sequence[str] | None,
    resume: Callable[[int], str | None],
) -> tuple[dict[str, Any], int]:
    parts = [event_json(recording, row, fields) for row in found.rows]
    kept = fitting(parts, ask) if "cursor" in ask.args else len(parts)
    if parts and not kept:
        raise too_large(len(parts[0]), ask, resume(1))
    return {"events": [json.Raw(part) for part in parts[:kept]]}, kept


def fitting(parts: Sequence[bytes], ask: Ask) -> int:
    """How many whole parts there is room for."""
    room, most = ask.room, ask.max_bytes - 4 * FRAME
    whole = sum(map(len, parts)) + len(parts)
    if whole <= most and at_most(whole) <= room:
        return len(parts)
    for number, part in enumerate(parts):
        room -= cost(part) + 1
        most -= len(part) + 1
        if min(room, most) < 0:
            return number
    return len(parts)


def too_large(size: int, ask: Ask, cursor: str | None) -> ToolError:
    message = (
        f"The next row alone has {size} bytes, more than {ask.budget} tokens hold. Name the fields you need, "
        f"ask for it by pageIndex as an event, which may have {ask.max_bytes} bytes, or continue after it "
        "with the cursor in details."
    )
    details = {"bytes": size, "maxTokens": ask.budget, "maxBytes": ask.max_bytes, "nextCursor": cursor}
    return ToolError("RESULT_TOO_LARGE", message, details)


def _metadata(
    recording: Recording, ask: Ask, selection: Selection, found: Found, kept: int, cursor: str | None
) -> dict[str, Any]:
    is_short = kept < len(found.rows)
    body = ask.metadata(
        recording,
        totalCount=found.total,
        returnedCount=kept,
        pageIndex=found.index,
        pageSize=ask.args["pageSize"],
        hasMore=is_short or found.more,
        truncated=is_short or found.is_cut,
    )
    if cursor is not None:
        body["nextCursor"] = cursor
    if not found.total and not selection.span.is_all and recording.times is not None:
        body["runTimeRange"] = {"start": format(recording.times[0]), "end": format(recording.times[1])}
    if ask.is_table and kept:
        body["legend"] = tables.LEGEND
    return body


def is_guid(text: str) -> bool:
    try:
        return len(guid_bytes(text)) == 16 and "-" in text
    except ValueError:
        return False
