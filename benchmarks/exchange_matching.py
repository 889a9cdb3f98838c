"""Price-time matching: ours against `lightmatchingengine`, on the same random limit orders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from time import thread_time_ns
from typing import Any, Final

from benchmarks.messages import Misbehaved
from tracedesk.exchange.venue.engine import Engine, Resting

RIVAL: Final = "lightmatchingengine"
WIDTHS: Final = (1_000, 200)
"""How many ticks around a wandering middle orders lie: the first gives as many levels as real books have."""

Order = tuple[int, int, int]
"""Sign, price, quantity."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Nanoseconds of CPU an order, round by round, and how many trades there were."""

    ours: list[float]
    theirs: list[float]
    fills: int


def orders(count: int, width: int) -> list[Order]:
    chance = random.Random(width)
    middle = 10_000
    made: list[Order] = []
    for _ in range(count):
        middle += chance.choice((-1, 0, 0, 1))
        made.append((chance.choice((1, -1)), middle + chance.randint(-width, width), chance.randint(1, 20)))
    return made


def measure(count: int, width: int, rounds: int) -> Rounds:
    """Both engines in turns, after they were shown to make the same trades."""
    placed = orders(count, width)
    fills = _agree(placed)
    found = Rounds([], [], fills)
    for number in range(rounds):
        sides = [(_ours, found.ours), (_theirs, found.theirs)]
        for run, times in sides if number % 2 else reversed(sides):
            times.append(run(placed))
    return found


def _ours(placed: Sequence[Order]) -> float:
    engine = Engine()
    began = thread_time_ns()
    for number, (sign, price, quantity) in enumerate(placed, 1):
        engine.limit(Resting(number, sign, price, quantity))
    return (thread_time_ns() - began) / len(placed)


def _theirs(placed: Sequence[Order]) -> float:
    engine = _rival()
    ready = [(price, quantity, 1 if sign > 0 else 2) for sign, price, quantity in placed]
    began = thread_time_ns()
    for price, quantity, side in ready:
        engine.add_order("X", price, quantity, side)
    return (thread_time_ns() - began) / len(placed)


def _rival() -> Any:
    return import_module("lightmatchingengine.lightmatchingengine").LightMatchingEngine()


def _agree(placed: Sequence[Order]) -> int:
    ours, theirs = Engine(), _rival()
    fills = 0
    for number, (sign, price, quantity) in enumerate(placed, 1):
        made = [
            (maker.id, at, part) for maker, at, part in ours.limit(Resting(number, sign, price, quantity))
        ]
        _, trades = theirs.add_order("X", price, quantity, 1 if sign > 0 else 2)
        # It reports the taker's own side too.
        if made != [(t.order_id, t.trade_price, t.trade_qty) for t in trades if t.order_id != number]:
            raise Misbehaved(f"order {number} was matched differently")
        fills += len(made)
    return fills
