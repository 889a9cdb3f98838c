"""Byte code written by hand, as solc's standard output describes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from tracedesk.fuzz.keccak import keccak

STOP, ADD, EXP, KECCAK, ADDRESS = 0x00, 0x01, 0x0A, 0x20, 0x30
CODESIZE, CODECOPY, RETURNDATASIZE, CODE_HASH = 0x38, 0x39, 0x3D, 0x3F
POP, MLOAD, MSTORE, MSTORE8, SLOAD, SSTORE, JUMP, JUMPI = 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57
MSIZE, GAS, JUMPDEST, TSTORE, MCOPY, PUSH0 = 0x59, 0x5A, 0x5B, 0x5D, 0x5E, 0x5F
DUP1, LOG0, CREATE, CALL, RETURN, DELEGATECALL = 0x80, 0xA0, 0xF0, 0xF1, 0xF3, 0xF4
CREATE2, STATICCALL, REVERT, SELFDESTRUCT = 0xF5, 0xFA, 0xFD, 0xFF

Abi = list[dict[str, Any]]
TEST: Final[Abi] = [
    {"type": "function", "name": "poke", "inputs": [], "outputs": [], "stateMutability": "nonpayable"},
    {
        "type": "function",
        "name": "echidna_holds",
        "inputs": [],
        "outputs": [{"type": "bool", "name": ""}],
        "stateMutability": "view",
    },
]
SET_UP: Final[Abi] = [
    {"type": "function", "name": "setUp", "inputs": [], "outputs": [], "stateMutability": "nonpayable"}
]


def push(number: int) -> bytes:
    if number == 0:
        return bytes((PUSH0,))
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes((0x5F + len(data),)) + data


def ops(*parts: int | bytes) -> bytes:
    return b"".join(part if isinstance(part, bytes) else bytes((part,)) for part in parts)


def forever(*parts: int | bytes) -> bytes:
    """A body that is run for ever."""
    return ops(JUMPDEST, *parts, PUSH0, JUMP)


COUNT: Final = ops(PUSH0, SLOAD, push(1), ADD, PUSH0, SSTORE)
TRUE: Final = ops(push(1), PUSH0, MSTORE, push(32), PUSH0, RETURN)


def call(to: int | bytes, *, size: int = 0, kind: int = STATICCALL) -> bytes:
    """Call an address with so many bytes of memory, and drop the answer."""
    place = to if isinstance(to, bytes) else push(to)
    value = b"" if kind in (STATICCALL, DELEGATECALL) else bytes((PUSH0,))
    return ops(PUSH0, PUSH0, push(size), PUSH0, value, place, GAS, kind, POP)


_HEVM: Final = 0x7109709ECFA91A80626FF3989D68F67F5B1DD12D


def memory(data: bytes, place: int = 0) -> bytes:
    """Write bytes into memory from a place on, a word at a time."""
    words = (data[at : at + 32].ljust(32, b"\0") for at in range(0, len(data), 32))
    return b"".join(
        ops(b"\x7f", word, push(place + 32 * number), MSTORE) for number, word in enumerate(words)
    )


def filled(word: bytes, place: int, size: int) -> bytes:
    """Fill memory with a word: what is there is copied behind itself, until there are so many bytes."""
    body, there = memory(word, place), 32
    while there < size:
        more = min(there, size - there)
        body += ops(push(more), push(place), push(place + there), MCOPY)
        there += more
    return body


def cheat(signature: str, *words: int | bytes, size: int = 0, place: int = 0) -> tuple[bytes, bytes]:
    """The code that writes a cheatcode's arguments, and the call with so many bytes after them."""
    heads = (word if isinstance(word, bytes) else word.to_bytes(32, "big") for word in words)
    data = keccak(signature.encode())[:4] + b"".join(heads)
    length = len(data) + size
    asked = ops(PUSH0, PUSH0, push(length), push(place), PUSH0, push(_HEVM), GAS, CALL, POP)
    return memory(data, place), asked


def ffi(*words: str) -> bytes:
    """Run a program by the cheatcode, and drop the answer."""
    texts = [text.encode() for text in words]
    tails = [len(text).to_bytes(32, "big") + text.ljust(-len(text) % 32 + len(text), b"\0") for text in texts]
    at, heads = 32 * len(words), b""
    for tail in tails:
        heads += at.to_bytes(32, "big")
        at += len(tail)
    head = keccak(b"ffi(string[])")[:4] + (32).to_bytes(32, "big") + len(words).to_bytes(32, "big")
    data = head + heads + b"".join(tails)
    return ops(memory(data), call(push(_HEVM), size=len(data), kind=CALL), TRUE)


def deploying(runtime: bytes) -> bytes:
    """The constructor of a contract with this code."""
    head = ops(b"\x61", len(runtime).to_bytes(2, "big"), b"\x60\x0c\x5f", CODECOPY)
    return ops(head, b"\x61", len(runtime).to_bytes(2, "big"), PUSH0, RETURN, runtime)


def document(init: bytes, runtime: bytes = b"", abi: Sequence[dict[str, Any]] = TEST, name: str = "E") -> str:
    """solc's standard output for one contract."""
    bare: dict[str, Any] = {"sourceMap": "", "linkReferences": {}}
    evm: dict[str, Any] = {
        "bytecode": {"object": init.hex(), **bare},
        "deployedBytecode": {"object": runtime.hex(), "immutableReferences": {}, **bare},
    }
    return json.dumps(
        {
            "contracts": {"E.sol": {name: {"abi": list(abi), "evm": evm}}},
            "sources": {"E.sol": {"id": 0}},
        }
    )


def constructing(*parts: int | bytes) -> str:
    """A contract whose constructor is this."""
    return document(ops(*parts))


def running(runtime: bytes, *more: dict[str, Any]) -> str:
    """A contract whose every function is this."""
    return document(deploying(runtime), runtime, [*TEST, *more])
