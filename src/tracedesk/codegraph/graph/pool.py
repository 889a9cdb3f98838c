"""Processes that parse files side by side, each a few chunks ahead, so memory stays bounded.

A grammar can take memory without end, or end its process, on a file of nonsense. So files are parsed nowhere
else: a process that ends is replaced, and a file that ends one by itself is left out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, field
from typing import IO, Any, Final, Protocol, cast

from tracedesk.codegraph.graph.frames import Frames, Plain, outcome, packed, unpacked
from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.rows import Outcome, Skipped, Task
from tracedesk.codegraph.graph.schema import GraphError
from tracedesk.hosts import confined
from tracedesk.primitives.paths import Jail

CHUNK_FILES: Final = 24
CHUNK_BYTES: Final = 12_000
"""Of names: all that a worker has before it must fit its pipe, or both ends would wait for each other."""

AHEAD: Final = 2
"""Chunks that a worker has been given and not answered; the second keeps it busy while the first is read."""

FEW: Final = 48
"""So few files are parsed by one process: starting others would take longer."""

MOST_WORKERS: Final = 8
KEPT: Final = 1
"""Processes that wait for the next update; starting one takes longer than parsing a file."""

SILENCE_SECONDS: Final = 60.0
"""A worker that says nothing for so long, with work before it, is ended."""

_PIPE_BYTES: Final = 1 << 20
"""Room for a chunk's rows, so that a worker need not wait until they are read."""

COMMAND: Final = confined.python("tracedesk.codegraph.graph.worker")
MOST_MEMORY: Final = 1_500_000_000
"""Bytes that parsing may take; a grammar that wants more ends its process instead of the machine."""


class Parsing(Protocol):
    """Whatever makes rows of files."""

    def expecting(self, files: int, workers: int | None) -> AbstractContextManager[None]: ...

    def parsed(
        self,
        jail: Jail,
        root: str,
        tasks: Sequence[Task],
        limits: Limits,
        workers: int | None,
        cancelled: Callable[[], None],
    ) -> Iterator[list[Outcome]]: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Chunk:
    number: int
    tasks: Sequence[Task]
    retried: bool = False


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    given: deque[_Chunk] = field(default_factory=deque[_Chunk])
    heard: Frames = field(default_factory=Frames)
    heard_at: float = field(default_factory=time.monotonic)
    is_ready: bool = False

    @property
    def output(self) -> IO[bytes]:
        return cast("IO[bytes]", self.process.stdout)

    def send(self, frame: bytes) -> None:
        # A dead one does not take it; its end is noticed where it is listened to.
        with contextlib.suppress(BrokenPipeError):
            orders = cast("IO[bytes]", self.process.stdin)
            orders.write(frame)
            orders.flush()

    def close(self) -> None:
        confined.end(self.process)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                cast("IO[bytes]", pipe).close()


