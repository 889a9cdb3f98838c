"""Connects the official MCP client to a desk over stdio, calls a tool, and follows the call back.

Run it with `python examples/ask_the_desk.py` once `make setup` has been done.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent


async def main(home: Path) -> None:
    desk = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tracedesk.cli", "--home", str(home), "serve", "--stdio"],
    )
    async with Client(stdio_client(desk)) as client:
        tools = await client.list_tools()
        print("tools:", ", ".join(tool.name for tool in tools.tools))

        status = await client.call_tool("desk_status", {})
        facts: dict[str, Any] = status.structured_content or {}
        print("version:", facts["version"])

        # Every answer names its own call; the reference leads back to what was asked and answered.
        reference = (status.meta or {})["tracedesk/call"]
        source = await client.call_tool("get_source", {"ref": reference})
        block = source.content[0]
        assert isinstance(block, TextContent)
        record = json.loads(block.text)
        print("traced:", record["kind"], record["body"]["tool"], record["body"]["outcome"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
