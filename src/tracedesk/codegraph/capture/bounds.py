"""What capture takes at most: how deep a value, how long a name, which folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final, cast

DEEPEST: Final = 64
"""Objects and lists inside one another; what is kept must also be writable again."""
LONGEST_FOLDER: Final = 4_096
"""Bytes of a path, as the system counts them."""
LONGEST_TOOL: Final = 256


def is_deep(value: Any) -> bool:
    """Whether a value nests deeper than is taken."""
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        level = [item for holder in level for item in _items(holder)]
        if not level:
            return False
    return True


def _items(holder: Any) -> Iterable[Any]:
    """The objects and lists in a value, and nothing of a plain one."""
    if isinstance(holder, dict):
        found: Iterable[Any] = cast("dict[str, Any]", holder).values()
    elif isinstance(holder, list):
        found = cast("list[Any]", holder)
    else:
        return ()
    return [item for item in found if isinstance(item, dict | list)]


def is_tool(name: str) -> bool:
    """Whether a text can be a tool's name."""
    return bool(name.strip()) and len(name) <= LONGEST_TOOL and name.isprintable()


def folder(value: object) -> str | None:
    """A client's working folder, plainly written; None for what cannot be one."""
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        return None
    return os.path.normpath(value) if len(os.fsencode(value)) <= LONGEST_FOLDER else None
