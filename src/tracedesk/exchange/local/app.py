"""The local exchange on a wire: REST, streams and the WebSocket API on one port of this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from tracedesk.exchange.local import rest, streams
from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.exchange import LocalExchange
from tracedesk.exchange.local.sockets import Socket
from tracedesk.exchange.local.wsapi import ApiSocket

HOST: Final = "127.0.0.1"
LOOPBACK: Final = frozenset({HOST, "localhost", "::1"})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Opener = Callable[[LocalExchange, web.Request], Socket]


@dataclass(frozen=True, slots=True)
class Address:
    """Where an exchange answers."""

    port: int

    @property
    def rest(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def streams(self) -> str:
        return f"ws://{HOST}:{self.port}"

    @property
    def ws_api(self) -> str:
        return f"ws://{HOST}:{self.port}/ws-api/v3"

    def document(self) -> dict[str, str]:
        return {"rest": self.rest, "streams": self.streams, "ws_api": self.ws_api}


def make_app(exchange: LocalExchange) -> web.Application:
    """The routes of the exchange."""

    async def api(request: web.Request) -> web.StreamResponse:
        return await rest.handle(exchange, request)

    @web.middleware
    async def used(request: web.Request, handler: Handler) -> web.StreamResponse:
        with exchange.use.busy():  # a socket's handler ends with the socket
            return await handler(request)

    app = web.Application(middlewares=[_local_only, used])
    app.router.add_route("*", "/api/v3/{path:.*}", api)
    for path, opened in (
        ("/ws", streams.raw),
        ("/ws/{names:.*}", streams.raw),
        ("/stream", streams.combined),
        ("/stream/", streams.combined),
        ("/ws-api/v3", ApiSocket),
    ):
        app.router.add_get(path, _socket(exchange, opened))
    return app


def _socket(exchange: LocalExchange, opened: Opener) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        try:
            exchange.limits.connect(request.remote or "")
            socket = opened(exchange, request)
        except Refused as refused:
            after = {} if refused.retry_after_s is None else {"Retry-After": str(refused.retry_after_s)}
            return rest.respond(refused.document(), refused.status, after)
        return await socket.serve()

    return handler


@web.middleware
async def _local_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer programs of this machine, and no page that a browser was led here from."""
    origin = request.headers.get("Origin")
    foreign = origin is not None and origin != f"http://{request.host}"
    if foreign or not _is_own_host(request) or not _is_loopback(request.remote):
        return web.Response(status=403, text="The local exchange answers programs of this machine only.")
    return await handler(request)


def _is_own_host(request: web.Request) -> bool:
    """True for a loopback name with the port of this socket, and for nothing that only looks like one."""
    own = None if request.transport is None else request.transport.get_extra_info("sockname")
    names = (f"[{name}]" if ":" in name else name for name in LOOPBACK)
    return own is not None and request.host.lower() in {f"{name}:{own[1]}" for name in names}


def _is_loopback(address: str | None) -> bool:
    return address is not None and ip_address(address).is_loopback


@asynccontextmanager
async def serving(exchange: LocalExchange, port: int = 0) -> AsyncGenerator[Address]:
    """Serve on a port of this machine, or a free one, while the body runs."""
    runner = web.AppRunner(make_app(exchange), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        await site.start()
        yield Address(runner.addresses[0][1])
        await exchange.shut_down()
    finally:
        await runner.cleanup()
