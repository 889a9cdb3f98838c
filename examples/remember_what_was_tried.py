"""Has a desk index a small project, asks where something is done, records an attempt, and finds it again.

Run it with `python examples/remember_what_was_tried.py` once `make setup` has been done.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

SESSION = '''"""Sessions: who is logged in, and until when."""


class Session:
    def refresh(self, seconds: int) -> None:
        """Move the end of the session."""
        self.ends += seconds
'''


async def main(folder: Path) -> None:
    project = folder / "shop"
    project.mkdir()
    (project / "session.py").write_text(SESSION)
    (project / "cart.py").write_text("def total(items):\n    return sum(item.price for item in items)\n")
    command = ["-m", "tracedesk.cli", "--home", str(folder / "home"), "serve", "--stdio"]
    desk = StdioServerParameters(
        command=sys.executable, args=[*command, "--toolsets", "codegraph", "--root", str(project)]
    )
    async with Client(stdio_client(desk)) as client:

        async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            return (await client.call_tool(tool, arguments)).structured_content or {}

        async def log(kind: str, payload: dict[str, Any], **more: Any) -> None:
            await ask("etg_log_event", attempt_id="fix-1", kind=kind, payload=payload, **more)

        indexed = await ask("graph_index_project", project_root=str(project), files=["."])
        print("indexed:", ", ".join(indexed["indexed_files"]))
        found = await ask("graph_search", query="where does a session end")
        print("found:", found["files"][0]["file"])
        context = await ask("graph_context_for_files", project_root=str(project), files=["session.py"])
        print("it says:", context["contexts"][0]["summary"].splitlines()[0])

        # What an agent tries is recorded as it goes, and how it ended is what later readers want most.
        await log("context_retrieved", {"files": ["session.py"], "query": "users are logged out too early"})
        await log("tool_end", {"tool": "pytest", "status": "error"})
        await log(
            "answer_rendered", {"content": "Refreshing on each request broke the tests."}, outcome="failed"
        )

        tried = await ask(
            "etg_query_similar_attempts", query="users are logged out early", files=["session.py"]
        )
        best = tried["matches"][0]
        print("tried before:", best["attempt_id"], best["outcome"], best["failed_tools"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
