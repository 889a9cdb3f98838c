"""Any program of this machine may ask the local exchange anything; it takes nothing from an account."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.desk_processes import COMMAND, stdio_desk, succeeds
from tests.support import BOUND
from tracedesk.exchange.local.launch import running
from tracedesk.hosts import HostClient

RESTING = {"symbol": "BTCUSDT", "side": "BUY", "order_type": "LIMIT", "quantity": "0.01"}


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    """A home whose local exchange is stopped in the end."""
    yield tmp_path
    info = running(tmp_path)
    if info is not None:

        async def stop() -> None:
            async with await HostClient.connect(info) as host:
                await host.stop()

        asyncio.run(stop())


def _storm(rest: str, requests: int) -> list[int]:
    """Statuses of heavy requests by a program that has no key."""
    connection = http.client.HTTPConnection(urlsplit(rest).netloc, timeout=BOUND)
    statuses: list[int] = []
    for _ in range(requests):
        connection.request("GET", "/api/v3/depth?symbol=BTCUSDT&limit=5000")
        reply = connection.getresponse()
        reply.read()
        statuses.append(reply.status)
    connection.close()
    return statuses


def test_a_program_without_a_key_cannot_keep_the_kill_switch_from_cancelling(home: Path) -> None:
    with stdio_desk(home, "--toolsets", "exchange") as desk:
        last = succeeds(desk, "get_avg_price", symbol="BTCUSDT")["price"]
        price = str(round(float(last) * 0.97))
        order = {**RESTING, "price": price}
        token = succeeds(desk, "preview_order", **order)["preview_token"]
        assert succeeds(desk, "place_order", **order, preview_token=token)["status"] == "NEW"
        rest = succeeds(desk, "provider_status")["venue"]["rest"]
        statuses = _storm(rest, 150)
        assert set(statuses) == {200}
        killed = succeeds(desk, "kill_switch", reason="test")
        assert killed["unresolved"] == []
        assert len(killed["cancelled"]) == 1, killed


def test_limits_by_address_can_be_had_and_a_ban_ended(home: Path) -> None:
    (home / "tracedesk.toml").write_text('[exchange.sim]\nlimits = "address"\n', encoding="utf-8")
    with stdio_desk(home, "--toolsets", "exchange") as desk:
        succeeds(desk, "get_avg_price", symbol="BTCUSDT")
        rest = succeeds(desk, "provider_status")["venue"]["rest"]
        statuses = _storm(rest, 150)
        assert {429, 418} <= set(statuses)
        words = [*COMMAND, "--home", str(home), "--json", "exchange", "unban"]
        done = subprocess.run(words, capture_output=True, check=True, timeout=BOUND)
        assert json.loads(done.stdout) == {"unbanned": ["127.0.0.1"]}
        assert _storm(rest, 1) == [200]
