"""Writers that are killed: a server forks them, a harness kills them and looks at what they left.

The worker says that it is ready before the clock of the kill starts; a harness that counts from the start
kills an interpreter that has not begun to write, and proves nothing. Every round knows by its number what the
worker writes, so what a kill leaves is compared with what was acknowledged and with the one batch in flight.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.journal.forks import Server, fork_server, say, say_ready, serve
from tracedesk.journal import Entry, Event, Journal, Reader, chain, verify
from tracedesk.journal.file import key
from tracedesk.journal.model import columns
from tracedesk.journal.sqlite import Connection, connect
from tracedesk.journal.stream import find, head_of

STREAM: Final = "victim"
MOST_ACKNOWLEDGED: Final = 20
"""A worker lives for up to this many acknowledged batches, and then for a random part of one more."""

_STARTUP_SECONDS: Final = 0.02
_MIRROR: Final = "CREATE TABLE IF NOT EXISTS mirror(first INTEGER PRIMARY KEY, size INTEGER) STRICT"

Acknowledge = Callable[[], None]
Write = Callable[[Journal, list[Entry], int, Acknowledge], None]


def batch(number: int, index: int, first: int) -> list[Entry]:
    """What round `number` writes as its batch `index`, when the stream continues at `first`."""
    dice = random.Random(number * 10_007 + index)
    return [
        Entry(
            dice.choice(("MarketData", "Trade", "Fill")),
            dice.getrandbits(60),
            dice.randbytes(dice.choice((0, 20, 130, 130, 5_000))),
            dice.randrange(1, seq) if seq > 1 and dice.random() < 0.5 else None,
        )
        for seq in range(first, first + dice.randint(1, 12))
    ]


# --- the writers


def _mirror(size: int) -> Callable[[Connection, int], None]:
    def write(connection: Connection, first: int) -> None:
        connection.execute("INSERT INTO mirror VALUES(?,?)", (first, size))

    return write


def ours(journal: Journal, entries: list[Entry], first: int, acknowledge: Acknowledge) -> None:
    journal.append(STREAM, entries, expect=first, beside=_mirror(len(entries)))
    acknowledge()


def acknowledges_first(journal: Journal, entries: list[Entry], first: int, acknowledge: Acknowledge) -> None:
    """Naive: says that it has written, and then writes."""
    acknowledge()
    journal.append(STREAM, entries, expect=first, beside=_mirror(len(entries)))


def chains_later(journal: Journal, entries: list[Entry], first: int, acknowledge: Acknowledge) -> None:
    """Naive: events in one transaction, their link in the next."""
    stream = journal.open(STREAM, "run")
    head = head_of(journal.connection, stream)
    events = [Event(seq, *e) for seq, e in enumerate(entries, first)]
    connection = connect(journal.path)  # the journal's own connection takes events by `append` alone
    with connection:
        rows = [(key(stream.id, e.seq), e.time_ns, e.parent, e.kind, e.body) for e in events]
        connection.executemany("INSERT INTO event VALUES(?,?,?,?,?)", rows)
        _mirror(len(entries))(connection, first)
    digest = chain.link(stream, head.hash, range(first, first + len(events)), columns(events))
    with connection:
        connection.execute("INSERT INTO batch VALUES(?,?,?)", (key(stream.id, first), events[-1].seq, digest))
    acknowledge()


WRITERS: Final[dict[str, Write]] = {w.__name__: w for w in (ours, acknowledges_first, chains_later)}


# --- the worker's side


def live(line: str) -> None:
    """Write to the file that the line names, by its writer, until the kill; SQLite was loaded, never open."""
    path, writer, number, early = line.split("\t")
    if early == "early":
        say_ready()
    _write_for_ever(Path(path), WRITERS[writer], int(number), early == "early")


def _write_for_ever(path: Path, write: Write, number: int, early: bool) -> None:
    journal = Journal(path)
    with journal.connection:
        journal.connection.execute(_MIRROR)
    first = head_of(journal.connection, journal.open(STREAM, "run")).seq + 1
    if not early:
        say_ready()
    index = 0
    while True:
        entries = batch(number, index, first)
        write(journal, entries, first, lambda: say(b"ack"))
        index += 1
        first += len(entries)


# --- the killer's side


@dataclass(slots=True)
class Tally:
    """What so many kills showed."""

    kills: int = 0
    acknowledged_batches: int = 0
    acknowledged_events: int = 0
    in_flight_kept: int = 0
    problems: list[str] = field(default_factory=list[str])


class Harness:
    """Kills writers of one file, round after round, and knows what must be in it."""

    def __init__(self, server: Server, path: Path, writer: str, seed: int) -> None:
        self.tally = Tally()
        self._path = path
        self._writer = writer
        self._dice = random.Random(seed)
        self._server = server
        self._lines = server.lines
        self._expected: list[Event] = []
        self._mirror: list[tuple[int, int]] = []
        self._pace = 0.001

    def round(self, number: int) -> None:
        """One worker's life and death, and the inquest."""
        early = self._dice.random() < 0.25
        line = f"{self._path}\t{self._writer}\t{number}\t{'early' if early else 'open'}"
        pid = self._server.begin(line)
        acknowledged = self._until_the_moment(early)
        os.kill(pid, signal.SIGKILL)
        while (line := self._lines.next()) != "dead":
            assert line == "ack", line
            acknowledged += 1
        self.tally.kills += 1
        self._inquest(number, acknowledged)

    def _until_the_moment(self, early: bool) -> int:
        """Let the worker live for some batches and a random part of another."""
        began = time.monotonic()
        wanted = 0 if early else self._dice.randint(0, MOST_ACKNOWLEDGED)
        for _ in range(wanted):
            self._lines.expect("ack")
        if wanted:
            self._pace = (time.monotonic() - began) / wanted
        seconds = self._dice.uniform(0, _STARTUP_SECONDS if early else 2 * self._pace)
        return wanted + self._count_for(seconds)

    def _count_for(self, seconds: float) -> int:
        until = time.monotonic() + seconds
        count = 0
        while (left := until - time.monotonic()) > 0 and self._lines.next(left) is not None:
            count += 1
        return count

    def _inquest(self, number: int, acknowledged: int) -> None:
        for index in range(acknowledged):
            self._believe(batch(number, index, len(self._expected) + 1))
            self.tally.acknowledged_events += self._mirror[-1][1]
        self.tally.acknowledged_batches += acknowledged
        if not self._path.exists():
            return self._blame(number, "the file is gone") if acknowledged else None
        with Journal(self._path) as reopened:
            self._examine(number, acknowledged, reopened)
        return None

    def _examine(self, number: int, acknowledged: int, reopened: Journal) -> None:
        report = verify(self._path)
        if report.faults:
            self._blame(number, f"verify: {report.faults}")
        if find(reopened.connection, STREAM) is None:
            return self._blame(number, "the stream is gone") if self._expected else None
        with Reader(self._path) as reader:
            found = reader.events(STREAM)
        if len(found) > len(self._expected):
            self._believe(batch(number, acknowledged, len(self._expected) + 1))
            self.tally.in_flight_kept += 1
        if found != self._expected:
            self._blame(number, f"found {len(found)} events instead of {len(self._expected)}, or others")
        if list(reopened.connection.execute("SELECT * FROM mirror ORDER BY 1")) != self._mirror:
            self._blame(number, "the projection is not that of the events")
        return None

    def _believe(self, entries: list[Entry]) -> None:
        first = len(self._expected) + 1
        self._expected += [Event(seq, *e) for seq, e in enumerate(entries, first)]
        self._mirror.append((first, len(entries)))

    def _blame(self, number: int, problem: str) -> None:
        self.tally.problems.append(f"kill {number}: {problem}")


def kill_writers(folder: Path, writer: str, kills: int, *, seed: int = 1, per_file: int = 200) -> Tally:
    """Kill so many writers, `per_file` of them on the same file; stop at the first problem."""
    total = Tally()
    with fork_server("tests.journal.crash") as server:
        for start in range(0, kills, per_file):
            harness = Harness(server, folder / f"{writer}-{start}.db", writer, seed + start)
            for number in range(start, min(start + per_file, kills)):
                harness.round(number)
                if harness.tally.problems:
                    break
            _add(total, harness.tally)
            if total.problems:
                break
    return total


def _add(total: Tally, more: Tally) -> None:
    total.kills += more.kills
    total.acknowledged_batches += more.acknowledged_batches
    total.acknowledged_events += more.acknowledged_events
    total.in_flight_kept += more.in_flight_kept
    total.problems += more.problems


if __name__ == "__main__":
    serve(live)
