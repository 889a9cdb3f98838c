"""Whose account: profiles, keys that a session brings, and what a caller without a token never sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.exchange.desks import Agent, agent, text
from tests.exchange.test_key_page import ask
from tests.support import ENVELOPE, HELLO, rpc, run, until
from tracedesk.errors import ToolError
from tracedesk.exchange.caller import Caller
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.credentials.keys import API_KEY, Keys
from tracedesk.primitives.time import ManualClock

NO_PROFILE: dict[str, Any] = {"profile": "", "profiles": {}}
ACCOUNT_URIS = (
    "binance://account/balances",
    "binance://account/holdings",
    "binance://orders/open",
    "binance://orders/history/btcusdt",
)
ACCOUNT_TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_account", {}),
    ("get_my_trades", {"symbol": "BTCUSDT"}),
    ("get_order", {"symbol": "BTCUSDT", "order_id": 1}),
    ("get_open_orders", {}),
    ("get_all_orders", {"symbol": "BTCUSDT"}),
)


async def in_session(session: Agent, tool: str, **arguments: Any) -> Any:
    reply = await session.client.post("/mcp", rpc("tools/call", {"name": tool, "arguments": arguments}))
    result = reply.json["result"]
    return result.get("structuredContent") or reply.envelope


def test_an_operators_account_is_never_shown_without_a_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            session = await client.session()
            for tool, arguments in ACCOUNT_TOOLS:
                for error in (
                    await client.refused(tool, **arguments),
                    (await in_session(session, tool, **arguments))["error"],
                ):
                    assert error["code"] == "CREDENTIALS_REQUIRED", tool
                    assert "bearer token" in error["message"], tool
            for uri in ACCOUNT_URIS:
                assert (await client.unread(uri))["data"]["error"]["code"] == "CREDENTIALS_REQUIRED"
            risk = await client.prompt("portfolio_risk")
            assert "Data unavailable" in risk
            assert "1000000" not in risk
            assert (await client.call("connect"))["profiles"] == []
            assert (await client.owner().call("get_account"))["account"] == "testnet/main"

    run(main())


def test_a_profile_is_chosen_with_a_token_and_an_unknown_one_names_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            assert (await client.raw("connect", profile="main")).status == 401
            owner = client.owner()
            chosen = await owner.call("connect", profile="main")
            assert (chosen["account"], chosen["credentials"]) == ("testnet/main", "profile")
            error = await owner.refused("connect", profile="other")
            assert error["code"] == "CREDENTIALS_REQUIRED"
            assert "there are: main" in error["message"]

    run(main())


def test_without_any_account_the_remedy_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            error = await client.owner().refused("get_account")
            assert error["code"] == "CREDENTIALS_REQUIRED"
            assert "enter_keys" in error["message"]
            assert "[exchange.profiles]" in error["message"]

    run(main())


def test_another_local_exchange_is_asked_for_its_own_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"mode": "sim", "profile": ""}) as client:
            asked = list[str]()

            async def issued(account: str) -> Keys:
                key = client.market.exchange.keys.issue("bob")
                asked.append(key.api_key)
                return Keys(key.api_key, secret=key.material)

            accounts, link = client.provider.accounts, client.provider.link
            monkeypatch.setattr(link, "sim_keys", issued)
            for started in (1, 1, 2):
                monkeypatch.setattr(link, "_host", started)
                assert (await client.call("get_account"))["account"] == "sim/default"
                assert [account.credentials.api_key for account in accounts.opened] == asked[-1:]
            assert len(asked) == 2

    run(main())


def test_every_account_that_can_be_opened_is_and_the_one_that_cannot_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            table = client.client.desk.settings.tables["exchange"]
            keys = {"mode": "testnet", "api_key_env": "NO_SUCH_KEY", "secret_env": "NO_SUCH_SECRET"}
            profiles = {"profiles": {"absent": keys, **table["profiles"]}}
        async with agent(tmp_path, profiles) as client:
            with pytest.raises(ToolError, match="NO_SUCH_KEY"):
                await client.provider.open_accounts()
            assert [account.name for account in client.provider.accounts.opened] == ["testnet/main"]

    run(main())


def test_a_caller_without_session_or_token_gets_a_handle_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            one, two = await client.call("connect"), await client.call("connect")
            assert one["connection_id"] != two["connection_id"]
            assert one["idle_seconds"] == 30.0
            again = await client.call("connect", connection_id=one["connection_id"])
            assert again["connection_id"] == one["connection_id"]
            assert (await client.owner().call("connect"))["connection_id"] is None
            ended = await client.call("connect", connection_id=one["connection_id"], end=True)
            assert ended["ended"] is True
            gone = await client.refused("get_account", connection_id=one["connection_id"])
            assert "Call connect for a new one" in gone["message"]

    run(main())


def test_nobody_ends_a_connection_without_its_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            handle = (await client.call("connect"))["connection_id"]
            client.provider.accounts.bring(f"connection:{handle}", Keys("k" * 32, secret="s" * 32))
            error = await client.refused("connect", end=True)
            assert (error["code"], error["details"]["field"]) == ("INVALID_PARAMETER", "connection_id")
            assert (await client.call("connect", connection_id=handle))["credentials"] == "own"
            session = await client.session()
            assert (await in_session(session, "connect", end=True))["ended"] is True

    run(main())


def test_the_51st_handle_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            for _ in range(50):
                await client.call("connect")
            error = await client.refused("connect")
            assert error["code"] == "RATE_LIMITED"
            assert 0 < error["details"]["retryAfterSeconds"] <= 30

    run(main())


def test_handles_of_callers_without_a_token_keep_no_place_from_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            for _ in range(50):
                await client.call("connect")
            owner = client.owner()
            assert (await owner.call("connect"))["connection_id"] is None
            assert (await owner.call("provider_status"))["connections"] == {"open": 50, "limit": 50}

    run(main())


# --- keys in the headers of a handshake ---------------------------------------------------------


async def handshake(client: Agent, **keys: str) -> Agent:
    """A session by the seed's own handshake, with keys in its headers."""
    headers = {f"X-Binance-Api-{name.title()}": value for name, value in keys.items()}
    reply = await client.client.post("/mcp/sse", rpc("initialize", HELLO), headers)
    assert reply.status == 200, reply
    extra = {**client.client.extra, "Connection-ID": reply.headers["connection-id"]}
    return Agent(replace(client.client, extra=extra), client.market)


