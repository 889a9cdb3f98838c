"""Runs of random facts: as zones in one file, and as rows of the plain table in another."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import apsw
import tracedesk_runs

from tracedesk.backtest import schema
from tracedesk.journal.sqlite import Connection, connect

ZONE: Final = 4_096
BASE: Final = 3 << 40
"""The row id of the seq 0."""
MEMORY: Final = Path(":memory:")

_LIBRARY: Final = next(Path(tracedesk_runs.__file__).parent.glob("tracedesk_runs*.so"))
_TEXTS: Final = ("symbol", "order_ref", "indicator", "position_ref")
"""In the order in which an event's texts get their numbers."""


class Shape(NamedTuple):
    """What the facts of a run are like."""

    size: int
    seed: int
    times: str = "rising"
    fresh: float = 0.05
    """How often a text is a new one."""
    empty: float = 0.4
    """How often an event does not have something."""


@dataclass
class Facts:
    """The rows of a run, and where its texts and slots were first."""

    rows: list[tuple[Any, ...]] = field(default_factory=list[Any])
    texts: list[tuple[int, int, str, int]] = field(default_factory=list[Any])
    slots: list[tuple[int, int, str, int]] = field(default_factory=list[Any])
    given: list[tuple[int, bytes]] = field(default_factory=list[Any])


class _Names:
    """Numbers in the order of first appearance."""

    def __init__(self, dice: random.Random, fresh: float) -> None:
        self._dice = dice
        self._fresh = fresh
        self.by_kind: dict[str, list[int]] = {}
        self.count = 0

    def pick(self, kind: str) -> tuple[int, bool]:
        known = self.by_kind.setdefault(kind, [])
        if not known or self._dice.random() < self._fresh:
            self.count += 1
            known.append(self.count)
            return self.count, True
        if self._dice.random() < 0.5:
            return known[-1 - self._dice.randrange(min(8, len(known)))], False
        return self._dice.choice(known), False


def made(shape: Shape) -> Facts:
    dice = random.Random(shape.seed)
    facts, texts, slots = Facts(), _Names(dice, shape.fresh), _Names(dice, shape.fresh / 4)
    times = _times(dice, shape)
    for seq in range(1, shape.size + 1):
        event = BASE + seq
        named: dict[str, int | None] = {}
        for kind, name in enumerate(_TEXTS, 1):
            named[name] = None
            if dice.random() >= shape.empty:
                named[name], is_new = texts.pick(name)
                if is_new:
                    facts.texts.append((texts.count, kind, f"text {texts.count}", event))
        slot = None
        if dice.random() >= shape.empty:
            slot, is_new = slots.pick("slot")
            if is_new:
                facts.slots.append((slot, 1, "", event))
        parent = _parent(dice, shape, seq)
        guid = dice.randbytes(16) if dice.random() < 0.01 and shape.seed % 2 else None
        if guid:
            facts.given.append((event, guid))
        errors = dice.randrange(1, 4) if dice.random() < 0.01 else None
        rated = (dice.randrange(1, 5), dice.randrange(1, 9))
        texted = (named["symbol"], named["order_ref"], named["position_ref"], named["indicator"])
        kind = dice.choice((1, 2, 2, 2, 3, 5, 8, 200 if shape.seed % 3 == 0 else 8))
        facts.rows.append((event, kind, times[seq - 1], *rated, parent, *texted, slot, errors, guid))
    return facts


def _times(dice: random.Random, shape: Shape) -> list[int]:
    unit = dice.choice((1, 1_000, 10**9))
    start = dice.choice((-(10**15), 0, 1_700_000_000 * 10**9))
    if shape.times == "far":
        return [dice.choice((-(2**63), 2**63 - 1, dice.randrange(-9, 9))) for _ in range(shape.size)]
    steps = [dice.choice((0, 0, 1, 2)) * unit for _ in range(shape.size)]
    rising = [start := start + step for step in steps]
    if shape.times == "rising":
        return rising
    if shape.times == "one":
        return [start] * shape.size
    reach = 5 if shape.times == "shaken" else shape.size
    return [time + dice.randrange(-reach, reach + 1) * unit for time in rising]


def _parent(dice: random.Random, shape: Shape, seq: int) -> int | None:
    if seq == 1 or dice.random() < shape.empty:
        return None
    if dice.random() < 0.02:
        return dice.randrange(1, seq)
    return max(1, seq - dice.randrange(1, 20))


_CODES: Final = "BqBBQIIIIIB"
"""How the columns after the event are packed."""


def packed(rows: Sequence[tuple[Any, ...]]) -> list[bytes]:
    """The columns as `zones_write` takes them."""
    return [array(code, [row[at] or 0 for row in rows]).tobytes() for at, code in enumerate(_CODES, 1)]


def engine(connection: Connection) -> apsw.Connection:
    return cast("apsw.Connection", connection)


def opened(path: Path = MEMORY) -> Connection:
    """A connection that knows the zones."""
    connection = connect(path)
    engine(connection).enable_load_extension(True)
    engine(connection).load_extension(str(_LIBRARY), "sqlite3_tracedeskruns_init")
    return connection


class Zoned:
    """A file whose facts are zones."""

    def __init__(self, path: Path = MEMORY) -> None:
        self.connection = opened(path)
        self.connection.pragma("journal_mode", "WAL")
        schema.create(self.connection, packed=True)
        self.begin()

    def begin(self) -> None:
        """Count from the first event on."""
        self.zones = tracedesk_runs.Zones(BASE)
        self.done = 0

    def clear(self) -> None:
        for table in ("zone", "strip", "seen", "text", "slot", "given"):
            self.connection.execute(f"DELETE FROM {table}")
        self.begin()

    def write(self, facts: Facts, count: int) -> None:
        """Add the next events, in a transaction."""
        rows = facts.rows[self.done : self.done + count]
        with self.connection:
            self.put(facts, rows)
        self.done += len(rows)

    def put(self, facts: Facts, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        first, last = rows[0][0], rows[-1][0]
        run = self.connection.executemany
        run("INSERT INTO text VALUES(?,?,?,?)", [t for t in facts.texts if first <= t[3] <= last])
        slots = [(s[0], s[1], s[2], s[3]) for s in facts.slots if first <= s[3] <= last]
        run("INSERT INTO slot(id, type, params, event) VALUES(?,?,?,?)", slots)
        run("INSERT INTO given(event, guid) VALUES(?,?)", [g for g in facts.given if first <= g[0] <= last])
        places = ",".join("?" * 13)
        values = (self.zones.handle, first - BASE, *packed(rows))
        ((count,),) = self.connection.execute(f"SELECT zones_write({places})", values)
        assert count == len(rows)


class Plain:
    """The same facts as rows, with the indexes that queries have used so far."""

    def __init__(self) -> None:
        self.connection = connect(MEMORY)
        schema.create(self.connection)
        self.done = 0

    def write(self, facts: Facts, count: int) -> None:
        rows = facts.rows[self.done : self.done + count]
        with self.connection:
            self.connection.executemany(f"INSERT INTO fact VALUES({','.join('?' * 13)})", rows)
        self.done += len(rows)
