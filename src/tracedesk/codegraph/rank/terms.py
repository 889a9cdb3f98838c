"""Words of code: what goes into the text index, and what of a question is looked up there.

The index's own tokenizer (`TOKENIZER`) folds case, cuts at every mark and underscore and stems; it knows
nothing of camelCase. So the parts of such words are added behind the text, and the words themselves stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

TOKENIZER: Final = "porter unicode61"
"""The `tokenize` of every full-text table that is filled by `searchable` and asked by `query_terms`."""

MOST_TERMS: Final = 48
"""Of a longer question only so many terms are looked up."""

_LONGEST_QUERY: Final = 20_000
_LONGEST_TERM: Final = 64

# A hump starts with a capital, so the scan jumps from capital to capital. The small letters before the first
# hump cannot be found so: they are read from the end of the text backwards, where a capital starts them too.
_HUMP: Final = re.compile(r"[A-Z](?:[A-Z]+(?![a-z])|[a-z]+)")
_BACKWARD_HEAD: Final = re.compile(r"[A-Z]([a-z]+)(?![A-Za-z])")

_WORD: Final = re.compile(r"\w+")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")

_SAYING_NOTHING: Final = """
    a about after all also an and any are as at be because been before being but by can could did do
    does for from had has have how i if in instead into is it its just let like made make makes may more
    most must my no not now of off on only onto or other our out over shall she should so some such than
    that the their them then there these they this those to too under until up upon us use used uses
    using via was we were what when where which while who why will with without would you your
"""
STOPWORDS: Final = frozenset(_SAYING_NOTHING.split())

_GRAMMAR: Final = """
    a an and are as at be by for from has have i if in is it its of on or that the their this to was were will
    with you your
"""
FEWEST_STOPWORDS: Final = frozenset(_GRAMMAR.split())
"""Of the stopwords those that tell no two functions apart: not, without and their like do."""


def searchable(text: str) -> str:
    """The text as it goes into the index: itself, then the parts of its camelCase words."""
    heads = " ".join(_BACKWARD_HEAD.findall(text[::-1]))[::-1]
    return " ".join((text, *_HUMP.findall(text), heads))


def query_terms(text: str, stopwords: frozenset[str] = STOPWORDS) -> list[str]:
    """What to look up for a question: its words and their parts, small, each once; at most `MOST_TERMS`.

    A word with underscores stays in one piece too: the index reads it as the phrase of its parts.
    """
    found: dict[str, None] = {}
    for word in _WORD.findall(text[:_LONGEST_QUERY]):
        found.update(dict.fromkeys(form for form in _forms(word) if form not in stopwords))
        if len(found) >= MOST_TERMS:
            break
    return list(found)[:MOST_TERMS]


def _forms(word: str) -> list[str]:
    """The word and its parts."""
    whole = word.strip("_").lower()[:_LONGEST_TERM]
    parts = [part.lower()[:_LONGEST_TERM] for part in _PART.findall(word)]
    return [form for form in (whole, *parts) if len(form) > 1]


def match(terms: Iterable[str]) -> str:
    """The terms as a full-text question that any of them answers; none of them can be read as its syntax."""
    # Its syntax ends at a NUL, quoted or not; no text has a word with one in it.
    return " OR ".join('"' + term.replace("\0", " ").replace('"', '""') + '"' for term in terms)