async def message(session: Agent, tool: str, **arguments: Any) -> Any:
    reply = await session.client.post(
        "/mcp/message", rpc("tools/call", {"name": tool, "arguments": arguments})
    )
    assert reply.status == 200, reply
    return reply.json["result"].get("structuredContent") or reply.envelope


def test_a_handshake_may_bring_keys_where_that_is_allowed_and_they_end_with_the_session(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with agent(tmp_path, {**NO_PROFILE, "header_credentials": True}) as client:
            key = client.market.exchange.keys.issue("bob")
            session = await handshake(client, key=key.api_key, secret=key.material)
            account = await message(session, "get_account")
            assert account["account"].startswith("testnet/key-")
            assert key.api_key not in text(account)
            assert (await message(session, "connect"))["credentials"] == "own"
            other = await handshake(client)
            assert (await message(other, "connect"))["credentials"] == "none"
            scope = f"session:{session.client.extra['Connection-ID']}"
            assert client.client.desk.vault.get(scope, API_KEY) == key.api_key
            assert (await session.client.request("DELETE", "/mcp/sse")).status == 204
            assert client.client.desk.vault.get(scope, API_KEY) is None
            assert client.provider.accounts.opened == ()

    run(main())


def test_keys_in_headers_are_refused_where_they_are_not_allowed(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            headers = {"X-Binance-Api-Key": "k" * 64, "X-Binance-Api-Secret": "s" * 64}
            reply = await client.client.post("/mcp/sse", rpc("initialize", HELLO), headers)
            assert reply.status == 403
            assert "header_credentials = true" in reply.json["error"]["message"]
            assert b"kkkk" not in reply.body

    run(main())


# --- keys on a page -----------------------------------------------------------------------------


def test_a_stateless_client_sends_its_user_to_the_page_and_goes_on_with_the_keys(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            key = client.market.exchange.keys.issue("bob")
            handle = (await client.call("connect"))["connection_id"]
            first = await elicited(client, connection_id=handle, enter_keys=True)
            [(name, request)] = first["inputRequests"].items()
            assert request["method"] == "elicitation/create"
            assert request["params"]["mode"] == "url"
            page = client.provider.pages.of(f"connection:{handle}")
            assert page is not None
            assert request["params"]["url"] == page.url
            assert page.url.startswith("http://127.0.0.1:")
            sent = await ask(page, urlencode({"api_key": key.api_key, "secret": key.material}))
            assert sent.status == 200
            answers = {"inputResponses": {name: {"action": "accept"}}, "requestState": first["requestState"]}
            done = await elicited(client, answers, connection_id=handle, enter_keys=True)
            assert done["structuredContent"]["credentials"] == "own"
            account = await client.call("get_account", connection_id=handle)
            assert account["account"].startswith("testnet/key-")
            assert (await client.refused("get_account"))["code"] == "CREDENTIALS_REQUIRED"
            await client.call("connect", connection_id=handle, end=True)
            assert client.client.desk.vault.get(f"connection:{handle}", API_KEY) is None

    run(main())


async def entered(client: Agent, handle: str, **form: str) -> Any:
    """What `connect` answers after the user has sent that form from the page."""
    first = await elicited(client, connection_id=handle, enter_keys=True)
    [name] = first["inputRequests"]
    page = client.provider.pages.of(f"connection:{handle}")
    assert page is not None
    assert (await ask(page, urlencode(form))).status == 200
    answers = {"inputResponses": {name: {"action": "accept"}}, "requestState": first["requestState"]}
    done = await elicited(client, answers, connection_id=handle, enter_keys=True)
    return done["structuredContent"]


def test_keys_that_are_entered_later_replace_the_first_of_whatever_kind_and_leave_nothing_of_them(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            keys, accounts = client.market.exchange.keys, client.provider.accounts
            handle = (await client.call("connect"))["connection_id"]
            first, third = keys.issue("bob"), keys.issue("bob")
            pem = Ed25519PrivateKey.generate().private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            )
            for form in (
                {"api_key": first.api_key, "secret": first.material},
                {"api_key": "the-second-key-of-bob", "private_key": pem.decode()},
                {"api_key": third.api_key, "secret": third.material},
            ):
                done = await entered(client, handle, **form)
                secret = form.get("secret") or form["private_key"]
                named = Credentials.of(form["api_key"], secret).fingerprint
                assert (done["credentials"], done["account"]) == ("own", f"testnet/key-{named}")
                assert [account.name for account in accounts.opened] == [done["account"]]
            assert (await client.call("get_account", connection_id=handle))["account"] == done["account"]
            await client.call("connect", connection_id=handle, end=True)
            assert accounts.opened == ()

    run(main())


def test_two_keys_are_two_accounts_also_where_their_fingerprints_begin_alike(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            accounts = client.provider.accounts
            pair = [Keys("a-key-of-the-venue", secret=f"its-secret-{n}") for n in (126_006, 127_880)]
            assert len({keys.credentials().fingerprint[:8] for keys in pair}) == 1
            for number, keys in enumerate(pair):
                accounts.bring(f"session:{number}", keys)
            found = [await accounts.of(Caller.of_scope(f"session:{n}", None)) for n in range(2)]
            assert [account.credentials for account in found] == [keys.credentials() for keys in pair]
            assert found[0].name != found[1].name
            assert found[0].rest is not found[1].rest

    run(main())


async def elicited(client: Agent, answers: dict[str, Any] | None = None, **arguments: Any) -> Any:
    """A call of `connect` by a client that can send its user to a page."""
    meta: dict[str, Any] = {
        **ENVELOPE,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
    }
    params = {"name": "connect", "arguments": arguments, **(answers or {}), "_meta": meta}
    lines = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "connect"}
    reply = await client.client.post("/mcp", rpc("tools/call", params), lines)
    assert "result" in reply.json, reply.json
    return reply.json["result"]


def test_a_client_that_cannot_show_a_page_is_told_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            handle = (await client.call("connect"))["connection_id"]
            reply = await client.raw("connect", connection_id=handle, enter_keys=True)
            assert "elicitation" in text(reply.json["error"])

    run(main())


def test_a_handle_idle_for_30_seconds_loses_its_keys(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(1_794_819_600_000_000_000)
        async with agent(tmp_path, NO_PROFILE, clock=clock) as client:
            handle = (await client.call("connect"))["connection_id"]
            scope = f"connection:{handle}"
            client.client.desk.vault.put(scope, API_KEY, "k" * 32)
            clock.advance(31)
            await until(lambda: client.client.desk.vault.get(scope, API_KEY) is None)
            assert len(client.provider.connections) == 0

    run(main())
