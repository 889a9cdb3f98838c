"""What every declaration must keep to: names that travel well, and texts that hide nothing."""

from __future__ import annotations

import re
from typing import Any, Final

from tracedesk.primitives.text import find_invisible

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
