"""Without a setting or a key: the local exchange starts by itself, desks share it, and it survives."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, types

from tests.exchange.confirming import enter_code, file_of
from tests.exchange.test_official_client import call
from tests.official import Mode
from tests.support import run
from tracedesk.exchange.local.launch import running
from tracedesk.hosts import HostClient

RECORDING = Path(__file__).parent / "recordings" / "btcusdt_local.gz"
ORDER = {"symbol": "BTCUSDT", "side": "BUY", "order_type": "MARKET", "quantity": "0.01"}


@asynccontextmanager
async def home(tmp_path: Path) -> AsyncGenerator[Path]:
    """A home whose exchange is stopped in the end."""
    folder = tmp_path / "home"
    try:
        yield folder
    finally:
        info = running(folder)
        if info is not None:
            async with await HostClient.connect(info) as host:
                await host.stop()


@asynccontextmanager
async def desk(folder: Path, mode: Mode, **more: Any) -> AsyncGenerator[Client]:
    words = ["-P", "-m", "tracedesk.cli", "--home", str(folder), "serve", "--stdio", "--toolsets", "exchange"]
    async with Client(StdioServerParameters(command=sys.executable, args=words), mode=mode, **more) as client:
        yield client


def test_two_desks_share_a_market_and_each_account_has_its_own_money(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            home(tmp_path) as folder,
            desk(folder, "auto") as one,
            desk(folder, "legacy") as two,
        ):
            assert (await call(one, "provider_status"))["mode"] == "sim"
            token = (await call(one, "preview_order", **ORDER))["preview_token"]
            assert (await call(one, "place_order", **ORDER, preview_token=token))["status"] == "FILLED"
            for client in (one, two):
                assert (await money(client))["BTC"] == "1.00999000"
            alice = await call(two, "connect", profile="alice")
            assert alice["account"] == "sim/alice"
            assert (await money(two))["BTC"] == "1.00000000"
            status = [(await call(client, "provider_status"))["venue"]["rest"] for client in (one, two)]
            assert status[0] == status[1]

    run(main())


@pytest.mark.parametrize(("queue", "waits"), [("risk-averse", True), ("none", False)])
def test_an_order_in_a_replay_shows_the_quantity_before_it_where_it_queues(
    tmp_path: Path, queue: str, waits: bool
) -> None:
    async def main() -> None:
        async with home(tmp_path) as folder:
            folder.mkdir(mode=0o700)
            sim = f'[exchange.sim]\nreplay = "{RECORDING}"\nqueue = "{queue}"\n'
            (folder / "tracedesk.toml").write_text(sim)
            async with desk(folder, "auto") as client:
                price, _ = (await call(client, "get_orderbook", symbol="BTCUSDT"))["bids"][-1]
                order = {**ORDER, "order_type": "LIMIT", "time_in_force": "GTC", "price": price}
                token = (await call(client, "preview_order", **order))["preview_token"]
                placed = await call(client, "place_order", **order, preview_token=token)
                which = {"symbol": "BTCUSDT", "order_id": placed["order_id"]}
                found = (await call(client, "get_order", **which))["order"]
                assert found["status"] == "NEW"
                assert ("quantity_ahead" in found) is waits, found
                assert Decimal(found.get("quantity_ahead", "0")) >= 0
                await call(client, "cancel_order", **which)
                assert "quantity_ahead" not in (await call(client, "get_order", **which))["order"]

    run(main())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_over_stdio_an_order_waits_for_the_code_in_the_home_in_both_eras(tmp_path: Path, mode: Mode) -> None:
    async def main() -> None:
        questions = list[dict[str, Any]]()

        async def person(context: Any, params: Any) -> Any:
            question = params.model_dump(by_alias=True)
            questions.append(question)
            if len(questions) > 1:
                assert (await enter_code(question)).status == 200
                return types.ElicitResult(action="accept")
            return types.ElicitResult(action="decline")

        async with home(tmp_path) as folder:
            folder.mkdir(mode=0o700)
            (folder / "tracedesk.toml").write_text('[exchange]\nconfirm = "always"\n')
            async with desk(folder, mode, elicitation_callback=person) as client:
                for decided in ("PREVIEW_INVALID", "FILLED"):
                    token = (await call(client, "preview_order", **ORDER))["preview_token"]
                    answer = await client.call_tool("place_order", {**ORDER, "preview_token": token})
                    assert decided in str(answer.content)
            assert [question["mode"] for question in questions] == ["url", "url"]
            assert file_of(questions[1]).is_relative_to(folder)

    run(main())


@pytest.mark.judge
def test_a_desk_finds_its_account_at_an_exchange_that_began_anew(tmp_path: Path) -> None:
    async def main() -> None:
        async with home(tmp_path) as folder, desk(folder, "auto") as client:
            before = await money(client)
            first = running(folder)
            assert first is not None
            async with await HostClient.connect(first) as host:
                await host.stop()
            for name in ("exchange.db", "exchange.keys"):
                (folder / name).unlink()
            async with asyncio.timeout(40):
                while True:
                    answer = await client.call_tool("get_account", {})
                    if not answer.is_error:
                        break
                    await asyncio.sleep(0.2)
            again = running(folder)
            assert again is not None
            assert again.pid != first.pid
            assert await money(client) == before

    run(main())


@pytest.mark.judge
def test_an_exchange_that_is_killed_is_started_again_with_everything_that_was(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            home(tmp_path) as folder,
            desk(folder, "auto") as client,
        ):
            token = (await call(client, "preview_order", **ORDER))["preview_token"]
            await call(client, "place_order", **ORDER, preview_token=token)
            killed = running(folder)
            assert killed is not None
            os.kill(killed.pid, signal.SIGKILL)
            async with asyncio.timeout(40):
                while True:
                    answer = await client.call_tool("get_account", {})
                    if not answer.is_error:
                        break
                    await asyncio.sleep(0.2)
            assert (await money(client))["BTC"] == "1.00999000"
            again = running(folder)
            assert again is not None
            assert again.pid != killed.pid
            assert (await call(client, "orderbook_l2", symbol="BTCUSDT"))["status"] == "ok"

    run(main())


async def money(client: Client) -> dict[str, str]:
    return {row["asset"]: row["total"] for row in (await call(client, "get_account"))["balances"]}
