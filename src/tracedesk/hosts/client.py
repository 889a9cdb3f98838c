"""Talking to a host. A connection that breaks stays broken: find the host again and connect anew."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.hosts.errors import HostError, HostGone, HostTimeout
from tracedesk.hosts.finding import HostInfo, find_one
from tracedesk.hosts.frames import BadFrame, Cancel, Fault, FrameTooLarge, Message, Progress, Request, Result
from tracedesk.hosts.link import Link, PeerUid, peer_uid

TIMED_OUT: Final = "HOST_TIMEOUT"
"""The code of a refusal that says: the deadline you gave has passed."""

OnProgress = Callable[[float, float | None, str | None], Awaitable[None] | None]
DEFAULT_TIMEOUT: Final = 30.0
CONNECT_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A value that a host published: the `seq`-th under its name, at that time."""

    name: str
    seq: int
    published_at: str
    value: Any

    @classmethod
    def of(cls, name: str, document: Mapping[str, Any]) -> Snapshot:
        return cls(name, document["seq"], document["publishedAt"], document["value"])


@dataclass(slots=True)
class _Pending:
    """A request on its way: its newest progress and, at last, its answer."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    progress: Progress | None = None
    answer: Result | Fault | None = None


class HostClient:
    """A connection to one host; any number of calls may be under way on it."""

    def __init__(self, info: HostInfo) -> None:
        self.info = info
        self._link = _ClientLink(self)
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._gone: HostError | None = None
        self._closed = asyncio.Event()

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
    ) -> Any:
        """Run a method of the host to its answer.

        Raises the method's `ToolError`, `HostTimeout` after `timeout` seconds (None: never), or `HostGone`
        the moment the host dies. Cancelling the caller cancels the method. `on_progress` sees progress in
        order; when it is slower than the host, it sees the newest.
        """
        self._check()
        self._last_id += 1
        request = Request(self._last_id, method, params or {}, timeout)
        pending = self._pending[request.id] = _Pending()
        window = asyncio.timeout(timeout)
        try:
            self._send(request)
            async with window:
                return await self._answer(pending, on_progress)
        except TimeoutError:
            if not window.expired():
                raise
            raise HostTimeout(f"{self._name} did not answer {method!r} within {timeout} s.") from None
        finally:
            del self._pending[request.id]
            if pending.answer is None and self._gone is None:
                self._link.send(Cancel(request.id))

    async def snapshot(self, name: str, *, timeout: float | None = DEFAULT_TIMEOUT) -> Snapshot:
        """The newest value published under that name, without waiting for anything the host is doing."""
        return Snapshot.of(name, await self.call("snapshot", {"name": name}, timeout=timeout))

    async def stop(self, *, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        """Ask the host to end, and wait until it has; its registration is gone then."""
        try:
            async with asyncio.timeout(timeout):
                await self.call("stop", timeout=None)
                await self._closed.wait()
        except HostGone:
            return
        except TimeoutError:
            raise HostTimeout(f"{self._name} did not end within {timeout} s.") from None

    async def close(self) -> None:
        """End the connection; what is under way is cancelled by the host."""
        self._link.close()
        await self._closed.wait()

    async def __aenter__(self) -> HostClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _name(self) -> str:
        return f"{self.info.kind} {self.info.id!r} (process {self.info.pid})"

    def _check(self) -> None:
        if self._gone is not None:
            raise type(self._gone)(*self._gone.args)

    def _send(self, request: Request) -> None:
        try:
            self._link.send(request)
        except FrameTooLarge as fault:
            raise ToolError("INVALID_PARAMETER", f"The request is too large: {fault}.") from None

    async def _answer(self, pending: _Pending, on_progress: OnProgress | None) -> Any:
        while True:
            await pending.news.wait()
            pending.news.clear()
            # More may come while it is shown; the last of it still goes before the answer.
            while (progress := pending.progress) is not None:
                pending.progress = None
                await _show(progress, on_progress)
            if pending.answer is not None:
                return _value(pending.answer)
            self._check()

    # --- what the link tells

    def take(self, message: Message) -> None:
        if isinstance(message, Fault) and message.id is None:
            self._end(HostGone(f"{self._name} ended the connection: {message.message}"))
            return
        # An answer to a request that was given up in the meantime finds nobody.
        pending = self._pending.get(message.id or 0)
        if pending is None:
            return
        if isinstance(message, Progress):
            pending.progress = message
        elif isinstance(message, (Result, Fault)):
            pending.answer = message
        pending.news.set()

    def lose(self) -> None:
        self._end(HostGone(f"{self._name} is gone."))
        self._closed.set()

    def _end(self, reason: HostError) -> None:
        self._gone = self._gone or reason
        for pending in self._pending.values():
            pending.news.set()

    # --- connecting

    @classmethod
    async def connect(cls, info: HostInfo, *, peer: PeerUid = peer_uid) -> HostClient:
        """Connect to a host that was found; raises `HostGone` when it has ended since."""
        client = cls(info)
        link = client._link
        link.peer = peer
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await loop.create_unix_connection(lambda: link, str(info.socket))
        except TimeoutError:
            raise HostTimeout(f"{client._name} did not accept a connection.") from None
        except OSError as fault:
            raise HostGone(f"{client._name} is gone: {fault.strerror or fault}.") from None
        if link.is_foreign:
            raise HostGone(f"{info.socket} is answered by another user.")
        return client


class _ClientLink(Link):
    """The client's end."""

    def __init__(self, owner: HostClient) -> None:
        super().__init__()
        self._owner = owner
        self.peer: PeerUid = peer_uid
        self.is_foreign = False

    def on_open(self, peer: socket.socket) -> None:
        if self.peer(peer) not in (None, os.geteuid()):
            self.is_foreign = True
            self.abort()

    def on_message(self, message: Message) -> None:
        self._owner.take(message)

    def on_bad_frame(self, fault: BadFrame) -> None:
        self._owner.take(Fault(None, "BAD_FRAME", str(fault)))

    def on_lost(self) -> None:
        self._owner.lose()


async def _show(progress: Progress, on_progress: OnProgress | None) -> None:
    showing = on_progress(progress.done, progress.total, progress.message) if on_progress else None
    if showing is not None:
        await showing


def _value(answer: Result | Fault) -> Any:
    if isinstance(answer, Result):
        return answer.value
    if answer.code == TIMED_OUT:
        raise HostTimeout(answer.message)
    raise answer.error


async def connect(home: Path, kind: str, id: str) -> HostClient:
    """Find a host by name and connect to it; raises `HostGone` when it is not running."""
    info = find_one(home, kind, id)
    if info is None:
        raise HostGone(f"No {kind} {id!r} is running in this home.")
    return await HostClient.connect(info)
