"""MCP over HTTP: self-contained requests, sessions, and the streams that carry their messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from tracedesk.errors import NotPermitted
from tracedesk.wire import exchange as rpc
from tracedesk.wire.auth import Identity
from tracedesk.wire.carried import Carried
from tracedesk.wire.documents import AT_ONCE
from tracedesk.wire.exchange import Exchange
from tracedesk.wire.guard import Guard
from tracedesk.wire.inbound import INVALID_REQUEST, Inbound, Malformed, read, read_long
from tracedesk.wire.kernel import Kernel
from tracedesk.wire.outlet import Outlet
from tracedesk.wire.request import (
    PING,
    Refused,
    Request,
    Response,
    Send,
    end_events,
    event,
    send_events,
    start_events,
)
from tracedesk.wire.sdk import (
    ERROR_CODE_HTTP_STATUS,
    HANDSHAKE_PROTOCOL_VERSIONS,
    InboundLadderRejection,
    TransportContext,
    classify_inbound_request,
    find_duplicated_routing_header,
    modern_error_data,
    types,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from tracedesk.wire.sessions import Session, SessionTable

log = logging.getLogger(__name__)

PING_SECONDS: Final = 15.0
_WATCH_AFTER: Final = 0.05
_ONE_WAY: Final = TransportContext(kind="http", can_send_request=False)
_DUPLEX: Final = TransportContext(kind="http", can_send_request=True)
_SESSION_HEADERS: Final = ("connection-id", "x-connection-id", "mcp-session-id")
_DEFAULT_HELLO: Final = {
    "protocolVersion": HANDSHAKE_PROTOCOL_VERSIONS[-1],
    "capabilities": {},
    "clientInfo": {"name": "unnamed", "version": "0"},
}

Work = Callable[[], Awaitable[dict[str, Any]]]


class Answered:
    """How a request ended: a message for the client, the HTTP status it deserves, extra headers."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.body = body
        self.status = status
        self.headers = headers or {}

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        return Response(self.status, self.body, headers={**self.headers, **(headers or {})})


