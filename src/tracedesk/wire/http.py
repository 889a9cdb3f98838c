"""The desk's HTTP app: one guard, one session table, every route."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import uvicorn

from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.supervision import persist
from tracedesk.wire import page
from tracedesk.wire.auth import Identity
from tracedesk.wire.carried import Carried
from tracedesk.wire.door import Door, openapi
from tracedesk.wire.guard import METADATA_PATH, Guard, metadata
from tracedesk.wire.heads import BoundedProtocol
from tracedesk.wire.intake import Intakes
from tracedesk.wire.kernel import Kernel
from tracedesk.wire.origins import preflight, readable
from tracedesk.wire.quota import Quota, backlog
from tracedesk.wire.request import Receive, Refused, Request, Response, Scope, Send, no_room
from tracedesk.wire.sessions import SessionTable
from tracedesk.wire.streams import Streams

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 3
_SAFE_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}

Route = Callable[[Request, Identity, Send], Awaitable[None]]


class App:
    """The ASGI application."""

    def __init__(
        self,
        kernel: Kernel,
        sessions: SessionTable,
        guard: Guard,
        base: str,
        health: Callable[[], dict[str, Any]],
        carried: Carried,
        quota: Quota | None = None,
    ) -> None:
        self.quota = Quota() if quota is None else quota
        self.streams = Streams(kernel, sessions, guard, carried)
        self.sessions = sessions
        self._guard = guard
        self._base = base
        self._kernel = kernel
        self._door = Door(kernel.dispatch, guard)
        self._intakes = Intakes(kernel.dispatch, guard)
        self._health = health
        self._mcp: dict[tuple[str, str], Route] = {
            ("POST", "/mcp"): self.streams.post,
            ("GET", "/mcp"): self.streams.get,
            ("DELETE", "/mcp"): self.streams.delete,
            ("POST", "/mcp/sse"): self.streams.shake_hands,
            ("GET", "/mcp/sse"): self.streams.open_stream,
            ("DELETE", "/mcp/sse"): self.streams.delete,
            ("POST", "/mcp/message"): self.streams.message,
        }
        self._pages: dict[str, Callable[[], Response]] = {
            "/": self._home,
            "/page.css": lambda: Response(200, page.STYLE, "text/css; charset=utf-8"),
            "/page.js": lambda: Response(200, page.SCRIPT, "text/javascript; charset=utf-8"),
            "/health": lambda: Response.of(self.figures()),
            "/openapi.json": lambda: Response.of(openapi(kernel.registry, base)),
            METADATA_PATH: lambda: Response.of(metadata(base)),
            f"{METADATA_PATH}/mcp": lambda: Response.of(metadata(base)),
        }

    def figures(self) -> dict[str, Any]:
        """Counts, and nothing that names anyone."""
        return {
            **self._health(),
            "sessions": len(self.sessions),
            "maxSessions": self.sessions.limit,
            "openStreams": self.streams.open_streams,
            "callsInFlight": self._kernel.dispatch.in_flight,
        }

    def _home(self) -> Response:
        body = page.render(self._kernel.registry, self._base, self.figures())
        return Response(200, body, "text/html; charset=utf-8")

    async def close(self) -> None:
        """End every stream and every call."""
        self._door.close()
        await self.streams.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        origin = request.headers.get("origin")
        if origin is not None and origin in self._guard.names.origins:
            send = readable(send, origin)
        try:
            await self._route(request, send)
        except Refused as refused:
            await refused.response.send(send)
        except ConnectionResetError:
            log.debug("a client left while sending")
        except Exception:
            correlation = uuid7()
            log.exception("request %s failed", correlation)
            message = f"{correlation}: the desk failed inside. Report this id; its log has the cause."
            with contextlib.suppress(RuntimeError):  # an answer may have begun already
                await Response.of({"error": {"message": message}}, 500).send(send)

    async def _route(self, request: Request, send: Send) -> None:
        intake = self._intakes.at(request)
        self._guard.check(request, intake.remedy if intake else "")
        if request.method == "OPTIONS" and request.headers.get("origin") in self._guard.names.origins:
            await preflight(request).send(send)
            return
        route = self._mcp.get((request.method, request.path))
        if route is not None:
            await route(request, self._identify(request), send)
        elif intake is not None:
            response = await self._intakes.take(request, self._identify(request), intake)
            await response.send(send)
        elif request.path.startswith("/tools/") and request.method == "POST":
            identity = self._identify(request)
            response = await self._door.call(request, identity, request.path.removeprefix("/tools/"))
            await response.send(send)
        else:
            await self._page(request).send(send, head_only=request.method == "HEAD")

    def _identify(self, request: Request) -> Identity:
        """The sender of a request that finds room; only a token is never refused."""
        identity = self._guard.identify(request)
        connection = request.connection
        if connection is not None:
            if not self.quota.identified(connection, has_token=identity.credential is not None):
                raise no_room("connections")
            request.has_room = partial(self.quota.receive, connection)
        return identity

    def _page(self, request: Request) -> Response:
        build = self._pages.get(request.path)
        if build is not None and request.method in ("GET", "HEAD"):
            if request.path != "/health" and not request.path.startswith(METADATA_PATH):
                self._identify(request)
            return replace(build(), headers=_SAFE_HEADERS)
        allowed = {method for method, path in self._mcp if path == request.path}
        allowed |= {"GET", "HEAD"} if build is not None else set()
        allowed |= (
            {"POST"} if request.path.startswith("/tools/") or self._intakes.has(request.path) else set()
        )
        if allowed:
            names = ", ".join(sorted(allowed))
            raise Refused(405, f"Use {names} here", {"Allow": names})
        raise Refused(404, "Nothing is served here; / says what is")


@dataclass(frozen=True, slots=True)
class Bind:
    """The socket the app listens on, and how it is reached."""

    listener: socket.socket
    host: str = "127.0.0.1"
    tls: tuple[str, str] | None = None
    behind_proxy: bool = False
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        scheme = "https" if self.tls else "http"
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{name}:{self.listener.getsockname()[1]}"


class _Server(uvicorn.Server):
    """uvicorn with our own signals and without its polling: it wakes once a second, and stops at once."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._stop = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()

    async def main_loop(self) -> None:
        await persist("HTTP server", self._tick)

    async def _tick(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), 1.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        running = set(self.server_state.tasks)
        if running:
            _, late = await asyncio.wait(running, timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: App, bind: Bind) -> AsyncGenerator[_Server]:
    """A running server; it has its port when the body runs, and is stopped when the body ends."""
    config = uvicorn.Config(
        app,
        http=partial(BoundedProtocol, app.quota),  # pyright: ignore[reportArgumentType]
        backlog=backlog(app.quota.room),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        ssl_certfile=bind.tls[0] if bind.tls else None,
        ssl_keyfile=bind.tls[1] if bind.tls else None,
        proxy_headers=bind.behind_proxy,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()
    serve = loop.create_task(server.serve(sockets=[bind.listener]))
    sweeping = loop.create_task(app.sessions.keep_swept())
    try:
        started = loop.create_task(server.listening.wait())
        await asyncio.wait({serve, started}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if serve.done():
            await serve
        yield server
    finally:
        sweeping.cancel()
        await app.close()
        server.stop()
        await serve
        bind.listener.close()


async def run(app: App, bind: Bind, ready: Callable[[], None]) -> None:
    """Serve until a signal asks to stop."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving(app, bind):
        ready()
        await stop.wait()
