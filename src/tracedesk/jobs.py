"""Long jobs: a handle with progress and cancel, shared by command-line bars and MCP progress.

The work reports as often as it likes, from any thread; those who watch see at most so many updates a
second, and always the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast

from tracedesk.errors import STANDARD, ToolError
from tracedesk.primitives import time
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.redaction import redact_text

log = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["running", "done", "failed", "cancelled"]

RATE: Final = 10.0
"""Updates a second that a watcher gets at most."""
HISTORY: Final = 100


class JobCancelled(Exception):
    """Raised in the work at its next `check()` after someone cancelled, and to those who wait for it."""


class Listener(Protocol):
    """Anything that shows progress: an MCP call, a host's call, a bar on a terminal."""

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class JobView:
    """A job at one moment."""

    id: str
    kind: str
    state: State
    done: float
    total: float | None
    message: str | None
    started_ns: int
    ended_ns: int | None = None
    result: Any = None
    error: ToolError | None = None

    def document(self) -> dict[str, Any]:
        """The handle as tools and commands show it."""
        return {
            "id": self.id,
            "kind": self.kind,
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "message": self.message,
            "startedAt": time.format(self.started_ns),
            "endedAt": None if self.ended_ns is None else time.format(self.ended_ns),
            "result": self.result,
            "error": self.error and {k: getattr(self.error, k) for k in ("code", "message", "details")},
        }


class Job(Generic[T]):
    """One long piece of work. `report`, `check` and the endings may be called from any thread."""

    def __init__(self, kind: str, *, clock: time.Clock | None = None) -> None:
        self.id = uuid7()
        self.kind = kind
        self._clock = clock or time.SystemClock()
        self._lock = threading.Lock()
        self._state: State = "running"
        self._done: float = 0
        self._total: float | None = None
        self._message: str | None = None
        self._started_ns = self._clock.now_ns()
        self._ended_ns: int | None = None
        self._result: T | None = None
        self._error: ToolError | None = None
        self._cancelled = threading.Event()
        self._watchers: set[_Watcher] = set()
        self._on_cancel: Callable[[], object] | None = None

    # --- for the work

    def report(
        self, done: float | None = None, total: float | None = None, message: str | None = None
    ) -> None:
        """Say how far the work is; what is not given stays as it was."""
        with self._lock:
            if self._state != "running":
                return
            self._done = self._done if done is None else done
            self._total = self._total if total is None else total
            self._message = self._message if message is None else message
            for watcher in self._watchers:
                watcher.wake()

    def check(self) -> None:
        """Raise `JobCancelled` once the job was cancelled."""
        if self._cancelled.is_set():
            raise JobCancelled(f"the job {self.kind} was cancelled")

    def finish(self, result: T) -> bool:
        """End as done; False when the job has ended already."""
        return self._end("done", result=result)

    def fail(self, error: ToolError) -> bool:
        """End as failed; False when the job has ended already."""
        return self._end("failed", error=_without_frames(error))

    def abandon(self) -> bool:
        """End as cancelled; False when the job has ended already."""
        return self._end("cancelled")

    def _end(self, state: State, *, result: T | None = None, error: ToolError | None = None) -> bool:
        with self._lock:
            if self._state != "running":
                return False
            self._state, self._result, self._error = state, result, error
            self._ended_ns = self._clock.now_ns()
            for watcher in self._watchers:
                watcher.wake(ended=True)
            return True

    # --- for those who hold the handle

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_cancelling(self) -> bool:
        """Whether a cancel was asked for; work that ends regardless still counts as done."""
        return self._cancelled.is_set()

    def view(self) -> JobView:
        """The job as it is now."""
        with self._lock:
            return self._view()

    def _view(self) -> JobView:
        return JobView(
            self.id,
            self.kind,
            self._state,
            self._done,
            self._total,
            self._message,
            self._started_ns,
            self._ended_ns,
            self._result,
            self._error,
        )

    def cancel(self) -> bool:
        """Ask the work to stop; False when it has ended already."""
        with self._lock:
            if self._state != "running":
                return False
            self._cancelled.set()
        if self._on_cancel is not None:
            self._on_cancel()
        return True

    def outcome(self) -> T:
        """The result of an ended job; raises its `ToolError`, or `JobCancelled`."""
        view = self.view()
        if view.state == "failed":
            assert view.error is not None
            raise ToolError(view.error.code, view.error.message, view.error.details) from view.error.__cause__
        if view.state == "cancelled":
            raise JobCancelled(f"the job {self.kind} was cancelled")
        if view.state == "running":
            raise asyncio.InvalidStateError("the job is still running")
        return cast("T", view.result)

    async def wait(self) -> T:
        """Wait for the end, then as `outcome`."""
        with self._watching() as watcher:
            await watcher.ended.wait()
        return self.outcome()

    async def updates(self, rate: float = RATE) -> AsyncGenerator[JobView]:
        """The job now, then after changes at most `rate` times a second, and at last as it ended."""
        with self._watching() as watcher:
            while True:
                view = self._take(watcher)
                due = self._clock.monotonic() + 1 / rate
                yield view
                if view.state != "running":
                    return
                await self._pause(watcher, due)
                await watcher.changed.wait()

    async def follow(self, listener: Listener, rate: float = RATE) -> T:
        """Show every update to `listener`; then as `outcome`."""
        async with aclosing(self.updates(rate)) as updates:
            async for view in updates:
                await listener.progress(view.done, view.total, view.message)
        return self.outcome()

    async def report_to(self, call: Listener, *, keep: bool = False, rate: float = RATE) -> T:
        """Forward progress to a call and wait for the end, then as `outcome`.

        Only increases are forwarded, as MCP demands. A call that ends early, by its deadline or because
        its client cancelled, cancels the job too, unless it is to be kept.
        """
        try:
            return await self.follow(_Increasing(call), rate)
        finally:
            if not keep:
                self.cancel()

    def _take(self, watcher: _Watcher) -> JobView:
        with self._lock:
            watcher.rest()
            return self._view()

    async def _pause(self, watcher: _Watcher, due: float) -> None:
        """Wait until the next update is due, but not beyond the job's end."""
        nap = asyncio.ensure_future(self._clock.sleep_until(due))
        end = asyncio.ensure_future(watcher.ended.wait())
        try:
            await asyncio.wait((nap, end), return_when=asyncio.FIRST_COMPLETED)
        finally:
            nap.cancel()
            end.cancel()

    @contextmanager
    def _watching(self) -> Generator[_Watcher]:
        watcher = _Watcher()
        with self._lock:
            self._watchers.add(watcher)
            if self._state != "running":
                watcher.ended.set()
        try:
            yield watcher
        finally:
            with self._lock:
                self._watchers.discard(watcher)


