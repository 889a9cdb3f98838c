"""Tokens and scopes: who may read, write and trade over HTTP."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import Client, StdioDesk, desk_client, modern, rpc, run
from tracedesk.wire.auth import Tokens


def _with(client: Client, secret: str) -> Client:
    return replace(client, extra={"Authorization": f"Bearer {secret}"})


def test_reading_needs_no_token_on_loopback_but_writing_and_trading_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            assert (await client.call("say")).status == 200
            for tool, scope in (("touch", "write"), ("sell_all", "trade")):
                for reply in (await client.call(tool), await client.post(f"/tools/{tool}", {})):
                    assert reply.status == 401
                    assert f'scope="{scope}"' in reply.headers["www-authenticate"]
                assert (await client.authorised().call(tool)).status == 200
                assert (await client.authorised().post(f"/tools/{tool}", {})).status == 200

    run(main())


def test_a_read_token_that_trades_is_answered_403_with_the_scope_it_lacks(tmp_path: Path) -> None:
    secret = Tokens(tmp_path).issue("reader", ("read",))

    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reader = _with(client, secret)
            assert (await reader.call("say")).status == 200
            for reply in (await reader.call("sell_all"), await reader.post("/tools/sell_all", {})):
                assert reply.status == 403
                assert reply.headers["www-authenticate"].startswith('Bearer error="insufficient_scope"')
                assert 'scope="trade"' in reply.headers["www-authenticate"]
            session = await reader.open_session()
            refused = await session.post("/mcp", rpc("tools/call", {"name": "sell_all"}))
            assert refused.status == 403

    run(main())


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer ", "Basic dXNlcjpwYXNz", "nonsense", "Bearer td_é"]
)
def test_a_wrong_token_is_refused_even_for_reading(tmp_path: Path, header: str) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            for path in ("/mcp", "/tools/say", "/mcp/sse", "/"):
                method = "GET" if path == "/" else "POST"
                body = None if path == "/" else json.dumps(rpc("ping")).encode()
                reply = await client.raw(
                    client.encode(method, path, body, {"Authorization": "X"}).replace(
                        b"Authorization: X", f"Authorization: {header}".encode("latin-1")
                    )
                )
                assert reply.status == 401
                assert 'error="invalid_token"' in reply.headers["www-authenticate"]

    run(main())


def test_behind_a_proxy_nothing_but_health_is_served_without_a_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, behind_proxy=True) as client:
            assert (await client.call("say")).status == 401
            assert (await client.request("GET", "/")).status == 401
            assert (await client.request("GET", "/openapi.json")).status == 401
            assert (await client.request("GET", "/health")).status == 200
            assert (await client.authorised().call("say")).status == 200

    run(main())


def test_the_metadata_document_names_the_scopes(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            found = (await client.request("GET", "/.well-known/oauth-protected-resource")).json
            assert found["resource"].endswith("/mcp")
            assert found["scopes_supported"] == ["read", "write", "trade"]

    run(main())


def test_the_owners_token_survives_a_restart_and_is_private(tmp_path: Path) -> None:
    first = Tokens(tmp_path).owner()
    assert Tokens(tmp_path).owner() == first
    for name in ("token", "tokens.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert first not in (tmp_path / "tokens.json").read_text(encoding="utf-8")


def test_a_revoked_token_is_no_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    secret = tokens.issue("ci", ("read", "write"))
    assert Tokens(tmp_path).verify(secret) is not None
    assert tokens.revoke("ci") is True
    assert Tokens(tmp_path).verify(secret) is None
    assert tokens.revoke("ci") is False


def test_a_token_revoked_by_another_process_is_refused_by_a_running_desk(tmp_path: Path) -> None:
    secret = Tokens(tmp_path).issue("ci", ("read",))

    async def main() -> None:
        async with desk_client(tmp_path) as client:
            assert (await _with(client, secret).call("say")).status == 200
            Tokens(tmp_path).revoke("ci")
            assert (await _with(client, secret).call("say")).status == 401

    run(main())


def test_desks_that_start_at_once_on_a_new_home_share_one_owners_token(tmp_path: Path) -> None:
    def start(_: int) -> str:
        return Tokens(tmp_path).owner()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(16)))) == 1


def test_two_tokens_of_one_name_are_refused(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.issue("ci", ("read",))
    with pytest.raises(ValueError, match="revoke it first"):
        tokens.issue("ci", ("read",))


def test_the_token_never_appears_in_an_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            known = client.authorised()
            for path in ("/", "/health", "/openapi.json"):
                assert client.token.encode() not in (await known.request("GET", path)).body
            assert client.token.encode() not in (await known.call("who_am_i")).body
            assert client.token.encode() not in (await known.call("break_down")).body

    run(main())


def test_scope_and_principal_say_who_calls(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            assert (await client.call("who_am_i")).structured["scope"] == "anonymous"
            assert (await client.authorised().call("who_am_i")).structured["scope"] == "principal:owner"
            session = await client.open_session()
            reply = await session.post("/mcp", rpc("tools/call", {"name": "who_am_i"}))
            assert reply.structured["scope"] == f"session:{session.session}"

    run(main())


def test_the_owner_holds_the_same_things_by_token_and_on_stdio_and_other_tokens_hold_their_own(
    tmp_path: Path,
) -> None:
    other = Tokens(tmp_path).issue("ci", ("read",))

    async def main() -> None:
        async with desk_client(tmp_path) as client:

            async def holder(by: Client) -> tuple[Any, Any]:
                found = (await by.post("/tools/who_am_i", {})).json
                again = (await by.call("who_am_i")).structured
                assert (found["subject"], found["holder"]) == (again["subject"], again["holder"])
                return found["subject"], found["holder"]

            assert await holder(client.authorised()) == ("owner", "subject:owner")
            assert await holder(_with(client, other)) == ("ci", "subject:ci")
            session = await client.authorised().open_session()
            reply = await session.post("/mcp", rpc("tools/call", {"name": "who_am_i"}))
            assert reply.structured["holder"] == "subject:owner"
            assert reply.structured["scope"] == f"session:{session.session}"

    run(main())
    with StdioDesk(tmp_path) as desk:
        message = modern("tools/call", {"name": "who_am_i", "arguments": {}})
        assert desk.ask(message)["result"]["structuredContent"]["holder"] == "subject:owner"
