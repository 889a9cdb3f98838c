"""Lets the desk fuzz a vault, waits for the bug, and asks for the calls that show it.

Run it with `python examples/fuzz_a_vault.py` once `make setup` has been done.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

VAULT = Path(__file__).parent / "vault" / "vault.vy"


async def main(home: Path) -> None:
    desk = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tracedesk.cli", "--home", str(home), "serve", "--stdio", "--toolsets", "fuzz"],
        cwd=VAULT.parent,
    )
    async with Client(stdio_client(desk)) as client:

        async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            return (await client.call_tool(tool, arguments)).structured_content or {}

        started = await ask("start_campaign", path=str(VAULT), workers=1, seed=1, testLimit=50_000)
        print("tests:", ", ".join(started["tests"]))
        status = await ask("campaign_status")
        while status["state"] != "ended":
            await asyncio.sleep(0.1)
            status = await ask("campaign_status")
        print("calls:", status["calls"])

        for found in (await ask("get_reproducers"))["reproducers"]:
            print("broken:", found["test"])
            print("by:", " > ".join(call["call"] for call in found["calls"]))
        coverage = await ask("show_coverage")
        print("lines covered:", coverage["overallCoverage"], "%")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
