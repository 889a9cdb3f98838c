"""Session rules: fifty, thirty seconds, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from scripts.proof.record import Recorder
from tests.judges.size import Size
from tests.support import HELLO, Client, desk_client, events, read_head, rpc, run, until
from tracedesk.primitives.time import ManualClock


def test_the_51st_session_is_refused_with_retry_after(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with desk_client(tmp_path, clock=clock) as client:
            sessions = [await client.open_session() for _ in range(50)]
            clock.advance(10.0)
            refused = await client.post("/mcp", rpc("initialize", HELLO))
            assert refused.status == 503
            assert refused.headers["retry-after"] == "20"
            for door in ("/mcp/sse",):
                assert (await client.request("POST", door, b"")).status == 503
                assert (await client.request("GET", door)).status == 503
            assert (await sessions[0].post("/mcp", rpc("ping"))).status == 200

    run(main())


def test_the_holder_of_a_token_takes_the_place_of_the_anonymous_session_that_called_least_lately(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with desk_client(tmp_path, clock=clock) as client:
            sessions = [await client.open_session() for _ in range(50)]
            for session in sessions:
                clock.advance(0.01)
                called = session is not sessions[7]
                method = "tools/call" if called else "ping"
                params: dict[str, Any] | None = {"name": "say"} if called else None
                assert (await session.post("/mcp", rpc(method, params))).status == 200
            for session in sessions:  # a ping is no activity here
                clock.advance(0.01)
                assert (await session.post("/mcp", rpc("ping"))).status == 200
            owner = await client.authorised().open_session()
            assert (await owner.post("/mcp", rpc("ping"))).status == 200
            assert [(await s.post("/mcp", rpc("ping"))).status for s in sessions].count(404) == 1
            assert (await sessions[7].post("/mcp", rpc("ping"))).status == 404
            await client.authorised().open_session()
            assert (await sessions[0].post("/mcp", rpc("ping"))).status == 404
            assert (await client.post("/mcp", rpc("initialize", HELLO))).status == 503

    run(main())


def test_an_open_stream_keeps_no_place_from_the_holder_of_a_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.app.sessions.limit = 3
            writers: list[asyncio.StreamWriter] = []
            for _ in range(3):
                session = await client.open_session()
                reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
                writer.write(session.encode("GET", "/mcp"))
                await read_head(reader)
                writers.append(writer)
            for _ in range(3):
                await client.authorised().open_session()
            await until(lambda: client.app.streams.open_streams == 0)
            for door in ("/mcp", "/mcp/sse"):  # all places are of tokens now
                refused = await client.authorised().post(door, rpc("initialize", HELLO))
                assert refused.status == 503
            for writer in writers:
                writer.close()

    run(main())


def test_a_session_with_a_call_in_flight_is_never_taken(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.app.sessions.limit = 2
            sessions = [await client.open_session() for _ in range(2)]
            calls = [
                asyncio.create_task(s.post("/mcp", rpc("tools/call", {"name": "wait_for_release"})))
                for s in sessions
            ]
            await until(lambda: client.desk.dispatch.in_flight == 2)
            refused = await client.authorised().post("/mcp", rpc("initialize", HELLO))
            assert refused.status == 503
            calls[0].cancel()
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            assert (await sessions[0].post("/mcp", note)).status == 202
            await until(lambda: client.desk.dispatch.in_flight == 1)
            await client.authorised().open_session()
            assert (await sessions[0].post("/mcp", rpc("ping"))).status == 404
            assert (await sessions[1].post("/mcp", rpc("ping"))).status == 200
            calls[1].cancel()
            await asyncio.wait(calls)

    run(main())


def test_answers_wait_for_an_unread_stream_up_to_a_bound(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port, limit=1_024)
            writer.write(client.encode("GET", "/mcp/sse"))
            identifier = (await reader.readuntil(b"session_id=") and await reader.readuntil(b"\r\n")).strip()
            place = f"/mcp/message?session_id={identifier.decode()}"
            large = rpc("tools/call", {"name": "say", "arguments": {"text": "x" * 500_000}})
            assert (await client.post(place, rpc("initialize", HELLO))).status == 202
            statuses = [(await client.post(place, large)).status for _ in range(60)]
            assert set(statuses) == {202, 503}
            assert statuses[-1] == 503
            writer.close()

    run(main())


def test_a_place_is_free_again_when_a_session_idles_out(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with desk_client(tmp_path, clock=clock) as client:
            for _ in range(50):
                await client.open_session()
            clock.advance(30.0)
            await client.open_session()

    run(main())


def test_an_idle_session_is_gone_after_thirty_seconds_and_not_before(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with desk_client(tmp_path, clock=clock) as client:
            session = await client.open_session()
            clock.advance(29.9)
            assert (await session.post("/mcp", rpc("ping"))).status == 200
            clock.advance(29.9)
            assert (await session.post("/mcp/message", rpc("ping"))).status == 200
            clock.advance(30.1)
            assert (await session.post("/mcp", rpc("ping"))).status == 404
            assert (await session.post("/mcp/message", rpc("ping"))).status == 404

    run(main())


def test_a_client_that_holds_its_stream_is_never_idle(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with desk_client(tmp_path, clock=clock) as client:
            session = await client.open_session()
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(session.encode("GET", "/mcp"))
            assert (await read_head(reader))[0] == 200
            clock.advance(300.0)
            assert (await session.post("/mcp", rpc("ping"))).status == 200
            writer.close()

    run(main())


def test_a_call_in_flight_keeps_its_session_alive(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with desk_client(tmp_path, clock=clock) as client:
            session = await client.open_session()
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            body = _with_token(rpc("tools/call", {"name": "wait_for_release"}))
            writer.write(session.encode("POST", "/mcp", body))
            await reader.readuntil(b"notifications/progress")
            clock.advance(300.0)
            assert (await session.post("/mcp", rpc("ping"))).status == 200
            writer.close()

    run(main())


def _with_token(message: dict[str, Any]) -> bytes:
    import json

    message["params"]["_meta"] = {"progressToken": "t"}
    return json.dumps(message).encode()


def test_the_seeds_handshake_returns_a_connection_id_that_every_header_name_takes(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            hello = await client.request("POST", "/mcp/sse", b"")
            assert hello.status == 200
            identifier = hello.headers["connection-id"]
            assert hello.headers["mcp-session-id"] == identifier
            assert len(identifier.split("-")) == 5
            for name in ("Connection-ID", "X-Connection-ID", "Mcp-Session-Id"):
                for form in (identifier, identifier.replace("-", "")):
                    reply = await client.post("/mcp/message", rpc("tools/list"), {name: form})
                    assert reply.status == 200, (name, reply)
                    assert reply.json["result"]["tools"]
            assert (
                await client.request("DELETE", "/mcp/sse", None, {"Connection-ID": identifier})
            ).status == 204
            gone = await client.post("/mcp/message", rpc("ping"), {"Connection-ID": identifier})
            assert gone.status == 404

    run(main())


def test_a_handshake_with_empty_params_is_filled_with_defaults(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.post("/mcp/sse", rpc("initialize", {}))
            assert reply.json["result"]["protocolVersion"] == "2025-11-25"
            assert (await client.post("/mcp/sse", rpc("tools/list"))).status == 400

    run(main())


def test_notifications_are_accepted_with_202(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await session.post("/mcp", note)).status == 202
            assert (await session.post("/mcp/message", note)).status == 202

    run(main())


def test_a_session_belongs_to_the_credential_that_opened_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.authorised().open_session()
            assert session.session is not None
            stranger = await client.post("/mcp", rpc("ping"), {"Mcp-Session-Id": session.session})
            assert stranger.status == 404
            assert (await session.post("/mcp", rpc("ping"))).status == 200

    run(main())


@pytest.mark.parametrize(
    "identifier", ["", "x", "../../etc", "0" * 32, "00000000-0000-0000-0000-000000000000"]
)
def test_an_invented_session_id_is_not_found(tmp_path: Path, identifier: str) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.post("/mcp", rpc("ping"), {"Mcp-Session-Id": identifier})
            assert reply.status in (400, 404)

    run(main())


def test_a_canary_credential_is_unreachable_after_expiry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with desk_client(tmp_path, clock=clock) as client:
            session = await client.open_session()
            scope = f"session:{session.session}"
            client.desk.vault.put(scope, "api_secret", _canary())
            used = await _use(session, fail=False)
            assert used["result"]["structuredContent"] == {"has": True}
            failed = str(await _use(session, fail=True))
            assert _canary() not in failed
            clock.advance(31.0)
            assert (await session.post("/mcp", rpc("ping"))).status == 404
            await until(lambda: not _reachable(_canary()))

    run(main())
    assert "venue refused [redacted:" in caplog.text
    assert _canary() not in caplog.text


def _canary() -> str:
    """Put together anew each time, so that no constant of this module is what the scan finds."""
    return "-".join(("canary", "7f3a9c", "e1b2"))


async def _use(session: Client, *, fail: bool) -> Any:
    message = rpc("tools/call", {"name": "use_credential", "arguments": {"fail": fail}})
    return (await session.post("/mcp", message)).json


def _reachable(secret: str) -> list[str]:
    """Everything alive that contains the secret, as text or bytes, other than what this scan holds."""
    gc.collect()
    found: list[str] = []
    seen: set[int] = set()
    waiting: list[Any] = gc.get_objects()
    seen.add(id(waiting))
    while waiting:
        value = waiting.pop()
        if id(value) in seen or value is secret:
            continue
        seen.add(id(value))
        if isinstance(value, str):
            found += [value[:80]] if secret in value else []
        elif isinstance(value, (bytes, bytearray)):
            found += [bytes(value[:80]).decode("latin-1")] if secret.encode() in value else []
        else:
            waiting += gc.get_referents(value)
    return found


def test_the_canary_scan_bites(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            client.desk.vault.put(f"session:{session.session}", "api_secret", _canary())
            assert _reachable(_canary()) != []

    run(main())


def test_server_messages_reach_the_sessions_stream(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.authorised().open_session()
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(session.encode("GET", "/mcp"))
            await read_head(reader)
            await session.post("/mcp", rpc("resources/subscribe", {"uri": "probe://watched"}))
            await session.post("/mcp", rpc("tools/call", {"name": "touch"}))
            data = await reader.readuntil(b"probe://watched")
            assert b"notifications/resources/updated" in data
            writer.close()

    run(main())


def test_a_subscriber_that_never_reads_holds_up_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            deaf = await client.open_session()
            await deaf.post("/mcp", rpc("resources/subscribe", {"uri": "probe://watched"}))
            for _ in range(1_000):
                await client.desk.notify_resource("probe://watched")
            assert (await client.call("say")).status == 200

    run(main())


def test_a_second_stream_of_one_session_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(session.encode("GET", "/mcp"))
            await read_head(reader)
            assert (await session.request("GET", "/mcp")).status == 409
            writer.close()

    run(main())


@pytest.mark.judge
@pytest.mark.alone
@pytest.mark.timeout(120)
def test_in_real_time_fifty_fill_the_table_and_the_idle_end_between_30_and_35_seconds(
    tmp_path: Path, size: Size, prove: Recorder
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with desk_client(tmp_path) as client:
            holder = await client.open_session()
            for _ in range(48):
                await client.open_session()
            before = loop.time()
            idle = await client.open_session()
            begun = loop.time()
            refused = await client.post("/mcp", rpc("initialize", HELLO))
            assert refused.status == 503
            assert 1 <= int(refused.headers["retry-after"]) <= 30
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(holder.encode("GET", "/mcp"))
            await read_head(reader)
            client.desk.vault.put(f"session:{idle.session}", "api_secret", _canary())
            scope = f"session:{idle.session}"
            await until(lambda: client.desk.vault.get(scope, "api_secret") is None, 60)
            ended = loop.time()
            assert ended - before >= 30
            prove.record("wire-idle-session", round(ended - begun - 30, 1), seeds=())
            size.at_most(5, ended - begun - 30, "seconds after the 30 that a session may idle")
            assert (await idle.post("/mcp", rpc("ping"))).status == 404
            assert (await holder.post("/mcp", rpc("ping"))).status == 200
            writer.close()

    import uvloop

    uvloop.run(main())


def test_events_of_a_stream_are_read_by_the_helper() -> None:
    assert events(b'event: message\r\ndata: {"a":1}\r\n\r\n: ping\r\n\r\n') == [{"a": 1}]
