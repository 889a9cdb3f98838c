"""Untrusted text made safe to show: invisible characters, Markdown and terminal controls."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

InvisibleKind = Literal["zero_width", "bidi", "tag", "variation", "filler"]

# Joiners and variation selectors have honest uses in emoji and Persian; they also carry hidden
# messages, and an emoji that falls apart costs less than an instruction nobody sees.
_RANGES: dict[InvisibleKind, str] = {
    "zero_width": "\u00ad\u034f\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff"
    "\ufff9-\ufffb\U0001d173-\U0001d17a",
    "bidi": "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    "tag": "\U000e0000-\U000e007f",
    "variation": "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef",
    "filler": "\u115f\u1160\u17b4\u17b5\u3164\uffa0",
}

# A control string stops before the next introducer; a row of unfinished ones would else take quadratic time.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*+[ -/]*+[@-~]?"
    r"|\x9b[0-?]*+[ -/]*+[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*+[0-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)

_CONTROLS = re.compile(r"[\x7f-\x9f]")

_MARKDOWN = re.compile(
    r"[\\`*_{}\[\]<>|~#&$@^]"
    r"|(?<=www)\.|:(?=//)"
    r"|(?:^|(?<=\r))[ \t]*+(?:[0-9]{1,9}+[.)]|[+=-])",
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Invisible:
    """A character that is present but not seen."""

    index: int
    codepoint: int
    kind: InvisibleKind


def find_invisible(text: str) -> tuple[Invisible, ...]:
    """Return every zero-width, bidirectional, tag, variation and filler character, in order."""
    if text.isascii():
        return ()
    return tuple(_invisible(match) for match in _invisibles().finditer(text))


def strip_invisible(text: str) -> str:
    """Return the text without its invisible characters."""
    return text if text.isascii() else _invisibles().sub("", text)


def escape_markdown(text: str) -> str:
    """Return Markdown that renders as the given text, with no markup, HTML, math or links of its own."""
    return _MARKDOWN.sub(_escaped, text)


def sanitize_terminal(text: str) -> str:
    """Return the text without escape sequences and without control characters other than tab and newline."""
    return _ESCAPES.sub("", text)


def escape_controls(document: str) -> str:
    """Return a JSON document with DEL and the C1 controls as JSON escapes: a terminal would obey them raw."""
    return document if document.isascii() and "\x7f" not in document else _CONTROLS.sub(_as_json, document)


def _as_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _escaped(match: re.Match[str]) -> str:
    # Only the last character is markup; what precedes it is indentation or a list number.
    return f"{match[0][:-1]}\\{match[0][-1]}"


def _invisible(match: re.Match[str]) -> Invisible:
    assert match.lastgroup is not None
    kinds: dict[str, InvisibleKind] = {kind: kind for kind in _RANGES}
    return Invisible(match.start(), ord(match[0]), kinds[match.lastgroup])


@cache
def _invisibles() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>[{ranges}])" for kind, ranges in _RANGES.items()))
