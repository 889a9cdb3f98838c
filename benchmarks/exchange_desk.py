"""The desk with the exchange toolset over HTTP, on the local exchange: readings, sessions and prompts."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import messages
from benchmarks.loadgen import Answer, Load, connect, request
from benchmarks.messages import VERSION, Era, Misbehaved
from benchmarks.process import ROOT, free_port, running, wait_until_serving

SESSIONS: Final = 50
MARKET: Final = "binance://market/btcusdt"
PROMPTS: Final[Mapping[str, Mapping[str, str]]] = {
    "trading_analysis": {"symbol": "BTCUSDT"},
    "portfolio_risk": {},
    "market_microstructure_analysis": {"symbol": "BTCUSDT"},
    "order_flow_trading": {"symbol": "BTCUSDT"},
    "liquidity_mapping": {"symbol": "BTCUSDT"},
}
_SETTINGS: Final = "[exchange]\nwarm = true\n"
_WARM_READS: Final = 20
_WARM_SECONDS: Final = 30.0
_PAUSE: Final = 0.25
_MAIN: Final = "from tracedesk.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Waits:
    """How long clients waited, in milliseconds."""

    reads: list[float]
    """One client, one reading at a time."""
    crowd: list[float]
    """As many sessions as there may be, each reading again as soon as it is answered."""
    crowd_per_second: float
    prompts: dict[str, list[float]]
    first_prompts: dict[str, float]
    """The first time of each, which loads what computes them."""


def measure(home: Path, reads: int, crowd: int, prompts: int) -> Waits:
    """Everything on one desk and one exchange, which end with it."""
    with _desk(home) as port:
        return asyncio.run(_measured(port, reads, crowd, prompts))


@contextmanager
def _desk(home: Path) -> Generator[int]:
    home.mkdir(parents=True)
    (home / "tracedesk.toml").write_text(_SETTINGS, encoding="utf-8")
    port = free_port()
    argv = [sys.executable, "-c", _MAIN, "serve", "--port", str(port), "--toolsets", "exchange"]
    try:
        with running("ours", argv, {"TRACEDESK_HOME": str(home)}, pipes=False) as server, server.blamed():
            wait_until_serving(port, server.process)
            yield port
    finally:
        stop = [sys.executable, "-c", _MAIN, "exchange", "stop", "--home", str(home)]
        subprocess.run(stop, cwd=ROOT, capture_output=True, check=False)


async def _measured(port: int, reads: int, crowd: int, prompts: int) -> Waits:
    asker = _Asker(port)
    one = await connect(port, 1)
    await asker.until_warm(one)
    alone = [await asker.read(one) for _ in range(reads)]
    first = {name: await asker.prompt(one, name) for name in PROMPTS}
    gotten = {name: [await asker.prompt(one, name) for _ in range(prompts)] for name in PROMPTS}
    one.close()
    waits, seconds = await _crowded(asker, port, crowd)
    return Waits(alone, waits, len(waits) / seconds, gotten, first)


async def _crowded(asker: _Asker, port: int, each: int) -> tuple[list[float], float]:
    """Every session on a connection of its own."""
    load = await connect(port, SESSIONS)
    sessions = await asker.open_sessions(load)
    loop = asyncio.get_running_loop()
    await asker.read_in(load, sessions, 1)
    began = loop.time()
    waits = await asker.read_in(load, sessions, each)
    seconds = loop.time() - began
    load.close()
    return waits, seconds


class _Asker:
    """Sends what it is told and refuses wrong answers."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ids = itertools.count(1)

    async def until_warm(self, load: Load) -> None:
        """Read until the book is in step with its stream, then some more."""
        deadline = asyncio.get_running_loop().time() + _WARM_SECONDS
        while not await self._warm(load):
            if asyncio.get_running_loop().time() > deadline:
                raise Misbehaved(f"the book was not in step within {_WARM_SECONDS:.0f} seconds")
            await asyncio.sleep(_PAUSE)
        for _ in range(_WARM_READS):
            await self.read(load)

    async def _warm(self, load: Load) -> bool:
        params = {"name": "orderbook_health", "arguments": {"symbol": "BTCUSDT"}}
        answer = await self._one(load, "tools/call", params, "orderbook_health")
        result = json.loads(answer.body)["result"]
        return not result.get("isError") and bool(result["structuredContent"].get("synced"))

    async def read(self, load: Load) -> float:
        answer = await self._one(load, "resources/read", {"uri": MARKET}, MARKET)
        _check_reading(answer)
        return answer.wait_ns / 1e6

    async def prompt(self, load: Load, name: str) -> float:
        params = {"name": name, "arguments": dict(PROMPTS[name])}
        answer = await self._one(load, "prompts/get", params, name)
        if not json.loads(answer.body).get("result", {}).get("messages"):
            raise Misbehaved(f"no prompt {name}: {answer.body[:400]!r}")
        return answer.wait_ns / 1e6

    async def _one(self, load: Load, method: str, params: Mapping[str, Any], name: str) -> Answer:
        body = messages.request(next(self._ids), method, "modern", dict(params))
        headers = {**_headers("modern"), "Mcp-Method": method, "Mcp-Name": name}
        (answer,) = await load.send([request("POST", self._port, headers, body)])
        if answer.status != 200:
            raise Misbehaved(f"status {answer.status}: {answer.body[:400]!r}")
        return answer

    async def open_sessions(self, load: Load) -> list[str]:
        hello = [
            request("POST", self._port, _headers("handshake"), messages.initialize(next(self._ids)))
            for _ in range(SESSIONS)
        ]
        answers = await load.send(hello)
        sessions = [answer.headers.get("mcp-session-id", "") for answer in answers]
        if len(set(sessions)) != SESSIONS or "" in sessions:
            raise Misbehaved(f"{SESSIONS} sessions could not be opened: {answers[-1].body[:400]!r}")
        return sessions

    async def read_in(self, load: Load, sessions: Sequence[str], each: int) -> list[float]:
        """Every session reads `each` times; requests are dealt out so that each keeps to its session."""
        sent = [
            request(
                "POST",
                self._port,
                {**_headers("handshake"), "Mcp-Session-Id": session},
                messages.request(next(self._ids), "resources/read", "handshake", {"uri": MARKET}),
            )
            for _ in range(each)
            for session in sessions
        ]
        answers = await load.send(sent)
        for answer in answers:
            _check_reading(answer)
        return [answer.wait_ns / 1e6 for answer in answers]


def _headers(era: Era) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION[era],
    }


def _check_reading(answer: Answer) -> None:
    try:
        text: str = json.loads(answer.body)["result"]["contents"][0]["text"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise Misbehaved(f"not a reading: {answer.status} {answer.body[:400]!r}") from None
    if "BTCUSDT" not in text:
        raise Misbehaved(f"a reading of another market: {text[:400]!r}")
