"""JSON Schemas as flat lists of fields: one row per place, nested places by their path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tracedesk.docs.markdown import code

Schema = Mapping[str, Any]

_BOUNDS: Final = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "length ≥ {}",
    "maxLength": "length ≤ {}",
    "minItems": "items ≥ {}",
    "maxItems": "items ≤ {}",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One place of a schema."""

    path: str
    type: str
    required: bool
    default: str
    note: str


def flatten(schema: Schema) -> tuple[Field, ...]:
    """Every place of an object's schema; none when it is not an object's."""
    return tuple(_fields(schema, ""))


def _fields(schema: Schema, prefix: str) -> Iterator[Field]:
    needed = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield Field(path, type_of(inner), name in needed, _default(inner), _note(inner))
        yield from _below(inner, path)


def _below(schema: Schema, path: str) -> Iterator[Field]:
    items: Any = schema.get("items")
    if isinstance(items, dict):
        yield from _below(cast(Schema, items), f"{path}[]")
    yield from _fields(schema, f"{path}.")
    extra: Any = schema.get("additionalProperties")
    if isinstance(extra, dict) and extra:
        rest = cast(Schema, extra)
        yield Field(f"{path}.*", type_of(rest), True, "", _note(rest))
        yield from _below(rest, f"{path}.*")


def type_of(schema: Schema) -> str:
    """The type in a few words, as Markdown."""
    if "enum" in schema:
        return " or ".join(code(json.dumps(value)) for value in schema["enum"])
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    for combined in ("oneOf", "anyOf"):
        if combined in schema and "type" not in schema:
            return " or ".join(dict.fromkeys(type_of(part) for part in schema[combined]))
    kinds = schema.get("type", "any")
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    return " or ".join(_kind(name, schema) for name in names) + _bounds(schema)


def _kind(name: str, schema: Schema) -> str:
    items: Any = schema.get("items")
    if name != "array" or not isinstance(items, dict):
        return name
    inner = type_of(cast(Schema, items))
    return f"array of ({inner})" if " or " in inner else f"array of {inner}"


def _bounds(schema: Schema) -> str:
    found = [text.format(schema[name]) for name, text in _BOUNDS.items() if name in schema]
    found += [f"like {code(schema['pattern'])}"] if "pattern" in schema else []
    found += [schema["format"]] if "format" in schema else []
    return f" ({', '.join(found)})" if found else ""


def _default(schema: Schema) -> str:
    return code(json.dumps(schema["default"])) if "default" in schema else ""


def _note(schema: Schema) -> str:
    return str(schema.get("description", ""))
