"""Work in a process of its own, so that nothing the desk does has to wait for it.

The request goes in as one line of JSON; what is said of it comes out a line at a time. Whoever started the
process may kill it at any moment, and it ends when he does: its work must leave whole what it writes to.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile
from time import monotonic
from types import TracebackType
from typing import IO, Any, Final, Self, cast

from tracedesk.hosts import confined
from tracedesk.primitives import json
from tracedesk.primitives.redaction import redact_text
from tracedesk.primitives.scheduling import take_long_turns
from tracedesk.surroundings import for_children

log = logging.getLogger(__name__)

_NICE: Final = 5
_PROGRESS_SECONDS: Final = 0.1
_CHECK_SECONDS: Final = 0.1
_LAST_WORDS: Final = 4_000
"""Bytes of what a process that failed has said."""

_LIMITS: Final = confined.Limits(8 << 30, file_bytes=None)
"""A large project's graph is made in memory, and written to the home."""

Said = Mapping[str, Any]


def _own_variables() -> dict[str, str]:
    """Variables that our own modules read, besides those that every child gets."""
    names = ("HOME", "PYTHONPATH", "XDG_CACHE_HOME", "XDG_DATA_HOME")
    return {n: v for n, v in for_children().items() if n in names or n.startswith("TRACEDESK_")}


# --- the side that asks -------------------------------------------------------------------------


class Beside:
    """A module of ours at work on one request."""

    def __init__(self, module: str, request: Mapping[str, Any], *, everywhere: bool = False) -> None:
        """`everywhere`: on every core, for who does not serve anybody meanwhile."""
        self._module = module
        self._everywhere = everywhere
        self._request = json.dumps(request) + b"\n"

    def __enter__(self) -> Self:
        command = confined.python(self._module)
        with ExitStack() as stack:
            self._words = stack.enter_context(TemporaryFile())
            self._process = confined.start(
                command, _LIMITS, cwd="/", more=_own_variables(), stderr=self._words
            )
            for pipe in (self._process.stdin, self._process.stdout):
                stack.callback(_close, cast("IO[bytes]", pipe))
            stack.callback(confined.end, self._process)
            # Before its input is closed, which would tell it that nobody waits any more.
            stack.callback(self._process.wait)
            _step_back(self._process.pid, cores(everywhere=self._everywhere))
            self._opened = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let it end by itself; kill it when the one who asked has failed."""
        if kind is not None:
            confined.kill(self._process)
        self._opened.close()

    def said(self, check: Callable[[], object]) -> Iterator[Said]:
        """What it says until its end, with a look every moment whether it is still wanted: `check` raises."""
        orders = cast("IO[bytes]", self._process.stdin)
        try:
            orders.write(self._request)
            orders.flush()
        except BrokenPipeError:
            return
        for line in _lines(cast("IO[bytes]", self._process.stdout).fileno(), check):
            yield json.loads(line)

    def died(self) -> int:
        """The status of a process that ended before it had said all; its last words are logged."""
        status = self._process.wait()
        self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - _LAST_WORDS))
        words = redact_text(self._words.read().decode(errors="replace"))
        log.error("%s ended with %d: %s", self._module, status, words)
        return status


def _step_back(process: int, on: Sequence[int]) -> None:
    """Have a process, and all that it will start, give way to everyone else."""
    nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + _NICE)
    try:
        os.setpriority(os.PRIO_PROCESS, process, nice)
        if sys.platform == "linux":
            # What is of this kind never takes a core from who is at work on it when it wakes up.
            os.sched_setscheduler(process, os.SCHED_BATCH, os.sched_param(0))
            os.sched_setaffinity(process, on)
            take_long_turns(process, nice)
    except OSError as problem:
        log.info("a process beside does not give way to others: %s", problem)


def cores(*, everywhere: bool) -> list[int]:
    """The cores for it: all, or all but one, which stays for those who ask: waiting for a core is long."""
    known = os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)
    every = sorted(known)
    return every if everywhere or len(every) == 1 else every[1:]


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return  # it ended before it had read what it was asked


def _lines(pipe: int, check: Callable[[], object]) -> Iterator[bytes]:
    rest = b""
    while True:
        check()
        if not select.select([pipe], [], [], _CHECK_SECONDS)[0]:
            continue
        data = os.read(pipe, 1 << 20)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        yield from whole


# --- the process --------------------------------------------------------------------------------

Say = Callable[[Said], None]


def serve(work: Callable[[dict[str, Any], Say], Said]) -> None:
    """Do what stdin asks for, and end with the one who asked."""
    out = sys.stdout.buffer

    def say(value: Said) -> None:
        out.write(json.dumps(value) + b"\n")
        out.flush()

    request: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    say(work(request, say))


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


class Throttled:
    """Lets a few values a second through, such as how far the work is."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._next = 0.0

    def __call__(self, value: Said) -> None:
        if monotonic() >= self._next:
            self._next = monotonic() + _PROGRESS_SECONDS
            self._say(value)
