"""BERT's tokenizer in pure Python: what MiniLM reads. Cleaning, words and marks, longest known pieces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

_ASCII: Final = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_ASCII_MARKS: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_LONGEST_WORD: Final = 100
_REMEMBERED: Final = 100_000


class WordPiece(dict[str, tuple[int, ...]]):
    """A vocabulary that remembers the pieces of each word it met."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]

    def __missing__(self, word: str) -> tuple[int, ...]:
        found = tuple(self._pieces(word)) if len(word) <= _LONGEST_WORD else (self._unknown,)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[word] = found
        return found

    def of(self, text: str, longest: int) -> list[int]:
        """The numbers of a text's pieces between the two marks, at most `longest` in all."""
        found = [self._first]
        for word in words(text):
            found += self[word]
            if len(found) >= longest:
                break
        return [*found[: longest - 1], self._last]

    def _pieces(self, word: str) -> list[int]:
        found: list[int] = []
        at = 0
        while at < len(word):
            for end in range(len(word), at, -1):
                piece = self.vocabulary.get(word[at:end] if not at else f"##{word[at:end]}")
                if piece is not None:
                    found.append(piece)
                    at = end
                    break
            else:
                return [self._unknown]
        return found


def words(text: str) -> Iterator[str]:
    """Words in small letters without accents, and each mark by itself."""
    if text.isascii():
        for match in _ASCII.finditer(text.lower().translate(_CONTROLS)):
            yield match[0]
        return
    for word in _clean(text).split():
        yield from _apart(word)


def _clean(text: str) -> str:
    kept = "".join(_spaced(letter) for letter in text)
    bare = (letter for letter in unicodedata.normalize("NFD", kept) if unicodedata.category(letter) != "Mn")
    return "".join(bare).lower()


def _spaced(letter: str) -> str:
    """Nothing for a control character, a space for any kind of space, room around an ideograph."""
    if letter.isspace():
        return " "
    code = ord(letter)
    if code in (0, 0xFFFD) or unicodedata.category(letter) in ("Cc", "Cf", "Co"):
        return ""
    return f" {letter} " if any(low <= code <= high for low, high in _IDEOGRAPHS) else letter


def _apart(word: str) -> Iterator[str]:
    begin = 0
    for at, letter in enumerate(word):
        if letter in _ASCII_MARKS or unicodedata.category(letter).startswith("P"):
            if begin < at:
                yield word[begin:at]
            yield letter
            begin = at + 1
    if begin < len(word):
        yield word[begin:]


_CONTROLS: Final = dict.fromkeys((*range(9), *range(14, 32), 11, 12, 127))
