"""The official MCP client, connected to a desk of a home over either door."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

Mode = Literal["auto", "legacy"]


class _Door(Protocol):
    @property
    def token(self) -> str: ...
    @property
    def port(self) -> int: ...


class _Agent(Protocol):
    @property
    def client(self) -> _Door: ...


@asynccontextmanager
async def connected(
    transport: str, mode: Mode, home: Path, toolset: str, agent: AbstractAsyncContextManager[_Agent]
) -> AsyncGenerator[Client]:
    """A client of a desk of its own: a subprocess on pipes, or `agent`'s socket with the owner's token.

    The subprocess reads the projects beside the home.
    """
    if transport == "stdio":
        words = ["-m", "tracedesk.cli", "--home", str(home), "serve", "--stdio", "--toolsets", toolset]
        words += ["--root", str(home.parent)]
        server = StdioServerParameters(command=sys.executable, args=words, cwd=str(home.parent))
        async with Client(server, mode=mode) as client:
            yield client
        return
    async with agent as found:
        headers = {"Authorization": f"Bearer {found.client.token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            way = streamable_http_client(f"http://127.0.0.1:{found.client.port}/mcp", http_client=http)
            async with Client(way, mode=mode) as client:
                yield client
