"""The host's side: methods, snapshots, and an end that loses nothing.

One event loop serves all connections. Methods that compute run their work in a thread (`call.run`) or in
native code, so that the loop stays free; a snapshot is bytes before anyone asks for it and is answered by
the loop at once, between whatever the methods do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeVar

from tracedesk.errors import STANDARD, ToolError
from tracedesk.hosts import keepsakes
from tracedesk.hosts.client import TIMED_OUT
from tracedesk.hosts.finding import Claim, HostInfo, claim
from tracedesk.hosts.frames import (
    MAX_FRAME,
    BadFrame,
    Cancel,
    Fault,
    FrameTooLarge,
    Message,
    Progress,
    Request,
    Result,
)
from tracedesk.hosts.link import Link, PeerUid, peer_uid
from tracedesk.hosts.processes import Processes
from tracedesk.jobs import JobCancelled, in_thread
from tracedesk.primitives import json, time
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.redaction import redact_text
from tracedesk.primitives.supervision import is_ending

log = logging.getLogger(__name__)

T = TypeVar("T")
GRACE: Final = 5.0
"""Seconds that running methods get to end by themselves."""
MAX_IN_FLIGHT: Final = 64
"""Methods that one connection may have under way."""
OWN: Final = ("ping", "snapshot", "stop")
_ROOM: Final = 256
"""Bytes that the frame around a snapshot may take."""
_UNWIND: Final = 2.0
_FLUSH: Final = 1.0


@dataclass(frozen=True, slots=True)
class Published:
    """A published value as the bytes of its document."""

    seq: int
    document: bytes


class HostCall:
    """One run of a method, as the method sees it."""

    def __init__(self, host: Host, link: _HostLink, request: Request) -> None:
        self.host = host
        self._link = link
        self._id = request.id
        self._loop = asyncio.get_running_loop()
        self._cancelled = threading.Event()
        self._latest: Progress | None = None

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far the method is."""
        self._show(self._progress(done, total, message))

    def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """The same, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody is told any more
            self._loop.call_soon_threadsafe(self._show, self._progress(done, total, message))

    def check(self) -> None:
        """Raise `JobCancelled`, in any thread, once nobody waits for the answer any more."""
        if self._cancelled.is_set():
            raise JobCancelled("the call was cancelled")

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread; when the call is cancelled, `check()` raises there."""
        try:
            return await in_thread(work)
        except asyncio.CancelledError:
            self._cancelled.set()
            raise

    def _progress(self, done: float, total: float | None, message: str | None) -> Progress:
        if not isfinite(done) or not isfinite(total or 0):
            raise ValueError(f"progress is a finite number, not {done} of {total}")
        return Progress(self._id, done, total, message)

    def _show(self, progress: Progress) -> None:
        # While the client does not read, only the newest is worth keeping.
        self._latest = progress
        if not self._link.is_flooded:
            self.flush()

    def flush(self) -> None:
        latest, self._latest = self._latest, None
        if latest is not None:
            self._link.send(latest)


Method = Callable[[dict[str, Any], HostCall], Awaitable[Any]]
Work = Callable[["Host"], Awaitable[None]]


