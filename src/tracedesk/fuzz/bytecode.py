"""Byte code read without running it: instructions, basic blocks, conditional jumps, and what is only data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

STOP: Final = 0x00
JUMP: Final = 0x56
JUMPI: Final = 0x57
JUMPDEST: Final = 0x5B
PUSH0: Final = 0x5F
PUSH32: Final = 0x7F
RETURN: Final = 0xF3
REVERT: Final = 0xFD
INVALID: Final = 0xFE
SELFDESTRUCT: Final = 0xFF
_ENDS: Final = frozenset((STOP, JUMP, JUMPI, RETURN, REVERT, INVALID, SELFDESTRUCT))
_LIBRARY: Final = b"\x73" + bytes(20) + b"\x30\x14"
"""How a library begins: it compares its own address, written in when it is deployed."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, with the number a PUSH carries."""

    pc: int
    opcode: int
    operand: int | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions that run one after the other: the numbers of the first and of the one past the last."""

    start: int
    """The place of its first instruction."""
    first: int
    stop: int


def instructions(code: bytes, limit: int | None = None) -> tuple[Instruction, ...]:
    """The instructions in order, at most `limit`; a PUSH cut off at the end reads zeros, as it runs."""
    return tuple(_instructions(code, len(code) if limit is None else limit))


def _instructions(code: bytes, limit: int) -> Iterator[Instruction]:
    pc = 0
    for _ in range(limit):
        if pc >= len(code):
            return
        opcode = code[pc]
        width = opcode - PUSH0 if PUSH0 <= opcode <= PUSH32 else -1
        operand = None
        if width >= 0:
            operand = int.from_bytes(code[pc + 1 : pc + 1 + width].ljust(width, b"\0"), "big")
        yield Instruction(pc, opcode, operand)
        pc += 1 + max(width, 0)


def blocks(code: Sequence[Instruction]) -> tuple[Block, ...]:
    """The basic blocks: each begins at the start, at a JUMPDEST, or after what ends the one before."""
    found: list[Block] = []
    first = 0
    for number, instruction in enumerate(code):
        if number > first and instruction.opcode == JUMPDEST:
            found.append(Block(code[first].pc, first, number))
            first = number
        if instruction.opcode in _ENDS:
            found.append(Block(code[first].pc, first, number + 1))
            first = number + 1
    if first < len(code):
        found.append(Block(code[first].pc, first, len(code)))
    return tuple(found)


def jump_target(code: Sequence[Instruction], number: int) -> int | None:
    """Where a jump leads when the place is pushed right before it."""
    return code[number - 1].operand if number else None


def metadata_length(code: bytes) -> int:
    """Bytes at the end that are solc's metadata (a CBOR map and its length), 0 when there are none."""
    if len(code) < 4:
        return 0
    length = int.from_bytes(code[-2:], "big") + 2
    is_map = length <= len(code) and code[-length] & 0xE0 == 0xA0
    return length if is_map else 0


def masked(code: bytes, immutables: Iterable[tuple[int, int]] = ()) -> bytes:
    """The code without metadata and with zeros for immutables: equal for any two deployments."""
    plain = bytearray(code)
    for start, length in immutables:
        plain[start : start + length] = bytes(len(plain[start : start + length]))
    return bytes(plain[: len(plain) - metadata_length(code)])


def library_address(runtime: bytes) -> tuple[tuple[int, int], ...]:
    """The place of a library's own address, which deployment writes like an immutable."""
    return ((1, 20),) if runtime.startswith(_LIBRARY) else ()
