"""What attempts are called: the names that may be recorded, and the references that lead to them."""

from __future__ import annotations

from typing import Any, Final, TypeGuard
from urllib.parse import quote

ATTEMPTS: Final = "tracedesk://codegraph/attempts/"
"""Where an attempt is found, by its name in percent notation."""

LONGEST_NAME: Final = 200
LONGEST_REFERENCE: Final = 256
_NEVER_TOO_LONG: Final = (LONGEST_REFERENCE - len(ATTEMPTS)) // 3
"""An ASCII name of so many characters fits into a reference even where each is in percent notation."""


def attempt_ref(name: str) -> str:
    """The reference of an attempt."""
    return ATTEMPTS + quote(name, safe="")


def is_name(value: Any) -> TypeGuard[str]:
    """Whether an attempt may be called that: a visible text, not too long for itself or its reference."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        return False
    if not value.isprintable() or not value.strip():
        return False
    if len(value) <= _NEVER_TOO_LONG and value.isascii():
        return True
    return len(attempt_ref(value)) <= LONGEST_REFERENCE