class Host:
    """A long-lived process of a home, or the part of one that answers."""

    def __init__(
        self,
        home: Path,
        kind: str,
        id: str,
        methods: Mapping[str, Method],
        *,
        work: Work | None = None,
        grace: float = GRACE,
        clock: time.Clock | None = None,
        processes: Processes | None = None,
        peer: PeerUid = peer_uid,
    ) -> None:
        if taken := sorted(set(methods) & set(OWN)):
            raise ValueError(f"every host has its own {', '.join(taken)}; choose other names")
        self.home = home
        self.kind = kind
        self.id = id
        self.methods = dict(methods)
        self.grace = grace
        self.clock = clock or time.SystemClock()
        self.peer = peer
        self._work = work
        self._processes = processes
        self._claim: Claim | None = None
        self._server: asyncio.AbstractServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._links: set[_HostLink] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._snapshots: dict[str, Published] = {}
        self._publishing = threading.Lock()
        self._fault: BaseException | None = None
        self.stopping = asyncio.Event()
        """Set when the host is to end: a method or the work that runs long should look at it."""
        self._hurry = asyncio.Event()

    @property
    def info(self) -> HostInfo:
        if self._claim is None:
            raise RuntimeError("the host has not started")
        return self._claim.info

    def publish(self, name: str, value: Any) -> int:
        """Make a value readable under a name, from any thread; returns its number.

        The value is encoded here and now, so changing it afterwards changes nothing for readers.
        """
        body = json.dumps(value)
        with self._publishing:
            before = self._snapshots.get(name)
            seq = before.seq + 1 if before else 1
            at = time.format(self.clock.now_ns())
            document = json.dumps({"seq": seq, "publishedAt": at, "value": json.Raw(body)})
            if len(document) > MAX_FRAME - _ROOM:
                raise FrameTooLarge(len(document), MAX_FRAME - _ROOM)
            self._snapshots[name] = Published(seq, document)
        return seq

    def snapshot(self, name: str) -> json.Raw:
        """The document of the newest value under that name."""
        found = self._snapshots.get(name)
        if found is None:
            there = ", ".join(sorted(self._snapshots)) or "none yet"
            raise ToolError("SNAPSHOT_NOT_FOUND", f"No snapshot {name!r}; there are: {there}.")
        return json.Raw(found.document)

    def stop(self, *, now: bool = False) -> None:
        """Begin the end, from any thread; `now` leaves running methods no grace."""

        def begin() -> None:
            self.stopping.set()
            if now:
                self._hurry.set()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(begin)

    async def serve(self, ready: Callable[[HostInfo], None] | None = None) -> None:
        """Register, answer until told to stop, and end; `ready` is called once the host can be found."""
        self._loop = asyncio.get_running_loop()
        self._claim = claim(self.home, self.kind, self.id, clock=self.clock, processes=self._processes)
        try:
            keepsakes.forget(self.home, self.kind, self.id)
            self._server = await self._loop.create_unix_server(
                lambda: _HostLink(self), sock=self._claim.listener
            )
            self._begin_work()
            if ready is not None:
                ready(self.info)
            await self.stopping.wait()
            await self._wind_down()
        finally:
            await self._leave()
        if self._fault is not None:
            raise self._fault

    def _begin_work(self) -> None:
        if self._work is not None:
            self.run_beside(self._run_work(self._work))

    async def _run_work(self, work: Work) -> None:
        try:
            await work(self)
        except BaseException as fault:
            if is_ending(fault):
                raise
            self._fault = fault
        finally:
            self.stopping.set()

    def run_beside(self, running: Awaitable[Any]) -> asyncio.Task[Any]:
        """Run something beside the methods; it gets the same grace at the end."""
        task: asyncio.Task[Any] = asyncio.ensure_future(running)  # pyright: ignore[reportAssignmentType]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- the end

    async def _wind_down(self) -> None:
        """Give what runs its grace, then cancel it; reading snapshots goes on meanwhile."""
        hurry = asyncio.ensure_future(self._hurry.wait())
        over = asyncio.ensure_future(self.clock.sleep_until(self.clock.monotonic() + self.grace))
        try:
            while self._tasks and not over.done() and not hurry.done():
                await asyncio.wait({over, hurry, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            hurry.cancel()
        await self._cancel_rest()

    async def _cancel_rest(self) -> None:
        for task in (rest := set(self._tasks)):
            task.cancel()
        if rest:
            _, stuck = await asyncio.wait(rest, timeout=_UNWIND)
            if stuck:
                log.warning("%s %s ends while %d of its methods do not", self.kind, self.id, len(stuck))

    async def _leave(self) -> None:
        """Keep the last snapshots, unregister, and let the clients go: in that order, so that a client
        that sees its connection end finds the snapshots kept and the name free."""
        assert self._claim is not None
        try:
            keepsakes.keep(self.home, self.kind, self.id, {n: p.document for n, p in self._snapshots.items()})
        except OSError:
            log.exception("the last snapshots of %s %s could not be kept", self.kind, self.id)
        if self._server is not None:
            self._server.close()
        self._claim.release()
        for link in set(self._links):
            link.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH):
                await asyncio.gather(*(link.lost.wait() for link in self._links))
        for link in set(self._links):
            link.abort()

    # --- what links report

    def add(self, link: _HostLink) -> None:
        self._links.add(link)

    def discard(self, link: _HostLink) -> None:
        self._links.discard(link)

    def own(self, request: Request) -> Any:
        """The answer of a method that every host has; none of them waits for anything."""
        if request.method == "snapshot":
            return self.snapshot(str(request.params.get("name")))
        if request.method == "stop":
            self.stopping.set()
            return {"stopping": True}
        return {**self.info.document(), "methods": sorted(self.methods), "stopping": self.stopping.is_set()}


class _HostLink(Link):
    """The host's end of one connection: runs its requests, and cancels them when the client leaves."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host
        self._running: dict[int, tuple[asyncio.Task[Any], HostCall]] = {}
        self.lost = asyncio.Event()

    def on_open(self, peer: socket.socket) -> None:
        self._host.add(self)
        if self._host.peer(peer) not in (None, os.geteuid()):
            self.send(Fault(None, "NOT_PERMITTED", "This host serves its own user alone."))
            self.close()

    def on_lost(self) -> None:
        for task, _ in self._running.values():
            task.cancel()
        self._host.discard(self)
        self.lost.set()

    def on_drained(self) -> None:
        for _, call in self._running.values():
            call.flush()

    def on_bad_frame(self, fault: BadFrame) -> None:
        self.send(Fault(None, "BAD_FRAME", str(fault)))

    def on_message(self, message: Message) -> None:
        match message:
            case Request():
                self._take(message)
            case Cancel(id):
                if (running := self._running.get(id)) is not None:
                    running[0].cancel()
            case _:
                raise BadFrame("a host takes requests and cancels only")

    def _take(self, request: Request) -> None:
        if request.id in self._running:
            raise BadFrame(f"the request id {request.id} is in use")
        try:
            if request.method in OWN:
                self._answer(Result(request.id, self._host.own(request)))
            else:
                self._start(request, self._admitted(request.method))
        except ToolError as error:
            self.send(Fault.of(request.id, error))

    def _admitted(self, name: str) -> Method:
        method = self._host.methods.get(name)
        if method is None:
            there = ", ".join((*OWN, *sorted(self._host.methods)))
            raise ToolError("METHOD_NOT_FOUND", f"No method {name!r}; there are: {there}.")
        if self._host.stopping.is_set():
            raise ToolError("HOST_STOPPING", "The host is ending; only snapshots can still be read.")
        if len(self._running) >= MAX_IN_FLIGHT:
            raise STANDARD.overloaded(name, MAX_IN_FLIGHT)
        return method

    def _start(self, request: Request, method: Method) -> None:
        call = HostCall(self._host, self, request)
        task = self._host.run_beside(self._run(request, method, call))
        self._running[request.id] = (task, call)
        task.add_done_callback(lambda _: self._running.pop(request.id, None))

    async def _run(self, request: Request, method: Method, call: HostCall) -> None:
        window = asyncio.timeout(request.timeout)
        try:
            async with window:
                value = await method(dict(request.params), call)
            call.flush()
            self._answer(Result(request.id, value))
        except ToolError as error:
            self._answer(Fault.of(request.id, error))
        except JobCancelled:
            self._answer(Fault(request.id, "CANCELLED", "The work was cancelled."))
        except BaseException as problem:
            if is_ending(problem):
                if self._host.stopping.is_set():
                    self._answer(Fault(request.id, "HOST_STOPPING", "The host ended before the method did."))
                raise
            if window.expired():
                text = f"{request.method!r} passed its deadline of {request.timeout} s."
                self._answer(Fault(request.id, TIMED_OUT, text))
            else:
                self._break(request.id)

    def _answer(self, message: Result | Fault) -> None:
        try:
            self.send(message)
        except FrameTooLarge as fault:
            text = f"The answer is too large: {fault}. Ask for less."
            self.send(Fault(message.id, STANDARD.too_large, text, {"bytes": fault.size}))
        except (TypeError, ValueError):
            self._break(message.id)

    def _break(self, id: int | None) -> None:
        correlation = uuid7()
        log.error("call %s failed\n%s", correlation, redact_text(traceback.format_exc()))
        self.send(Fault.of(id, STANDARD.broken(correlation)))
