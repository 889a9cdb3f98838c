"""A thread that stays: what comes one piece after the other need not wait for a thread to start."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from tracedesk.jobs import whatever_happens
from tracedesk.primitives.supervision import SupervisedThread

T = TypeVar("T")


class Lane:
    """Does what it is given in one thread, in order; the thread starts with the first piece."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread = SupervisedThread(name, self._work)
        self._is_open = True
        self._unfinished = 0

    @property
    def is_idle(self) -> bool:
        """Whether all that it was given is done; for the loop that gives it."""
        return not self._unfinished

    async def run(self, work: Callable[[], T]) -> T:
        """Do `work` to its end, which is waited for also when the one who waits is cancelled."""
        done = self._put(work)
        self._unfinished += 1
        try:
            return await whatever_happens(done)
        finally:
            self._unfinished -= 1

    def close(self) -> None:
        """End the thread after what it was given; what comes later is refused."""
        with self._lock:
            self._is_open = False
            self._waiting.put(None)
        self._thread.join()
        self._thread.forget()

    def _put(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def piece() -> None:
            try:
                settle, outcome = done.set_result, context.run(work)
            except BaseException as raised:
                settle, outcome = done.set_exception, raised
            with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, done, settle, outcome)

        with self._lock:
            if not self._is_open:
                raise RuntimeError(f"the thread {self._name} has ended")
            self._thread.start()
            self._waiting.put(piece)
        return done

    def _work(self) -> None:
        while (piece := self._waiting.get()) is not None:
            piece()
            self._thread.well()


def _settle(done: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not done.done():
        settle(outcome)