class Streams:
    """The MCP routes of the HTTP app."""

    def __init__(self, kernel: Kernel, sessions: SessionTable, guard: Guard, carried: Carried) -> None:
        self.kernel = kernel
        self.sessions = sessions
        self.open_streams = 0
        self._guard = guard
        self._carried = carried
        self._running: set[asyncio.Task[Any]] = set()

    # --- /mcp

    async def post(self, request: Request, identity: Identity, send: Send) -> None:
        """A message of either era."""
        message = await _parse(await request.body(), self.kernel, identity)
        version = request.headers.get("mcp-protocol-version")
        foreign = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
        if foreign or (message.claims_modern and message.method != "initialize"):
            await self._post_modern(request, message, identity, send)
            return
        identifier = _session_id(request)
        if identifier is None and message.method == "initialize":
            await self._hello(request, message, identity, send)
            return
        session = self._session(request, identity)
        with self.sessions.busy(session):
            await self._post_session(request, message, session, send)

    async def get(self, request: Request, identity: Identity, send: Send) -> None:
        """A session's own stream, for what the server says unasked."""
        if _session_id(request) is None:
            raise Refused(405, "GET needs a session; POST messages here", {"Allow": "POST"})
        session = self._session(request, identity)
        if session.streaming:
            raise Refused(409, "This session has its stream open already")
        with self.sessions.busy(session):
            await start_events(send, {"Mcp-Session-Id": session.id})
            await self._pump(session, request, send)

    async def delete(self, request: Request, identity: Identity, send: Send) -> None:
        """End a session and wipe its credentials."""
        self.sessions.end(self._session(request, identity))
        await Response(204).send(send)

    # --- /mcp/sse and /mcp/message

    async def shake_hands(self, request: Request, identity: Identity, send: Send) -> None:
        """Open a session with one POST: an `initialize` request, or nothing at all."""
        body = await request.body()
        message = await _hello_of(body, self.kernel, identity)
        await self._hello(request, message, identity, send)

    async def message(self, request: Request, identity: Identity, send: Send) -> None:
        """A message of a session: answered here, or on the deprecated stream that named this address."""
        named = request.query("session_id")
        session = self._session(request, identity, named)
        if named is not None and not session.deprecated:
            raise Refused(409, "This address belongs to the deprecated stream; name the session in a header")
        with self.sessions.busy(session):
            message = await _parse(await request.body(), self.kernel, identity)
            if named is not None:
                if session.outlet.is_full:
                    message = "Read the answers that wait on the session's stream, then send again"
                    raise Refused(503, message, {"Retry-After": "1"})
                await self._to_stream(message, session)
                await Response(202).send(send)
            elif message.kind == "request":
                answered = await self._answer_peer(message, session, session.outlet)
                await answered.response(_session_names(session)).send(send)
            else:
                await self._hear(message, session)
                await Response(202).send(send)

    async def open_stream(self, request: Request, identity: Identity, send: Send) -> None:
        """The deprecated transport: a stream that first says where to post."""
        session = self._admit(request, identity)
        session.deprecated = session.streaming = True
        with self.sessions.busy(session):
            await start_events(send, _session_names(session))
            place = f"/mcp/message?session_id={session.id}".encode()
            await send_events(send, event(place, "endpoint"))
            await self._pump(session, request, send)
        self.sessions.end(session)

    # --- the stateless era

    async def _post_modern(self, request: Request, message: Inbound, identity: Identity, send: Send) -> None:
        version = request.headers.get("mcp-protocol-version", "")
        if message.kind == "notification":
            unsupported = unsupported_protocol_version_rejection(version)
            if unsupported is not None:
                await _rejected(unsupported, None).response().send(send)
            else:
                await Response(202).send(send)
            return
        if message.kind == "response":
            raise Refused(400, "The stateless era has no responses from clients; retry with inputResponses")
        if not request.accepts("application/json") or not request.accepts("text/event-stream"):
            raise Refused(406, "Accept application/json and text/event-stream")
        rejection = self._routing_fault(request, message)
        if rejection is not None:
            await _rejected(rejection, message.id).response().send(send)
            return
        await self._serve_modern(request, message, identity, send)

    def _routing_fault(self, request: Request, message: Inbound) -> InboundLadderRejection | None:
        duplicated = find_duplicated_routing_header(request.header_lines())
        if duplicated is not None:
            return InboundLadderRejection(types.HEADER_MISMATCH, f"{duplicated} appears more than once")
        route = classify_inbound_request(message.body, headers=request.headers)
        if isinstance(route, InboundLadderRejection):
            return route
        return self._parameter_fault(request, message)

    def _parameter_fault(self, request: Request, message: Inbound) -> InboundLadderRejection | None:
        if message.method != "tools/call":
            return None
        params = message.params or {}
        tool = self.kernel.registry.tools.get(str(params.get("name")))
        arguments: Any = params.get("arguments") or {}
        if tool is None or not isinstance(arguments, dict) or not tool.header_parameters:
            return None
        return validate_mcp_param_headers(tool.input, arguments, request.headers)  # pyright: ignore[reportUnknownArgumentType]

    async def _serve_modern(self, request: Request, message: Inbound, identity: Identity, send: Send) -> None:
        meta = (message.params or {})["_meta"]
        connection = self.kernel.connection(
            meta[types.PROTOCOL_VERSION_META_KEY],
            meta.get(types.CLIENT_INFO_META_KEY),
            meta.get(types.CLIENT_CAPABILITIES_META_KEY),
        )
        outlet = Outlet()
        exchange = Exchange(message.id, message.params, connection, outlet.emit, identity, transport=_ONE_WAY)
        task = self._start(
            exchange, lambda: self.kernel.answer_modern(exchange, message.method, message.params), outlet
        )
        await self._deliver(task, outlet, request, send, cancel_on_leave=True)

    # --- the handshake era

    def _admit(self, request: Request, identity: Identity) -> Session:
        credentials = self._carried.read(request)
        session = self.sessions.admit(identity, request.remote, request.headers.get("user-agent"))
        if session is None:
            wait = self.sessions.retry_after()
            message = f"All {self.sessions.limit} sessions are taken; one may be free in {wait} seconds"
            raise Refused(503, message, {"Retry-After": str(wait)})
        self._carried.keep(session.identity.scope, credentials)
        return session

    def _session(self, request: Request, identity: Identity, named: str | None = None) -> Session:
        identifier = named or _session_id(request)
        if identifier is None:
            raise Refused(
                400, "Send the session's id in Mcp-Session-Id or Connection-ID, or initialize first"
            )
        session = self.sessions.find(identifier, identity)
        if session is None:
            raise Refused(404, "No such session: it expired, ended or never was. Initialize again")
        return session

    async def _hello(self, request: Request, message: Inbound, identity: Identity, send: Send) -> None:
        session = self._admit(request, identity)
        with self.sessions.busy(session):
            answered = await self._answer_peer(message, session, session.outlet)
            if not session.peer.ready:
                self.sessions.end(session)
                await answered.response().send(send)
                return
            await answered.response(_session_names(session)).send(send)

    async def _post_session(self, request: Request, message: Inbound, session: Session, send: Send) -> None:
        if message.kind != "request":
            await self._hear(message, session)
            await Response(202).send(send)
            return
        outlet = Outlet()
        task = self._start_peer(message, session, outlet)
        await self._deliver(task, outlet, request, send, cancel_on_leave=False)

    async def _hear(self, message: Inbound, session: Session) -> None:
        if message.kind == "response":
            session.peer.settle(message.body)
            return
        exchange = self._exchange(message, session, session.outlet)
        await session.peer.hear(exchange, message.method, message.params)

    async def _to_stream(self, message: Inbound, session: Session) -> None:
        if message.kind != "request":
            await self._hear(message, session)
            return
        task = self._start_peer(message, session, session.outlet)

        async def forward() -> None:
            answered = await _settled(task)
            if answered is not None:
                await session.outlet.emit(answered.body)

        self._keep(asyncio.get_running_loop().create_task(forward()))

    def _exchange(self, message: Inbound, session: Session, outlet: Outlet) -> Exchange:
        """The exchange of a message; on the session's own outlet, which may have no reader, nothing waits."""
        shared = outlet is session.outlet
        return Exchange(
            message.id,
            message.params,
            session.peer.connection,
            outlet.offer if shared else outlet.emit,
            session.identity,
            transport=_DUPLEX,
            asker=session.peer if session.streaming or not shared else None,
            asks=outlet.emit,
        )

    def _start_peer(self, message: Inbound, session: Session, outlet: Outlet) -> asyncio.Task[Answered]:
        assert message.id is not None
        exchange = self._exchange(message, session, outlet)
        task = self._start(
            exchange, lambda: session.peer.answer(exchange, message.method, message.params), outlet
        )
        session.peer.track(message.id, task)
        if message.method == "tools/call":
            self.sessions.called(session, task)
        return task

    async def _answer_peer(self, message: Inbound, session: Session, outlet: Outlet) -> Answered:
        answered = await _settled(self._start_peer(message, session, outlet))
        return answered or Answered(b"", 202)

    # --- running and delivering

    def _start(self, exchange: Exchange, work: Work, outlet: Outlet) -> asyncio.Task[Answered]:
        task = asyncio.get_running_loop().create_task(_answer(exchange, work, outlet, self._guard))
        task.add_done_callback(outlet.wake)
        return self._keep(task)

    def _keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _deliver(
        self,
        task: asyncio.Task[Answered],
        outlet: Outlet,
        request: Request,
        send: Send,
        *,
        cancel_on_leave: bool,
    ) -> None:
        """Plain JSON when nothing precedes the answer, an event stream when something does."""
        await outlet.wait(_WATCH_AFTER)
        if not task.done():
            await self._deliver_slow(task, outlet, request, send, cancel_on_leave)
        elif outlet or task.cancelled():
            await self._stream(task, outlet, send)
        else:
            await task.result().response().send(send)
        outlet.close()

    async def _deliver_slow(
        self,
        task: asyncio.Task[Answered],
        outlet: Outlet,
        request: Request,
        send: Send,
        cancel_on_leave: bool,
    ) -> None:
        def gone(_: object) -> None:
            outlet.close()
            if cancel_on_leave:
                task.cancel()

        watcher = asyncio.get_running_loop().create_task(request.left())
        watcher.add_done_callback(gone)
        self.open_streams += 1
        try:
            await outlet.wait(PING_SECONDS)
            if task.done() and not outlet and not task.cancelled():
                await task.result().response().send(send)
            elif not watcher.done():
                await self._stream(task, outlet, send)
        finally:
            self.open_streams -= 1
            watcher.remove_done_callback(gone)
            watcher.cancel()

    async def _stream(self, task: asyncio.Task[Answered], outlet: Outlet, send: Send) -> None:
        await start_events(send)
        while not outlet.closed:
            for data in outlet.take():
                await send_events(send, event(data))
            if task.done() and not outlet:
                break
            await outlet.wait(PING_SECONDS)
            if not outlet and not task.done() and not outlet.closed:
                await send_events(send, PING)
        if task.done() and not task.cancelled():
            await send_events(send, event(task.result().body))
        await end_events(send)

    async def _pump(self, session: Session, request: Request, send: Send) -> None:
        """Carry a session's own messages until the client leaves or the session ends."""
        session.streaming = True
        self.open_streams += 1
        watcher = asyncio.get_running_loop().create_task(request.left())
        watcher.add_done_callback(session.outlet.wake)
        if request.connection is not None:
            request.connection.carry(session.outlet)
        try:
            while not watcher.done() and not session.outlet.closed:
                await session.outlet.wait(PING_SECONDS)
                waiting = session.outlet.take()
                data = b"".join(map(event, waiting)) or PING
                if not watcher.done():
                    await send_events(send, data)
            if not watcher.done():
                await end_events(send)
        finally:
            session.streaming = False
            self.open_streams -= 1
            watcher.cancel()
            if request.connection is not None:
                request.connection.carry(None)

    async def close(self) -> None:
        """End every stream and everything that runs."""
        self.kernel.listen.close()
        await self.sessions.close()
        if self._running:
            await asyncio.wait(self._running, timeout=1.0)
        for task in self._running:
            task.cancel()


