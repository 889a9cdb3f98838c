"""Real desks for tests: in process on a real socket, or as a subprocess on real pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, TypeVar, cast

import uvloop

from tests.fixtures.echo import echo
from tests.fixtures.probe import probe
from tracedesk.config import Settings
from tracedesk.contract import Toolset
from tracedesk.desk import Desk, open_desk
from tracedesk.primitives.time import Clock
from tracedesk.serve import build_app, listen
from tracedesk.wire.http import App, Bind, serving

T = TypeVar("T")
BOUND: Final = 40.0
"""Seconds that any one wait may take: far more than it does, for a machine that has other things to do."""
ROOT: Final = Path(__file__).parent.parent
VERSION: Final = "2026-07-28"
ENVELOPE: Final[dict[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO: Final[dict[str, Any]] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine on the loop the product uses, with an upper bound."""
    return uvloop.run(asyncio.wait_for(main, 100))


def rpc(method: str, params: Mapping[str, Any] | None = None, request_id: Any = 1) -> dict[str, Any]:
    """A handshake-era request."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return {**message, "params": dict(params)} if params is not None else message


def modern(method: str, params: Mapping[str, Any] | None = None, request_id: Any = 1) -> dict[str, Any]:
    """A self-contained request of the stateless era."""
    return rpc(method, {**(params or {}), "_meta": ENVELOPE}, request_id)


@dataclass(slots=True)
class Reply:
    """One HTTP answer, as its bytes."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def envelope(self) -> dict[str, Any]:
        """The error envelope inside a tool result."""
        result = self.json["result"]
        assert result["isError"] is True, result
        assert "structuredContent" not in result
        return json.loads(result["content"][0]["text"])

    @property
    def structured(self) -> Any:
        result = self.json["result"]
        assert result["isError"] is False, result
        return result["structuredContent"]


@dataclass(slots=True)
class Client:
    """A desk under test and raw HTTP/1.1 to it."""

    desk: Desk
    app: App
    port: int
    token: str
    session: str | None = None
    extra: dict[str, str] = field(default_factory=dict[str, str])

    async def raw(self, data: bytes) -> Reply:
        """Send bytes as they are and read one answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            return await asyncio.wait_for(read_reply(reader), BOUND)
        finally:
            writer.close()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Reply:
        return await self.raw(self.encode(method, path, body, headers))

    def encode(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> bytes:
        lines: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Accept": "application/json, text/event-stream",
        }
        if body is not None:
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines |= self.extra
        lines |= dict(headers or {})
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
        return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b"")

    async def post(self, path: str, value: Any, headers: Mapping[str, str | None] | None = None) -> Reply:
        return await self.request("POST", path, json.dumps(value).encode(), headers)

    async def modern(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Reply:
        message = modern(method, params)
        lines: dict[str, str | None] = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method}
        name = (params or {}).get("name") or (params or {}).get("uri")
        if name is not None:
            lines["Mcp-Name"] = str(name)
        return await self.post("/mcp", message, {**lines, **(headers or {})})

    async def call(
        self, tool: str, arguments: Any = None, headers: Mapping[str, str | None] | None = None
    ) -> Reply:
        return await self.modern("tools/call", {"name": tool, "arguments": arguments or {}}, headers)

    def authorised(self) -> Client:
        return replace(self, extra={**self.extra, "Authorization": f"Bearer {self.token}"})

    async def open_session(self) -> Client:
        """A client in a handshake-era session."""
        reply = await self.post("/mcp", rpc("initialize", HELLO))
        assert reply.status == 200, reply
        session = reply.headers["mcp-session-id"]
        return replace(self, session=session, extra={**self.extra, "Mcp-Session-Id": session})


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    status, headers = await read_head(reader)
    if status in (204, 304):
        body = b""
    elif "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    else:
        body = await read_chunks(reader)
    return Reply(status, headers, body)


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split()[1])
    lines = (line.split(": ", 1) for line in head[1:] if line)
    return status, {name.lower(): value for name, value in lines}


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while chunk := await read_chunk(reader):
        body += chunk
    return body


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readuntil(b"\r\n"), 16)
    data = await reader.readexactly(size)
    await reader.readexactly(2)
    return data


async def until(condition: Callable[[], bool], seconds: float = BOUND) -> None:
    """Wait, with an upper bound, for something that has no event to await."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], object], seconds: float = BOUND) -> None:
    """The same outside a loop."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it never came"
        time.sleep(0.01)


def events(body: bytes) -> list[Any]:
    """The JSON messages of an event stream."""
    lines = body.replace(b"\r\n", b"\n").split(b"\n")
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]


@asynccontextmanager
async def desk_client(
    home: Path,
    *,
    clock: Clock | None = None,
    extra: Iterable[Toolset[Any]] = (),
    behind_proxy: bool = False,
    origins: tuple[str, ...] = (),
    **settings: Any,
) -> AsyncGenerator[Client]:
    """A desk on a real socket of this process, with the test toolsets, and a client of it."""
    chosen = Settings(home=home, toolsets=("desk",), check_output=True, **settings)
    listener = listen("127.0.0.1", 0)
    bind = Bind(listener, behind_proxy=behind_proxy, origins=origins)
    async with open_desk(chosen, clock=clock, extra=[echo, probe, *extra]) as desk:
        app, token = build_app(desk, bind)
        async with serving(app, bind):
            yield Client(desk, app, listener.getsockname()[1], token)


class StdioDesk:
    """A desk in a subprocess, driven line by line."""

    def __init__(self, home: Path, *names: str, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fixtures.serve", "stdio", str(home), *(names or ("echo", "probe"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )

    @property
    def stdin(self) -> IO[bytes]:
        return cast("IO[bytes]", self.process.stdin)

    @property
    def stdout(self) -> IO[bytes]:
        return cast("IO[bytes]", self.process.stdout)

    def send(self, value: Any) -> None:
        self.send_bytes(json.dumps(value).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def read_line(self) -> bytes:
        return self.stdout.readline()

    def read(self) -> Any:
        line = self.read_line()
        assert line, self.stderr()
        return json.loads(line)

    def ask(self, value: Any) -> Any:
        self.send(value)
        return self.read()

    def stderr(self) -> str:
        self.process.kill()
        return self.process.communicate()[1].decode()

    def finish(self) -> tuple[int, bytes, str]:
        """Close the input and return exit code, remaining output and log."""
        out, log = self.process.communicate(timeout=BOUND)
        return self.process.returncode, out, log.decode()

    def __enter__(self) -> StdioDesk:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                cast("IO[bytes]", pipe).close()
