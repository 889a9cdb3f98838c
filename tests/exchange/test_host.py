"""The process of the local exchange: started on demand, shared, and back with everything after a crash."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import pytest

from tests.support import BOUND, run
from tracedesk.errors import ToolError
from tracedesk.exchange.local.launch import Files, ask, ensure, running, start
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.settings import Sim
from tracedesk.hosts import HostBusy, HostClient, HostGone, HostInfo

PLAN: Final = Plan(symbols=("BTCUSDT",))
SIM: Final = Sim(idle_seconds=0)
"""An exchange that a test starts on demand, and stops itself."""
RECORDING: Final = Path(__file__).parent / "recordings" / "btcusdt_local.gz"


async def stopped(info: HostInfo) -> None:
    client = await HostClient.connect(info)
    await client.stop(timeout=BOUND)


@asynccontextmanager
async def exchange(home: Path, plan: Plan = PLAN) -> AsyncGenerator[HostInfo]:
    info = await start(home, plan)
    try:
        yield info
    finally:
        if running(home) is not None:
            await stopped(info)


async def get(rest: str, path: str, headers: dict[str, str] | None = None) -> Any:
    async with aiohttp.ClientSession() as http, http.get(f"{rest}/api/v3/{path}", headers=headers) as reply:
        return await reply.json()


async def signed(rest: str, key: dict[str, str], verb: str, path: str, **sent: Any) -> Any:
    told = await get(rest, "time")
    query = urlencode({**sent, "timestamp": told["serverTime"]})
    mark = hmac.new(key["secret"].encode(), query.encode(), hashlib.sha256).hexdigest()
    url = f"{rest}/api/v3/{path}?{query}&signature={mark}"
    headers = {"X-MBX-APIKEY": key["api_key"]}
    async with aiohttp.ClientSession() as http, http.request(verb, url, headers=headers) as reply:
        return await reply.json()


def _gone(home: Path) -> None:
    """Return once the registration is that of a dead process."""
    deadline = time.monotonic() + BOUND
    while running(home) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def _use(home: Path) -> None:
    async with exchange(home) as info:
        address = await ask(home, "address")
        assert set(address) == {"rest", "streams", "ws_api"}
        assert address["rest"].startswith("http://127.0.0.1:")
        await _it_speaks_the_wire(address)
        await _accounts_have_keys(home, address["rest"])
        await _faults_can_be_set(home, address["rest"])
        status = await ask(home, "status")
        assert (status["source"], status["seed"], status["pid"]) == ("flow", 1, info.pid)
        async with await HostClient.connect(info) as client:
            assert (await client.snapshot("status")).value["markets"][0]["symbol"] == "BTCUSDT"
        with pytest.raises(HostBusy):
            await start(home, PLAN)
        assert (await ensure(home, SIM)).pid == info.pid


async def _it_speaks_the_wire(address: dict[str, str]) -> None:
    klines = await get(address["rest"], "klines?symbol=BTCUSDT&interval=1m&limit=1000")
    assert len(klines) == 1000
    assert int((await get(address["rest"], "ticker/24hr?symbol=BTCUSDT"))["count"]) > 0
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{address['streams']}/ws/btcusdt@depth@100ms") as ws,
        asyncio.timeout(BOUND),
    ):
        first, second = json.loads(await ws.receive_str()), json.loads(await ws.receive_str())
    assert second["U"] == first["u"] + 1


async def _accounts_have_keys(home: Path, rest: str) -> None:
    key = await ask(home, "account", {"name": "me"})
    assert await ask(home, "account", {"name": "me"}) == key
    assert await ask(home, "account", {"name": "you"}) != key
    account = await signed(rest, key, "GET", "account")
    assert {"asset": "USDT", "free": "100000.00000000", "locked": "0.00000000"} in account["balances"]
    listed = await ask(home, "keys")
    assert [each["account"] for each in listed["keys"]] == ["me", "you"]
    assert key["secret"] not in json.dumps(listed)
    assert stat.S_IMODE(Files(home).keys.stat().st_mode) == 0o600
    for name in ("", "a b", "market", "x" * 65):
        with pytest.raises(ToolError, match="name:") as refused:
            await ask(home, "account", {"name": name})
        assert refused.value.code == "INVALID_PARAMETER"


async def _faults_can_be_set(home: Path, rest: str) -> None:
    await ask(home, "faults", {"skew_ms": 10_000})
    before = time.time_ns() // 1_000_000
    told = (await get(rest, "time"))["serverTime"]
    assert before <= told - 10_000 <= time.time_ns() // 1_000_000
    with pytest.raises(ToolError, match="unknown kind"):
        await ask(home, "faults", {"set": [{"kind": "nonsense"}]})
    assert (await ask(home, "faults", {"clear": True}))["skew_ms"] == 0


def test_one_process_serves_the_wire_keys_faults_and_figures(tmp_path: Path) -> None:
    run(_use(tmp_path))
    assert running(tmp_path) is None
    with pytest.raises(HostGone, match="tracedesk exchange serve"):
        run(ask(tmp_path, "address"))


def test_two_that_need_it_at_once_get_the_same_exchange(tmp_path: Path) -> None:
    async def both() -> None:
        one, two = await asyncio.gather(ensure(tmp_path, SIM), ensure(tmp_path, SIM))
        assert one.pid == two.pid
        await stopped(one)

    run(both())


def test_however_many_need_it_at_once_all_get_the_same_exchange(tmp_path: Path) -> None:
    async def all_of_them() -> None:
        found = await asyncio.gather(*(ensure(tmp_path, SIM) for _ in range(5)))
        assert len({info.pid for info in found}) == 1
        await stopped(found[0])
        assert not list(Files(tmp_path).lock.parent.glob("*.failure"))

    run(all_of_them())


def test_after_a_kill_the_same_key_finds_the_same_order_resting(tmp_path: Path) -> None:
    async def crash() -> None:
        info = await start(tmp_path, PLAN)
        rest = (await ask(tmp_path, "address"))["rest"]
        key = await ask(tmp_path, "account", {"name": "me"})
        price = (await get(rest, "ticker/price?symbol=BTCUSDT"))["price"]
        order = await signed(
            rest,
            key,
            "POST",
            "order",
            symbol="BTCUSDT",
            side="BUY",
            type="LIMIT",
            timeInForce="GTC",
            quantity="0.01",
            price=f"{int(float(price) * 0.9)}.00",
        )
        assert order["status"] == "NEW"
        os.kill(info.pid, signal.SIGKILL)
        await asyncio.to_thread(_gone, tmp_path)
        async with exchange(tmp_path):
            rest = (await ask(tmp_path, "address"))["rest"]
            assert await ask(tmp_path, "account", {"name": "me"}) == key
            [kept] = await signed(rest, key, "GET", "openOrders", symbol="BTCUSDT")
            assert kept["orderId"] == order["orderId"]
            book = await get(rest, "depth?symbol=BTCUSDT&limit=5000")
            assert order["price"] in [level[0] for level in book["bids"]]

    run(crash())


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ToolError, match=f"port: {port} cannot be used") as refused:
            run(start(tmp_path, Plan(port=port, symbols=("BTCUSDT",))))
    assert refused.value.code == "VENUE_UNAVAILABLE"
    assert not list(Files(tmp_path).lock.parent.glob("*.failure"))


def test_a_file_that_is_no_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("nonsense\n")
    with pytest.raises(ToolError, match="replay: bad, line 1") as refused:
        run(ensure(tmp_path, Sim(idle_seconds=0, replay=str(tmp_path / "bad"))))
    assert refused.value.code == "INVALID_PARAMETER"
    assert running(tmp_path) is None


def test_a_replay_is_served_and_its_clock_may_be_that_of_the_recording(tmp_path: Path) -> None:
    async def replayed() -> None:
        plan = Plan(replay=(str(RECORDING),), as_recorded=True)
        async with exchange(tmp_path, plan):
            status = await ask(tmp_path, "status")
            assert status["recordings"] == ["btcusdt_local.gz"]
            assert status["time"].startswith("2026-01-01T00:0")
            rest = (await ask(tmp_path, "address"))["rest"]
            assert (await get(rest, "time"))["serverTime"] < 1_767_230_000_000
            info = await get(rest, "exchangeInfo")
            assert [each["symbol"] for each in info["symbols"]] == ["BTCUSDT"]

    run(replayed())
    assert Files(tmp_path).replay_venue.exists()
    assert not Files(tmp_path).venue.exists()


def test_finding_the_exchange_loads_nothing_heavy() -> None:
    heavy = ("aiohttp", "numpy", "cryptography", "grpc", "rich")
    code = (
        "import sys, tracedesk.exchange.local.launch;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
