"""Loggers that are killed: a server forks them, a harness kills them and looks at what they left.

Every round knows by its number what its worker logs, so what a kill leaves is compared with what was
acknowledged and with the one event in flight; and the projections with those made anew from the journal.
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
from unittest.mock import patch

from tests.codegraph.etg.bench import NOON, SECOND, Bench
from tests.codegraph.etg.rows import tables
from tests.journal.forks import Server, fork_server, say, say_ready, serve
from tests.journal.samples import raw
from tracedesk.codegraph.etg import body, log, marks, projection, schema
from tracedesk.codegraph.etg.body import Facts
from tracedesk.codegraph.etg.model import NewEvent
from tracedesk.journal import Journal, Reader, verify
from tracedesk.journal.file import key

STREAM: Final = "etg-2026-11"
_MOST_ACKNOWLEDGED: Final = 12
_ANEW: Final = 20
"""Every so many kills the projections are made anew and compared."""

Acknowledge = Callable[[], None]
Write = Callable[[Bench, NewEvent, Acknowledge], None]


def event(number: int, index: int) -> NewEvent:
    """What round `number` logs as its event `index`: starts, ends and words of a few attempts, often late."""
    dice = random.Random(number * 10_007 + index)
    kind = dice.choice(("tool_start", "tool_end", "checkpoint", "context_retrieved"))
    tool = dice.choice(("shell", "edit"))
    payload = {
        "tool_start": {"tool": tool, "arguments": {"path": f"{dice.randrange(9)}.py"}},
        "tool_end": {"tool": tool, "status": dice.choice(("ok", "error"))},
        "checkpoint": {"message": f"step {index}", "graph_version": "v", "files": ["a.py"]},
        "context_retrieved": {"files": ["b.py"], "query": f"why {number}"},
    }[kind]
    return NewEvent(
        f"attempt-{dice.randrange(4)}",
        kind,
        payload,
        timestamp_ns=NOON + dice.randrange(-100, 100) * SECOND,
        call_id=dice.choice((None, "1", "2")) if kind.startswith("tool") else None,
        event_id=f"{number}-{index}",
    )


# --- the writers


def ours(bench: Bench, new: NewEvent, acknowledge: Acknowledge) -> None:
    bench.etg.log(new)
    acknowledge()


def ours_carrying(bench: Bench, new: NewEvent, acknowledge: Acknowledge) -> None:
    """What was logged is carried into the file after a few events, so that kills fall into that too."""
    with patch.object(log, "CARRY_PAGES", 20), patch.object(log, "MOST_PAGES", 40):
        ours(bench, new, acknowledge)


def acknowledges_first(bench: Bench, new: NewEvent, acknowledge: Acknowledge) -> None:
    """Naive: says that it has logged, and then logs."""
    acknowledge()
    bench.etg.log(new)


def ours_at_once(bench: Bench, new: NewEvent, acknowledge: Acknowledge) -> None:
    """The tables follow now and then, so that kills fall before, between and after."""
    if bench.etg.log_at_once(new) is None:
        bench.etg.log(new)
    acknowledge()
    if random.random() < 0.2:
        bench.etg.catch_up()


def marks_first(bench: Bench, new: NewEvent, acknowledge: Acknowledge) -> None:
    """Naive: says in one transaction that the tables have the event, and fills them in the next."""
    facts = Facts(new.event_id or "", NOON)
    entry = body.prepare(new, facts, bench.secrets, bench.payloads).entry
    with Journal(bench.path, bench.clock) as journal:
        schema.prepare(journal.connection)
        stream = journal.open(STREAM, "etg")
        seq = journal.append(STREAM, [entry])[0]
        marks.move(journal.connection, key(stream.id, seq))
        with journal.connection:
            taking = projection.Taking(journal.connection)
            taking.apply(body.read(key(stream.id, seq), entry.kind, entry.time_ns, entry.body))
            taking.settle()
    acknowledge()


WRITERS: Final[dict[str, Write]] = {
    writer.__name__: writer for writer in (ours, ours_at_once, ours_carrying, acknowledges_first, marks_first)
}


def live(line: str) -> None:
    """Log to the folder that the line names, by its writer, until the kill."""
    folder, writer, number = line.split("\t")
    bench = Bench(Path(folder))
    say_ready()
    index = 0
    while True:
        WRITERS[writer](bench, event(int(number), index), lambda: say(b"ack"))
        index += 1


# --- the killer's side


@dataclass(slots=True)
class Tally:
    """What so many kills showed."""

    kills: int = 0
    acknowledged: int = 0
    in_flight_kept: int = 0
    problems: list[str] = field(default_factory=list[str])


class Harness:
    """Kills loggers of one file, round after round, and knows what must be in it."""

    def __init__(self, server: Server, folder: Path, writer: str, seed: int) -> None:
        self.tally = Tally()
        self._server = server
        self._bench = Bench(folder)
        self._writer = writer
        self._dice = random.Random(seed)
        self._expected: list[str] = []
        self._pace = 0.01

    def round(self, number: int) -> None:
        pid = self._server.begin(f"{self._bench.path.parent}\t{self._writer}\t{number}")
        acknowledged = self._until_the_moment()
        os.kill(pid, signal.SIGKILL)
        while (line := self._server.lines.next()) != "dead":
            assert line == "ack", line
            acknowledged += 1
        self.tally.kills += 1
        self.tally.acknowledged += acknowledged
        self._inquest(number, acknowledged)

    def _until_the_moment(self) -> int:
        """Let the worker live for some events and a random part of another."""
        wanted = self._dice.randint(0, _MOST_ACKNOWLEDGED)
        began = time.monotonic()
        for _ in range(wanted):
            self._server.lines.expect("ack")
        if wanted:
            self._pace = (time.monotonic() - began) / wanted
        until = time.monotonic() + self._dice.uniform(0, 2 * self._pace)
        more = 0
        while (left := until - time.monotonic()) > 0 and self._server.lines.next(left) is not None:
            more += 1
        return wanted + more

    def _inquest(self, number: int, acknowledged: int) -> None:
        self._expected += [f"{number}-{index}" for index in range(acknowledged)]
        if not self._expected and not self._is_begun():
            return  # killed before the file became a journal
        report = verify(self._bench.path)
        if report.faults:
            self._blame(number, f"verify: {report.faults}")
        found = self._logged()
        if len(found) == len(self._expected) + 1:
            self._expected.append(f"{number}-{acknowledged}")
            self.tally.in_flight_kept += 1
        if found != self._expected:
            self._blame(number, f"found {len(found)} events instead of {len(self._expected)}, or others")
        if self._projected() != sorted(found):
            self._blame(number, "the projections are not those of the events")
        elif number % _ANEW == 0:
            self._make_anew(number)

    def _is_begun(self) -> bool:
        if not self._bench.path.exists():
            return False
        with raw(self._bench.path) as file:
            return bool(list(file.execute("SELECT 1 FROM sqlite_master LIMIT 1")))

    def _logged(self) -> list[str]:
        with Reader(self._bench.path) as reader:
            known = any(stream.name == STREAM for stream in reader.streams())
            events = reader.events(STREAM) if known else []
        return [body.read(e.seq, e.kind, e.time_ns, e.body).event_id for e in events]

    def _projected(self) -> list[str]:
        return sorted(name for (name,) in self._bench.rows("SELECT event_id FROM attempt_event"))

    def _make_anew(self, number: int) -> None:
        before = tables(self._bench.path)
        self._bench.etg.rebuild()
        if tables(self._bench.path) != before:
            self._blame(number, "the projections are not what the journal makes them")

    def _blame(self, number: int, problem: str) -> None:
        self.tally.problems.append(f"kill {number}: {problem}")

    def close(self) -> None:
        self._bench.etg.close()


def kill_loggers(folder: Path, writer: str, kills: int, *, seed: int = 1) -> Tally:
    """Kill so many loggers of one file; stop at the first problem."""
    with fork_server("tests.codegraph.etg.crash") as server:
        harness = Harness(server, folder, writer, seed)
        for number in range(1, kills + 1):
            harness.round(number)
            if harness.tally.problems:
                break
        harness.close()
    return harness.tally


if __name__ == "__main__":
    serve(live)
