"""The official low-level server on its own stdio transport."""

from __future__ import annotations

import asyncio

from mcp.server.stdio import stdio_server

from benchmarks.servers.stock_tool import build


async def main() -> None:
    server = build()
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
