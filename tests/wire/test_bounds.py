"""Deadlines, sizes and loads hold for every kind of answer, and every family has its own code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.echo import echo
from tests.support import HELLO, StdioDesk, desk_client, modern, rpc, run, until
from tracedesk.errors import FUZZ, STANDARD, TRADING
from tracedesk.wire.admission import Load
from tracedesk.wire.auth import OWN_USER, Tokens
from tracedesk.wire.encode import Limits, encode
from tracedesk.wire.heads import HEAD_SECONDS, MAX_HEAD
from tracedesk.wire.outlet import Outlet


def test_a_late_reading_is_a_failed_one_however_it_became_late(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            for tool in ("stubborn", "busy"):
                assert (await client.call(tool)).envelope["error"]["code"] == "QUERY_TIMEOUT"

    run(main())


def test_a_late_change_is_answered_as_the_change_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            assert (await client.authorised().call("busy_change")).structured == {"late": True}

    run(main())


def test_the_users_time_does_not_count_against_the_tool(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.ask(rpc("initialize", {**HELLO, "capabilities": {"elicitation": {}}}))
        question = desk.ask(rpc("tools/call", {"name": "sell_now"}, 2))
        assert question["method"] == "elicitation/create"
        # Three of the tool's deadlines go by, told by another tool that waits for its own.
        for number in range(3, 21):
            desk.ask(rpc("tools/call", {"name": "hang"}, number))
        answer = {"action": "accept", "content": {"ok": True}}
        desk.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert desk.read()["result"]["structuredContent"] == {"sold": [90]}


def test_questions_that_can_no_longer_be_answered_do_not_hold_up_the_end(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.ask(rpc("initialize", {**HELLO, "capabilities": {"elicitation": {}}}))
        desk.ask(rpc("tools/call", {"name": "ask_name"}, 2))
        code, rest, _ = desk.finish()
        assert code == 0
        assert b"CLIENT_REFUSED" in rest


def test_blocks_and_errors_keep_to_the_cap_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, max_bytes=10_000) as client:
            fine = await client.call("send_blocks", {"size": 1_000})
            assert len(fine.json["result"]["content"][0]["text"]) == 1_000
            error = (await client.call("send_blocks", {"size": 20_000})).envelope["error"]
            assert error["code"] == "RESULT_TOO_LARGE"
            long = await client.call("send_error", {"size": 1_000_000})
            assert long.envelope["error"]["code"] == "RUN_NOT_FOUND"
            assert len(long.body) < 10_000
            unknown = await client.call("x" * 100_000, None, {"Mcp-Name": "x" * 100_000})
            assert len(unknown.body) < 10_000

    run(main())


def test_one_row_past_the_cap_can_be_skipped(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, max_bytes=2_000, max_tokens=50) as client:
            seen: list[int] = []
            arguments: dict[str, Any] = {}
            for _ in range(5):
                reply = await client.call("one_giant_row", arguments)
                if reply.json["result"]["isError"]:
                    cursor = reply.envelope["error"]["details"]["nextCursor"]
                else:
                    seen += [row["i"] for row in reply.structured["rows"]]
                    cursor = reply.structured["metadata"].get("nextCursor")
                if cursor is None:
                    break
                arguments = {"cursor": cursor}
            assert seen == [0, 2]

    run(main())


@pytest.mark.parametrize("what", ["nan", "bytes", "when"])
def test_a_value_that_is_not_json_is_a_bug_and_not_a_guess(tmp_path: Path, what: str) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            assert (await client.call("send_odd", {"what": what})).envelope["error"][
                "code"
            ] == "INTERNAL_ERROR"

    run(main())


def test_too_large_and_too_many_have_the_familys_codes() -> None:
    from dataclasses import replace

    from tracedesk.errors import ToolError

    codes = {STANDARD: "RESULT_TOO_LARGE", FUZZ: "INVALID_INPUT", TRADING: "INVALID_INPUT"}
    for family, code in codes.items():
        with pytest.raises(ToolError) as caught:
            encode(replace(echo.tools["echo"], family=family), {"n": "x" * 100}, Limits(max_bytes=10))
        assert caught.value.code == code
    overloads = {STANDARD: "RATE_LIMITED", FUZZ: "EXECUTION_TIMEOUT", TRADING: "RATE_LIMITED"}
    for family, code in overloads.items():
        refused = family.overloaded("t", 5)
        assert refused.code == code
        assert refused.details is not None
        assert refused.details["reason"] == "overloaded"


def test_strangers_leave_room_for_the_owner(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.desk.dispatch.admission.load = Load(total=8, per_scope=8, strangers=4)
            sessions = [await client.open_session() for _ in range(4)]
            waiting = [
                asyncio.create_task(s.post("/mcp", rpc("tools/call", {"name": "wait_for_release"})))
                for s in sessions
            ]
            await until(lambda: client.desk.dispatch.in_flight == 4)
            assert (await client.call("say")).envelope["error"]["code"] == "RATE_LIMITED"
            owner = client.authorised()
            assert (await owner.call("say")).status == 200
            client.desk.dispatch.admission.load = Load(total=4, per_scope=8, strangers=4)
            assert (await owner.call("say")).envelope["error"]["code"] == "RATE_LIMITED"
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)

    run(main())


def test_a_parameter_that_writes_needs_the_scope_to_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            assert (await client.call("dump", {"text": "x"})).status == 200
            assert (await client.call("dump", {"outputPath": "x"})).status == 401
            assert (await client.authorised().call("dump", {"outputPath": "x"})).status == 200

    run(main())


def test_a_token_without_read_reads_nothing_by_any_door(tmp_path: Path) -> None:
    secret = Tokens(tmp_path).issue("writer", ("write",))

    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.extra = {"Authorization": f"Bearer {secret}"}
            assert (await client.call("say")).status == 403
            assert (await client.modern("resources/read", {"uri": "probe://watched"})).status == 403
            prompt = {"name": "consider", "arguments": {"symbol": "X"}}
            assert (await client.modern("prompts/get", prompt)).status == 403
            ref = {"type": "ref/prompt", "name": "consider"}
            completion = {"ref": ref, "argument": {"name": "symbol", "value": "a"}}
            assert (await client.modern("completion/complete", completion, {"Mcp-Name": None})).status == 403
            session = await client.open_session()
            subscribe = rpc("resources/subscribe", {"uri": "probe://watched"})
            assert (await session.post("/mcp", subscribe)).status == 403

    run(main())


def test_a_token_issued_anew_under_an_old_name_does_not_inherit_its_sessions(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    wide = tokens.issue("ci", ("read", "write", "trade"))

    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.extra = {"Authorization": f"Bearer {wide}"}
            session = await client.open_session()
            tokens.revoke("ci")
            narrow = tokens.issue("ci", ("read",))
            session.extra["Authorization"] = f"Bearer {narrow}"
            assert (await session.post("/mcp", rpc("ping"))).status == 404

    run(main())


def test_a_call_made_with_a_token_is_not_shown_to_strangers(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            owner = client.authorised()
            ref = (await owner.call("say")).json["result"]["_meta"]["tracedesk/call"]
            assert (await owner.call("get_source", {"ref": ref})).structured["body"]["tool"] == "say"
            assert (await client.call("get_source", {"ref": ref})).envelope["error"][
                "code"
            ] == "SOURCE_NOT_FOUND"

    run(main())


def test_every_answer_names_its_own_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            refs = [
                (await client.call("say")).json["result"]["_meta"]["tracedesk/call"],
                (await client.call("refuse", {"code": "X"})).json["result"]["_meta"]["tracedesk/call"],
                (await session.post("/mcp", rpc("tools/call", {"name": "say"}))).json["result"]["_meta"][
                    "tracedesk/call"
                ],
                (await client.post("/tools/say", {})).headers["tracedesk-call"],
            ]
            for ref in refs:
                assert (await client.call("get_source", {"ref": ref})).structured["ref"] == ref

    run(main())


def test_a_sessions_id_is_never_repeated_in_an_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            assert session.session is not None
            reply = await session.post("/mcp", rpc("tools/call", {"name": "desk_status"}))
            assert session.session.encode() not in reply.body
            assert reply.structured["scope"].startswith("session:")

    run(main())


def test_a_queue_that_is_full_waits_for_answers_and_drops_only_notes() -> None:
    async def main() -> None:
        outlet = Outlet()
        for number in range(256):
            await outlet.emit(b"%d" % number)
        await outlet.offer(b"a note")
        answer = asyncio.create_task(outlet.emit(b"an answer"))
        await asyncio.sleep(0)
        assert not answer.done()
        taken = outlet.take()
        await answer
        assert taken == [b"%d" % number for number in range(256)]
        assert outlet.take() == [b"an answer"]

    run(main())


def test_the_address_of_a_deprecated_stream_belongs_to_such_a_stream_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            reply = await client.post(f"/mcp/message?session_id={session.session}", rpc("ping"))
            assert reply.status == 409

    run(main())


def test_a_deprecated_stream_takes_its_session_with_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(client.encode("GET", "/mcp/sse"))
            await reader.readuntil(b"session_id=")
            identifier = (await reader.readuntil(b"\r\n")).strip().decode()
            writer.close()
            await until(lambda: client.app.sessions.find(identifier, OWN_USER) is None)

    run(main())


def test_initialize_comes_once_and_a_bare_notice_does_not_replace_it(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert desk.ask(rpc("tools/list"))["error"]["message"] == "Send initialize before tools/list"
        assert "result" in desk.ask(rpc("initialize", HELLO, 2))
        assert desk.ask(rpc("initialize", HELLO, 3))["error"]["code"] == -32600
    with StdioDesk(tmp_path) as desk:
        desk.ask(rpc("ping"))
        assert "result" in desk.ask(modern("tools/list", None, 2))


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "Mcp-Session-Id"])
def test_a_header_sent_twice_is_refused(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            value = f"127.0.0.1:{client.port}" if name == "Host" else "http://localhost"
            data = client.encode("GET", "/health", None, {name: value})
            again = f"\r\n{name}: {value}\r\n\r\n".encode()
            assert (await client.raw(data.replace(b"\r\n\r\n", again, 1))).status == 400

    run(main())


def test_a_malformed_origin_is_a_foreign_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            for origin in ("http://[", "http://localhost:port", "http://"):
                assert (await client.request("GET", "/health", None, {"Origin": origin})).status == 403

    run(main())


def test_an_endless_head_is_cut_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            head = b"GET /health HTTP/1.1\r\nX: " + b"x" * (MAX_HEAD + 100_000)
            assert (await client.raw(head)).status == 431
            body = b'{"text":"' + b"x" * 200_000 + b'"}'
            assert (await client.request("POST", "/tools/say", body)).status == 200

    run(main())


def test_a_head_that_dawdles_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HEAD_SECONDS == 10
    monkeypatch.setattr("tracedesk.wire.heads.HEAD_SECONDS", 0.1)

    async def main() -> None:
        async with desk_client(tmp_path) as client:
            assert (await client.raw(b"GET /health HTTP/1.1\r\nHost:")).status == 408

    run(main())


def test_a_plain_call_ends_when_its_client_leaves(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            _, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(client.encode("POST", "/tools/wait_for_release", b"{}"))
            await until(lambda: client.desk.dispatch.in_flight == 1)
            writer.close()
            await until(lambda: client.desk.dispatch.in_flight == 0)

    run(main())


def test_a_flood_of_violations_is_told_in_ten(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            error = (await client.call("cite", {"refs": [1] * 100_000})).envelope["error"]
            assert len(error["details"]["violations"]) == 10

    run(main())


def test_what_may_be_announced_is_declared_first(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        capabilities = desk.ask(rpc("initialize", HELLO))["result"]["capabilities"]
        for kind in ("tools", "resources", "prompts"):
            assert capabilities[kind]["listChanged"] is True


def test_a_desks_own_token_is_a_secret_wherever_it_stands(tmp_path: Path) -> None:
    from tracedesk.primitives.redaction import redact_text

    secret = Tokens(tmp_path).issue("ci", ("read",))
    assert secret not in redact_text(f"please use {secret} now")


def test_a_template_whose_parts_cannot_be_read_is_refused() -> None:
    from tracedesk.contract import DeclarationError, Toolset
    from tracedesk.registry import Registry

    toolset: Toolset[None] = Toolset("odd", summary="A test.", guide="call it.")

    async def reader(args: Any, call: Any) -> str:
        """Reads."""
        return ""

    toolset.resource("odd://{Not-A-Name}", mime_type="text/plain")(reader)
    with pytest.raises(DeclarationError, match="snake_case"):
        Registry([toolset])


def test_a_linked_result_is_text_structure_links_and_facts_about_the_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.call("send_linked")
            result = reply.json["result"]
            assert b'"structuredContent":{"price":1.10}' in reply.body
            assert result["content"] == [
                {"type": "text", "text": '{"price":1.10}'},
                {
                    "type": "resource_link",
                    "uri": "tracedesk://probe/chain/2",
                    "name": "a quote",
                    "mimeType": "application/json",
                },
            ]
            assert result["_meta"]["probe/replayed"] is True
            plain = await client.authorised().post("/tools/send_linked", {})
            assert plain.body == b'{"price":1.10}'

    run(main())
