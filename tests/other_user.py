"""Real processes of another user of the machine, for tests that run as root."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.support import BOUND, ROOT

UID: Final = 12_345
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="another user is a real process here, and only root can start one"
)

# The user changes when everything is imported: the interpreter itself may be out of that user's reach.
_BECOME: Final = """
import asyncio, encodings.idna, json, os, socket, sys
{imports}
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
"""

_ASK: Final = (
    _BECOME.format(imports="")
    + """
def ask(place, method, path, headers, body):
    with socket.create_connection(place, 30) as link:
        data = body.encode()
        lines = {"Host": "127.0.0.1:%d" % place[1], "Connection": "close", **headers}
        if method == "POST":
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        head = "".join("%s: %s\\r\\n" % pair for pair in lines.items())
        link.sendall(("%s %s HTTP/1.1\\r\\n%s\\r\\n" % (method, path, head)).encode() + data)
        raw = link.makefile("rb")
        status = int(raw.readline().split()[1])
        found = {}
        for line in iter(raw.readline, b"\\r\\n"):
            name, _, value = line.decode().partition(": ")
            found[name.lower()] = value.strip()
        return status, found, raw.read(int(found.get("content-length", 0))).decode()

for line in sys.stdin:
    order = json.loads(line)
    print(json.dumps(ask(("127.0.0.1", order["port"]), *order["request"])), flush=True)
"""
)

_FORWARD: Final = (
    _BECOME.format(imports="")
    + """
async def carry(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def link(reader, writer):
    behind, to = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(carry(reader, to), carry(behind, writer), return_exceptions=True)

async def main():
    server = await asyncio.start_server(link, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
)


@dataclass(slots=True)
class Answer:
    """One HTTP answer that the other user got."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class OtherUser:
    """A process of another user that sends requests to a port of this machine."""

    process: asyncio.subprocess.Process
    port: int

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        text = "" if body is None else json.dumps(body)
        lines = {"Accept": "application/json, text/event-stream", **(headers or {})}
        order = {"port": self.port, "request": [method, path, lines, text]}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        line = await asyncio.wait_for(self.process.stdout.readline(), BOUND)
        return Answer(*json.loads(line))

    async def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        return await self.request("POST", path, body, headers)


@asynccontextmanager
async def running(script: str, *arguments: str, uid: int = UID) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A Python process of that user."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        str(uid),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        limit=1 << 22,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def other_user(port: int, uid: int = UID) -> AsyncGenerator[OtherUser]:
    """Another user who sends requests to that port."""
    async with running(_ASK, uid=uid) as process:
        yield OtherUser(process, port)


@asynccontextmanager
async def proxy_of(uid: int, port: int) -> AsyncGenerator[int]:
    """A proxy that a user runs before that port; yields the proxy's own port."""
    async with running(_FORWARD, str(port), uid=uid) as process:
        assert process.stdout is not None
        yield int(await asyncio.wait_for(process.stdout.readline(), BOUND))


def become(imports: Sequence[str] = ()) -> str:
    """The beginning of a script that changes its user once these modules are imported."""
    return _BECOME.format(imports="\n".join(f"import {name}" for name in imports))
