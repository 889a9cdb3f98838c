"""MCP over a pair of pipes: one line, one message, no threads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import stat
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from functools import partial
from typing import Any, Final, cast

from tracedesk.wire.auth import OWNER, Identity
from tracedesk.wire.documents import AT_ONCE
from tracedesk.wire.exchange import Exchange, error, result
from tracedesk.wire.inbound import INVALID_REQUEST, PARSE_ERROR, Inbound, Malformed, read, read_long
from tracedesk.wire.kernel import Kernel
from tracedesk.wire.sdk import (
    MODERN_PROTOCOL_VERSIONS,
    InboundLadderRejection,
    MCPError,
    TransportContext,
    classify_inbound_request,
    modern_error_data,
    types,
)

log = logging.getLogger(__name__)

MAX_LINE: Final = 16 << 20
GRACE: Final = 5.0
SIGNAL_GRACE: Final = 1.0
_DUPLEX: Final = TransportContext(kind="stdio", can_send_request=True)
_ONE_WAY: Final = TransportContext(kind="stdio", can_send_request=False)
_UNREAD: Final = "A line could not be read, and was not answered. Send it again."
_UNANSWERED: Final = (
    "The desk stopped before this was answered. Start it again, and ask what has become of it."
)


@contextlib.contextmanager
def private_pipes() -> Generator[tuple[int, int]]:
    """The real stdin and stdout under private numbers.

    While this holds, fd 1 is stderr and fd 0 is empty: a stray print cannot corrupt the wire and a
    child process cannot read from it.
    """
    reader, writer = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    try:
        yield reader, writer
    finally:
        for descriptor in (reader, writer):
            with contextlib.suppress(OSError):
                os.close(descriptor)


class Lines(asyncio.Protocol):
    """Cuts what arrives into lines, and drops a line that is too long without losing the next."""

    def __init__(self, on_line: Callable[[bytes], None], on_overlong: Callable[[], None]) -> None:
        self._on_line = on_line
        self._on_overlong = on_overlong
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if not self._size and len(data) <= MAX_LINE and data.find(b"\n") == len(data) - 1:
            line = data[:-1]  # one whole line, as nearly always
            if line and not line.isspace():
                self._on_line(line)
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._take(line)
            self._finish()
        self._take(rest)

    def _take(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MAX_LINE:
            self._skipping = True
            self._parts.clear()
        elif part and not self._skipping:
            self._parts.append(part)

    def _finish(self) -> None:
        line = b"".join(self._parts)
        overlong = self._skipping
        self._parts.clear()
        self._size, self._skipping = 0, False
        if overlong:
            self._on_overlong()
        elif line and not line.isspace():
            self._on_line(line)

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._parts or self._skipping:
            self._finish()
        if not self.ended.done():
            self.ended.set_result(None)


class _PipeWriter(asyncio.BaseProtocol):
    """The write side: a client that stops reading stops being read from."""

    def __init__(self) -> None:
        self.hold: Callable[[], None] = _nothing
        self.release: Callable[[], None] = _nothing
        self._lost = asyncio.Event()
        self._ready = asyncio.Event()
        self._ready.set()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    async def room(self) -> None:
        """Wait while the client is far behind in reading."""
        await self._ready.wait()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._lost.is_set():
            self._transport.write(data)

    async def flush(self) -> None:
        """Wait until everything written has left, within the grace time."""
        if self._transport is not None:
            self._transport.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), GRACE)

    def pause_writing(self) -> None:
        self._ready.clear()
        self.hold()

    def resume_writing(self) -> None:
        self._ready.set()
        self.release()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()
        self._ready.set()


class _FileWriter:
    """The write side when stdout is a plain file."""

    hold: Callable[[], None]
    release: Callable[[], None]

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as problem:
            log.error("the output cannot be written, so the client is gone: %s", problem)
            self._descriptor = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    async def room(self) -> None: ...

    async def flush(self) -> None: ...


def _all(tasks: Iterable[asyncio.Task[None]]) -> asyncio.Future[Any]:
    return asyncio.gather(*tasks, return_exceptions=True)


def _nothing() -> None: ...


async def _no_wait() -> None: ...


class Stdio:
    """One client over pipes, in the era its first request opens."""

    def __init__(self, kernel: Kernel, identity: Identity) -> None:
        self._kernel = kernel
        self._identity = identity
        self._peer = kernel.open_peer(self._emit)
        self.messages = 0
        """How many lines of either side have passed, so that pauses can be told."""
        self._modern: bool | None = None
        self._is_ending = False
        self._heard: set[asyncio.Task[None]] = set()
        """What notifications have begun."""
        self._waiting: deque[bytes] = deque()
        """A long line that is being read, and those behind it: their order is kept."""
        self._reading: asyncio.Task[None] | None = None
        self._input: Any = None
        self._holds: set[str] = set()
        self._write: Callable[[bytes], None] = lambda data: None
        self._room: Callable[[], Awaitable[None]] = _no_wait

    async def serve(self, reader: int, writer: int, stop: asyncio.Event) -> None:
        """Answer until the input ends or `stop` is set; what was accepted is still answered."""
        loop = asyncio.get_running_loop()
        lines = Lines(self._on_line, self._on_overlong)
        outbound = await _connect_write(loop, writer)
        self._write, self._room = outbound.write, outbound.room
        inbound = await _connect_read(loop, lines, reader)
        self._input = inbound
        outbound.hold, outbound.release = partial(self._hold, "output"), partial(self._release, "output")
        stopping = loop.create_task(stop.wait())
        await asyncio.wait({lines.ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        inbound.close()
        self._input = None
        if self._reading is not None:
            await asyncio.wait({self._reading, stopping}, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)
        self._peer.abandon()
        await self._drain(stopping)
        stopping.cancel()
        await self._kernel.close_peer(self._peer)
        await outbound.flush()

    async def _drain(self, stopping: asyncio.Task[Any]) -> None:
        """Let what runs finish: a while after the input closed, a moment after a signal.

        Clients that close the input and then signal kill the process seconds later.
        """
        self._kernel.listen.close()
        if self._tasks and not stopping.done():
            await asyncio.wait(
                {_all(self._tasks), stopping}, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED
            )
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SIGNAL_GRACE)
        self._is_ending = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SIGNAL_GRACE)

    @property
    def _tasks(self) -> set[asyncio.Task[Any]]:
        """All that runs for the client."""
        reading: set[asyncio.Task[Any]] = set() if self._reading is None else {self._reading}
        return self._heard | self._peer.running | reading

    def _on_overlong(self) -> None:
        self._write(error(None, PARSE_ERROR, f"Parse error: a line is longer than {MAX_LINE} bytes") + b"\n")

    def _hold(self, reason: str) -> None:
        """Stop reading from the client until every reason has been released."""
        self._holds.add(reason)
        if self._input is not None:
            self._input.pause_reading()

    def _release(self, reason: str) -> None:
        self._holds.discard(reason)
        if not self._holds and self._input is not None:
            self._input.resume_reading()

    def _on_line(self, line: bytes) -> None:
        self.messages += 1
        if self._reading is None and len(line) <= AT_ONCE:
            try:
                message = read(line)
            except Malformed as fault:
                self._refuse(fault)
            else:
                self._take(message)
            return
        self._waiting.append(line)
        if self._reading is None:
            self._hold("long line")
            self._reading = asyncio.get_running_loop().create_task(self._read_waiting())

    async def _read_waiting(self) -> None:
        """Read a long line beside the loop, and then those that came behind it."""
        try:
            while self._waiting:
                try:
                    message = await read_long(
                        self._waiting.popleft(), self._kernel.dispatch.documents, stranger=False
                    )
                except Malformed as fault:
                    self._refuse(fault)
                except Exception as problem:  # no memory, or no thread: those behind it are read all the same
                    log.error("a long line could not be read: %s", type(problem).__name__)
                    self._write(error(None, types.INTERNAL_ERROR, _UNREAD) + b"\n")
                else:
                    self._take(message)
        finally:
            self._reading = None
            self._release("long line")

    def _refuse(self, fault: Malformed) -> None:
        self._write(error(fault.request_id, fault.code, fault.message) + b"\n")

    def _take(self, message: Inbound) -> None:
        if message.kind == "response":
            self._peer.settle(message.body)
            return
        if message.kind == "notification":
            task = asyncio.get_running_loop().create_task(self._hear(message))
            self._heard.add(task)
            task.add_done_callback(self._heard.discard)
            return
        if self._modern is None and message.method != "ping":
            self._modern = message.claims_modern and message.method != "initialize"
        assert message.id is not None
        self._peer.hold(message.id, asyncio.get_running_loop().create_task(self._answer(message)))

    async def _answer(self, message: Inbound) -> None:
        assert message.id is not None
        try:
            if self._modern:
                body = await self._answer_modern(message)
            else:
                body = await self._answer_peer(message)
            reply = result(message.id, body)
        except asyncio.CancelledError:
            if not self._is_ending:
                raise  # the client has taken it back
            reply = error(message.id, types.INTERNAL_ERROR, _UNANSWERED)
        except Exception as failure:
            data = modern_error_data(failure)
            reply = error(message.id, data.code, data.message, data.data)
        finally:
            self._peer.forget(message.id, cast("asyncio.Task[None]", asyncio.current_task()))
        self.messages += 1
        self._write(reply + b"\n")

    async def _answer_peer(self, message: Inbound) -> dict[str, Any]:
        if message.method != "initialize" and message.claims_modern:
            raise MCPError(
                INVALID_REQUEST,
                "This connection shook hands; requests with the 2026-07-28 envelope need a new one",
            )
        exchange = Exchange(
            message.id,
            message.params,
            self._peer.connection,
            self._emit,
            self._identity,
            transport=_DUPLEX,
            asker=self._peer,
        )
        return await self._peer.answer(exchange, message.method, message.params)

    async def _answer_modern(self, message: Inbound) -> dict[str, Any]:
        if message.method == "initialize":
            raise MCPError(
                types.UNSUPPORTED_PROTOCOL_VERSION,
                "This connection speaks 2026-07-28; the initialize handshake is not part of it",
                {"supported": list(MODERN_PROTOCOL_VERSIONS)},
            )
        connection = self._kernel.known(message.meta)
        if connection is None:
            route = classify_inbound_request(message.body)
            if isinstance(route, InboundLadderRejection):
                raise MCPError(route.code, route.message, route.data)
            connection = self._kernel.connection(
                route.protocol_version, route.client_info, route.client_capabilities
            )
        exchange = Exchange(
            message.id, message.params, connection, self._emit, self._identity, transport=_ONE_WAY
        )
        return await self._kernel.answer_modern(exchange, message.method, message.params)

    async def _hear(self, message: Inbound) -> None:
        exchange = Exchange(
            None, message.params, self._peer.connection, self._emit, self._identity, transport=_DUPLEX
        )
        await self._peer.hear(exchange, message.method, message.params)

    async def _emit(self, data: bytes) -> None:
        await self._room()
        self._write(data + b"\n")


def _watchable(descriptor: int) -> bool:
    """Whether the event loop can watch it: pipes, sockets and terminals, but no file and no /dev/null."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def _connect_read(loop: asyncio.AbstractEventLoop, lines: Lines, descriptor: int) -> Any:
    if not _watchable(descriptor):
        return _FileReader(loop, lines, descriptor)
    transport, _ = await loop.connect_read_pipe(lambda: lines, os.fdopen(os.dup(descriptor), "rb", 0))
    return transport


