"""Conditional jumps explained: which decision of the source each one takes, and which side is which."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from tracedesk.fuzz.bytecode import INVALID, JUMP, JUMPI, REVERT, Block, jump_target
from tracedesk.fuzz.layout import Layout, outline_of, ternary_of
from tracedesk.fuzz.outline import Decision, Range
from tracedesk.fuzz.sourcemap import Span

_LOOPS: Final = ("for", "while", "do")
_FOLLOWED: Final = 4
"""Unconditional jumps that are followed to see where a side leads."""
_JUMPS: Final = re.compile(r"[\s{]*(?:break|continue|return)\s*;?[\s}]*")
_REVERTS: Final = re.compile(r"[\s{]*revert\b")
_SHORT: Final = re.compile(r"&&|\|\|")
"""A condition of several parts has jumps of its own between them."""
_BARE: Final = 4
"""Instructions of a block that does nothing but revert."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A JUMPI that takes a decision."""

    pc: int
    held_when_taken: bool


@dataclass(frozen=True, slots=True)
class Check:
    """A call of a generated function that returns only when the condition held: blocks before and after."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A decision of a source and everything in one code that takes it."""

    source: int
    decision: Decision
    jumps: tuple[Jump, ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(slots=True)
class _Found:
    decision: Decision
    by_node: list[Jump] = field(default_factory=list[Jump])
    by_condition: list[Jump] = field(default_factory=list[Jump])
    checks: list[Check] = field(default_factory=list[Check])

    def branch(self, source: int) -> Branch | None:
        # Compilers by way of Yul name a do-while once more for its first turn, which decides nothing.
        first, second = self.by_node, self.by_condition
        if self.decision.kind == "do":
            first, second = second, first
        jumps = tuple(first or second)
        if not jumps and not self.checks:
            return None
        return Branch(source, self.decision, jumps, () if jumps else tuple(self.checks))


def branches(layout: Layout) -> tuple[Branch, ...]:
    """Every decision that a code takes; dispatch, decoding and checked arithmetic take none."""
    found: dict[tuple[int, int], _Found] = {}
    for number, span in enumerate(layout.spans):
        if span is not None and layout.instructions[number].opcode == JUMPI:
            _note_jump(layout, found, number, span)
        elif span is not None and span.jump == "i" and layout.instructions[number].opcode == JUMP:
            _note_check(layout, found, number, span)
    made = (noted.branch(source) for (source, _), noted in sorted(found.items(), key=lambda item: item[0]))
    return tuple(branch for branch in made if branch is not None)


def _note_jump(layout: Layout, found: dict[tuple[int, int], _Found], number: int, span: Span) -> None:
    source = layout.sources[span.source]
    outline = outline_of(source)
    pc = layout.instructions[number].pc
    if loop := outline.by_condition.get((span.start, span.end)):
        held = _side(layout, number, loop)
        if held is not None or not _SHORT.search(source.text[span.start : span.end]):
            noted = found.setdefault((span.source, loop.start), _Found(loop))
            # By way of Yul and its optimizer, a loop goes on by a jump.
            noted.by_condition.append(Jump(pc, held is not False))
        return
    decision = outline.by_start.get(span.start) or ternary_of(source, span)
    if decision is None or (decision.kind in _LOOPS and _is_bounds_check(layout, number)):
        return
    noted = found.setdefault((span.source, decision.start), _Found(decision))
    noted.by_node.append(Jump(pc, _held_when_taken(layout, number, span, decision)))


def _note_check(layout: Layout, found: dict[tuple[int, int], _Found], number: int, span: Span) -> None:
    """solc by way of Yul puts `require` and `assert` into functions shared by all uses."""
    decision = outline_of(layout.sources[span.source]).by_start.get(span.start)
    if decision is None or decision.kind not in ("require", "assert") or not layout.opens(number + 1):
        return
    after = layout.spans[number + 1]
    if after is not None and after.start == span.start:
        noted = found.setdefault((span.source, decision.start), _Found(decision))
        noted.checks.append(Check(layout.block_of[number], layout.block_of[number + 1]))


# --- which side is which -------------------------------------------------------------------------


def _held_when_taken(layout: Layout, number: int, span: Span, decision: Decision) -> bool:
    if decision.kind in ("require", "assert"):
        return _passes_when_taken(layout, number, decision)
    told = _side(layout, number, decision)
    if told is not None:
        return told
    part = decision.chosen
    body = layout.sources[span.source].text[part.start : part.end] if part is not None else ""
    if _REVERTS.match(body):
        to, past = _sides(layout, number)
        return _reverts(layout, to) and not _reverts(layout, past)
    # Where the code of neither side tells, solc's habit decides: it jumps over a body, unless that is a jump.
    return decision.kind in ("do", "ternary") or _JUMPS.fullmatch(body) is not None


def _reverts(layout: Layout, number: int | None) -> bool:
    return number is not None and layout.instructions[layout.blocks[number].stop - 1].opcode == REVERT


def _side(layout: Layout, number: int, decision: Decision) -> bool | None:
    """Whether the taken side is where the condition held; none when neither side tells."""
    taken, fallen = (_lands(layout, block, decision) for block in _sides(layout, number))
    if taken == fallen:
        return None
    if taken is not None:
        return taken
    return not fallen


def _sides(layout: Layout, number: int) -> tuple[int | None, int | None]:
    """The blocks where a JUMPI leads: taken, and not taken."""
    target = jump_target(layout.instructions, number)
    here = layout.block_of[number]
    fallen = here + 1 if here + 1 < len(layout.blocks) else None
    return (layout.block_at.get(target) if target is not None else None), fallen


def _lands(layout: Layout, number: int | None, decision: Decision) -> bool | None:
    """Whether a way leads first into what is done when the condition held, or into its opposite."""
    for _ in range(_FOLLOWED):
        if number is None:
            return None
        block = layout.blocks[number]
        for span in layout.spans[block.first : block.stop]:
            if span is not None and _is_in(span, decision.chosen):
                return True
            if span is not None and _is_in(span, decision.otherwise):
                return False
        number = _onward(layout, number, block)
    return None


def _is_in(span: Span, part: Range | None) -> bool:
    return part is not None and span.is_within(part.start, part.end)


def _onward(layout: Layout, number: int, block: Block) -> int | None:
    last = layout.instructions[block.stop - 1]
    if last.opcode == JUMP:
        target = jump_target(layout.instructions, block.stop - 1)
        return layout.block_at.get(target) if target is not None else None
    falls = layout.opens(block.stop) and last.opcode not in (JUMPI, REVERT, INVALID)
    return number + 1 if falls else None


def _passes_when_taken(layout: Layout, number: int, decision: Decision) -> bool:
    to, past = _sides(layout, number)
    taken, fallen = _fails(layout, to, decision), _fails(layout, past, decision)
    if taken != fallen:
        return fallen
    return to is None or not _is_bare_revert(layout, to)


def _fails(layout: Layout, number: int | None, decision: Decision) -> bool:
    """Whether a side does nothing but prepare to revert: it never leaves the statement."""
    if number is None:
        return False
    block = layout.blocks[number]
    last = layout.instructions[block.stop - 1].opcode
    if last in (REVERT, INVALID):
        return True
    spans = layout.spans[block.first : block.stop]
    return last == JUMP and all(s is None or s.is_within(decision.start, decision.end) for s in spans)


def _is_bounds_check(layout: Layout, number: int) -> bool:
    """Vyper refuses a loop that is longer than its bound, in the name of the loop."""
    return any(_is_bare_revert(layout, side) for side in _sides(layout, number) if side is not None)


def _is_bare_revert(layout: Layout, number: int) -> bool:
    block = layout.blocks[number]
    return block.stop - block.first <= _BARE and layout.instructions[block.stop - 1].opcode == REVERT
