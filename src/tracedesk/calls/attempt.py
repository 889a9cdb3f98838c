"""What attempts are called: the names that may be recorded, and the references that lead to them."""

from __future__ import annotations

from typing import Any, Final, TypeGuard
from urllib.parse import quote

ATTEMPTS: Final = "tracedesk://codegraph/attempts/"
"""Where an attempt is found, by its name in percent notation."""

LONGEST_NAME: Final = 200
LONGEST_REFERENCE: Final = 256


def attempt_ref(name: str) -> str:
    """The reference of an attempt."""
    return ATTEMPTS + quote(name, safe="")


def is_name(value: Any) -> TypeGuard[str]:
    """Whether an attempt may be called that: a visible text, not too long for itself or its reference."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        return False
    return value.isprintable() and bool(value.strip()) and len(attempt_ref(value)) <= LONGEST_REFERENCE
