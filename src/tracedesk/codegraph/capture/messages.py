"""Chat messages as the GenAI conventions write them, and the text in them."""

from __future__ import annotations

from typing import Any, cast

from tracedesk.primitives import json


def message(role: str, text: str) -> str:
    """One message of text, as the JSON of a list."""
    parts = [{"type": "text", "content": text}]
    return json.dumps([{"role": role, "parts": parts}]).decode()


def text_of(messages: Any, role: str) -> str | None:
    """The text of the last message of `role`; None when there is none.

    Takes what our own exports write and what others do: the list itself or its JSON, parts or plain
    content.
    """
    for each in reversed(_listed(messages)):
        if isinstance(each, dict) and cast("dict[str, Any]", each).get("role") == role:
            found = _content(cast("dict[str, Any]", each))
            if found is not None:
                return found
    return None


def _listed(messages: Any) -> list[Any]:
    if isinstance(messages, str):
        try:
            messages = json.loads(messages, levels=json.DEEPEST)
        except ValueError:
            return []
    return cast("list[Any]", messages) if isinstance(messages, list) else []


def _content(told: dict[str, Any]) -> str | None:
    parts = told.get("parts", told.get("content"))
    if isinstance(parts, str):
        return parts
    if not isinstance(parts, list):
        return None
    texts = [_part(part) for part in cast("list[Any]", parts)]
    found = [text for text in texts if text is not None]
    return "\n".join(found) if found else None


def _part(part: Any) -> str | None:
    if not isinstance(part, dict):
        return None
    told = cast("dict[str, Any]", part)
    text = told.get("content", told.get("text"))
    return text if told.get("type", "text") == "text" and isinstance(text, str) else None
