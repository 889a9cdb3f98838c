"""Programs for `interpreter.sol`, and byte code for the contracts they create: random, but repeatable."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

WORD: Final = 2**256
_INTERESTING: Final = (0, 1, 2, 31, 32, 255, 256, 2**128, 2**255 - 1, 2**255, WORD - 2, WORD - 1)

PUSH1: Final = 0x60
JUMPDEST: Final = 0x5B

_PURE: Final = (
    *(
        (op, 2)
        for op in (*range(0x01, 0x08), 0x0A, 0x0B, *range(0x10, 0x15), *range(0x16, 0x19), *range(0x1A, 0x1E))
    ),
    *((op, 1) for op in (0x15, 0x19)),
    *((op, 3) for op in (0x08, 0x09)),
)
"""Arithmetic and comparisons, and what they take; each leaves one word."""
_FACTS: Final = (
    0x30,
    0x32,
    0x33,
    0x34,
    0x36,
    0x38,
    0x3A,
    0x3D,
    0x41,
    0x42,
    0x43,
    0x44,
    0x45,
    0x46,
    0x47,
    0x48,
    0x58,
    0x59,
)
"""Opcodes that only leave a word; not those of gas, nor of blobs and block hashes, which oracles have not."""


def word(chance: random.Random) -> int:
    return chance.choice((chance.choice(_INTERESTING), chance.randrange(300), chance.randrange(WORD)))


# --- byte code --------------------------------------------------------------------------------------


class _Writer:
    """Writes byte code whose stack never runs dry, but for mistakes made on purpose."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.code = bytearray()
        self.depth = 0

    def push(self, value: int) -> None:
        data = value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
        self.code += bytes([PUSH1 + len(data) - 1]) + data
        self.depth += 1

    def need(self, count: int) -> None:
        while self.depth < count:
            self.push(word(self.chance))

    def op(self, opcode: int, taken: int, left: int) -> None:
        self.need(taken)
        self.code.append(opcode)
        self.depth += left - taken


def _pure(out: _Writer) -> None:
    opcode, taken = out.chance.choice(_PURE)
    out.op(opcode, taken, 1)


def _fact(out: _Writer) -> None:
    out.op(out.chance.choice(_FACTS), 0, 1)


def _stack(out: _Writer) -> None:
    place = out.chance.randrange(16)
    if out.chance.random() < 0.5:
        out.need(place + 1)
        out.op(0x80 + place, 0, 1)
    else:
        out.need(place + 2)
        out.op(0x90 + place, 0, 0)


def _memory(out: _Writer) -> None:
    out.push(out.chance.randrange(256))
    opcode, taken, left = out.chance.choice(((0x51, 1, 1), (0x52, 2, 0), (0x53, 2, 0)))
    if taken == 2:
        out.push(word(out.chance))
        out.op(0x90, 0, 0)
    out.op(opcode, taken, left)


def _storage(out: _Writer) -> None:
    slot = out.chance.randrange(16)
    opcode = out.chance.choice((0x54, 0x55, 0x5C, 0x5D))
    if opcode in (0x54, 0x5C):
        out.push(slot)
        out.op(opcode, 1, 1)
    else:
        out.need(1)
        out.push(slot)
        out.op(opcode, 2, 0)


def _copy(out: _Writer) -> None:
    """CALLDATACOPY, CODECOPY, MCOPY, then a hash or a log of the place."""
    for size in (out.chance.randrange(64), out.chance.randrange(64), out.chance.randrange(64)):
        out.push(size)
    out.op(out.chance.choice((0x37, 0x39, 0x5E)), 3, 0)
    out.push(out.chance.randrange(64))
    out.push(out.chance.randrange(64))
    out.op(*out.chance.choice(((0x20, 2, 1), (0xA0, 2, 0))))


def _look(out: _Writer) -> None:
    out.need(1)
    out.op(out.chance.choice((0x31, 0x35, 0x3B, 0x3F)), 1, 1)


def _call(out: _Writer) -> None:
    """CALL, DELEGATECALL or STATICCALL of a precompile or of whoever called."""
    opcode, words = out.chance.choice(((0xF1, 4), (0xF4, 4), (0xFA, 4)))
    for _ in range(words):
        out.push(out.chance.randrange(96))
    if opcode == 0xF1:
        out.push(0)
    if out.chance.random() < 0.2:
        out.op(0x33, 0, 1)
    else:
        out.push(out.chance.randint(1, 9))
    out.code += b"\x60\x08\x5a\x04"  # an eighth of the gas: what fails must not starve the rest
    out.depth += 1
    out.op(opcode, 7 if opcode == 0xF1 else 6, 1)


