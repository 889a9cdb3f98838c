"""Keys are nowhere: after a session with credentials no byte of them is in any file, answer or process."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.exchange.desks import BUY, agent, pulsing, table_of
from tests.exchange.local.support import bench
from tests.exchange.test_accounts import ACCOUNT_URIS, NO_PROFILE, elicited, handshake, message
from tests.exchange.test_key_page import ask
from tests.exchange.test_official_client import toml
from tests.support import HELLO, ROOT, rpc, run
from tracedesk.hosts import find_one
from tracedesk.primitives.time import SystemClock

PROC = Path("/proc")


def forms(secret: str) -> list[bytes]:
    """A secret as it could have been written down."""
    raw = secret.encode()
    return [raw, base64.b64encode(raw), quote(secret, safe="").encode(), raw.hex().encode(), raw[::-1]]


def found_in(data: bytes, secrets: list[str]) -> list[bytes]:
    return [form for secret in secrets for form in forms(secret) if form in data]


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def family(pid: int) -> list[int]:
    """A process and everything it has started."""
    known, young = [pid], [pid]
    while young:
        parent = young.pop()
        for task in (PROC / str(parent) / "task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended since it was listed
                children = [int(child) for child in task.read_text().split()]
                known += children
                young += children
    return known


def shown(pid: int, what: str) -> bytes:
    """What the system tells anyone of a process; nothing of one that has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (PROC / str(pid) / what).read_bytes()
    return b""


