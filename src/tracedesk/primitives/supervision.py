"""Supervision of background work: a failure nobody foresaw is logged, shown in `/health`, and survived."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final
from weakref import WeakSet

from tracedesk.primitives.redaction import redact_text

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 5.0
"""Seconds before work that failed is begun again: each time twice as many, up to these."""

_supervised: WeakSet[Supervised] = WeakSet()
_guard: Final = threading.Lock()
"""Held while the set changes or is read: threads begin and end while `/health` asks."""


class Supervised:
    """One piece of background work, with what is wrong with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures = 0
        """Count of its ends by an exception since it last succeeded."""
        self._reason: str | None = None
        with _guard:
            _supervised.add(self)

    @property
    def reason(self) -> str | None:
        """The failure that it has not recovered from, for people; None where all is well."""
        return self._reason

    def report(self, problem: BaseException) -> None:
        """Show a failure until `well`."""
        # No message: it may name files or callers, and `/health` is open to all.
        cause = problem.strerror if isinstance(problem, OSError) else None
        reason = type(problem).__name__ + (f": {cause}" if cause else "")
        if reason != self._reason:
            # Text, not exc_info: a kept record would keep the frames, and with them their secrets.
            trace = "".join(traceback.format_exception(problem))
            log.error("%s failed\n%s", self.name, redact_text(trace))
        self._reason = reason

    def well(self) -> None:
        """Take back what was reported: the work succeeds again."""
        self._reason = None
        self.failures = 0

    @contextmanager
    def round(self) -> Generator[None]:
        """One round of work that goes on when a round fails."""
        try:
            yield
        except BaseException as problem:
            if is_ending(problem):
                raise
            self.report(problem)
        else:
            self.well()

    def forget(self) -> None:
        """Show this work no more, for it was ended on purpose."""
        self._reason = None
        with _guard:
            _supervised.discard(self)

    def failed(self, problem: BaseException) -> float:
        """Count a failure, and return the seconds to wait before the next try."""
        self.failures += 1
        self.report(problem)
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self.failures - 1, 10))


def is_ending(problem: BaseException) -> bool:
    """True for what ends a task or the process on purpose.

    A panic of native code is none, although it is no `Exception`; nor is the cancellation of another task
    that this one awaited.
    """
    if isinstance(problem, asyncio.CancelledError):
        task = _current_task()
        return task is None or task.cancelling() > 0
    return isinstance(problem, KeyboardInterrupt | SystemExit | GeneratorExit)


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # a thread without a loop
        return None


def reasons() -> dict[str, str]:
    """The failures of all supervised work of this process, by its name."""
    with _guard:
        by_name = sorted(_supervised, key=lambda work: work.name)
    return {work.name: work.reason for work in by_name if work.reason is not None}


class SupervisedThread(Supervised):
    """A thread that begins its work again when an exception ends it.

    `failed` is called in the thread with the exception: it fails those who wait for the work.
    """

    def __init__(
        self, name: str, work: Callable[[], None], *, failed: Callable[[BaseException], None] | None = None
    ) -> None:
        super().__init__(name)
        self._work = work
        self._on_failure = failed
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin, unless it runs or has been joined."""
        if not self.is_running and not self._ending.is_set():
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            thread.start()
            self._thread = thread  # only now: the system may have no thread left

    def join(self) -> None:
        """Wait until the work has ended by itself; a failure then ends it too."""
        self._ending.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        tries = _LAST_TRIES
        while tries:
            try:
                self._work()
                return
            except BaseException as problem:
                pause = self._failed_safely(problem)
            if self._ending.wait(pause):
                tries -= 1

    def _failed_safely(self, problem: BaseException) -> float:
        """`failed`, which must not end the thread either."""
        try:
            pause = self.failed(problem)
            if self._on_failure is not None:
                self._on_failure(problem)
        except BaseException:
            log.exception("%s could not report its failure", self.name)
            return FIRST_PAUSE
        return pause


_LAST_TRIES: Final = 3
"""Times that work is begun again after `join`, however often it had failed before."""


async def persist(name: str, work: Callable[[], Awaitable[object]]) -> None:
    """Await `work`, and again after a pause when an exception ends it, until it ends by itself."""
    supervised = Supervised(name)
    try:
        while True:
            try:
                await work()
                return
            except BaseException as problem:
                if is_ending(problem):
                    raise
                pause = supervised.failed(problem)
            await asyncio.sleep(pause)
    finally:
        supervised.forget()