_PIECES: Final[tuple[tuple[Callable[[_Writer], None], int], ...]] = (
    (_pure, 12),
    (_fact, 4),
    (_stack, 4),
    (_memory, 4),
    (_storage, 5),
    (_copy, 2),
    (_look, 2),
    (_call, 2),
)


def runtime(chance: random.Random) -> bytes:
    """Blocks that jump over each other, and a few mistakes."""
    pieces, weights = zip(*_PIECES, strict=True)
    count = chance.randint(1, 6)
    out = _Writer(chance)
    places: list[int] = []
    holes: list[int] = []
    for _ in range(count):
        places.append(len(out.code))
        out.code.append(JUMPDEST)
        out.depth = 0
        for _ in range(chance.randint(1, 8)):
            chance.choices(pieces, weights)[0](out)
        out.op(0x15, 1, 1) if chance.random() < 0.3 else None
        out.need(1)
        holes.append(len(out.code) + 1)
        out.code += bytes([PUSH1 + 1, 0, 0, 0x57])
        if chance.random() < 0.05:
            out.code.append(chance.choice((0x0C, 0x56, 0xFE, 0xEF)))
    # Only forwards: a loop would end by its gas, of which engines spend differently when they differ in
    # what is warm.
    for number, hole in enumerate(holes):
        onwards = [*places[number + 1 :], len(out.code)]
        target = chance.choice(onwards) if chance.random() < 0.97 else chance.randrange(hole, len(out.code))
        out.code[hole : hole + 2] = target.to_bytes(2, "big")
    out.code.append(JUMPDEST)
    ending = chance.choice((b"\x60\x20\x5f\xf3", b"\x60\x20\x5f\xf3", b"\x00", b"\x60\x24\x5f\xfd"))
    return bytes(out.code) + ending


def init(chance: random.Random, interpreter: str) -> bytes:
    """Code that deploys: a random contract, a proxy of the interpreter, or something that goes wrong."""
    kind = chance.random()
    if kind < 0.1:
        return runtime(chance)
    if kind < 0.4:
        middle = bytes.fromhex(interpreter.removeprefix("0x"))
        code = (
            b"\x36\x3d\x3d\x37\x3d\x3d\x3d\x36\x3d\x73"
            + middle
            + b"\x5a\xf4\x3d\x82\x80\x3e\x90\x3d\x91\x60\x2b\x57\xfd\x5b\xf3"
        )
    else:
        code = runtime(chance)
    stores = b"\x60" + bytes([chance.randrange(256)]) + b"\x5f\x55" if chance.random() < 0.5 else b""
    return deployer(code, stores)


def deployer(code: bytes, stores: bytes = b"") -> bytes:
    """Init code that does something first, perhaps, and then deploys a code."""
    head = len(stores) + 11
    return (
        stores
        + b"\x61"
        + len(code).to_bytes(2, "big")
        + b"\x80\x60"
        + bytes([head])
        + b"\x5f\x39\x5f\xf3\x00"
        + code
    )


# --- programs ---------------------------------------------------------------------------------------


def program(chance: random.Random, interpreter: str, depth: int = 0) -> bytes:
    """A few steps; the data of a visit is often a program too."""
    return b"".join(_step(chance, interpreter, depth) for _ in range(chance.randint(1, 6 - 2 * depth)))


def _step(chance: random.Random, interpreter: str, depth: int) -> bytes:
    kinds = (
        range(8),
        range(8, 16),
        range(16, 24),
        range(24, 32),
        range(32, 48),
        range(48, 56),
        range(56, 64),
    )
    step = chance.choice(chance.choices(kinds, (6, 3, 3, 3, 6, 2, 1))[0])
    return step_of(step, word(chance), word(chance), _data(chance, step, interpreter, depth))


def step_of(step: int, one: int, two: int, data: bytes = b"") -> bytes:
    """One step: what to do, two words, and data."""
    words = one.to_bytes(32, "big") + two.to_bytes(32, "big")
    return bytes([step]) + words + len(data).to_bytes(2, "big") + data


def _data(chance: random.Random, step: int, interpreter: str, depth: int) -> bytes:
    if 24 <= step < 32:
        return init(chance, interpreter)
    if 32 <= step < 48 and depth < 2 and chance.random() < 0.7:
        return program(chance, interpreter, depth + 1)
    return chance.randbytes(chance.choice((0, 1, 32, 64, 128, 192)))


def is_transient(program: bytes) -> bool:
    """Whether its first step writes or reads transient storage."""
    return program[0] in (2, 3, 6, 7)
