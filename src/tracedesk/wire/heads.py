"""Request heads with a bound: so many bytes, so many seconds, then the connection is closed."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD: Final = 64 << 10
HEAD_SECONDS: Final = 10.0


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which itself would read a head for ever."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_head = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin_head()

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_timer is None:
                self._begin_head()
            if self._head_bytes > MAX_HEAD and not self._completes_head(data):
                self._give_up(b"431 Request Header Fields Too Large")
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._head_bytes = True, 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def _completes_head(self, data: bytes) -> bool:
        """A large body may share a read with the end of a small head."""
        return self._head_bytes - len(data) <= MAX_HEAD and b"\r\n\r\n" in data[:MAX_HEAD]

    def _begin_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up, b"408 Request Timeout")

    def _end_head(self) -> None:
        self._in_head, self._head_bytes = False, 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
            self.transport.close()