class _Watcher:
    """A task that waits for a job; woken once for any number of changes until it has looked."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_awake = False
        self.changed = asyncio.Event()
        self.ended = asyncio.Event()

    def wake(self, *, ended: bool = False) -> None:
        if self._is_awake and not ended:
            return
        self._is_awake = True
        with contextlib.suppress(RuntimeError):  # its loop has closed: nobody waits there
            self._loop.call_soon_threadsafe(self._set, ended)

    def rest(self) -> None:
        self._is_awake = False
        self.changed.clear()

    def _set(self, ended: bool) -> None:
        self.changed.set()
        if ended:
            self.ended.set()


class _Increasing:
    """Passes on only progress that goes up."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._last = float("-inf")

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        if done > self._last:
            self._last = done
            await self._listener.progress(done, total, message)


# --- many jobs ---------------------------------------------------------------------------------


class JobTable:
    """The jobs of one owner: all that run, and the newest that ended."""

    def __init__(self, *, history: int = HISTORY, clock: time.Clock | None = None) -> None:
        self._history = history
        self._clock = clock or time.SystemClock()
        self._jobs: dict[str, Job[Any]] = {}
        self._tasks: set[asyncio.Future[Any]] = set()

    def start(self, kind: str, work: Callable[[Job[T]], Awaitable[T]]) -> Job[T]:
        """Run async work on this loop; cancelling the job cancels it at its next `await`."""
        job = self._add(Job[T](kind, clock=self._clock))
        task = self._keep(asyncio.ensure_future(_run_async(job, work)))
        loop = asyncio.get_running_loop()
        job._on_cancel = lambda: loop.call_soon_threadsafe(task.cancel)  # pyright: ignore[reportPrivateUsage]
        return job

    def start_thread(self, kind: str, work: Callable[[Job[T]], T]) -> Job[T]:
        """Run work in a thread of its own; cancelling the job shows at its next `job.check()`."""
        job = self._add(Job[T](kind, clock=self._clock))
        self._keep(asyncio.ensure_future(in_thread(lambda: _run(job, work))))
        return job

    def get(self, id: str) -> Job[Any] | None:
        return self._jobs.get(id)

    def list(self) -> list[Job[Any]]:
        """All jobs that are kept, oldest first."""
        return [*self._jobs.values()]

    async def close(self, grace: float = 5.0) -> None:
        """Cancel what runs and wait for it, but no longer than `grace` seconds."""
        for job in self._jobs.values():
            job.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)

    def _add(self, job: Job[T]) -> Job[T]:
        self._jobs[job.id] = job
        ended = [id for id, job in self._jobs.items() if job.state != "running"]
        for id in ended[: max(0, len(ended) - self._history)]:
            del self._jobs[id]
        return job

    def _keep(self, task: asyncio.Future[Any]) -> asyncio.Future[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _run(job: Job[T], work: Callable[[Job[T]], T]) -> None:
    with _ending(job):
        job.finish(work(job))


async def _run_async(job: Job[T], work: Callable[[Job[T]], Awaitable[T]]) -> None:
    with _ending(job):
        job.finish(await work(job))


def _without_frames(error: ToolError) -> ToolError:
    """Return a copy that keeps its cause, such as a full disk, and no frames: they hold the arguments."""
    kept = ToolError(error.code, error.message, error.details)
    cause = kept.__cause__ = error.__cause__ or error.__context__
    seen: list[BaseException] = []
    while cause is not None and cause not in seen:
        cause.__traceback__ = None
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return kept


@contextmanager
def _ending(job: Job[Any]) -> Generator[None]:
    """Turn whatever ends the work into the job's end."""
    try:
        yield
    except (JobCancelled, asyncio.CancelledError):
        job.abandon()
    except ToolError as error:
        job.fail(error)
    except BaseException as bug:
        # Text, not exc_info: a kept record would keep the frames, and with them their secrets.
        log.error("job %s: %s failed\n%s", job.id, job.kind, redact_text(traceback.format_exc()))
        broken = STANDARD.broken(job.id)
        broken.__cause__ = bug
        job.fail(broken)
        if not isinstance(bug, Exception):
            raise


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that never keeps the process from ending, however long it runs."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, fault: BaseException | None) -> None:
        if future.done():
            return
        if fault is not None:
            future.set_exception(fault)
        else:
            future.set_result(cast("T", result))

    def run() -> None:
        result, fault = None, None
        try:
            result = context.run(work)
        except BaseException as raised:
            fault = raised
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=run, daemon=True).start()
    return await future


async def whatever_happens(work: Awaitable[T]) -> T:
    """Wait for the end of something that must not be cut off, even when the one who waits is cancelled."""
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                return task.result()
