"""From a place in byte code to a range of a source file, for the maps of solc and of Vyper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol


@dataclass(frozen=True, slots=True)
class Span:
    """A range of bytes in a source, and whether the jump there enters (`i`) or leaves (`o`) a function."""

    source: int
    start: int
    length: int
    jump: str = "-"

    @property
    def end(self) -> int:
        return self.start + self.length

    def is_within(self, start: int, end: int) -> bool:
        return start <= self.start and self.end <= end


class SourceMap(Protocol):
    """Says where the instruction at a place came from."""

    def at(self, number: int, pc: int) -> Span | None:
        """The span of an instruction, by its running number and its place; none when it was generated."""
        ...

    @property
    def instructions(self) -> int | None:
        """How many instructions the code has before its data begins, when the map tells."""
        ...


class Compressed:
    """solc's map: one entry per instruction, each saying only what differs from the one before."""

    def __init__(self, text: str) -> None:
        self._spans = decode(text)

    def at(self, number: int, pc: int) -> Span | None:
        span = self._spans[number] if number < len(self._spans) else None
        return span if span is not None and span.source >= 0 and span.start >= 0 else None

    @property
    def instructions(self) -> int | None:
        return len(self._spans) or None


@dataclass(frozen=True, slots=True)
class Places:
    """Vyper's map: spans by place, and none for instructions that it does not explain."""

    spans: Mapping[int, Span]

    def at(self, number: int, pc: int) -> Span | None:
        return self.spans.get(pc)

    @property
    def instructions(self) -> int | None:
        return None


NOWHERE: Final = Places({})
"""The map of a code about which nothing is known."""


def decode(text: str) -> tuple[Span, ...]:
    """The spans of solc's compressed map `start:length:source:jump:depth;…`."""
    spans: list[Span] = []
    start, length, source, jump = 0, 0, -1, "-"
    for entry in text.split(";") if text else ():
        fields = entry.split(":")
        start = int(fields[0]) if fields[0] else start
        length = int(fields[1]) if len(fields) > 1 and fields[1] else length
        source = int(fields[2]) if len(fields) > 2 and fields[2] else source
        jump = fields[3] if len(fields) > 3 and fields[3] else jump
        spans.append(Span(source, start, length, jump))
    return tuple(spans)
