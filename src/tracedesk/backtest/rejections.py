"""Codes of rejections: a reason's text without the figures and names that change from order to order.

Engines write prices, sizes and ids into their reasons, so that one rule of an engine has thousands of texts.
The text that all of them share is the code; events keep their reasons in full.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tracedesk.backtest.model import ORDER, POSITION, SYMBOL, canonical

REASON: Final = "RejectionReason"
CODE: Final = "RejectionCode"
"""Property to group by; an event that has one of its own keeps it."""
UNSAID: Final = "(no reason recorded)"

LONGEST: Final = 500
"""Characters of a code; a longer one ends with the digest of all of it."""
_LOOKED_AT: Final = 4_096
"""Characters of a reason that decide its code."""
_REMEMBERED: Final = 1_000
"""Characters of the longest reason whose code is remembered."""

_NAMES: Final = (SYMBOL, ORDER, POSITION)
_SHORTEST_NAME: Final = 2
"""A symbol of one letter may be a word of the reason."""
_LONGEST_NAME: Final = 100

_GUID: Final = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_HEX: Final = r"\b0x[0-9A-Fa-f]+\b|\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"
_NONE: Final = r"(?<!\w)[+-]?(?:nan|NaN|inf|Infinity)\b"
_NUMBER: Final = r"(?:(?<![\w#])[+-])?\.?[0-9](?:[0-9_,.]*[0-9])?(?:[eE][+-]?[0-9]+)?"
_NUMBERED: Final = r"\b(?i:error|code|errno|http|status)\b[ :=#(\[]{0,3}[+-]?[0-9]{1,6}\b(?![.,][0-9])"
"""A number that names an error is no figure."""
_ID: Final = r"\b(?=[A-Za-z]*[0-9]+[A-Za-z]+[0-9]|[0-9]*[A-Za-z]+[0-9]+[A-Za-z])[0-9A-Za-z]{10,64}\b"
"""Letters and digits in turns, as generators of ids write them."""
_ESCAPE: Final = r"\x1b\[[0-9;]*[A-Za-z]"
"""Colours of a terminal are no figures."""
_FIGURES: Final = re.compile(f"({_ESCAPE}|{_NUMBERED})|{_GUID}|{_HEX}|{_ID}|{_NONE}|{_NUMBER}")
_LISTS: Final = re.compile(r"#(?:[\s,;:/-]+#)+")
"""Dates, times, and lists of any length."""


def code_of(properties: Mapping[str, Any]) -> str:
    """The code of a rejection: the same for all reasons that differ in figures, ids and symbols alone."""
    own = canonical(properties.get(CODE))
    if own is not None:
        return _bounded(own)
    if not properties.get(REASON):
        return UNSAID
    reason = str(properties[REASON])
    names = tuple(
        (name, text)
        for name in _NAMES
        if (text := canonical(properties.get(name))) and _SHORTEST_NAME <= len(text) <= _LONGEST_NAME
    )
    return _known(reason, names) if len(reason) <= _REMEMBERED else _code(reason[:_LOOKED_AT], names)


def _code(reason: str, names: tuple[tuple[str, str], ...]) -> str:
    for name, text in names:
        if text in reason:
            reason = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", f"{{{name}}}", reason)
    return _bounded(_LISTS.sub("#", _FIGURES.sub(_figure, reason)))


_known = lru_cache(maxsize=4_096)(_code)


def _figure(found: re.Match[str]) -> str:
    return found[1] or "#"


def _bounded(code: str) -> str:
    if len(code) <= LONGEST:
        return code
    digest = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{code[:LONGEST]}… ({digest})"
