"""A small EVM that counts what the native core counts, so that coverage is tested against a second opinion.

It knows the instructions of the targets, one contract, and no gas; anything else is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.fuzz.keccak import keccak

WORD: Final = 1 << 256
SENDER: Final = 0x10000


class Halt(Exception):
    """The end of a frame."""

    def __init__(self, reason: str, data: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.data = data


def _signed(value: int) -> int:
    return value - WORD if value >> 255 else value


def _power(base: int, exponent: int) -> int:
    return pow(base, exponent, WORD)


_TWO: Final[dict[int, Callable[[int, int], int]]] = {
    0x01: lambda a, b: a + b,
    0x02: lambda a, b: a * b,
    0x03: lambda a, b: a - b,
    0x04: lambda a, b: a // b if b else 0,
    0x06: lambda a, b: a % b if b else 0,
    0x0A: _power,
    0x10: lambda a, b: a < b,
    0x11: lambda a, b: a > b,
    0x12: lambda a, b: _signed(a) < _signed(b),
    0x13: lambda a, b: _signed(a) > _signed(b),
    0x14: lambda a, b: a == b,
    0x16: lambda a, b: a & b,
    0x17: lambda a, b: a | b,
    0x18: lambda a, b: a ^ b,
    0x1B: lambda a, b: b << a if a < 256 else 0,
    0x1C: lambda a, b: b >> a if a < 256 else 0,
}


@dataclass(slots=True)
class Tally:
    """The counters of one code, as the core reports them."""

    blocks: Counter[int] = field(default_factory=Counter[int])
    taken: Counter[int] = field(default_factory=Counter[int])
    fallen: Counter[int] = field(default_factory=Counter[int])
    halts: Counter[tuple[int, str]] = field(default_factory=Counter[tuple[int, str]])

    def row(self, code: str, kind: str) -> dict[str, Any]:
        jumps = sorted({*self.taken, *self.fallen})
        return {
            "code": code,
            "kind": kind,
            "blocks": [[pc, hits] for pc, hits in sorted(self.blocks.items())],
            "branches": [[pc, self.taken[pc], self.fallen[pc]] for pc in jumps],
            "halts": [[pc, reason, hits] for (pc, reason), hits in sorted(self.halts.items())],
        }


@dataclass(slots=True)
class Machine:
    """One deployed contract and its counters."""

    name: str
    code: bytes = b""
    storage: dict[int, int] = field(default_factory=dict[int, int])
    init: Tally = field(default_factory=Tally)
    runtime: Tally = field(default_factory=Tally)

    @classmethod
    def deploy(cls, name: str, init: bytes, arguments: bytes = b"") -> Machine:
        machine = cls(name)
        machine.code = machine._run(init + arguments, b"", SENDER, machine.init).data
        return machine

    def call(self, signature: str, *arguments: int, sender: int = SENDER) -> Halt:
        """Call a function; a revert takes back what it wrote."""
        data = keccak(signature.encode())[:4] + b"".join((a % WORD).to_bytes(32, "big") for a in arguments)
        before = dict(self.storage)
        end = self._run(self.code, data, sender, self.runtime)
        if end.reason not in ("Stop", "Return"):
            self.storage = before
        return end

    def rows(self) -> list[dict[str, Any]]:
        return [self.runtime.row(self.name, "runtime"), self.init.row(self.name, "init")]

    def _run(self, code: bytes, data: bytes, sender: int, tally: Tally) -> Halt:
        frame = _Frame(self, code, data, sender, tally)
        tally.blocks[0] += 1
        try:
            while True:
                frame.step()
        except Halt as end:
            tally.halts[frame.at, end.reason] += 1
            return end


@dataclass(slots=True)
class _Frame:
    machine: Machine
    code: bytes
    data: bytes
    sender: int
    tally: Tally
    pc: int = 0
    at: int = 0
    stack: list[int] = field(default_factory=list[int])
    memory: bytearray = field(default_factory=bytearray)

    def step(self) -> None:
        self.at = self.pc
        opcode = self.code[self.pc] if self.pc < len(self.code) else 0
        self.pc += 1
        if opcode in _TWO:
            self.push(int(_TWO[opcode](self.pop(), self.pop())))
        elif 0x5F <= opcode <= 0x7F:
            width = opcode - 0x5F
            self.push(int.from_bytes(self.code[self.pc : self.pc + width].ljust(width, b"\0"), "big"))
            self.pc += width
        elif 0x80 <= opcode <= 0x8F:
            self.push(self.stack[0x7F - opcode])
        elif 0x90 <= opcode <= 0x9F:
            deep = 0x8E - opcode
            self.stack[-1], self.stack[deep] = self.stack[deep], self.stack[-1]
        elif 0xA0 <= opcode <= 0xA4:
            for _ in range(opcode - 0xA0 + 2):
                self.pop()
        else:
            self._other(opcode)

    def _other(self, opcode: int) -> None:
        match opcode:
            case 0x00:
                raise Halt("Stop")
            case 0x15:
                self.push(self.pop() == 0)
            case 0x19:
                self.push(~self.pop())
            case 0x20:
                self.push(int.from_bytes(keccak(self.read()), "big"))
            case 0x30:
                self.push(0xC0DE)
            case 0x33:
                self.push(self.sender)
            case 0x34:
                self.push(0)
            case 0x35:
                start = self.pop()
                self.push(int.from_bytes(self.data[start : start + 32].ljust(32, b"\0"), "big"))
            case 0x36:
                self.push(len(self.data))
            case 0x37:
                self.copy(self.data)
            case 0x38:
                self.push(len(self.code))
            case 0x39:
                self.copy(self.code)
            case 0x5E:
                to, start, size = self.pop(), self.pop(), self.pop()
                self.write(to, self.slice(start, size))
            case 0x50:
                self.pop()
            case 0x51:
                self.push(int.from_bytes(self.slice(self.pop(), 32), "big"))
            case 0x52:
                self.write(self.pop(), self.pop().to_bytes(32, "big"))
            case 0x53:
                self.write(self.pop(), bytes([self.pop() & 255]))
            case 0x54:
                self.push(self.machine.storage.get(self.pop(), 0))
            case 0x55:
                place = self.pop()
                self.machine.storage[place] = self.pop()
            case 0x56:
                self.jump(self.pop())
            case 0x57:
                self._branch(self.pop(), self.pop())
            case 0x5A:
                self.push(1_000_000)
            case 0x5B:
                self.tally.blocks[self.at] += 1
            case 0xF3:
                raise Halt("Return", self.read())
            case 0xFD:
                raise Halt("Revert", self.read())
            case 0xFE:
                raise Halt("InvalidFEOpcode")
            case _:
                raise NotImplementedError(f"opcode {opcode:#x} at {self.at}")

    def _branch(self, target: int, condition: int) -> None:
        if condition:
            self.tally.taken[self.at] += 1
            self.jump(target)
        else:
            self.tally.fallen[self.at] += 1

    def jump(self, target: int) -> None:
        assert self.code[target] == 0x5B
        self.pc = target

    def push(self, value: int) -> None:
        self.stack.append(value % WORD)

    def pop(self) -> int:
        return self.stack.pop()

    def slice(self, start: int, size: int) -> bytes:
        self.memory.extend(bytes(max(0, start + size - len(self.memory))))
        return bytes(self.memory[start : start + size])

    def read(self) -> bytes:
        start = self.pop()
        return self.slice(start, self.pop())

    def write(self, start: int, data: bytes) -> None:
        self.slice(start, len(data))
        self.memory[start : start + len(data)] = data

    def copy(self, origin: bytes) -> None:
        to, start, size = self.pop(), self.pop(), self.pop()
        self.write(to, origin[start : start + size].ljust(size, b"\0"))