async def _answer(exchange: Exchange, work: Work, outlet: Outlet, guard: Guard) -> Answered:
    """Run a request to the message that answers it; failures become its error."""
    assert exchange.request_id is not None
    try:
        result = await work()
        outlet.wake()  # before the task is seen to be done: one turn of the loop less
        return Answered(rpc.result(exchange.request_id, result))
    except Exception as failure:
        data = modern_error_data(failure)
        body = rpc.error(exchange.request_id, data.code, data.message, data.data)
        if isinstance(exchange.denied, NotPermitted):
            return Answered(body, *guard.denial(exchange.denied))
        status = ERROR_CODE_HTTP_STATUS.get(data.code, 200) if exchange.is_modern else 200
        return Answered(body, status)


async def _settled(task: asyncio.Task[Answered]) -> Answered | None:
    """The task's answer; None when the client cancelled it."""
    await asyncio.wait({task})
    return None if task.cancelled() else task.result()


async def _parse(body: bytes, kernel: Kernel, identity: Identity) -> Inbound:
    try:
        if len(body) <= AT_ONCE:
            return read(body)
        return await read_long(body, kernel.dispatch.documents, stranger=identity.principal is None)
    except Malformed as fault:
        refusal = Refused(400, fault.message)
        refusal.response = Response(400, rpc.error(fault.request_id, fault.code, fault.message))
        raise refusal from None


def _rejected(rejection: InboundLadderRejection, request_id: Any) -> Answered:
    body = rpc.error(request_id, rejection.code, rejection.message, rejection.data)
    return Answered(body, ERROR_CODE_HTTP_STATUS.get(rejection.code, 400))


def _session_id(request: Request) -> str | None:
    return next((request.headers[name] for name in _SESSION_HEADERS if name in request.headers), None)


def _session_names(session: Session) -> dict[str, str]:
    return {"Connection-ID": session.id, "Mcp-Session-Id": session.id}


async def _hello_of(body: bytes, kernel: Kernel, identity: Identity) -> Inbound:
    """The `initialize` request in a handshake's body, with defaults for what it leaves out."""
    if not body.strip():
        return Inbound("request", {}, 0, "initialize", _DEFAULT_HELLO)
    message = await _parse(body, kernel, identity)
    if message.kind != "request" or message.method != "initialize":
        refusal = Refused(400, "A handshake is an initialize request, or an empty body")
        fault = rpc.error(message.id, INVALID_REQUEST, str(refusal))
        refusal.response = Response(400, fault)
        raise refusal
    return Inbound(
        "request", message.body, message.id, "initialize", {**_DEFAULT_HELLO, **(message.params or {})}
    )
