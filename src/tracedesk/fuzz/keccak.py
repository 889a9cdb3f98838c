"""Keccak-256, as Ethereum uses it for selectors, topics and the names of libraries."""

from __future__ import annotations

from typing import Final

_RATE: Final = 136
_MASK: Final = (1 << 64) - 1


def _round_constants() -> tuple[int, ...]:
    """The 24 constants of the permutation, from its linear feedback register."""
    constants: list[int] = []
    register = 1
    for _ in range(24):
        constant = 0
        for power in range(7):
            if register & 1:
                constant |= 1 << ((1 << power) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return tuple(constants)


def _lanes() -> tuple[tuple[int, int], ...]:
    """For the walk of rho and pi: where each lane goes, and by how much it turns."""
    x, y = 1, 0
    steps: list[tuple[int, int]] = []
    for number in range(24):
        x, y = y, (2 * x + 3 * y) % 5
        steps.append((x + 5 * y, (number + 1) * (number + 2) // 2 % 64))
    return tuple(steps)


_CONSTANTS: Final = _round_constants()
_WALK: Final = _lanes()


def _turned(lane: int, by: int) -> int:
    return ((lane << by) | (lane >> (64 - by))) & _MASK


def _permuted(state: list[int]) -> list[int]:
    for constant in _CONSTANTS:
        parity = [state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20] for x in range(5)]
        turned = [parity[(x + 4) % 5] ^ _turned(parity[(x + 1) % 5], 1) for x in range(5)]
        state = [lane ^ turned[place % 5] for place, lane in enumerate(state)]
        carried = state[1]
        for place, by in _WALK:
            carried, state[place] = state[place], _turned(carried, by)
        state = [
            state[place]
            ^ (~state[place - place % 5 + (place + 1) % 5] & state[place - place % 5 + (place + 2) % 5])
            for place in range(25)
        ]
        state[0] ^= constant
    return state


def keccak(data: bytes) -> bytes:
    """The 32-byte digest of `data`."""
    room = _RATE - len(data) % _RATE
    padded = data + (b"\x81" if room == 1 else b"\x01" + bytes(room - 2) + b"\x80")
    state = [0] * 25
    for start in range(0, len(padded), _RATE):
        block = padded[start : start + _RATE]
        for lane in range(_RATE // 8):
            state[lane] ^= int.from_bytes(block[lane * 8 : lane * 8 + 8], "little")
        state = _permuted(state)
    return b"".join(lane.to_bytes(8, "little") for lane in state[:4])
