"""What a document costs an agent in tokens: an estimate on the safe side, whatever is written in it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_PIECE: Final = re.compile(
    rb"[A-Z]?[a-z]{1,48}|[A-Z]{1,48}(?![a-z])|[A-Z]|[0-9]{1,3}|[\x80-\xff]{1,48}|[^A-Za-z0-9\x80-\xff]{1,48}"
)
"""Where vocabularies cut: words begin at a capital, numbers have up to three digits.

Pieces are short, so that what they cost can be remembered.
"""

_BEYOND_ASCII: Final = 0x80
_LONGEST_WORD: Final = 11
"""Letters of one word; longer runs are ids and codes, which cost about a token for two letters."""

_LONGEST_SIGNS: Final = 8
_VOWELS: Final = b"aeiouyAEIOUY"


def cost(document: bytes) -> int:
    """Tokens of a text or JSON document; a byte beyond ASCII counts as one, for rare scripts cost that."""
    return sum(map(_tokens, _PIECE.findall(document))) * 11 // 10 + 1


def at_most(size: int) -> int:
    """What so many bytes cost at most, whatever is written in them."""
    return size * 11 // 10 + 1


@lru_cache(maxsize=1 << 14)
def _tokens(piece: bytes) -> int:
    size = len(piece)
    if piece[0] >= _BEYOND_ASCII:
        return size
    if piece.isdigit():
        return 1
    if not piece.isalpha():
        return max(1, size // 2) if size <= _LONGEST_SIGNS else size * 3 // 4
    return 1 + (size - 1) // 6 if _is_word(piece) else (size * 5 + 8) // 9


def _is_word(piece: bytes) -> bool:
    """Whether the letters may be a word: not long, not in capitals, and with vowels enough."""
    vowels = len(piece) - len(piece.translate(None, _VOWELS))
    return len(piece) <= _LONGEST_WORD and not piece.isupper() and 4 * vowels >= len(piece)


def cut(text: str, length: int, tokens: int | None = None) -> str:
    """The text if it is no longer than that, and costs no more; else its beginning and an ellipsis."""
    shown = text if len(text) <= length else text[: length - 1] + "…"
    while tokens is not None and len(shown) > 1 and (spent := cost(shown.encode())) > tokens:
        kept = min(len(shown) - 2, len(shown) * tokens // spent)
        shown = text[: max(0, kept)] + "…"
    return shown


def told_apart(texts: list[str], length: int) -> list[str]:
    """Each text cut to the length; those whose beginnings are the same are numbered."""
    seen: dict[str, int] = {}
    shown: list[str] = []
    for text in texts:
        short = cut(text, length)
        seen[short] = number = seen.get(short, 0) + 1
        shown.append(short if number == 1 else f"{short} ({number})")
    return shown
