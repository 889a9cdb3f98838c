"""The way of a call: validation, defaults, deadlines, families, sizes, records."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support import BOUND, ENVELOPE, VERSION, Client, desk_client, run, until


def test_defaults_of_the_contract_are_filled_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.call("say", {"text": "hi"})
            assert reply.structured == {"said": {"n": 7, "list": [], "text": "hi"}}

    run(main())


def test_every_violation_is_named_with_its_field_and_remedy(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            error = (await client.call("say", {"text": 5, "n": "x", "extra": 1})).envelope["error"]
            assert error["code"] == "INVALID_PARAMETER"
            assert {tuple(v["path"]) for v in error["details"]["violations"]} == {("text",), ("n",), ()}
            assert "text" in error["message"]
            assert "Remove it; say takes text, n, list" in error["message"]

    run(main())


def test_all_missing_fields_are_named_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            error = (await client.call("refuse_trade")).envelope["error"]
            assert "code" in error["message"]
            assert "tool_call_id" in error["message"]

    run(main())


@pytest.mark.parametrize(
    ("tool", "arguments", "envelope"),
    [
        ("refuse", {"code": "RUN_NOT_FOUND"}, {"error"}),
        ("refuse_fuzz", {"code": "INVALID_INPUT"}, {"success", "error"}),
        ("refuse_trade", {"code": "MARKET_CLOSED", "tool_call_id": "q1"}, {"error", "source_refs"}),
    ],
)
def test_each_family_renders_its_own_envelope(
    tmp_path: Path, tool: str, arguments: dict[str, Any], envelope: set[str]
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            found = (await client.call(tool, arguments)).envelope
            assert set(found) == envelope
            assert found["error"]["code"] == arguments["code"]
            assert found.get("success", False) is False
            assert found.get("source_refs", ["q1"]) == ["q1"]

    run(main())


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("hang", {}, "QUERY_TIMEOUT"),
        ("hang_fuzz", {}, "EXECUTION_TIMEOUT"),
        ("hang_trade", {}, "NETWORK_ERROR"),
        ("hang_trade", {"sent": True}, "OUTCOME_UNKNOWN"),
    ],
)
def test_a_passed_deadline_has_the_familys_code(
    tmp_path: Path, tool: str, arguments: dict[str, Any], code: str
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            error = (await client.call(tool, arguments)).envelope["error"]
            assert error["code"] == code
            assert error["details"] == {"tool": tool, "deadlineMs": 50}

    run(main())


def test_a_property_may_map_to_a_code_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            error = (await client.call("aim", {"propertyPath": "$.a') OR 1=1 --"})).envelope["error"]
            assert error["code"] == "INVALID_JSON_PATH"
            error = (await client.call("aim", {"propertyPath": "$.a", "when": 5})).envelope["error"]
            assert error["code"] == "INVALID_PARAMETER"

    run(main())


@pytest.mark.parametrize("tool", ["break_down", "break_fuzz", "break_trade"])
def test_a_handler_bug_shows_neither_traceback_nor_secret(
    tmp_path: Path, tool: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.call(tool, {"secret": "hunter2hunter2"})
            error = reply.envelope["error"]
            assert error["code"] == "INTERNAL_ERROR"
            assert b"hunter2" not in reply.body
            assert b"Traceback" not in reply.body
            assert error["details"]["correlationId"] in caplog.text

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "RuntimeError" in caplog.text


def test_an_unknown_tool_is_a_protocol_error_with_the_fuzz_envelope_as_data(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.call("no_such_tool")
            error = reply.json["error"]
            assert error["code"] == -32602
            assert error["data"]["success"] is False
            assert error["data"]["error"]["code"] == "TOOL_NOT_FOUND"

    run(main())


def test_a_page_above_the_hard_cap_names_the_page_size_that_fits(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, max_bytes=20_000) as client:
            error = (await client.call("list_rows", {"limit": 100})).envelope["error"]
            assert error["code"] == "RESULT_TOO_LARGE"
            fits = error["details"]["limit"]
            assert f"limit {fits} or less" in error["message"]
            assert len((await client.call("list_rows", {"limit": fits})).structured["rows"]) == fits
            too_many = (await client.call("list_rows", {"limit": fits + 1})).envelope["error"]
            assert too_many["code"] == "RESULT_TOO_LARGE"

    run(main())


def test_a_page_within_the_cap_is_served_whole_whatever_the_token_budget(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, max_tokens=100) as client:
            reply = await client.call("list_rows", {"limit": 50})
            assert len(reply.structured["rows"]) == 50

    run(main())


def test_cursor_pages_keep_to_the_budget_and_cover_every_row_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, max_tokens=2_000) as client:
            seen: list[int] = []
            arguments: dict[str, Any] = {}
            pages = 0
            while True:
                reply = await client.call("page_rows", arguments)
                body = reply.structured
                assert len(reply.json["result"]["content"][0]["text"]) <= 2_000 * 3
                seen += [row["i"] for row in body["rows"]]
                pages += 1
                if "nextCursor" not in body["metadata"]:
                    assert body["metadata"]["truncated"] is False
                    break
                assert body["metadata"]["truncated"] is True
                arguments = {"cursor": body["metadata"]["nextCursor"]}
            assert seen == list(range(200))
            assert pages > 5

    run(main())


def test_overload_is_the_familys_error_and_others_are_still_served(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            busy = await client.open_session()
            flood = [
                asyncio.create_task(_call_in_session(busy, "wait_for_release", number))
                for number in range(130)
            ]
            done, _ = await asyncio.wait(flood, timeout=BOUND, return_when=asyncio.FIRST_COMPLETED)
            refused = done.pop().result()
            assert refused.envelope["error"]["code"] == "RATE_LIMITED"
            assert refused.envelope["error"]["details"]["reason"] == "overloaded"
            assert (await client.call("say")).status == 200
            for task in flood:
                task.cancel()
            await asyncio.wait(flood)

    run(main())


def test_a_hundred_calls_of_one_session_wait_for_each_other_and_are_all_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            busy = await client.open_session()
            running = [
                asyncio.create_task(_call_in_session(busy, "wait_for_release", number))
                for number in range(64)
            ]
            await until(lambda: client.desk.dispatch.in_flight == 64)
            waiting = [
                asyncio.create_task(_call_in_session(busy, "say", number)) for number in range(64, 100)
            ]
            await until(lambda: client.desk.dispatch.admission.waiting == 36)
            for number in range(64):
                params = {"requestId": number}
                await busy.post(
                    "/mcp", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
                )
            for reply in await asyncio.wait_for(asyncio.gather(*waiting), BOUND):
                assert reply.status == 200
                assert "said" in reply.structured
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    run(main())


async def _call_in_session(client: Client, tool: str, number: int) -> Any:
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool}}
    return await client.post("/mcp", message)


def test_calls_are_recorded_with_outcome_and_redacted_arguments(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            key = "AKIA" + "ABCDEFGHIJKLMNOP"
            reply = await client.call("break_down", {"secret": key})
            ref = reply.envelope["error"]["details"]["correlationId"]
            source = (await client.call("get_source", {"ref": ref})).structured
            assert source["ref"] == f"tracedesk://calls/{ref}"
            assert source["body"]["outcome"] == "error"
            assert source["body"]["code"] == "INTERNAL_ERROR"
            assert key not in str(source)

    run(main())


_TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("meta", "attempt"),
    [
        ({"tracedesk/attempt": "attempt-9"}, "attempt-9"),
        ({"traceparent": _TRACE}, _TRACE),
        ({"tracedesk/attempt": "x" * 200}, "x" * 200),
        ({"tracedesk/attempt": "x" * 201}, None),
        ({"tracedesk/attempt": "é" * 80}, None),
        ({"tracedesk/attempt": "\x1b[31mred"}, None),
        ({"tracedesk/attempt": "a\u202eb"}, None),
        ({"tracedesk/attempt": " "}, None),
        ({"tracedesk/attempt": 7}, None),
        ({"tracedesk/attempt": "a\nb", "traceparent": _TRACE}, _TRACE),
    ],
)
def test_the_attempt_is_taken_from_the_requests_meta_where_it_can_be_a_name(
    tmp_path: Path, meta: dict[str, Any], attempt: str | None
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            params = {"name": "who_am_i", "_meta": {**ENVELOPE, **meta}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            lines = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "who_am_i"}
            assert (await client.post("/mcp", body, lines)).structured["attempt"] == attempt

    run(main())
