"""HTTP/1.1 connections with bounds on heads, framing, pipelined requests and unsent answers."""

from __future__ import annotations

import asyncio
import atexit
from typing import Any, Final, Literal

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tracedesk.wire.caller_uid import CallerUids, Ends
from tracedesk.wire.outlet import Outlet
from tracedesk.wire.quota import Quota
from tracedesk.wire.request import CALLER_UID, CONNECTION_KEY, TARGET_KEY

_UIDS: Final = CallerUids()
atexit.register(_UIDS.close)
MAX_HEAD: Final = 64 << 10
"""Bytes of one request that are not its body: head, chunk sizes, chunk extensions, trailers."""
HEAD_SECONDS: Final = 10.0
MAX_PIPELINED: Final = 16
"""Requests of one connection that wait for the answer before theirs."""
_SLICE: Final = 1 << 10
"""Bytes parsed at once outside a body of known length: few requests fit into so many."""
_TURN: Final = 64
"""Slices parsed before other connections have their turn."""


class _Flow(FlowControl):
    """Flow control that keeps reading paused while the connection holds input that is not parsed."""

    def __init__(self, protocol: BoundedProtocol, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.asked = False
        """Set while uvicorn itself wants no more input."""
        self._protocol: BoundedProtocol | None = protocol

    def pause_reading(self) -> None:
        self.asked = True
        super().pause_reading()

    def resume_reading(self) -> None:
        self.asked = False
        if self._protocol is None or not self._protocol.has_unread:
            super().resume_reading()
        else:
            self._protocol.read_on_soon()

    def hold(self) -> None:
        """Read no more from the socket until the input at hand is parsed."""
        super().pause_reading()

    def release(self) -> None:
        """Read from the socket again, unless uvicorn still wants no input."""
        if not self.asked:
            super().resume_reading()

    def detach(self) -> None:
        """Break the reference cycle with a protocol that has ended."""
        self._protocol = None


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which itself bounds neither heads nor trailers nor pipelined requests."""

    _gate: _Flow

    def __init__(self, quota: Quota, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._quota = quota
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._framing = 0
        """Bytes of the current request that were not its body."""
        self._body = 0
        self._left = 0
        """Bytes still to come of a body whose length was declared."""
        self._unread = b""
        self._turn: asyncio.Handle | None = None
        self._running: RequestResponseCycle | None = None
        self._outlet: Outlet | None = None

    # --- what the quota asks

    @property
    def state(self) -> Literal["waiting", "streaming", "calling"]:
        """The state of the request being answered; one that has not arrived whole is waited for."""
        running = self._running
        if running is None or running.response_complete or running.more_body:
            return "waiting"
        return "streaming" if running.response_started else "calling"

    @property
    def unsent(self) -> int:
        """Bytes of answers that the client has not taken, those of its session's stream included."""
        waiting = 0 if self._outlet is None else self._outlet.size
        return self.transport.get_write_buffer_size() + waiting

    def make_room(self) -> None:
        """Close the connection, for another one takes its place."""
        if self.unsent:
            self.transport.abort()  # closing would wait for a client that does not read
        elif self._framing or (self._running is not None and not self._running.response_complete):
            self._give_up(b"503 Service Unavailable\r\nRetry-After: 1")
        else:
            self.transport.close()

    def carry(self, outlet: Outlet | None) -> None:
        """Count as unsent what waits in the outlet whose messages the connection carries, while it does."""
        if self._outlet is not None:
            self._outlet.on_late = _nothing
        self._outlet = outlet
        if outlet is not None:
            outlet.on_late = self._fell_behind

    def _fell_behind(self) -> None:
        self._quota.stalled(self)

    # --- reading

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = self._gate = _Flow(self, transport)
        # Now, once: while this connection is open, no other can have its two addresses.
        self.app_state = {**self.app_state, CALLER_UID: _UIDS.of(Ends.of(self.client, self.server))}
        self._begin_head()
        self._quota.opened(self)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._unread = self._unread + data if self._unread else data
        self._read_on()

    def read_on_soon(self) -> None:
        """Parse more of the input at hand once other connections had their turn."""
        if self._turn is None and self._unread:
            self._turn = self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._turn = None
        data, at = self._unread, 0
        for _ in range(_TURN):
            if at >= len(data) or self._must_wait():
                break
            end = self._slice_end(data, at)
            if not self._parse(data[at:end]):
                self._unread = b""
                return
            at = end
        self._unread = data[at:]
        if not self._unread:
            self._gate.release()
            return
        self._gate.hold()
        if not self._must_wait():
            self.read_on_soon()

    def _must_wait(self) -> bool:
        return len(self.pipeline) >= MAX_PIPELINED or self.flow.write_paused or self._gate.asked

    def _slice_end(self, data: bytes, at: int) -> int:
        """The end of what may be parsed at once: the rest of a body, a head, or a little."""
        if self._left:
            return min(at + self._left, len(data))
        end = data.find(b"\r\n\r\n", at, at + _SLICE) if self._in_head else -1
        return min(at + _SLICE, len(data)) if end < 0 else end + 4

    def _parse(self, data: bytes) -> bool:
        """Parse one slice; False when the connection is at its end."""
        if self._in_head and self._head_timer is None:
            self._begin_head()
        self._framing += len(data)
        super().data_received(data)
        # One byte of framing for each byte of a body: only absurdly small chunks need more.
        if self._framing > MAX_HEAD + self._body:
            self._give_up(b"431 Request Header Fields Too Large")
        return not self.transport.is_closing()

    # --- callbacks of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope: Any = self.scope
        scope[CONNECTION_KEY] = self

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer must never pass for a header of the request
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._end_head()
        scope: Any = self.scope
        scope[TARGET_KEY] = self.url
        lengths = [value for name, value in self.headers if name == b"content-length"]
        self._left = int(lengths[0]) if lengths else 0
        self._quota.active(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing -= len(body)
        self._body += len(body)
        self._left = max(0, self._left - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._framing, self._body, self._left = True, 0, 0, 0

    # --- answering

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self._quota.answered(self)
        super().on_response_complete()
        if self._unread:  # more requests are here, so the connection is not idle
            self._unset_keepalive_if_required()
        self.read_on_soon()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._quota.stalled(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._quota.moving(self)
        self.read_on_soon()

    # --- the end

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._unread = b""
        self._quota.closed(self)
        self._interrupt()
        super().connection_lost(exc)
        self._forget()

    def _forget(self) -> None:
        """Break every reference cycle: the collector runs seldom, and would find thousands of requests."""
        self._unset_keepalive_if_required()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        for cycle, _ in self.pipeline:
            cycle.on_response = _nothing
        self.pipeline.clear()
        nothing: Any = None
        self.cycle = self.scope = self.headers = nothing
        self._running = None
        self._gate.detach()

    def _interrupt(self) -> None:
        """End the request being answered; uvicorn itself would end only the one that came last."""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def _begin_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up, b"408 Request Timeout")

    def _end_head(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self, status: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.state == "streaming":  # a status would become part of the answer that has begun
            self.transport.abort()
            return
        self.transport.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        self.transport.close()


def _nothing(*_: Any) -> None: ...
