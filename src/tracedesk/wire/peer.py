"""A handshake-era client: its connection, the requests in flight both ways, its subscriptions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

from tracedesk.wire.exchange import Emit, Exchange, RequestId, notification, request
from tracedesk.wire.sdk import (
    CallOptions,
    Connection,
    InitializationOptions,
    MCPError,
    ServerRunner,
    aclose_shielded,
)
from tracedesk.wire.watches import Watch

_CLOSED = -32000
_INVALID_REQUEST = -32600
_BEFORE_HANDSHAKE = frozenset(("initialize", "ping"))
_MALFORMED = -32600

Own = Callable[[Exchange, str, Mapping[str, Any] | None], Awaitable[dict[str, Any]] | None]
"""`(exchange, method, params) -> the answer` to what is answered without the SDK; None for all else."""


class Peer:
    """One client that shook hands; stdio has one, each HTTP session is one."""

    def __init__(
        self,
        server: Any,
        own: Own,
        standalone: Emit,
        session_id: str | None = None,
        options: InitializationOptions | None = None,
    ) -> None:
        self.connection = Connection.for_loop(self, session_id=session_id)
        self.subscriptions: dict[str, Watch] = {}
        """By the URI as the client gave it."""
        self.in_flight: dict[RequestId, asyncio.Task[Any]] = {}
        self.running: set[asyncio.Task[Any]] = set()
        """The tasks of all requests; of those with one id, only the last is in flight by it."""
        self._runner = ServerRunner(server, self.connection, None, init_options=options)
        self._own = own
        self._standalone = standalone
        self._ids = itertools.count(1)
        self._pending: dict[RequestId, asyncio.Future[dict[str, Any]]] = {}

    @property
    def ready(self) -> bool:
        """Whether the client has shaken hands."""
        return self.connection.client_params is not None

    async def answer(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Run one request and return its result; `initialize` comes first, and once."""
        if method == "initialize" and self.ready:
            raise MCPError(_INVALID_REQUEST, "This connection is initialized already; open another")
        if not self.ready and method not in _BEFORE_HANDSHAKE:
            raise MCPError(_INVALID_REQUEST, f"Send initialize before {method}")
        own = self._own(exchange, method, params)
        return await (self._runner.on_request(exchange, method, params) if own is None else own)

    def track(self, request_id: RequestId, task: asyncio.Task[Any]) -> None:
        """Let the client cancel `task` by the id of its request while it runs."""
        self.hold(request_id, task)
        task.add_done_callback(partial(self.forget, request_id))

    def hold(self, request_id: RequestId, task: asyncio.Task[Any]) -> None:
        """The same for a task that has itself forgotten: a callback would cost more than a short call."""
        self.in_flight[request_id] = task
        self.running.add(task)

    def forget(self, request_id: RequestId, done: asyncio.Task[Any]) -> None:
        """Let go of a task; another one of the same id stays."""
        self.running.discard(done)
        if self.in_flight.get(request_id) is done:
            del self.in_flight[request_id]

    async def hear(self, exchange: Exchange, method: str, params: Mapping[str, Any] | None) -> None:
        """Take one notification."""
        if method == "notifications/cancelled":
            self.cancel((params or {}).get("requestId"))
        if not self.ready:
            return
        await self._runner.on_notify(exchange, method, params)

    def cancel(self, request_id: Any) -> None:
        """Cancel a request in flight, if it is one."""
        task = self.in_flight.get(request_id) if isinstance(request_id, (int, str)) else None
        if task is not None:
            # One that has not begun yet never comes to have itself forgotten.
            task.add_done_callback(partial(self.forget, request_id))
            task.cancel()

    async def request(self, method: str, params: Mapping[str, Any] | None, emit: Emit) -> dict[str, Any]:
        """Put a request to the client over `emit` and wait for its result."""
        request_id = next(self._ids)
        waiter: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = waiter
        try:
            await emit(request(request_id, method, params))
            return await waiter
        finally:
            self._pending.pop(request_id, None)

    def settle(self, message: Mapping[str, Any]) -> None:
        """Hand the client's response to whoever waits for it."""
        waiter = self._pending.get(message.get("id"))  # pyright: ignore[reportArgumentType]
        if waiter is None or waiter.done():
            return
        answer = message.get("result")
        if isinstance(answer, dict):
            waiter.set_result(cast("dict[str, Any]", answer))
        else:
            waiter.set_exception(_failure(message.get("error")))

    # --- the SDK's standalone channel

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        return await self.request(method, params, self._standalone)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._standalone(notification(method, params))

    def abandon(self) -> None:
        """Fail the questions that wait for the client: it can answer no more."""
        for waiter in self._pending.values():
            if not waiter.done():
                waiter.set_exception(MCPError(_CLOSED, "Connection closed"))

    async def close(self) -> None:
        """Cancel what runs, fail what waits, and unwind the connection."""
        for task in tuple(self.in_flight.values()):
            task.cancel()
        self.abandon()
        await aclose_shielded(self.connection)


def _failure(error: Any) -> MCPError:
    """The client's error; a response that is neither a result nor an error is one too."""
    body = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    code, text = body.get("code"), body.get("message")
    if isinstance(code, int) and isinstance(text, str):
        return MCPError(code, text)
    return MCPError(_MALFORMED, "the response has neither a result nor an error")
