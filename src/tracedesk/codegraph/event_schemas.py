"""The payload of each kind of event, as JSON Schema, made from the rules that check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracedesk.codegraph.etg.checks import ANY_KIND, FIELDS, SNIPPET, Field

Schema = dict[str, Any]

_MOST: Final = 2**53 - 1
_SHAPES: Final[Mapping[str, Schema]] = {
    "_is_text": {"type": "string"},
    "_is_named": {"type": "string", "pattern": "\\S"},
    "_is_object": {"type": "object"},
    "_is_amount": {"type": "number", "minimum": 0, "maximum": _MOST},
    "_is_count": {"type": "integer", "minimum": 0, "maximum": _MOST},
    "_is_texts": {"type": "array", "items": {"type": "string"}},
    "_is_list": {"type": "array"},
}
"""What each check of a field lets through, by the check's name."""


def _object(fields: Sequence[Field]) -> Schema:
    """An object with these fields; other members are kept as they are."""
    return {
        "type": "object",
        "required": [name for name, required, _, _ in fields if required],
        "properties": {
            name: {**_SHAPES[test.__name__], "description": words} for name, _, test, words in fields
        },
    }


def _payload(fields: Sequence[Field]) -> Schema:
    schema: Schema = {"$schema": "http://json-schema.org/draft-07/schema#", **_object((*fields, *ANY_KIND))}
    snippets: Schema | None = schema["properties"].get("snippets")
    if snippets is not None:
        snippets["items"] = _object(SNIPPET)
    return schema


PAYLOADS: Final[Mapping[str, Schema]] = {kind: _payload(fields) for kind, fields in FIELDS.items()}