def _started() -> _Worker:
    limits = confined.Limits(MOST_MEMORY)
    worker = _Worker(confined.start(COMMAND, limits, cwd="/"))
    if sys.platform == "linux":
        # It may be more than the system allows; then the pipe stays as it is.
        with contextlib.suppress(OSError):
            fcntl.fcntl(worker.output, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return worker


class Parsers:
    """The parsing processes of one program: borrowed for a piece of work, and one kept for the next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._is_open = True

    def parsed(
        self,
        jail: Jail,
        root: str,
        tasks: Sequence[Task],
        limits: Limits,
        workers: int | None,
        cancelled: Callable[[], None],
    ) -> Iterator[list[Outcome]]:
        """The outcomes of the tasks, in their order, some at a time; `cancelled` raises to stop."""
        chunks = list(_chunks(tasks))
        if not chunks:
            return iter(())
        job = (root, astuple(limits))
        count = min(_workers(len(tasks), workers), len(chunks))
        return _Crew(self, job, count, cancelled).outcomes(chunks)

    @contextlib.contextmanager
    def expecting(self, files: int, workers: int | None) -> Generator[None]:
        """Have the processes started that so many files will take: they load while files are looked for."""
        with self._lock:
            missing = _workers(files, workers) - len(self._idle) if self._is_open else 0
            self._idle += [_started() for _ in range(missing)]
        try:
            yield
        finally:
            self._end_spares()

    def _end_spares(self) -> None:
        with self._lock:
            spares, self._idle = self._idle[KEPT:], self._idle[:KEPT]
        for worker in spares:
            worker.close()

    def borrow(self) -> _Worker:
        """A worker that waits, or a new one."""
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.process.poll() is None:
                    worker.heard_at = time.monotonic()
                    return worker
                worker.close()
        return _started()

    def give_back(self, worker: _Worker) -> None:
        """Keep a worker that has answered everything, when there is a place for it."""
        with self._lock:
            if self._is_open and worker.is_ready and not worker.given and len(self._idle) < KEPT:
                self._idle.append(worker)
                return
        worker.close()

    def close(self) -> None:
        with self._lock:
            self._is_open = False
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()


def _chunks(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    chunk: list[Task] = []
    size = 0
    for task in tasks:
        bytes_of_names = len(task.path.encode()) + len((task.hint or "").encode())
        if chunk and (len(chunk) == CHUNK_FILES or size + bytes_of_names > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(task)
        size += bytes_of_names
    if chunk:
        yield chunk


def _workers(files: int, wanted: int | None) -> int:
    if wanted is not None:
        return max(1, wanted)
    cores = os.cpu_count() or 1 if sys.platform == "darwin" else len(os.sched_getaffinity(0))
    return 1 if files < FEW else min(cores, MOST_WORKERS)


class _Crew:
    """Workers on one job, the chunks that wait, and answers that came before their turn."""

    def __init__(self, parsers: Parsers, job: Any, count: int, cancelled: Callable[[], None]) -> None:
        self._parsers = parsers
        self._job = job
        self._count = count
        self._cancelled = cancelled
        self._selector = selectors.DefaultSelector()
        self._waiting: deque[_Chunk] = deque()
        self._parts: dict[int, list[Outcome]] = {}
        self._left: dict[int, int] = {}

    def outcomes(self, chunks: Sequence[Sequence[Task]]) -> Generator[list[Outcome]]:
        self._waiting.extend(_Chunk(number, chunk) for number, chunk in enumerate(chunks))
        self._left = {number: len(chunk) for number, chunk in enumerate(chunks)}
        try:
            for _ in range(self._count):
                self._hire()
            for number in range(len(chunks)):
                while self._left[number]:
                    self._cancelled()
                    self._listen(number)
                yield sorted(self._parts.pop(number), key=lambda found: found.path)
        finally:
            self._dismiss()

    def _hire(self) -> None:
        worker = self._parsers.borrow()
        self._selector.register(worker.output, selectors.EVENT_READ, worker)
        self._feed(worker, 0)

    def _workers(self) -> list[_Worker]:
        return [cast("_Worker", key.data) for key in list(self._selector.get_map().values())]

    def _feed(self, worker: _Worker, turn: int) -> None:
        # How far ahead of the chunk whose turn it is work may go is what is kept in memory at most.
        window = turn + 3 * self._count * AHEAD
        while self._waiting and len(worker.given) < AHEAD and self._waiting[0].number < window:
            chunk = self._waiting.popleft()
            if not worker.given:
                worker.heard_at = time.monotonic()
            worker.given.append(chunk)
            worker.send(packed((*self._job, [tuple(task) for task in chunk.tasks])))

    def _listen(self, turn: int) -> None:
        for key, _ in self._selector.select(timeout=0.2):
            worker = cast("_Worker", key.data)
            body = worker.heard.read(worker.output.fileno())
            if worker.heard.is_ended:
                self._bury(worker)
            else:
                worker.heard_at = time.monotonic()
                if body is not None:
                    self._hear(worker, body)
        for worker in self._workers():
            if worker.given and time.monotonic() - worker.heard_at > SILENCE_SECONDS:
                confined.kill(worker.process)
            self._feed(worker, turn)

    def _hear(self, worker: _Worker, body: bytearray) -> None:
        if worker.is_ready:
            found: list[Plain] = unpacked(body)
            self._keep(worker.given.popleft(), [outcome(value) for value in found])
        worker.is_ready = True

    def _keep(self, chunk: _Chunk, found: list[Outcome]) -> None:
        self._parts.setdefault(chunk.number, []).extend(found)
        self._left[chunk.number] -= len(found)

    def _bury(self, worker: _Worker) -> None:
        """A worker ended: its chunk is tried file by file, and a file that ends another one is left out."""
        self._selector.unregister(worker.output)
        worker.close()
        if not worker.is_ready:
            status = worker.process.returncode
            raise GraphError(f"a parser process ended with status {status} before it began")
        given = list(worker.given)
        self._waiting.extendleft(reversed(given[1:]))
        if given and (given[0].retried or len(given[0].tasks) == 1):
            self._keep(given[0], [Skipped(task.path, "parser_crashed") for task in given[0].tasks])
        elif given:
            ones = [_Chunk(given[0].number, (task,), retried=True) for task in given[0].tasks]
            self._waiting.extendleft(reversed(ones))
        if self._waiting:
            self._hire()

    def _dismiss(self) -> None:
        for worker in self._workers():
            self._selector.unregister(worker.output)
            self._parsers.give_back(worker)
        self._selector.close()
