"""A file's bytes with the places of its lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from tracedesk.codegraph.graph.model import Span, make

LONGEST = 8192
"""Bytes of a line that is still read for its comment."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Source:
    """Text as it was read; rows are 0-based inside, lines 1-based in spans."""

    __slots__ = ("starts", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.starts = list(accumulate([len(line) + 1 for line in text.split(b"\n")], initial=0))
        self.starts.pop()

    @property
    def lines(self) -> int:
        """Return how many lines there are; a last newline begins none."""
        return len(self.starts) - (not self.text or self.text.endswith(b"\n"))

    def row(self, at: int) -> int:
        """Return the row of a byte."""
        return bisect_right(self.starts, at) - 1

    def line(self, row: int) -> bytes:
        """Return one line, without the blanks around it; nothing of one that no person wrote."""
        end = self.starts[row + 1] if row + 1 < len(self.starts) else len(self.text)
        if end - self.starts[row] > LONGEST:
            return b""
        line = self.text[self.starts[row] : end].strip()
        return line if row else line.removeprefix(_BYTE_ORDER_MARK)

    def rows_up(self, row: int) -> Iterator[bytes]:
        """Yield the lines above a row, the nearest first."""
        while row > 0:
            row -= 1
            yield self.line(row)

    def span(self, start: int, end: int) -> Span:
        """Return the span of some bytes."""
        last = end - 1 if end > start else start
        starts = self.starts
        return make(Span, (bisect_right(starts, start), bisect_right(starts, last), start, end))


def decoded(text: bytes) -> str:
    """Return text for people: what is not UTF-8 is replaced, a byte order mark and carriage returns go."""
    plain = text.decode("utf-8", "replace")
    if plain.isascii() and "\r" not in plain:
        return plain
    return plain.replace("\r\n", "\n").removeprefix("\ufeff")
