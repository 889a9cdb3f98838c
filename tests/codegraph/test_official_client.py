"""Every codegraph tool over the official MCP client, in both eras and over both doors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.codegraph.desks import INDEXED, agent, shop
from tests.official import Mode, connected
from tests.support import run
from tracedesk.codegraph.tools import codegraph


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content


def asked(root: str, version: str) -> dict[str, tuple[dict[str, Any], str]]:
    """For each tool its arguments, and a member that its answer must have."""
    about = {"project_root": root}
    checkpoint = {"message": "Refresh sooner", "graph_version": version, "query": "session expires too early"}
    return {
        "graph_update_files": ({**about, "added_or_modified": ["app/clock.py"]}, "updated_files"),
        "graph_context_for_files": ({**about, "files": ["app/session.py"], "max_tokens": 500}, "contexts"),
        "graph_search": ({"query": "refresh a session"}, "files"),
        "graph_neighbors": ({"symbol": "Session"}, "neighbors"),
        "etg_log_event": ({"attempt_id": "a", "kind": "checkpoint", "payload": checkpoint}, "event_id"),
        "etg_query_similar_attempts": ({"query": "session expires", "top_k": 3}, "matches"),
        "etg_get_attempt": ({"attempt_id": "a"}, "attempt"),
        "etg_timeline": ({}, "attempts"),
    }


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_official_client_indexes_asks_and_logs_with_every_tool(
    tmp_path: Path, transport: str, mode: Mode
) -> None:
    root, home = str(shop(tmp_path / "shop")), tmp_path / "home"

    async def main() -> None:
        async with connected(transport, mode, home, "codegraph", agent(home)) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            index = await ask(client, "graph_index_project", project_root=root, files=["."])
            assert index["indexed_files"] == INDEXED
            calls = asked(root, index["graph_version"])
            assert set(codegraph.tools) == {*calls, "graph_index_project"} <= listed
            for tool, (arguments, member) in calls.items():
                assert member in await ask(client, tool, **arguments), tool

    run(main())


def test_the_official_client_gets_progress_of_an_index(tmp_path: Path) -> None:
    root, home = str(shop(tmp_path / "shop")), tmp_path / "home"
    seen: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        assert message
        seen.append((progress, total))

    async def main() -> None:
        async with connected("stdio", "auto", home, "codegraph", agent(home)) as client:
            given = {"project_root": root, "files": ["."]}
            result = await client.call_tool("graph_index_project", given, progress_callback=note)
            assert not result.is_error
            assert seen
            assert seen == sorted(seen)

    run(main())


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_official_client_reads_a_refusal_as_an_answer(tmp_path: Path, transport: str) -> None:
    home = tmp_path / "home"
    shop(tmp_path / "shop")

    async def main() -> None:
        async with connected(transport, "auto", home, "codegraph", agent(home)) as client:
            result = await client.call_tool("graph_index_project", {"project_root": "/", "files": ["."]})
            assert result.is_error
            assert result.structured_content is None
            block = result.content[0]
            assert isinstance(block, types.TextContent)
            assert block.text.startswith('{"error":{"code":"ROOT_NOT_ALLOWED"')

    run(main())


def test_the_official_client_reads_resources_and_the_prompt(tmp_path: Path) -> None:
    root, home = str(shop(tmp_path / "shop")), tmp_path / "home"

    async def main() -> None:
        async with connected("http", "auto", home, "codegraph", agent(home)) as client:
            index = await ask(client, "graph_index_project", project_root=root, files=["."])
            for uri in (index["report"], "tracedesk://codegraph/schemas/checkpoint"):
                assert (await client.read_resource(uri)).contents
            told = await client.get_prompt("what_was_tried", {"problem": "sessions expire"})
            assert told.messages

    run(main())