class Pipe:
    """A desk on pipes, which answers questions to its user as told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout
        self.heard = b""
        self.numbers = iter(range(1, 1000))

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self.numbers)
        self.stdin.write(json.dumps(rpc(method, params, number)).encode() + b"\n")
        while True:
            line = await asyncio.wait_for(self.stdout.readline(), 30)
            assert line, "the desk ended"
            self.heard += line
            told = json.loads(line)
            if told.get("id") == number and "method" not in told:
                return told

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", name=tool, arguments=arguments)


@pytest.mark.skipif(not PROC.exists(), reason="looks at processes through /proc")
def test_a_session_with_credentials_leaves_no_byte_of_them_anywhere(tmp_path: Path) -> None:
    async def main() -> None:
        home = tmp_path / "home"
        async with bench(SystemClock()) as market, pulsing(market):
            table = {**table_of(market, home), **NO_PROFILE}
            (home / "main.keys").unlink()
            (home / "tracedesk.toml").write_text('log_level = "DEBUG"\n' + toml(table))
            secrets = [market.key.api_key, market.key.material]
            keys = {"BINANCE_API_KEY": secrets[0], "BINANCE_SECRET_KEY": secrets[1]}
            words = ["-P", "-m", "tracedesk.cli", "--home", str(home), "serve", "--stdio"]
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *words,
                stdin=-1,
                stdout=-1,
                stderr=-1,
                cwd=ROOT,
                env={**os.environ, **keys},
                limit=1 << 24,
            )
            desk = Pipe(process)
            await desk.ask("initialize", **HELLO)
            await script(desk, market)
            assert shown(process.pid, "cmdline").startswith(sys.executable.encode())
            for pid in family(process.pid):
                assert found_in(shown(pid, "cmdline"), secrets) == []
                assert found_in(shown(pid, "environ"), secrets) == []
            desk.stdin.close()
            rest, log = await asyncio.wait_for(process.communicate(), 30)
            assert found_in(desk.heard + rest, secrets) == []
            assert found_in(log, secrets) == []
            seen = list(files(home))
            assert any(path.name == "trace.db" for path in seen)
            assert any(path.suffix == ".log" for path in seen)
            for path in seen:
                assert found_in(path.read_bytes(), secrets) == [], path

    run(main())


@pytest.mark.skipif(not PROC.exists(), reason="looks at processes through /proc")
def test_a_local_exchange_that_a_command_started_has_no_key_in_its_environment(tmp_path: Path) -> None:
    profile = {"mode": "testnet", "api_key_env": "F_TEST_KEY", "secret_env": "F_TEST_SECRET"}
    (tmp_path / "tracedesk.toml").write_text(toml({"mode": "testnet", "profiles": {"second": profile}}))
    keys = {
        "BINANCE_API_KEY": "key-of-the-environment",
        "BINANCE_SECRET_KEY": "secret-of-the-environment",
        "BINANCE_API_SECRET": "other-of-the-environment",
        "F_TEST_KEY": "key-of-the-profile",
        "F_TEST_SECRET": "secret-of-the-profile",
    }
    command = [sys.executable, "-P", "-m", "tracedesk.cli", "--home", str(tmp_path), "exchange"]
    subprocess.run([*command, "serve"], env={**os.environ, **keys}, cwd=ROOT, check=True, capture_output=True)
    info = find_one(tmp_path, "exchange", "local")
    try:
        assert info is not None
        environ = (PROC / str(info.pid) / "environ").read_bytes()
        assert b"PATH=" in environ
        assert found_in(environ, list(keys.values())) == []
        assert [name for name in keys if name.encode() in environ] == []
    finally:
        subprocess.run([*command, "stop"], cwd=ROOT, check=True, capture_output=True)


async def script(desk: Pipe, market: Any) -> None:
    """Everything that touches keys: reads, orders, refusals, faults, references, prompts."""
    account = await desk.call("get_account")
    assert account["result"]["structuredContent"]["account"] == "testnet/environment", account
    token = (await desk.call("preview_order", **BUY))["result"]["structuredContent"]["preview_token"]
    placed = (await desk.call("place_order", **BUY, preview_token=token))["result"]["structuredContent"]
    await desk.call("get_source", ref=placed["ref"])
    await desk.call("trace", ref=placed["ref"])
    for uri in ACCOUNT_URIS:
        await desk.ask("resources/read", uri=uri)
    await desk.ask("prompts/get", name="portfolio_risk", arguments={})
    await desk.call("connect", profile="nobody")
    await desk.call("get_account", api_key=market.key.api_key[:5])
    for kind in ("malformed", "error_before", "timeout_before", "drop_before"):
        market.exchange.faults.set({"kind": kind, "on": "account.status", "times": 3})
        await desk.call("get_account")
        market.exchange.faults.clear()
    market.exchange.faults.skew(10_000)
    await desk.call("get_open_orders")
    market.exchange.faults.skew(0)
    market.exchange.cut()
    await desk.call("cancel_order", symbol="BTCUSDT", order_id=placed["order_id"])
    await desk.call("provider_status")
    await desk.call("desk_status")
    await desk.call("codegraph_nothing")


def test_no_object_of_ours_shows_keys_and_none_are_left_after_the_session(tmp_path: Path) -> None:
    async def main() -> None:
        table = {**NO_PROFILE, "header_credentials": True}
        async with agent(tmp_path, table) as client:
            headed, paged = client.market.exchange.keys.issue("ann"), client.market.exchange.keys.issue("bob")
            session = await handshake(client, key=headed.api_key, secret=headed.material)
            assert "balances" in await message(session, "get_account")
            handle = (await client.call("connect"))["connection_id"]
            await elicited(client, connection_id=handle, enter_keys=True)
            page = client.provider.pages.of(f"connection:{handle}")
            assert page is not None
            await ask(page, urlencode({"api_key": paged.api_key, "secret": paged.material}))
            assert "balances" in await client.call("get_account", connection_id=handle)
            secrets = [headed.api_key, headed.material, paged.api_key, paged.material]
            for thing in ours():
                assert found_in(repr(thing).encode(errors="replace"), secrets) == [], type(thing)
            for path in ("/", "/health", "/openapi.json"):
                assert found_in((await client.client.request("GET", path)).body, secrets) == []
            await session.client.request("DELETE", "/mcp/sse")
            await client.call("connect", connection_id=handle, end=True)
            assert client.provider.accounts.opened == ()
            assert repr(client.client.desk.vault) == "<Vault of 0 scopes>"

    run(main())


def ours() -> list[Any]:
    """Every living object of a class of the product, but not the exchange's own: it must know its keys."""
    gc.collect()
    modules = ("tracedesk.exchange.local", "tracedesk.exchange.venue")
    found: list[Any] = gc.get_objects()
    kinds = ((thing, str(thing.__class__.__module__)) for thing in found if hasattr(thing, "__class__"))
    return [thing for thing, name in kinds if name.startswith("tracedesk.") and not name.startswith(modules)]
