"""Resources, prompts and completion run under the same rules as tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import HELLO, Client, desk_client, modern, rpc, run


def test_a_resource_above_the_hard_cap_is_refused_with_the_envelope_as_data(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, max_bytes=1_000) as client:
            fine = await client.modern("resources/read", {"uri": "probe://long/1000"})
            assert fine.status == 200
            error = (await client.modern("resources/read", {"uri": "probe://long/1001"})).json["error"]
            assert error["code"] == -32602
            assert error["data"]["error"]["code"] == "RESULT_TOO_LARGE"

    run(main())


def test_a_readers_bug_is_an_internal_error_without_its_secret(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.modern("resources/read", {"uri": "probe://broken"})
            assert reply.json["error"]["code"] == -32603
            assert b"secret inside" not in reply.body
            correlation = reply.json["error"]["data"]["error"]["details"]["correlationId"]
            source = (await client.call("get_source", {"ref": correlation})).structured
            assert source["body"]["tool"] == "probe://broken"

    run(main())


def test_reads_are_recorded_like_calls(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            await client.modern("resources/read", {"uri": "probe://item/AAPL"})
            await client.modern("prompts/get", {"name": "consider", "arguments": {"symbol": "AAPL"}})
            assert client.desk.calls.total == 2

    run(main())


def test_a_template_fills_its_parts_and_completes_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            read = await client.modern("resources/read", {"uri": "probe://item/AAPL"})
            assert read.json["result"]["contents"][0] == {
                "uri": "probe://item/AAPL",
                "mimeType": "text/markdown",
                "text": "# AAPL",
            }
            for ref in (
                {"type": "ref/resource", "uri": "probe://item/{symbol}"},
                {"type": "ref/prompt", "name": "consider"},
            ):
                params = {"ref": ref, "argument": {"name": "symbol", "value": "a"}}
                reply = await client.modern("completion/complete", params, {"Mcp-Name": None})
                assert reply.json["result"]["completion"]["values"] == ["AAPL", "AMZN"]

    run(main())


def test_a_prompt_names_its_missing_and_unknown_arguments(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            fine = await client.modern("prompts/get", {"name": "consider", "arguments": {"symbol": "X"}})
            assert fine.json["result"]["messages"][0]["content"]["text"] == "Consider X."
            bad = await client.modern("prompts/get", {"name": "consider", "arguments": {"sym": "X"}})
            assert bad.json["error"]["message"] == "Prompt consider: missing: symbol; unknown: sym"

    run(main())


def test_a_cursor_nobody_handed_out_is_refused_on_every_list(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
                assert (await client.modern(method, {"cursor": "x"})).json["error"]["code"] == -32602
                legacy = await session.post("/mcp", rpc(method, {"cursor": "x"}))
                assert legacy.json["error"]["code"] == -32602

    run(main())


def test_subscribing_to_what_never_changes_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            refused = await session.post("/mcp", rpc("resources/subscribe", {"uri": "probe://item/AAPL"}))
            assert refused.json["error"]["code"] == -32602
            missing = await session.post("/mcp", rpc("resources/subscribe", {"uri": "probe://none"}))
            assert missing.json["error"]["code"] == -32002

    run(main())


ASKING: dict[str, Any] = {**HELLO, "capabilities": {"elicitation": {}}}


def test_an_answer_that_does_not_fit_its_form_is_asked_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            first = await _ask(client, {})
            result = first["result"]
            assert result["resultType"] == "input_required"
            key, question = next(iter(result["inputRequests"].items()))
            assert question["method"] == "elicitation/create"
            state = {"requestState": result["requestState"]}
            for content in ({}, {"name": 5}, None, "x"):
                answer = {key: {"action": "accept", "content": content}}
                again = await _ask(client, {**state, "inputResponses": answer})
                assert again["result"]["resultType"] == "input_required", content
            good = {key: {"action": "accept", "content": {"name": "Ada"}}}
            done = await _ask(client, {**state, "inputResponses": good})
            assert done["result"]["structuredContent"] == {"action": "accept", "name": "Ada"}
            declined = await _ask(client, {**state, "inputResponses": {key: {"action": "decline"}}})
            assert declined["result"]["structuredContent"] == {"action": "decline"}

    run(main())


async def _ask(client: Client, params: dict[str, Any]) -> Any:
    message = modern("tools/call", {"name": "ask_name", "arguments": {}, **params})
    meta: dict[str, Any] = {
        **message["params"]["_meta"],
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    message["params"]["_meta"] = meta
    lines = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask_name"}
    return (await client.post("/mcp", message, lines)).json


def test_a_request_state_that_was_edited_is_refused_without_saying_why(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            state = str((await _ask(client, {}))["result"]["requestState"])
            for forged in (state[:-2] + "AA", "v1.AAAA", "", "{}"):
                reply = await _ask(client, {"requestState": forged})
                assert reply["error"]["code"] == -32602
                assert reply["error"]["message"] == "Invalid or expired requestState"

    run(main())


def test_a_client_that_cannot_be_asked_is_told_which_capability_it_lacks(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            error = (await client.call("ask_name")).json["error"]
            assert error["data"]["requiredCapabilities"] == {"elicitation": {}}
            session = await client.open_session()
            legacy = await session.post("/mcp", rpc("tools/call", {"name": "ask_name"}))
            assert legacy.envelope["error"]["code"] == "CLIENT_UNSUPPORTED"

    run(main())


def test_asking_over_a_session_without_a_stream_is_refused_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            hello = await client.post("/mcp/sse", rpc("initialize", ASKING))
            line = {"Connection-ID": hello.headers["connection-id"]}
            reply = await client.post("/mcp/message", rpc("tools/call", {"name": "ask_name"}), line)
            assert reply.envelope["error"]["code"] == "CLIENT_UNSUPPORTED"

    run(main())
