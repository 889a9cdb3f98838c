"""The plain HTTP door and the page: statuses of the seeds, OpenAPI, health."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import desk_client, run


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("INVALID_PARAMETER", 400),
        ("RUN_NOT_FOUND", 404),
        ("EVENT_NOT_FOUND", 404),
        ("QUERY_TIMEOUT", 408),
        ("RESULT_TOO_LARGE", 413),
        ("INVALID_TIME_RANGE", 400),
        ("INVALID_JSON_PATH", 400),
        ("DATABASE_ERROR", 500),
        ("INVALID_INPUT", 400),
        ("EXECUTION_TIMEOUT", 504),
        ("INTERNAL_ERROR", 500),
        ("RATE_LIMITED", 429),
        ("MARKET_CLOSED", 422),
    ],
)
def test_each_code_has_its_seeds_status(tmp_path: Path, code: str, status: int) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.post("/tools/refuse", {"code": code})
            assert reply.status == status
            assert reply.json["error"]["code"] == code

    run(main())


def test_an_unknown_tool_is_404_with_the_envelope_as_body(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.post("/tools/no_such", {})
            assert reply.status == 404
            assert reply.json["success"] is False
            assert reply.json["error"]["code"] == "TOOL_NOT_FOUND"

    run(main())


def test_an_empty_body_is_no_arguments_and_text_stays_text(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.request("POST", "/tools/plain_text")
            assert reply.status == 200
            assert reply.headers["content-type"] == "text/plain; charset=utf-8"
            assert reply.body == b"TN:\nend_of_record\n"

    run(main())


def test_a_tool_that_must_ask_says_that_the_plain_door_cannot(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.post("/tools/ask_name", {})
            assert reply.status == 422
            assert reply.json["error"]["code"] == "CLIENT_UNSUPPORTED"

    run(main())


def test_openapi_describes_every_tool_with_its_contract(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            found = (await client.request("GET", "/openapi.json")).json
            assert found["openapi"] == "3.1.0"
            assert set(found["paths"]) == {f"/tools/{name}" for name in client.desk.registry.tools}
            trade = found["paths"]["/tools/sell_all"]["post"]
            assert trade["security"] == [{"bearer": ["trade"]}]
            schema = found["paths"]["/tools/aim"]["post"]["requestBody"]["content"]["application/json"][
                "schema"
            ]
            assert schema["required"] == ["propertyPath"]

    run(main())


def test_health_has_counts_only_and_they_move(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            await client.call("say")
            await client.open_session()
            found = (await client.request("GET", "/health")).json
            assert found["status"] == "ok"
            assert found["calls"] == 1
            assert found["sessions"] == 1
            assert found["problems"] == []
            assert all(
                isinstance(v, int) for k, v in found.items() if k not in ("status", "version", "problems")
            )

    run(main())


def test_the_page_says_what_is_served_and_how_to_connect(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.request("GET", "/")
            text = reply.body.decode()
            assert reply.headers["content-type"] == "text/html; charset=utf-8"
            for name in ("desk_status", "sell_all", "Claude Code", "Cursor", "VS Code", "Qwen Code"):
                assert name in text
            assert f"http://127.0.0.1:{client.port}/mcp" in text
            assert "{{" not in text
            assert "script-src 'self'" in reply.headers["content-security-policy"]

    run(main())


def test_a_read_only_desk_hides_what_changes_and_the_parameters_that_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, read_only=True) as client:
            tools = (await client.modern("tools/list")).json["result"]["tools"]
            names = {tool["name"]: tool for tool in tools}
            assert "touch" not in names
            assert "sell_all" not in names
            assert set(names["dump"]["inputSchema"]["properties"]) == {"text"}
            refused = await client.call("dump", {"outputPath": "x"})
            assert refused.envelope["error"]["code"] == "INVALID_PARAMETER"
            assert (await client.authorised().call("sell_all")).json["error"]["code"] == -32602

    run(main())
