"""Readers of one run in threads: one thread answers what is quick, others join in when something takes long.

A thread costs as much to wake as a short answer takes, and threads that compute wait for each other's
interpreter. So questions that come together are answered one after the other, by one thread, in one read
transaction that began after all of them were asked, and their answers go back together.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

from tracedesk.backtest import shadow
from tracedesk.backtest.query import Recording
from tracedesk.journal import JournalError, Reader
from tracedesk.journal.sqlite import plan_once
from tracedesk.primitives.supervision import SupervisedThread

T = TypeVar("T")

SLICE: Final = 0.002
"""Seconds after which answers go back, while more questions wait."""
LOOK: Final = 0.005
"""Seconds between two looks at what the threads do, while they do something."""
LONG: Final = 0.01
"""Seconds that an answer may take before another thread sees to the questions behind it."""
_AGAIN_SECONDS: Final = 0.01
_TRIES: Final = 4


@dataclass(slots=True)
class _Job:
    """One question, and its answer or what it failed with."""

    work: Callable[[Recording], Any]
    future: asyncio.Future[Any]
    turn: int
    began: float = 0.0
    answer: Any = None
    problem: BaseException | None = None
    is_done: bool = False

    def deliver(self) -> None:
        if self.future.done():
            return
        if self.problem is None:
            self.future.set_result(self.answer)
        else:
            self.future.set_exception(self.problem)


class _Lane:
    """A thread with a reader of its own, asleep until its bell rings."""

    def __init__(self, lanes: Lanes, number: int) -> None:
        self.is_awake = False
        self.bell = threading.Lock()
        self.bell.acquire()
        self.guard = threading.Lock()
        """Held while the job of the moment changes, or is interrupted."""
        self.job: _Job | None = None
        self.reader: Reader | None = None
        name = f"read-{lanes.path.stem}-{number}"
        self.thread = SupervisedThread(name, partial(lanes.serve, self), failed=lambda _: lanes.wake(self))
        self.thread.start()

    def do(self, job: _Job, work: Callable[[], Any]) -> None:
        """Find the answer; an interrupt meant for it reaches no other."""
        job.began = monotonic()
        with self.guard:
            self.job = job
        try:
            job.answer = work()
        except BaseException as problem:
            job.problem = problem
        with self.guard:
            self.job = None
            job.is_done = True

    def interrupt(self, job: _Job) -> None:
        with self.guard:
            if self.job is job and self.reader is not None:
                self.reader.interrupt()


class Lanes:
    """The readers of one run: at most `size` at once, opened when first needed."""

    def __init__(self, path: Path, run: str, size: int = 4) -> None:
        self.path = path
        self._run = run
        self._size = size
        self._lock = threading.Lock()
        """Held while a question comes or is taken, and while a lane decides to sleep."""
        self._waiting: deque[_Job] = deque()
        self._done: deque[_Job] = deque()
        self._lanes: list[_Lane] = []
        self._turn = 0
        self._unanswered = 0
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look: asyncio.TimerHandle | None = None

    async def run(self, work: Callable[[Recording], T]) -> T:
        """`work` on the run as it is now, in a thread. Cancelling the caller interrupts the read."""
        loop = self._loop = asyncio.get_running_loop()
        self._turn += 1
        job = _Job(work, loop.create_future(), self._turn)
        self._unanswered += 1
        try:
            self._put(job)
            if self._look is None:
                self._look = loop.call_later(LOOK, self._looked)
            return await job.future
        except asyncio.CancelledError:
            await self._stop(job)
            raise
        finally:
            self._unanswered -= 1

    def close(self) -> None:
        """End the threads, each after the read that it is in."""
        self._is_closing = True
        if self._look is not None:
            self._look.cancel()
        for lane in self._lanes:
            self._ring(lane)
        for lane in self._lanes:
            lane.thread.join()
            lane.thread.forget()
        self._deliver()

    # --- the event loop's side

    def _put(self, job: _Job) -> None:
        if not self._lanes:
            self._lanes.append(_Lane(self, 0))
        with self._lock:
            self._waiting.append(job)
        awake = [lane for lane in self._lanes if lane.is_awake]
        if not awake:
            self._ring(self._lanes[0])
        elif _are_late(awake):
            self._help()

    def _ring(self, lane: _Lane) -> None:
        with self._lock:
            if lane.is_awake:
                return
            lane.is_awake = True
        lane.bell.release()

    def _looked(self) -> None:
        """Hand out answers that wait behind a long one, and wake another lane for the questions there."""
        self._look = None
        self._deliver()
        if not self._unanswered or self._loop is None:
            return
        self._look = self._loop.call_later(LOOK, self._looked)
        if self._waiting and _are_late([lane for lane in self._lanes if lane.is_awake]):
            self._help()

    def _help(self) -> None:
        asleep = next((lane for lane in self._lanes if not lane.is_awake), None)
        if asleep is None and len(self._lanes) < self._size:
            asleep = _Lane(self, len(self._lanes))
            self._lanes.append(asleep)
        if asleep is not None:
            self._ring(asleep)

    def _deliver(self) -> None:
        while self._done:
            self._done.popleft().deliver()

    async def _stop(self, job: _Job) -> None:
        """End a read. An interrupt between two statements has no effect, so it is repeated until one has."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
                return
        while not job.is_done:
            for lane in self._lanes:
                lane.interrupt(job)
            await asyncio.sleep(_AGAIN_SECONDS)

    # --- the threads' side

    def serve(self, lane: _Lane) -> None:
        """Answer whatever waits, whenever the bell rings."""
        while not self._is_closing:
            lane.bell.acquire()
            while not self._may_sleep(lane):
                self._answer(lane)
            self._send()
        if lane.reader is not None:
            lane.reader.close()

    def wake(self, lane: _Lane) -> None:
        """Have a lane whose work failed look for questions again."""
        with self._lock:
            lane.is_awake = True
        with suppress(RuntimeError):  # it is rung already
            lane.bell.release()

    def _may_sleep(self, lane: _Lane) -> bool:
        with self._lock:
            lane.is_awake = bool(self._waiting) and not self._is_closing
            return not lane.is_awake

    def _next(self, upto: int | None = None) -> _Job | None:
        """The question that has waited longest; none that was asked after the turn `upto`."""
        with self._lock:
            if not self._waiting or (upto is not None and self._waiting[0].turn > upto):
                return None
            return self._waiting.popleft()

    def _answer(self, lane: _Lane) -> None:
        """Answer what waits now as of one moment; a run without tables is asked one question at a time."""
        upto = self._turn
        try:
            reader = lane.reader
            if reader is None:
                reader = lane.reader = _opened(self.path)
            if shadow.of(reader) is None:
                with reader.connection:
                    recording = Recording.of(reader, self._run)
                    if recording is not None:
                        self._answer_all(lane, recording, upto)
                        return
        except BaseException as problem:
            self._fail(problem, upto)
            return
        if (job := self._next()) is not None:
            lane.do(job, lambda: _prepared(reader, self._run, job.work))
            self._done.append(job)
            self._send()

    def _answer_all(self, lane: _Lane, recording: Recording, upto: int) -> None:
        """One transaction, so that counts, rows and the watermark are of the same moment."""
        due = monotonic() + SLICE
        while (job := self._next(upto)) is not None:
            lane.do(job, lambda work=job.work: work(recording))
            self._done.append(job)
            if monotonic() > due:
                self._send()
                due = monotonic() + SLICE

    def _fail(self, problem: BaseException, upto: int) -> None:
        """Whoever asked is told why the run cannot be read."""
        job = self._next(upto)
        if job is not None:
            job.problem, job.is_done = problem, True
            self._done.append(job)

    def _send(self) -> None:
        if self._done and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver)


def _opened(path: Path) -> Reader:
    reader = Reader(path)
    plan_once(reader.connection)
    return reader


def _are_late(lanes: list[_Lane]) -> bool:
    """Whether each is in an answer that takes long."""
    since = monotonic() - LONG
    return all((job := lane.job) is not None and job.began < since for lane in lanes)


def _prepared(reader: Reader, run: str, work: Callable[[Recording], T]) -> T:
    """The answer about a run whose tables may have to be made for the reader first."""
    for _ in range(_TRIES):
        if shadow.of(reader) is not None:
            shadow.prepare(reader, run)
        with reader.connection:
            recording = Recording.of(reader, run)
            if recording is not None:
                return work(recording)
        shadow.prepare(reader, run)
    raise JournalError("the run's tables are being rebuilt")
