"""The parts of a file's camelCase words, found once for the file and for every piece of it.

They are what `terms.searchable` puts behind a text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate, pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import Final

_CUT: Final = b"\0"
_BETWEEN: Final = _CUT + b" "
_HUMP: Final = re.compile(rb"[\0A-Z](?:[a-z]+|[A-Z]+(?![a-z])|(?<=\0))")
_SHAPES: Final = {**dict.fromkeys(ascii_uppercase, "A"), **dict.fromkeys(ascii_lowercase, "a")}
_SHAPE: Final = bytes(ord(_SHAPES.get(chr(byte), " ")) for byte in range(256))
"""Every capital as one, every small letter as one, all else as a blank."""


class Words:
    """The parts of words in a file that is cut at some places."""

    def __init__(self, data: bytes, cuts: Iterable[int]) -> None:
        shape = data.translate(_SHAPE)
        self._cuts = [0, *sorted({cut for cut in cuts if 0 < cut < len(data)}), len(data)]
        self.is_whole = _CUT not in data and not any(_is_split(shape, cut) for cut in self._cuts)
        """Whether no word is cut, and the file has no sign that stands for a cut here."""
        self._humps = _humps(data, self._cuts) if self.is_whole else []
        self._head_starts, self._heads = _heads(data, shape)

    def behind(self, start: int, end: int) -> str:
        """What is put behind the text between two cuts."""
        first, last = bisect_left(self._cuts, start), bisect_left(self._cuts, end)
        humps = [hump for hump in self._humps[first:last] if hump]
        heads = self._heads[bisect_left(self._head_starts, start) : bisect_left(self._head_starts, end)]
        return " ".join(("", *humps, " ".join(heads)))


def _is_split(shape: bytes, at: int) -> bool:
    return b" " not in shape[at - 1 : at + 1] if 0 < at < len(shape) else False


def _humps(data: bytes, cuts: list[int]) -> list[str]:
    """What begins with a capital, for each stretch between two cuts."""
    stretches = [data[start:end] for start, end in pairwise(cuts)]
    found = _HUMP.findall(_BETWEEN.join(stretches))
    joined: list[str] = []
    at = 0
    for _ in range(len(stretches) - 1):
        end = found.index(_CUT, at)
        joined.append(b" ".join(found[at:end]).decode("ascii"))
        at = end + 1
    return [*joined, b" ".join(found[at:]).decode("ascii")]


def _heads(data: bytes, shape: bytes) -> tuple[list[int], list[str]]:
    """The small letters before the first capital of a word, with where they start."""
    pieces = shape.split(b"aA")
    ends = accumulate([len(piece) + 2 for piece in pieces])
    starts: list[int] = []
    heads: list[str] = []
    for piece, end in zip(pieces[:-1], ends, strict=False):
        around = piece.rstrip(b"a")
        # Behind a capital the letters belong to what it begins.
        if around.endswith(b" ") or (not around and end == len(piece) + 2):
            start = end - 2 - len(piece) + len(around)
            starts.append(start)
            heads.append(data[start : end - 1].decode("ascii"))
    return starts, heads
