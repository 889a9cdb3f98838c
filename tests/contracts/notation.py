"""The backtest seed's own notation, compiled to draft-07: parameter tables in, noted shapes out."""

from __future__ import annotations

import re
from typing import Any, cast

Schema = dict[str, Any]

DRAFT_07 = "http://json-schema.org/draft-07/schema#"

_NAMES = {"decimal": "number"}
_REMARK = re.compile(r"(?P<name>\w+) \((?P<remark>.+)\)")
_ARRAY = re.compile(r"array of (?P<name>\w+)(?P<nullable> \| null)?")


def parameters(table: dict[str, Schema]) -> Schema:
    """Compile a parameter table to a closed object schema."""
    return {
        "$schema": DRAFT_07,
        "type": "object",
        "properties": {name: _parameter(name, row) for name, row in table.items()},
        "required": [name for name, row in table.items() if row["required"]],
        "additionalProperties": False,
    }


def _parameter(name: str, row: Schema) -> Schema:
    schema = {key: value for key, value in row.items() if key not in ("required", "format")}
    # Times and event ids are read by the domain, which takes more forms than a format would let through.
    if row.get("format") == "GUID" and not name.endswith("EventId"):
        schema["format"] = "uuid"
    return schema


def shape(note: Any, known: dict[str, Schema] | None = None) -> Schema:
    """Compile a noted shape; `known` holds the shapes that a note may call by name."""
    if isinstance(note, dict):
        return _object(cast("dict[str, Any]", note), known or {})
    if isinstance(note, list):
        return _array(cast("list[Any]", note)[0], known or {})
    return _scalar(note)


def _object(fields: dict[str, Any], known: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": {name: shape(note, known) for name, note in fields.items()},
        "required": list(fields),
    }


def _array(item: Any, known: dict[str, Schema]) -> Schema:
    if not isinstance(item, str):
        return {"type": "array", "items": shape(item, known)}
    named = _ARRAY.fullmatch(item)
    assert named, item
    schema = {"type": "array", "items": known[named["name"]]}
    return _nullable(schema) if named["nullable"] else schema


def _scalar(note: str) -> Schema:
    choices = note.split(" | ")
    if choices[-1] == "null":
        return _nullable(_scalar(" | ".join(choices[:-1])))
    if len(choices) > 1:
        return {"type": "string", "enum": choices}
    return _single(note)


def _single(note: str) -> Schema:
    if note == "ISO 8601 string":
        return {"type": "string", "format": "date-time"}
    if note == "string (GUID)":
        return {"type": "string", "format": "uuid"}
    if remarked := _REMARK.fullmatch(note):
        return {**_single(remarked["name"]), "description": remarked["remark"]}
    return {"type": _NAMES.get(note, note)}


def _nullable(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}
