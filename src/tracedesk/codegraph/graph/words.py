"""The parts of a file's camelCase words, found once for the file and for every piece of it.

They are what `terms.searchable` puts behind a text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import Final

_CUT: Final = b"\0"
_BETWEEN: Final = _CUT + b"z "
"""Stands where stretches are joined: it reads as a part of its own."""
_FOUND_CUT: Final = " \0z"
_BLANK: Final = ord(" ")
_HUMP: Final = re.compile(rb"[\0A-Z](?:[a-z]+|[A-Z]+(?![a-z]))")
_SHAPES: Final = {**dict.fromkeys(ascii_uppercase, "A"), **dict.fromkeys(ascii_lowercase, "a")}
_SHAPE: Final = bytes(ord(_SHAPES.get(chr(byte), " ")) for byte in range(256))
"""Every capital as one, every small letter as one, all else as a blank."""


class Words:
    """The parts of words in a file that is cut at some places."""

    def __init__(self, data: bytes, cuts: Iterable[int]) -> None:
        shape = data.translate(_SHAPE)
        size = len(data)
        self._cuts = [0, *sorted({cut for cut in cuts if 0 < cut < size}), size]
        split = [cut for cut in self._cuts[1:-1] if shape[cut] != _BLANK != shape[cut - 1]]
        self.is_whole = _CUT not in data and not split
        """Whether no word is cut, and the file has no sign that stands for a cut here."""
        self._humps = _humps(data, self._cuts) if self.is_whole else []
        self._head_starts, self._heads = _heads(data, shape)

    def behind(self, start: int, end: int) -> str:
        """What is put behind the text between two cuts."""
        humps = self._humps[bisect_left(self._cuts, start) : bisect_left(self._cuts, end)]
        starts = self._head_starts
        heads = self._heads[bisect_left(starts, start) : bisect_left(starts, end)] if starts else ()
        return f"{''.join(humps)} {' '.join(heads)}"


def _humps(data: bytes, cuts: list[int]) -> list[str]:
    """What begins with a capital, each with a blank before it, for each stretch between two cuts."""
    stretches = [data[start:end] for start, end in pairwise(cuts)]
    found = _HUMP.findall(_BETWEEN.join(stretches))
    # The sign of a cut is found between the parts; none of them has it inside.
    joined = b" ".join((b"", *found)).decode("ascii")
    return joined.split(_FOUND_CUT)


def _heads(data: bytes, shape: bytes) -> tuple[list[int], list[str]]:
    """The small letters before the first capital of a word, with where they start."""
    *pieces, _ = shape.split(b"aA")
    starts: list[int] = []
    heads: list[str] = []
    at = 0
    for piece in pieces:
        around = len(piece.rstrip(b"a"))
        # Behind a capital the letters belong to what it begins.
        if piece[around - 1] == _BLANK if around else not at:
            start = at + around
            at += len(piece) + 2
            starts.append(start)
            heads.append(data[start : at - 1].decode("ascii"))
        else:
            at += len(piece) + 2
    return starts, heads
