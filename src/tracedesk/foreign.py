"""Text that strangers wrote: quoted where it enters a sentence of ours, named where it is data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

from tracedesk import contracts
from tracedesk.primitives.text import strip_invisible

META_KEY: Final = "tracedesk/foreign"
"""In `_meta`: the fields of an answer that strangers wrote, by the kind of their source."""

REFUSAL: Final = "refusal"
"""The name under which the foreign details of refusals are declared, whatever the tool."""
_DETAILS: Final = "error.details."

OPENING: Final = "«"
CLOSING: Final = "»"
_WHOLE: Final = "$"
"""The field that stands for a whole answer."""
_HEAD: Final = re.compile(r"[.\[]")
_INNER: Final = str.maketrans({OPENING: "‹", CLOSING: "›"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.,@+\-/:#$%()\[\]=]{0,80}")
_WORD: Final = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}")
_WORDS: Final = 3
_LETTERS: Final = 16
"""Words that a bare text may have, and letters of each: an order given to an agent has more, also one that
is written without blanks."""


def is_plain(text: str) -> bool:
    """True for a name, number or path of a few words in ASCII: scripts without blanks write sentences so."""
    if not _PLAIN.fullmatch(text):
        return False
    words = _WORD.findall(text)
    return len(words) <= _WORDS and all(len(word) <= _LETTERS for word in words)


def quoted(text: str) -> str:
    """Return a stranger's text between marks that it cannot close itself; a short plain name stays bare.

    The sentence around it names the origin.
    """
    return text if is_plain(text) else block(text)


def named(text: str) -> str:
    """Return a stranger's text as a value in a sentence: between marks, or in plain quotes if it is plain."""
    return f"'{text}'" if is_plain(text) else block(text)


def listed(names: Sequence[str]) -> str:
    """Return strangers' names as a list, between marks as a whole unless each is plain."""
    text = ", ".join(names)
    return text if all(map(is_plain, names)) else block(text)


def block(text: str) -> str:
    """Return a stranger's text of any length between marks."""
    return f"{OPENING}{inner(text)}{CLOSING}"


def inner(text: str) -> str:
    """Return a stranger's text as it may stand between marks."""
    return strip_invisible(text).translate(_INNER)


def closed(text: str) -> str:
    """Return a text that was cut, with the quotation closed where the cut has left it open."""
    return f"{text}{CLOSING}" if text.count(OPENING) > text.count(CLOSING) else text


Fields = dict[str, list[str]]
"""Fields of an answer that strangers wrote, by the kind of their source."""


@cache
def _declared() -> Mapping[str, Fields]:
    return contracts.foreign()


def fields(name: str) -> Fields:
    """Return the foreign fields of a tool's or a resource's answer."""
    return _declared().get(name, {})


def fields_in(name: str, body: bytes) -> Fields:
    """Return the foreign fields that an answer of a tool or resource, a JSON document, has with content."""
    return _those(fields(name), lambda field: _holds(body, field))


def fields_of_refusal(details: Mapping[str, object] | None) -> Fields:
    """Return the foreign fields of a refusal with these details."""
    return (
        _those(_declared()[REFUSAL], lambda field: field.removeprefix(_DETAILS) in details) if details else {}
    )


def _those(declared: Fields, chosen: Callable[[str], bool]) -> Fields:
    found = {source: [field for field in paths if chosen(field)] for source, paths in declared.items()}
    return {source: paths for source, paths in found.items() if paths}


def _holds(body: bytes, field: str) -> bool:
    """True where a member of this name is no empty list; one that a stranger named so counts too."""
    if field == _WHOLE:
        return True
    member = f'"{_HEAD.split(field, 1)[0]}":'.encode()
    place = body.find(member)
    while place >= 0:
        place += len(member)
        if not body.startswith(b"[]", place):
            return True
        place = body.find(member, place)
    return False
