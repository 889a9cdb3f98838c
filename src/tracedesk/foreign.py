"""Text that strangers wrote: quoted where it enters a sentence of ours, named where it is data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from tracedesk import contracts
from tracedesk.primitives.text import strip_invisible

META_KEY: Final = "tracedesk/foreign"
"""In `_meta`: the fields of an answer that strangers wrote, each with the kind of source it comes from."""

OPENING: Final = "«"
CLOSING: Final = "»"
_INNER: Final = str.maketrans({OPENING: "‹", CLOSING: "›"})
_PLAIN: Final = re.compile(r"[\w.+\-/:#$%()\[\]=]{1,80}")
"""One word, name, number or path: too short to be an instruction, and quoting each would be hard to read."""


def quoted(text: str) -> str:
    """Return a stranger's text between marks that it cannot close itself; a single plain word stays bare.

    The sentence around it names the origin.
    """
    return text if _PLAIN.fullmatch(text) else block(text)


def block(text: str) -> str:
    """Return a stranger's text of any length between marks."""
    return f"{OPENING}{inner(text)}{CLOSING}"


def inner(text: str) -> str:
    """Return a stranger's text as it may stand between marks."""
    return strip_invisible(text).translate(_INNER)


def closed(text: str) -> str:
    """Return a text that was cut, with the quotation closed where the cut has left it open."""
    return f"{text}{CLOSING}" if text.count(OPENING) > text.count(CLOSING) else text


@cache
def _declared() -> Mapping[str, Mapping[str, str]]:
    return contracts.foreign()


def fields(name: str) -> Mapping[str, str]:
    """Return the foreign fields of a tool's or a resource's answer, each with the kind of its source."""
    return _declared().get(name, {})
