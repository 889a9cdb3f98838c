"""What every declaration must keep to: names that travel well, and texts that hide nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tracedesk.primitives.text import find_invisible

if TYPE_CHECKING:
    from tracedesk.contract import Tool

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


class DeclarationError(ValueError):
    """A declaration that misses metadata, repeats a name or hides characters."""


def put(table: dict[str, Any], kind: str, name: str, declared: object) -> None:
    """Add a declaration under its name, once."""
    if name in table:
        raise DeclarationError(f"{kind} {name!r} is declared twice")
    table[name] = declared


def check_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise DeclarationError(f"{kind} name {name!r} is not snake_case of at most 64 characters")


def check_text(owner: str, **texts: str) -> None:
    for what, text in texts.items():
        if not text.strip():
            raise DeclarationError(f"{owner} has no {what}")
        if hidden := find_invisible(text):
            raise DeclarationError(f"{owner} hides characters in its {what}: {hidden}")


def check_tool(tool: Tool) -> None:
    """Refuse a tool whose schema, deadline, scope and parameters do not fit together."""
    if tool.input.get("type") != "object":
        raise DeclarationError(f"tool {tool.name} needs an object as its input schema")
    if tool.deadline <= 0:
        raise DeclarationError(f"tool {tool.name} needs a positive deadline")
    if tool.annotations.read_only and tool.scope != "read" and not tool.writes:
        raise DeclarationError(f"tool {tool.name} is read-only but asks for the scope {tool.scope!r}")
    if not tool.annotations.read_only and tool.scope == "read":
        raise DeclarationError(f"tool {tool.name} changes state but asks only for the scope 'read'")
    properties: Mapping[str, Any] = tool.input.get("properties", {})
    for name in (*tool.codes, *tool.writes, *((tool.page_size,) if tool.page_size else ())):
        if name not in properties:
            raise DeclarationError(f"tool {tool.name} speaks of a parameter {name!r} that it does not have")
