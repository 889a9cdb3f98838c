"""One open socket: it hears, answers pings, speaks no faster than it may, and tells when it is gone."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from tracedesk.exchange.client.http import Http
from tracedesk.exchange.client.waiting import ended, within
from tracedesk.foreign import block
from tracedesk.primitives.time import Clock

if TYPE_CHECKING:
    import aiohttp

OPENING: Final = 10.0
"""Seconds for a connection and its handshake."""
SILENCE: Final = 90.0
"""Seconds without a frame after which a line is dead; the venue pings every 20."""
PER_SECOND: Final = 4
"""Messages sent in any second: the venue allows five, and one is left for the answer to a ping."""
ANSWER: Final = 10.0
"""Seconds for the answer to a message."""
_CLOSING: Final = 0.5
_LARGEST: Final = 16 * 2**20
"""Bytes of a message."""
_ABNORMAL: Final = 1006
"""What stands for the code of a farewell that never came."""


T = TypeVar("T")


class CannotOpen(Exception):
    """The socket could not be opened, or what must be said first was not accepted."""


class Pace:
    """At most `count` turns in any `seconds`."""

    def __init__(self, clock: Clock, count: int = PER_SECOND, seconds: float = 1.0) -> None:
        self._clock = clock
        self._seconds = seconds
        self._taken: deque[float] = deque(maxlen=count)
        self._order = asyncio.Lock()

    async def turn(self) -> None:
        async with self._order:
            if len(self._taken) == self._taken.maxlen:
                await self._clock.sleep_until(self._taken[0] + self._seconds)
            self._taken.append(self._clock.monotonic())


class Line:
    """A socket that is read from its opening on."""

    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        clock: Clock,
        hear: Callable[[Line, bytes], None],
        silence: float,
    ) -> None:
        self.opened = clock.monotonic()
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Ends with the reason once nothing can be heard any more."""
        self._socket = socket
        self._clock = clock
        self._hear = hear
        self._silence = silence
        self._heard = self.opened
        self._pace = Pace(clock)
        self._tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._watch())]

    @classmethod
    async def open(
        cls, http: Http, url: str, clock: Clock, hear: Callable[[Line, bytes], None], silence: float = SILENCE
    ) -> Line:
        """Connect; raises `CannotOpen`."""
        import aiohttp

        opened: list[aiohttp.ClientWebSocketResponse] = []
        try:
            await within(clock, OPENING, _connect(http, url, opened))
        except (TimeoutError, OSError, aiohttp.ClientError) as fault:
            await _unused(opened)
            raise CannotOpen(_reason(fault)) from None
        except BaseException:
            await _unused(opened)
            raise
        return cls(opened[0], clock, hear, silence)

    async def say(self, document: Any) -> None:
        """Send one message, when its turn has come."""
        await self._pace.turn()
        try:
            await self._socket.send_str(orjson.dumps(document).decode())
        except (ConnectionError, RuntimeError):
            self.cut("the connection was cut")
            raise CannotOpen("the connection was cut") from None

    async def reply(self, awaited: asyncio.Future[T]) -> T:
        """What an answer brings; raises `CannotOpen` where none comes."""
        alarm = asyncio.ensure_future(self._clock.sleep_until(self._clock.monotonic() + ANSWER))
        try:
            await asyncio.wait({awaited, self.gone, alarm}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await ended(alarm)
        if awaited.done():
            return awaited.result()
        self.cut("the venue did not answer in time")
        raise CannotOpen(self.gone.result())

    def cut(self, reason: str) -> None:
        """Take the line for gone."""
        if not self.gone.done():
            self.gone.set_result(reason)

    async def close(self) -> None:
        """Hang up."""
        self.cut("closed here")
        await ended(*self._tasks)
        await self._socket.close()
        # A socket that was cut counts as closed, and close() then leaves its connection behind.
        self._socket._response.close()  # pyright: ignore[reportPrivateUsage]

    async def _read(self) -> None:
        try:
            await self._listen()
        finally:
            self.cut("reading ended")

    async def _listen(self) -> None:
        import aiohttp

        kinds = aiohttp.WSMsgType
        while not self.gone.done():
            message = await self._socket.receive()
            self._heard = self._clock.monotonic()
            if message.type == kinds.TEXT:
                self._hear(self, message.data.encode())
            elif message.type == kinds.BINARY:
                self._hear(self, message.data)
            elif message.type == kinds.PING:
                await self._answer(message.data)
            elif message.type != kinds.PONG:
                self.cut(_farewell(self._socket.close_code, message.extra))

    async def _answer(self, ping: bytes) -> None:
        try:
            await self._socket.pong(ping)
        except (ConnectionError, RuntimeError):
            self.cut("the connection was cut")

    async def _watch(self) -> None:
        while not self.gone.done():
            due = self._heard + self._silence
            if self._clock.monotonic() >= due:
                return self.cut(f"nothing was heard for {self._silence:g} s")
            await self._clock.sleep_until(due)
        return None


async def _connect(http: Http, url: str, opened: list[aiohttp.ClientWebSocketResponse]) -> None:
    """Open a socket and leave it in `opened`, where it is found also by who was cancelled just then."""
    import aiohttp

    timeout = aiohttp.ClientWSTimeout(ws_close=_CLOSING)  # pyright: ignore[reportCallIssue]
    connecting = http.session.ws_connect(url, autoping=False, timeout=timeout, max_msg_size=_LARGEST)
    opened.append(await connecting)


async def _unused(opened: list[aiohttp.ClientWebSocketResponse]) -> None:
    for socket in opened:
        await socket.close()


def _reason(fault: BaseException) -> str:
    import aiohttp

    if isinstance(fault, aiohttp.WSServerHandshakeError):
        return f"the venue answered HTTP {fault.status} to the handshake"
    if isinstance(fault, aiohttp.ClientConnectorError):
        return f"no connection ({fault.os_error.strerror or type(fault.os_error).__name__})"
    if isinstance(fault, TimeoutError):
        return "no connection in time"
    return f"no connection ({type(fault).__name__})"


def _farewell(code: int | None, reason: object) -> str:
    if code in (None, _ABNORMAL):
        return "the connection was cut"
    said = f", {block(reason[:80])}" if isinstance(reason, str) and reason else ""
    return f"the venue closed the connection ({code}{said})"
