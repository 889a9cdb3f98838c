"""The desk with only the trading toolset, over its own stdio: a cold start, and simulations of 20 trades."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks import messages, trading_rival
from benchmarks.lineup import Argv, shipped
from benchmarks.measure import reading, settled_reading, spent_us
from benchmarks.messages import Misbehaved
from benchmarks.process import running
from benchmarks.stdio_client import StdioClient
from tracedesk.calls.history import newest
from tracedesk.journal import Reader
from tracedesk.market import ReplayClock, calendar

OURS: Final = "ours"
ALPACA: Final = "alpaca-mcp-server"
SYMBOLS: Final = tuple(f"SYM{chr(ord('A') + number)}" for number in range(20))
_DAYS: Final = 500
"""Calendar days of bars: more than 252 sessions."""
_WARM: Final = 10
_SETTINGS: Final = """
[trading.providers]
quotes = ["files"]
history = ["files"]
"""


def command() -> Argv:
    """What a user would run."""
    serve = shipped()
    if serve is None:
        raise Misbehaved("`tracedesk serve --stdio` is not built here; run `make setup`")
    return (*serve, "--toolsets", "trading")


# --- cold start ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """What one start cost up to the answered `tools/list`, and how long that answer is."""

    cpu_us: float
    wall_us: float
    bytes: int
    tools: int


def starts(home: Path, rounds: int) -> dict[str, list[Start]]:
    """Fresh processes in turns; the first of each, which may compile, is thrown away."""
    lineup: dict[str, tuple[Argv, Mapping[str, str]]] = {OURS: (command(), {"TRACEDESK_HOME": str(home)})}
    if trading_rival.installed():
        lineup[ALPACA] = ((str(trading_rival.COMMAND),), trading_rival.ENV)
    found: dict[str, list[Start]] = {name: [] for name in lineup}
    names = list(lineup)
    for number in range(-1, rounds):
        for name in names if number % 2 else reversed(names):
            start = _start(name, *lineup[name])
            if number >= 0:
                found[name].append(start)
    return found


def _start(name: str, argv: Argv, env: Mapping[str, str]) -> Start:
    """With a handshake, which is all that the rival speaks."""
    answers: list[bytes] = []

    def keep(answer: bytes, number: int) -> None:
        messages.check_answered(answer, number)
        answers.append(answer)

    began = time.perf_counter_ns()
    with running(name, argv, env, pipes=True) as server, server.blamed():
        client = StdioClient(server, "handshake")
        client.open()
        client.list_tools(keep)
        waited = (time.perf_counter_ns() - began) / 1000
        spent = spent_us({}, reading(server.pid))
    (answer,) = answers
    result = json.loads(answer)["result"]
    if result.get("nextCursor"):
        raise Misbehaved(f"{name} lists its tools in pages; their bytes would not compare")
    return Start(spent, waited, len(answer), len(result["tools"]))


# --- simulations ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Simulations:
    """How long calls took; all but the first find the market's files read and the prices fetched."""

    first_us: float
    waits_us: list[float]
    """What the client waited."""
    cpu_us: float
    recorded_us: list[int]
    """The server's own measure of the same calls, from its records."""


def simulations(home: Path, calls: int) -> Simulations:
    """Simulate a purchase of all symbols, again and again, each under an id of its own."""
    lay_out(home)
    env = {"TRACEDESK_HOME": str(home)}
    with running(OURS, command(), env, pipes=True) as server, server.blamed():
        client = _Client(server, "modern")
        client.list_tools(messages.check_answered)
        first = client.simulate()
        for _ in range(_WARM):
            client.simulate()
        before = settled_reading(server.pid)
        waits = [client.simulate() for _ in range(calls)]
        spent = spent_us(before, settled_reading(server.pid))
    return Simulations(first, waits, spent / calls, _recorded(home, calls))


class _Client(StdioClient):
    """Calls `trade_simulate`, and checks that each answer is whole."""

    def simulate(self) -> float:
        number = self._next()
        request = _simulate(number)
        began = time.perf_counter_ns()
        answer = self._ask(request)
        waited = (time.perf_counter_ns() - began) / 1000
        _check(answer)
        return waited


def _simulate(number: int) -> bytes:
    message: dict[str, Any] = json.loads(messages.list_tools("modern", number))
    trades = [{"symbol": symbol, "action": "buy", "quantity": 10} for symbol in SYMBOLS]
    arguments = {"tool_call_id": f"bench-{number}", "trades": trades}
    params = {**message["params"], "name": "trade_simulate", "arguments": arguments}
    return json.dumps({**message, "method": "tools/call", "params": params}).encode()


def _check(answer: bytes) -> None:
    result: dict[str, Any] = json.loads(answer).get("result", {})
    simulation = result.get("structuredContent", {}).get("simulation", {})
    known = simulation.get("risk_metrics", {})
    if len(simulation.get("trades", ())) != len(SYMBOLS) or known.get("var_95_1d") is None:
        raise Misbehaved(f"not a simulation of {len(SYMBOLS)} trades with its risk: {answer[:600]!r}")


def _recorded(home: Path, calls: int) -> list[int]:
    with Reader(home / "trace.db") as reader:
        ended = [call.body for call in newest(reader, calls)]
    if [body["tool"] for body in ended] != ["trade_simulate"] * calls:
        raise Misbehaved("the newest call records are not the simulations")
    return [body["us"] for body in ended]


def lay_out(home: Path) -> None:
    """A home whose market is a folder of invented bars, up to the session that the clock stands in."""
    folder = home / "market" / "bars"
    folder.mkdir(parents=True)
    (home / "tracedesk.toml").write_text(_SETTINGS, encoding="utf-8")
    now = calendar.session_at(ReplayClock().now_ns())
    assert now is not None
    sessions = calendar.sessions(now - timedelta(days=_DAYS), now)
    for number, symbol in enumerate(SYMBOLS):
        (folder / f"{symbol}.csv").write_text(_bars(sessions, random.Random(number)), encoding="ascii")


def _bars(sessions: Sequence[date], draw: random.Random) -> str:
    lines, cents = ["date,open,high,low,close,volume"], draw.randint(2_000, 20_000)
    for session in sessions:
        opened, cents = cents, max(100, round(cents * draw.uniform(0.97, 1.0305)))
        prices = (opened, max(opened, cents) + 5, min(opened, cents) - 5, cents)
        figures = ",".join(f"{price // 100}.{price % 100:02}" for price in prices)
        lines.append(f"{session},{figures},{draw.randint(10**6, 10**7)}")
    return "\n".join(lines) + "\n"
