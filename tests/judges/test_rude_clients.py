"""Clients that break the rules, or die: only their own calls may suffer, and at once."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.judges.support import ROOT, command, drive
from tests.judges.test_python_client import http_desk
from tracedesk.wire.stdio import GRACE

ACCEPT: Final = {"Accept": "application/json, text/event-stream"}
CALL: Final = {"name": "test_elicitation", "arguments": {"message": "Who are you?"}}
MODERN: Final[dict[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "rude", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


def rpc(method: str, params: Mapping[str, Any] | None = None, request_id: int | None = 1) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
    return message if request_id is None else {**message, "id": request_id}


def hello(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    client = {"name": "rude", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": dict(capabilities), "clientInfo": client}
    return rpc("initialize", params)


@dataclass(frozen=True, slots=True)
class Session:
    """A handshake-era session of which the test writes every message itself."""

    http: httpx2.AsyncClient
    headers: dict[str, str]

    async def post(self, message: Mapping[str, Any]) -> httpx2.Response:
        return await self.http.post("/mcp", json=dict(message), headers=self.headers)

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return (await self.post(rpc("tools/call", {"name": name, "arguments": dict(arguments or {})}))).json()

    async def answer_with(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """Call the tool that asks, give it this answer, and return the envelope of its refusal."""
        message = rpc("tools/call", CALL)
        async with self.http.stream("POST", "/mcp", json=message, headers=self.headers) as stream:
            lines = (line async for line in stream.aiter_lines() if line.startswith("data:"))
            question = json.loads((await anext(lines))[5:])
            response = await self.post({"jsonrpc": "2.0", "id": question["id"], **reply})
            assert response.status_code == 202
            return envelope(json.loads((await anext(lines))[5:])["result"])


def envelope(result: Mapping[str, Any]) -> dict[str, Any]:
    assert result["isError"] is True
    return json.loads(result["content"][0]["text"])["error"]


@asynccontextmanager
async def desk(home: Path) -> AsyncGenerator[httpx2.AsyncClient]:
    async with http_desk(home) as url, httpx2.AsyncClient(base_url=url, timeout=10) as http:
        yield http


async def session(http: httpx2.AsyncClient, capabilities: Mapping[str, Any] | None = None) -> Session:
    reply = await http.post("/mcp", json=hello(capabilities or {}), headers=ACCEPT)
    opened = Session(http, {**ACCEPT, "Mcp-Session-Id": reply.headers["mcp-session-id"]})
    await opened.post(rpc("notifications/initialized", request_id=None))
    return opened


def test_a_session_that_never_reads_holds_nobody_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path / "home") as http:
            silent, busy = await session(http), await session(http)
            for _ in range(300):
                answer = await busy.call("test_trigger_tool_change")
                assert answer["result"]["isError"] is False
            assert (await silent.call("test_simple_text"))["result"]["isError"] is False

    drive(main())


def test_a_call_with_much_to_tell_and_nobody_to_tell_it_to_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path / "home") as http:
            silent = await session(http)
            message = rpc("tools/call", {"name": "test_chatty", "_meta": {"progressToken": 1}})
            reply = await http.post("/mcp/message", json=message, headers=silent.headers)
            assert reply.json()["result"]["content"][0]["text"] == "told"

    drive(main())


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {"code": -1, "message": "User rejected"}},
        {"error": {"code": "one", "message": 1}},
        {"error": "no"},
        {"result": [1]},
        {"result": None},
        {"result": {"action": "perhaps"}},
        {"result": {"action": "accept", "content": "text"}},
    ],
    ids=json.dumps,
)
def test_an_answer_that_is_none_refuses_the_call_at_once(tmp_path: Path, reply: dict[str, Any]) -> None:
    async def main() -> None:
        async with desk(tmp_path / "home") as http:
            asked = await session(http, {"elicitation": {}})
            assert (await asked.answer_with(reply))["code"] == "CLIENT_REFUSED"
            assert (await asked.call("test_simple_text"))["result"]["isError"] is False

    drive(main())


@pytest.mark.parametrize("answer", [12345, {"action": "perhaps"}, {"action": "accept", "content": "text"}])
def test_an_answer_that_is_none_is_asked_for_again_in_the_stateless_era(tmp_path: Path, answer: Any) -> None:
    async def main() -> None:
        name = "test_input_required_result_elicitation"
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
        params = {"name": name, "arguments": {}, "inputResponses": {"user_name": answer}, "_meta": MODERN}
        async with desk(tmp_path / "home") as http:
            reply = await http.post("/mcp", json=rpc("tools/call", params), headers={**ACCEPT, **headers})
            assert reply.json()["result"]["resultType"] == "input_required"

    drive(main())


def test_a_client_that_only_opens_pages_is_not_sent_a_form(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path / "home") as http:
            asked = await session(http, {"elicitation": {"url": {}}})
            answer = await asked.call("test_elicitation", {"message": "Who are you?"})
            assert envelope(answer["result"])["code"] == "CLIENT_UNSUPPORTED"

    drive(main())


def test_the_level_a_client_sets_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path / "home") as http:
            quiet = await session(http)
            await quiet.post(rpc("logging/setLevel", {"level": "error"}))
            reply = await quiet.post(rpc("tools/call", {"name": "test_logging_tool"}))
            assert "notifications/message" not in reply.text
            await quiet.post(rpc("logging/setLevel", {"level": "debug"}))
            reply = await quiet.post(rpc("tools/call", {"name": "test_logging_tool"}))
            assert "notifications/message" in reply.text

    drive(main())


# --- on pipes -----------------------------------------------------------------------------------


@asynccontextmanager
async def piped(home: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A desk on pipes; it ends with the body, if it has not by itself."""
    process = await asyncio.create_subprocess_exec(
        *command("stdio", home, "conformance"), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def say(process: asyncio.subprocess.Process, message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    await process.stdin.drain()


async def heard(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(await process.stdout.readline())


def test_a_broken_response_on_a_pipe_leaves_the_pipe_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with piped(tmp_path / "home") as process:
            await say(process, hello({"elicitation": {}}))
            await heard(process)
            await say(process, rpc("tools/call", CALL, 7))
            question = await heard(process)
            await say(process, {"jsonrpc": "2.0", "id": question["id"], "result": [1]})
            assert envelope((await heard(process))["result"])["code"] == "CLIENT_REFUSED"
            await say(process, rpc("ping", None, 8))
            assert (await heard(process))["id"] == 8

    drive(main())


def test_a_signal_ends_the_wait_for_a_call_whose_client_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with piped(tmp_path / "home") as process:
            listen = {"notifications": {"toolsListChanged": True}, "_meta": MODERN}
            await say(process, rpc("subscriptions/listen", listen, 1))
            assert (await heard(process))["method"] == "notifications/subscriptions/acknowledged"
            params = {"name": "test_hang", "arguments": {}, "_meta": {**MODERN, "progressToken": 1}}
            await say(process, rpc("tools/call", params, 2))
            assert (await heard(process))["method"] == "notifications/progress"
            assert process.stdin is not None
            process.stdin.close()
            assert (await heard(process))["id"] == 1, "the end of a subscription says that the end was seen"
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(GRACE - 1):
                await process.communicate()
            assert process.returncode == 0

    drive(main())
