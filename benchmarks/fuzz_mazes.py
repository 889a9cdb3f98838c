"""Mazes of our own: rooms to walk through, riddles in them, and a numbered label behind each riddle.

Every riddle is made around values that solve it: every label can be reached, and `Maze.solutions` says how.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

WORD: Final = 2**64
PARAMETERS: Final = ("a", "b", "c", "d", "e")
DOORS: Final = ("left", "right")

Move = tuple[str, tuple[int, ...]]
"""A function and its arguments."""


@dataclass(frozen=True, slots=True)
class Riddle:
    """Conditions, nested in this order, and values that meet them all."""

    label: int
    conditions: tuple[str, ...]
    solution: tuple[int, ...]
    held: int | None
    """What must have been picked up before, when a condition asks for it."""


@dataclass(frozen=True, slots=True)
class Maze:
    """A binary tree of rooms, two riddles in each: one behind either door."""

    seed: int
    riddles: tuple[Riddle, ...]

    @property
    def rooms(self) -> int:
        return len(self.riddles) // 2

    @property
    def labels(self) -> frozenset[str]:
        return frozenset(str(riddle.label) for riddle in self.riddles)

    def solutions(self) -> dict[str, list[Move]]:
        """For each label, the calls that reach it."""
        return {str(riddle.label): [*self._way(riddle)] for riddle in self.riddles}

    def _way(self, riddle: Riddle) -> list[Move]:
        room, door = divmod(riddle.label, 2)
        steps: list[int] = []
        while room > 0:
            steps.append((room - 1) % 2)
            room = (room - 1) // 2
        walk: list[Move] = [(DOORS[step], (0,) * len(PARAMETERS)) for step in reversed(steps)]
        pick: list[Move] = [] if riddle.held is None else [("pickUp", (riddle.held,))]
        return [*walk, *pick, (DOORS[door], riddle.solution)]

    def source(self) -> str:
        """The maze in Solidity."""
        listed = ", ".join(f"uint64 {name}" for name in PARAMETERS)
        passed = ", ".join(PARAMETERS)
        doors = "".join(
            _DOOR.format(door=d, number=n, listed=listed, passed=passed) for n, d in enumerate(DOORS)
        )
        return _SOURCE.format(
            doors=doors, listed=listed, riddles="".join(map(_block, self.riddles)), rooms=self.rooms
        )


_SOURCE: Final = """// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

contract Maze {{
    event AssertionFailed(string label);

    uint256 private room;
    uint64 private held;

    function back() external {{
        require(room > 0, "this is the entrance");
        room = (room - 1) / 2;
    }}

    function pickUp(uint64 thing) external {{
        held = thing;
    }}
{doors}
    function enter(uint256 door) private {{
        uint256 next = 2 * room + 1 + door;
        require(next < {rooms}, "a dead end");
        room = next;
    }}

    function riddle(uint256 number, {listed}) private {{
        unchecked {{
{riddles}        }}
    }}
}}
"""

_DOOR: Final = """
    function {door}({listed}) external {{
        riddle(2 * room + {number}, {passed});
        enter({number});
    }}
"""


def _block(riddle: Riddle) -> str:
    pad = " " * 12
    opened = "".join(f"{pad}{'  ' * (n + 1)}if ({c}) {{\n" for n, c in enumerate(riddle.conditions))
    depth = len(riddle.conditions) + 1
    inner = f'{pad}{"  " * depth}emit AssertionFailed("{riddle.label}"); assert(false);\n'
    closed = "".join(f"{pad}{'  ' * n}}}\n" for n in range(depth - 1, -1, -1))
    return f"{pad}if (number == {riddle.label}) {{\n{opened}{inner}{closed}"


def make(seed: int, rooms: int = 15, deepest: int = 8) -> Maze:
    """The maze of a seed: the same for everyone."""
    chance = random.Random(seed)
    return Maze(seed, tuple(_riddle(chance, label, deepest) for label in range(2 * rooms)))


def _riddle(chance: random.Random, label: int, deepest: int) -> Riddle:
    values = {name: _value(chance) for name in PARAMETERS}
    values["a"] = max(1, values["a"])
    held = _value(chance) if chance.random() < 0.25 else None
    conditions = [_condition(chance, values) for _ in range(chance.randint(2, deepest))]
    if held is not None:
        name = chance.choice(PARAMETERS)
        offset = (values[name] - held) % WORD
        conditions.insert(chance.randrange(len(conditions) + 1), f"{name} == held + {offset}")
    # Who only walks sends zeros, and so never stumbles over a riddle.
    return Riddle(label, ("a > 0", *conditions), tuple(values.values()), held)


def _value(chance: random.Random) -> int:
    return chance.choice((chance.randrange(100), chance.randrange(10_000), chance.randrange(WORD)))


Kind = Callable[[random.Random, dict[str, int], str, str], str]


def _condition(chance: random.Random, values: dict[str, int]) -> str:
    """A condition on one or two parameters that the values meet."""
    one, other = chance.sample(PARAMETERS, 2)
    kinds, weights = zip(*_KINDS, strict=True)
    return chance.choices(kinds, weights)[0](chance, values, one, other)


def _below(chance: random.Random, values: dict[str, int], one: str, _: str) -> str:
    return f"{one} < {min(WORD - 1, values[one] + 1 + chance.randrange(64))}"


def _above(chance: random.Random, values: dict[str, int], one: str, _: str) -> str:
    return f"{one} > {max(0, values[one] - 1 - chance.randrange(64))}" if values[one] else f"{one} <= 9"


def _equal(_chance: random.Random, values: dict[str, int], one: str, _: str) -> str:
    return f"{one} == {values[one]}"


def _unlike(chance: random.Random, values: dict[str, int], one: str, _: str) -> str:
    return f"{one} != {(values[one] + 1 + chance.randrange(99)) % WORD}"


def _ordered(_chance: random.Random, values: dict[str, int], one: str, other: str) -> str:
    sign = "<=" if values[one] <= values[other] else ">"
    return f"{one} {sign} {other}"


def _shifted(_chance: random.Random, values: dict[str, int], one: str, other: str) -> str:
    return f"{one} == {other} + {(values[one] - values[other]) % WORD}"


def _scaled(chance: random.Random, values: dict[str, int], one: str, other: str) -> str:
    factor = chance.randint(2, 60)
    sign = "<" if values[one] < values[other] * factor % WORD else ">="
    return f"{one} {sign} {other} * {factor}"


def _rest(chance: random.Random, values: dict[str, int], one: str, _: str) -> str:
    divisor = chance.randint(2, 50)
    return f"{one} % {divisor} == {values[one] % divisor}"


def _masked(chance: random.Random, values: dict[str, int], one: str, other: str) -> str:
    mask = 2 ** chance.randint(1, 4) - 1
    return f"({one} ^ {other}) & {mask} == {(values[one] ^ values[other]) & mask}"


_KINDS: Final[Sequence[tuple[Kind, int]]] = (
    (_below, 4),
    (_above, 3),
    (_unlike, 3),
    (_ordered, 4),
    (_scaled, 3),
    (_equal, 2),
    (_rest, 2),
    (_shifted, 1),
    (_masked, 1),
)
