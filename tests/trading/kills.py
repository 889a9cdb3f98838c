"""The killer of trading desks: each lives for some answers and a part of one, and what it answered is known.

A desk acknowledges a call with the bytes of its answer after the handler returned. The next desk is sent the
last calls again under their ids: what was acknowledged must come back byte for byte.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.journal import forks
from tests.journal.forks import Server
from tracedesk.journal.sqlite import connect
from tracedesk.market.dataset import EMBEDDED
from tracedesk.trading import audit

SYMBOLS: Final = ("AAPL", "IBM", "MSFT")
_IMPORTED_LATE: Final = (
    "encodings.utf_16_be",
    "numpy",
    "tracedesk.desk_tools",
    "tracedesk.trading.notes",
    "tracedesk.trading.opening",
    "tracedesk.trading.sources.embedded",
    "tracedesk.trading.sources.files",
    "tracedesk.trading.tools",
)


def serve(live: Callable[[str], None]) -> None:
    """Fork a desk for each line of the input. What a desk imports late and reads is here already."""
    for name in _IMPORTED_LATE:
        import_module(name)
    assert all(len(EMBEDDED[symbol]) for symbol in SYMBOLS)
    forks.serve(live)


def acknowledge(number: int, code: str | None, body: bytes) -> None:
    forks.say(b"ack %d %s %s" % (number, (code or "ok").encode(), body))


def is_begun(ledger: Path) -> bool:
    """Whether a desk has lived long enough to make its ledger's tables."""
    if not ledger.exists():
        return False
    with closing(connect(ledger, read_only=True)) as connection:
        return next(connection.execute("SELECT count(*) FROM sqlite_master"))[0] > 0


@dataclass(slots=True)
class Tally:
    """What so many kills showed."""

    kills: int = 0
    acknowledged: int = 0
    repeated: int = 0
    problems: list[str] = field(default_factory=list[str])


class Killer:
    """Kills desks of one home, and knows what each call was answered with."""

    def __init__(self, server: Server, home: Path, tally: Tally, seed: int, pace: float) -> None:
        self._server = server
        self._home = home
        self._tally = tally
        self._dice = random.Random(seed)
        self._pace = pace
        self._answers: list[bytes] = []
        self._next = 0

    def _kill(self, line: str, most: int, startup: float | None = None) -> None:
        """Let a desk live for up to `most` answers and a part of one more, or for a part of its start."""
        pid = self._server.begin(line)
        self._until_the_moment(most, startup)
        os.kill(pid, signal.SIGKILL)
        self._drain()
        self._tally.kills += 1

    def _let_live(self, line: str) -> None:
        """A desk that ends in its own time."""
        self._server.begin(line)
        self._drain()

    def _until_the_moment(self, most: int, startup: float | None) -> None:
        began = time.monotonic()
        wanted = self._dice.randint(0, most) if startup is None else 0
        for _ in range(wanted):
            self._hear(self._server.lines.expect("ack"))
        if wanted:
            self._pace = (time.monotonic() - began) / wanted
        until = time.monotonic() + self._dice.uniform(0, 2 * self._pace if startup is None else startup)
        while (left := until - time.monotonic()) > 0 and (line := self._server.lines.next(left)) is not None:
            self._hear(line)

    def _drain(self) -> None:
        while (line := self._server.lines.next()) != "dead":
            assert line is not None, "the server says nothing"
            self._hear(line)

    def _hear(self, line: str) -> None:
        word, number, answer = line.encode().split(b" ", 2)
        assert (word, int(number)) == (b"ack", self._next), line
        if self._next == len(self._answers):
            self._answers.append(answer)
            self._tally.acknowledged += 1
        else:
            self._tally.repeated += 1
            if self._answers[self._next] != answer:
                self._blame(f"call {self._next} was {self._answers[self._next]}, and repeated is {answer}")
        self._next += 1

    def _audit(self) -> None:
        self._blame_all(map(str, audit.verify(self._home / "ledger.db").faults))

    def _blame(self, problem: str) -> None:
        self._tally.problems.append(f"kill {self._tally.kills}: {problem}")

    def _blame_all(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self._blame(problem)
