"""Codes of rejections: a reason's text without the figures and names that change from order to order.

Engines write prices, sizes and ids into their reasons, so that one rule of an engine has thousands of texts.
The text that all of them share is the code; events keep their reasons in full.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tracedesk.backtest.model import ORDER, POSITION, SYMBOL, canonical

REASON: Final = "RejectionReason"
CODE: Final = "RejectionCode"
"""Property to group by; an event that has one of its own keeps it."""
UNSAID: Final = "(no reason recorded)"

_NAMES: Final = (SYMBOL, ORDER, POSITION)
_SHORTEST_NAME: Final = 2
"""A symbol of one letter may be a word of the reason."""

_GUID: Final = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_HEX: Final = r"\b0x[0-9A-Fa-f]+\b|\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"
_NONE: Final = r"(?<!\w)[+-]?(?:nan|NaN|inf|Infinity)\b"
_NUMBER: Final = r"(?:(?<![\w#])[+-])?\.?[0-9](?:[0-9_,.]*[0-9])?(?:[eE][+-]?[0-9]+)?"
_ESCAPE: Final = r"\x1b\[[0-9;]*[A-Za-z]"
"""Colours of a terminal are no figures."""
_FIGURES: Final = re.compile(f"{_ESCAPE}|{_GUID}|{_HEX}|{_NONE}|{_NUMBER}")
_LISTS: Final = re.compile(r"#(?:[\s,;:/-]+#)+")
"""Dates, times, and lists of any length."""


def code_of(properties: Mapping[str, Any]) -> str:
    """The code of a rejection: the same for all reasons that differ in figures, ids and symbols alone."""
    own = canonical(properties.get(CODE))
    if own is not None:
        return own
    reason = properties.get(REASON)
    if not reason:
        return UNSAID
    names = tuple((name, text) for name in _NAMES if (text := canonical(properties.get(name))))
    return _code(str(reason), names)


@lru_cache(maxsize=4_096)
def _code(reason: str, names: tuple[tuple[str, str], ...]) -> str:
    for name, text in names:
        if len(text) >= _SHORTEST_NAME and text in reason:
            reason = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", f"{{{name}}}", reason)
    return _LISTS.sub("#", _FIGURES.sub(_figure, reason))


def _figure(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("\x1b") else "#"
