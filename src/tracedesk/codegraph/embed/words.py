"""Text to the places of its words in a vocabulary: identifiers split, compounds taken apart, pure Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_RUN: Final = re.compile(r"\w+")
_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_LONGEST: Final = 24
"""No word of the vocabulary is longer."""
_SHORTEST: Final = 3
"""Of a word that the vocabulary lacks, parts from this length on are looked for."""
_REMEMBERED: Final = 200_000


def parts(identifier: str) -> list[str]:
    """`HTTPResponse_v2` → `["http", "response", "v", "2"]`."""
    return [part.lower() for part in _PART.findall(identifier)]


class Words(dict[str, tuple[int, ...]]):
    """A vocabulary that remembers, for each run of letters it met, which of its words it is made of."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        super().__init__()
        self.places: Mapping[str, int] = {word: place for place, word in enumerate(vocabulary)}

    def __missing__(self, run: str) -> tuple[int, ...]:
        found = tuple(place for part in parts(run) for place in self._word(part))
        if len(self) >= _REMEMBERED:
            self.clear()
        self[run] = found
        return found

    def of(self, text: str) -> list[int]:
        """The places of a text's words, in their order, repeated as often as they occur."""
        found: list[int] = []
        for run in _RUN.findall(text):
            found += self[run]
        return found

    def _word(self, word: str) -> tuple[int, ...]:
        place = self.places.get(word)
        return (place,) if place is not None else tuple(self._pieces(word))

    def _pieces(self, word: str) -> Iterable[int]:
        """The longest known word at the beginning of what is left; letters that begin none are skipped."""
        at = 0
        while at <= len(word) - _SHORTEST:
            for end in range(min(len(word), at + _LONGEST), at + _SHORTEST - 1, -1):
                place = self.places.get(word[at:end])
                if place is not None:
                    yield place
                    at = end
                    break
            else:
                at += 1
