"""Credentials in the headers of a handshake: opted into, on a private way, for that session alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.ward import ward
from tests.support import HELLO, Client, desk_client, rpc, run

KEY, SECRET = "key-4f1c8e2a90b7", "secret-d03b6a7715ce"
BROUGHT = {"X-Ward-Key": KEY, "X-Ward-Secret": SECRET}
ON = {"ward": {"header_credentials": True}}
NOTHING = {"key": False, "secret": False, "length": 0}


@asynccontextmanager
async def _desk(home: Path, **settings: Any) -> AsyncGenerator[Client]:
    async with desk_client(home, extra=[ward], tables=ON, **settings) as client:
        yield client


async def _whose(session: Client) -> Any:
    reply = await session.post("/mcp", rpc("tools/call", {"name": "whose", "arguments": {}}))
    return reply.structured


@pytest.mark.parametrize("path", ["/mcp", "/mcp/sse"])
def test_a_session_has_the_credentials_that_its_handshake_brought(tmp_path: Path, path: str) -> None:
    async def main() -> None:
        async with _desk(tmp_path) as client:
            hello = await client.post(path, rpc("initialize", HELLO), BROUGHT)
            assert hello.status == 200
            session = replace(client, extra={"Mcp-Session-Id": hello.headers["mcp-session-id"]})
            assert await _whose(session) == {"key": True, "secret": True, "length": len(KEY + SECRET)}
            assert await _whose(await client.open_session()) == NOTHING

    run(main())


def test_they_are_gone_with_their_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with _desk(tmp_path) as client:
            hello = await client.post("/mcp", rpc("initialize", HELLO), BROUGHT)
            identifier = hello.headers["mcp-session-id"]
            assert client.desk.vault.get(f"session:{identifier}", "ward_key") == KEY
            await client.request("DELETE", "/mcp", headers={"Mcp-Session-Id": identifier})
            assert client.desk.vault.get(f"session:{identifier}", "ward_key") is None

    run(main())


def test_headers_of_other_requests_are_not_looked_at(tmp_path: Path) -> None:
    async def main() -> None:
        async with _desk(tmp_path) as client:
            session = await client.open_session()
            later = replace(session, extra={**session.extra, **BROUGHT})
            assert await _whose(later) == NOTHING
            assert (await client.call("whose", {}, BROUGHT)).structured == NOTHING

    run(main())


def test_a_desk_that_was_not_told_to_take_them_refuses_the_handshake(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            refused = await client.post("/mcp", rpc("initialize", HELLO), BROUGHT)
            assert refused.status == 403
            assert b"header_credentials = true under [ward]" in refused.body
            assert KEY.encode() not in refused.body
            assert len(client.app.sessions) == 0

    run(main())


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_they_are_not_taken_on_an_open_way_nor_from_a_proxy_on_this_machine(
    tmp_path: Path, host: str
) -> None:
    async def main() -> None:
        async with _desk(tmp_path, behind_proxy=True, host=host) as client:
            named = {"Host": f"{host}:{client.port}", "Authorization": f"Bearer {client.token}"}
            refused = await client.post("/mcp", rpc("initialize", HELLO), {**BROUGHT, **named})
            assert refused.status == 403
            assert b"over the desk's own TLS only" in refused.body

    run(main())


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        ({"X-Ward-Key": KEY}, b"together, each once"),
        ({**BROUGHT, "x-ward-key": KEY}, b"together, each once"),
        ({"X-Ward-Key": KEY, "X-Ward-Secret": ""}, b"plain ASCII"),
        ({"X-Ward-Key": KEY, "X-Ward-Secret": "two words"}, b"plain ASCII"),
        ({"X-Ward-Key": KEY, "X-Ward-Secret": "x" * 5000}, b"plain ASCII"),
    ],
)
def test_half_doubled_or_unfit_credentials_are_refused(
    tmp_path: Path, sent: dict[str, str], complaint: bytes
) -> None:
    async def main() -> None:
        async with _desk(tmp_path) as client:
            refused = await client.post("/mcp", rpc("initialize", HELLO), sent)
            assert (refused.status, complaint in refused.body) == (400, True), refused.body
            assert KEY.encode() not in refused.body

    run(main())


def test_no_byte_of_them_is_written_down(tmp_path: Path) -> None:
    async def main() -> None:
        async with _desk(tmp_path, log_level="DEBUG") as client:
            hello = await client.post("/mcp", rpc("initialize", HELLO), BROUGHT)
            session = replace(client, extra={"Mcp-Session-Id": hello.headers["mcp-session-id"]})
            await _whose(session)
            said = {"name": "say", "arguments": {"text": f"{KEY} and {SECRET}"}}
            await session.post("/mcp", rpc("tools/call", said))

    run(main())
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert written
    assert KEY.encode() not in written
    assert SECRET.encode() not in written
