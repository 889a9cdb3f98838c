"""A book that fits into an answer: as many levels of each side as there is room for, from the best outwards.

A book moves, so that no cursor could go on after the last level; what was left out is counted instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracedesk.primitives import json
from tracedesk.primitives.tokens import CHARACTERS_PER_TOKEN

_SIDES: Final = ("bids", "asks")


def room(max_tokens: int, max_bytes: int) -> int:
    """The bytes that an answer may have under both limits of the desk."""
    return min(max_tokens * CHARACTERS_PER_TOKEN, max_bytes)


def fitted(body: Mapping[str, Any], room: int) -> dict[str, Any]:
    """The answer with `bids` and `asks` cut alike to so many bytes, and how many levels that left out.

    The best of each side always stays.
    """
    whole = {**body, "truncated": False}
    if len(json.dumps(whole)) <= room:
        return whole
    counts = {side: len(body[side]) for side in _SIDES}
    blank: dict[str, Any] = {**body, "bids": [], "asks": [], "truncated": True, "left_out": counts}
    kept = _levels(body, room - len(json.dumps(blank)))
    left_out = {side: max(0, count - kept) for side, count in counts.items()}
    if not any(left_out.values()):
        return whole
    levels = {side: body[side][:kept] for side in _SIDES}
    return {**blank, **levels, "left_out": left_out}


def _levels(body: Mapping[str, Any], room: int) -> int:
    """How many levels of each side have room, at least one; a side that has fewer leaves it to the other."""
    deepest = max(len(body[side]) for side in _SIDES)
    for level in range(deepest):
        room -= sum(len(json.dumps(row)) + 1 for side in _SIDES for row in body[side][level : level + 1])
        if room < 0:
            return max(level, 1)
    return max(deepest, 1)
