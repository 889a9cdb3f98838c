"""Secrets taken out of source text before it is stored: the shared rules, where they could match."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from tracedesk.primitives.redaction import may_span_lines, redact_text

# A search runs at memory speed as far as the letter that its pattern begins with, so each pattern begins with
# a rare letter, looks back for what stands before it, and says as many things as share that letter.
_FOLLOWED: Final = r"\\{0,3}[\"'`]?\s{0,4}[:=][:=>&string\s]{0,20}\\{0,3}[\"'`]?[^\s\"'`]{8}"
"""What stands between a name and its value, and as much of a value as the shortest that is a secret."""
_MARKS: Final = r"\"'`<>{}\\"
_KEYS: Final = "|".join(
    f"(?<={name}{between}key)"
    for name in ("api", "access", "private", "signing", "listen")
    for between in ("", "[_-]")
)
_SIGNS: Final = "(?<=apisign)|(?<=api[_-]sign)|(?<=access[_-]sign)"
SMALL: Final = (
    r"_(?:(?<=gh[pousr]_)|(?<=td_)|(?<=hf_)|(?<=npm_)|(?<=k_(?:live|test)_)|(?<=whsec_)|(?<=github_pat_))",
    r"-(?:(?<=sk-)|(?<=xapp-)|(?<=gl[dr]t-)|(?<=glpat-)|(?<=glptt-)|(?<=glcbt-))",
    "xox",
    r"9(?<=ya29)\.",
    rf"/(?<=:/)/[^\s/:@\[\]{_MARKS}]{{0,128}}+:[^\s/@{_MARKS}]{{1,256}}+@",
    "z(?<=authoriz)ation",
    r"b(?:earer|asic)[ \t]{1,4}[a-z0-9._~+/=-]{16}",
    f"g(?<=sig)n(?:ature=|(?:{_SIGNS}){_FOLLOWED})",
    "pass(?:w(?:or)?d|phrase|code)",
    "wd(?<=pwd)",
    f"cr(?<=secr)et(?:[_-]?access)?(?:[_-]?key)?{_FOLLOWED}",
    rf"k(?:e(?:n(?<=token)|y(?:{_KEYS})(?:-id)?){_FOLLOWED}|s(?<=hooks)\.slack\.com)",
)
"""What each rule needs in the text, looked for in small letters."""

CASED: Final = ("A(?:(?:KI|SI|BI|CC)A|Iza|(?<=pypi-A)gE)", "J(?<=eyJ)", "X(?<=GOCSPX)-")
"""The same for rules that mind case."""

BLOCK: Final = "PRIVATE KEY"
"""Of what spans lines, the one thing that a word gives away."""

_SHORTEST: Final = 8
"""No rule finds a secret in a shorter text."""

_AFTER: Final = 80
"""A name's value may stand on the next line."""


def without_secrets(text: str) -> str:
    """The text with its secrets replaced, as `redact_text` replaces them; itself when there are none."""
    if len(text) < _SHORTEST:
        return text
    folded = text.lower()
    if BLOCK in text or len(folded) != len(text) or may_span_lines(folded):
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
