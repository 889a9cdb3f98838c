"""Amounts of wei as text, which a 256-bit word must hold."""

from __future__ import annotations

import re
from typing import Final

from tracedesk.fuzz.refusals import invalid

WORD: Final = 2**256
_MOST_DIGITS: Final = len(str(WORD))
_DIGITS: Final = re.compile(r"[0-9]+")


def wei(text: str, argument: str) -> int:
    """The amount that decimal digits spell; `argument` names where they were given."""
    if not _DIGITS.fullmatch(text):
        message = (
            f"{argument}: {text[:40]!r} is no amount of wei; write decimal digits only, such as 1000000."
        )
        raise invalid("PARSE_ERROR", message, argument=argument)
    digits = text.lstrip("0") or "0"
    # Python itself refuses to read very long numbers.
    if len(digits) > _MOST_DIGITS or int(digits) >= WORD:
        message = f"{argument}: does not fit in 256 bits; give less than 2**256 wei."
        raise invalid("PARSE_ERROR", message, argument=argument)
    return int(digits)