class _FileReader:
    """Feeds a plain file: event loops watch pipes, terminals and sockets only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lines: Lines, descriptor: int) -> None:
        self._closed = threading.Event()
        worker = threading.Thread(target=self._pump, args=(loop, lines, os.dup(descriptor)), daemon=True)
        worker.start()

    def _pump(self, loop: asyncio.AbstractEventLoop, lines: Lines, descriptor: int) -> None:
        try:
            with os.fdopen(descriptor, "rb", 0) as file:
                while not self._closed.is_set() and (data := file.read(1 << 16)):
                    loop.call_soon_threadsafe(lines.data_received, data)
        except OSError as problem:
            log.error("the input cannot be read, so the client is gone: %s", problem)
        finally:
            loop.call_soon_threadsafe(lines.connection_lost, None)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self._closed.set()


async def _connect_write(loop: asyncio.AbstractEventLoop, descriptor: int) -> _PipeWriter | _FileWriter:
    if not _watchable(descriptor):
        return _FileWriter(descriptor)
    protocol = _PipeWriter()
    await loop.connect_write_pipe(lambda: protocol, os.fdopen(os.dup(descriptor), "wb", 0))
    return protocol


Beside = Callable[[Callable[[], int]], Awaitable[None]]
"""`(how to count the messages that have passed)`: work beside a client; serving ends when it fails."""


async def run(kernel: Kernel, reader: int, writer: int, beside: Beside | None = None) -> None:
    """Serve until the client leaves, a signal asks to stop, or what runs beside fails."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = Stdio(kernel, Identity(f"stdio:{os.getpid()}", subject=OWNER))
    async with _running(beside or _nothing_beside, client, stop):
        await client.serve(reader, writer, stop)


@contextlib.asynccontextmanager
async def _running(beside: Beside, client: Stdio, stop: asyncio.Event) -> AsyncGenerator[None]:
    """Work beside the body, which it stops when it fails; the failure is then raised."""

    async def work() -> None:
        try:
            await beside(lambda: client.messages)
        except Exception:
            stop.set()
            raise

    task = asyncio.get_running_loop().create_task(work())
    try:
        yield
    finally:
        # Who leaves without a word wanted to know whether a desk starts here.
        if client.messages or stop.is_set():
            task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def _nothing_beside(messages: Callable[[], int]) -> None: ...
