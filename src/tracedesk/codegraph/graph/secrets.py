"""Secrets taken out of source text before it is stored: the shared rules, where they could match."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from tracedesk.primitives.redaction import redact_text

# A literal at the start of a pattern lets the search run at memory speed, so there are many short ones.
_FOLLOWED: Final = r"\\{0,3}[\"'`]?\s{0,4}[:=]"
SMALL: Final = (
    r"_(?:(?<=gh[pousr]_)|(?<=td_)|(?<=hf_)|(?<=npm_)|(?<=k_(?:live|test)_)|(?<=whsec_)|(?<=github_pat_))",
    r"-(?:(?<=sk-)|(?<=xapp-)|(?<=gl[dr]t-)|(?<=glpat-)|(?<=glptt-)|(?<=glcbt-))",
    "xox",
    r"hooks\.slack\.com",
    r"ya29\.",
    "://",
    "authorization",
    "bearer",
    "basic",
    "signature=",
    "passw(?:or)?d" + _FOLLOWED,
    "passphrase" + _FOLLOWED,
    "secret(?:[_-]?access)?(?:[_-]?key)?" + _FOLLOWED,
    "token" + _FOLLOWED,
    "api[_-]?(?:key(?:-id)?|secret|token|sign)" + _FOLLOWED,
    "access[_-]?(?:key|sign)" + _FOLLOWED,
    "private[_-]?key" + _FOLLOWED,
    "signing[_-]?key" + _FOLLOWED,
    "listen[_-]?key" + _FOLLOWED,
)
"""What each rule needs in the text, looked for in small letters."""

CASED: Final = ("A(?:KI|SI|BI|CC)A", "eyJ", "AIza", "GOCSPX-", "pypi-AgE")
"""The same for rules that mind case."""

BLOCK: Final = "PRIVATE KEY"
"""The one thing that spans lines."""

_AFTER: Final = 80
"""A name's value may stand on the next line."""


def without_secrets(text: str) -> str:
    """The text with its secrets replaced, as `redact_text` replaces them; itself when there are none."""
    folded = text.lower()
    if BLOCK in text or len(folded) != len(text):
        redacted = redact_text(text)
        return text if redacted == text else redacted
    places = _places(text, folded)
    return _patched(text, places) if places else text


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], ...], tuple[re.Pattern[str], ...]]:
    return tuple(map(re.compile, SMALL)), tuple(map(re.compile, CASED))


def _places(text: str, folded: str) -> list[tuple[int, int]]:
    """The lines in which a rule could match, with what follows them; apart from each other and in order."""
    small, cased = _patterns()
    found: set[tuple[int, int]] = set()
    for patterns, subject in ((small, folded), (cased, text)):
        for pattern in patterns:
            for match in pattern.finditer(subject):
                found.add(_lines(text, match.start()))
    return _merged(sorted(found))


def _lines(text: str, at: int) -> tuple[int, int]:
    """The line of a place and the next, as far as a value could reach."""
    end = text.find("\n", at)
    if end >= 0:
        end = text.find("\n", end + _AFTER)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def _merged(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in places:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _patched(text: str, places: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in places:
        pieces += (text[done:start], redact_text(text[start:end]))
        done = end
    patched = "".join((*pieces, text[done:]))
    return text if patched == text else patched
