"""Messages on their way to one HTTP stream, with a bound on how many wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_MOST: Final = 256
_MOST_BYTES: Final = 1 << 20


class Outlet:
    """A bounded queue between handlers and a response stream; a closed one drops what it is given."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._changed: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._size = 0
        self._late = 0
        """Bytes of messages that wait for room."""
        self.closed = False
        self.on_late: Callable[[], None] = _nothing
        """Called when a message has to wait for room."""

    @property
    def size(self) -> int:
        """Bytes of all messages that the reader has not taken, those that wait for room included."""
        return self._size + self._late

    @property
    def is_full(self) -> bool:
        """True while the reader is far behind, in messages or in bytes."""
        return len(self._waiting) >= _MOST or self._size >= _MOST_BYTES

    def __len__(self) -> int:
        return len(self._waiting)

    async def emit(self, data: bytes) -> None:
        """Queue `data`, waiting while the reader is far behind: for a stream that surely has one."""
        if self.is_full:
            await self._wait_for_room(len(data))
        if not self.closed:
            self._put(data)

    async def _wait_for_room(self, size: int) -> None:
        self._late += size
        try:
            self.on_late()
            while not self.closed and self.is_full:
                if self._room is None:
                    self._room = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._room)
        finally:
            self._late -= size

    async def offer(self, data: bytes) -> None:
        """Queue a notification if there is room; what a reader far behind misses is never an answer."""
        if not self.closed and not self.is_full:
            self._put(data)

    def _put(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self.wake()

    def take(self) -> list[bytes]:
        """Everything queued so far."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._release()
        return taken

    def wake(self, *_: object) -> None:
        """Let `wait` return."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Return when something is queued, on `wake`, or after `seconds`."""
        if self._waiting or self.closed:
            return
        loop = asyncio.get_running_loop()
        self._changed = changed = loop.create_future()
        timer = loop.call_later(seconds, self.wake)
        try:
            await changed
        finally:
            timer.cancel()

    def close(self) -> None:
        """Drop what waits and what is still to come."""
        self.closed = True
        self._waiting.clear()
        self._size = 0
        self.wake()
        self._release()

    def _release(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None


def _nothing() -> None: ...
