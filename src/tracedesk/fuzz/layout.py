"""One code laid out beside its source: instructions, their spans, blocks, and the outlines they fall into."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal

from tracedesk.fuzz import braces, indents
from tracedesk.fuzz.bytecode import JUMPDEST, Block, Instruction, blocks, instructions, metadata_length
from tracedesk.fuzz.outline import Decision, Outline, Routine
from tracedesk.fuzz.project import Code, Contract, Project, Source
from tracedesk.fuzz.sourcemap import Span

CodeKind = Literal["runtime", "init"]

_SCOPES: Final = re.compile(r"\{|unchecked\s*\{|(?:abstract\s+)?(?:contract|library|interface)\b")
_WORD: Final = re.compile(r"\w+")


@lru_cache(maxsize=512)
def outline_of(source: Source) -> Outline:
    """The outline of a source, read once."""
    return indents.outline(source.text) if source.language == "vyper" else braces.outline(source.text)


def ternary_of(source: Source, span: Span) -> Decision | None:
    """The conditional expression that a span covers, when it is one."""
    scanner = indents.ternary if source.language == "vyper" else braces.ternary
    return scanner(source.text, span.start, span.end)


@dataclass(frozen=True)
class Layout:
    """A code, read statically."""

    kind: CodeKind
    code: Code
    sources: Mapping[int, Source]

    @classmethod
    def of(cls, project: Project, contract: Contract, kind: CodeKind) -> Layout:
        """The layout of a contract's runtime or init code."""
        paths = contract.source_ids.items()
        sources = {number: project.sources[path] for number, path in paths if path in project.sources}
        return cls(kind, contract.runtime if kind == "runtime" else contract.init, sources)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """What can run: neither metadata nor the data behind the code."""
        limit = self.code.map.instructions
        end = len(self.code.data) - (metadata_length(self.code.data) if limit is None else 0)
        return instructions(self.code.data[:end], limit)

    @cached_property
    def spans(self) -> tuple[Span | None, ...]:
        """The span of each instruction, in a source that is at hand."""
        return tuple(self._spans())

    def _spans(self) -> Iterator[Span | None]:
        for number, instruction in enumerate(self.instructions):
            span = self.code.map.at(number, instruction.pc)
            yield span if span is not None and span.source in self.sources else None

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return blocks(self.instructions)

    @cached_property
    def block_at(self) -> dict[int, int]:
        """The number of the block that begins at a place."""
        return {block.start: number for number, block in enumerate(self.blocks)}

    @cached_property
    def block_of(self) -> tuple[int, ...]:
        """The number of the block of each instruction."""
        return tuple(
            number for number, block in enumerate(self.blocks) for _ in range(block.first, block.stop)
        )

    def opens(self, number: int) -> bool:
        """Whether an instruction is a jump destination."""
        return number < len(self.instructions) and self.instructions[number].opcode == JUMPDEST

    @cached_property
    def lines(self) -> tuple[int | None, ...]:
        """The source line that each instruction belongs to; none for what the compiler added."""
        known: dict[Span | None, int | None] = {None: None}
        for span in self.spans:
            if span not in known and span is not None:
                known[span] = self._line(span)
        return tuple(known[span] for span in self.spans)

    def _line(self, span: Span) -> int | None:
        source = self.sources[span.source]
        routine = outline_of(source).routine_at(span.start)
        if routine is None:
            counts = self.kind == "init" and source.language == "solidity"
        else:
            counts = routine.body.holds(span.start)
        if not counts or _SCOPES.match(source.text, span.start) or self._is_stale(source, span):
            return None
        return source.line_of(span.start)

    def _is_stale(self, source: Source, span: Span) -> bool:
        """Vyper gives a name that occurs twice the place of its last use, so names tell nothing."""
        return source.language == "vyper" and _WORD.fullmatch(source.text, span.start, span.end) is not None

    def routine(self, span: Span) -> Routine | None:
        """The routine in whose body or header a span begins."""
        return outline_of(self.sources[span.source]).routine_at(span.start)
