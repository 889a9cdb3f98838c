"""Six clients that use five toolsets at once: `python -m tests.judges.soak_clients PORT SECONDS PROJECT RUN`.

The token comes on stdin. Each answer is counted by tool and outcome; one line of JSON comes out.
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

Turn = tuple[str, dict[str, Any]]

PAUSE: Final = 0.05
SYMBOLS: Final = ("AAPL", "IBM", "MSFT")
HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "soak", "version": "1"},
}


@dataclass(slots=True)
class Client:
    """One client on a connection that stays open."""

    port: int
    token: str
    counts: Counter[str]
    connection: http.client.HTTPConnection

    def post(
        self, path: str, value: Any, headers: dict[str, str] | None = None
    ) -> tuple[dict[str, str], bytes]:
        lines = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        self.connection.request("POST", path, json.dumps(value), {**lines, **(headers or {})})
        answer = self.connection.getresponse()
        body = answer.read()
        self.counts[f"{path.removeprefix('/tools/')} {answer.status} {_code(answer.status, body)}"] += 1
        return {name.lower(): value for name, value in answer.getheaders()}, body


def _code(status: int, body: bytes) -> str:
    """The error code of an answer, empty where it is a result."""
    if status == 200:
        return ""
    return str(json.loads(body).get("error", {}).get("code", "no code"))


def trader() -> Iterator[Turn]:
    """Buy and sell one share in turns, with a simulation and a note before each."""
    for number in itertools.count():
        name, side = f"soak-{number}", "buy" if number % 2 == 0 else "sell"
        trade = {"symbol": SYMBOLS[number // 2 % 3], "action": side, "quantity": 1}
        yield "get_quotes", {"tool_call_id": f"{name}-quotes", "symbols": list(SYMBOLS)}
        yield "trade_simulate", {"tool_call_id": f"{name}-simulate", "trades": [trade]}
        order = {**trade, "order_type": "market"}
        yield "trade_execute", {"tool_call_id": f"{name}-execute", "trades": [order]}


def keeper() -> Iterator[Turn]:
    """Log events, read the portfolio and follow what was logged."""
    for number in itertools.count():
        name = f"note-{number}"
        event = {"tool_call_id": name, "event_type": "signal", "data": {"number": number}}
        yield "log_event", event
        yield "get_portfolio", {"tool_call_id": f"{name}-portfolio"}
        yield "trace", {"ref": name}
        yield "desk_status", {}


def backtester(run: str) -> Iterator[Turn]:
    """Ask one recorded run over and over."""
    while True:
        yield "list_backtest_runs", {}
        yield "describe_run", {"runId": run}
        yield "get_events_by_type", {"runId": run, "eventType": "TradeExecution", "pageSize": 20}
        yield (
            "aggregate_metrics",
            {"runId": run, "eventType": "OrderRejection", "propertyPath": "$.RequestedQuantity"},
        )


def watcher() -> Iterator[Turn]:
    """Watch a market of the local exchange."""
    while True:
        yield "get_ticker", {"symbol": "BTCUSDT"}
        yield "get_orderbook", {"symbol": "BTCUSDT", "limit": 20}
        yield "get_klines", {"symbol": "BTCUSDT", "interval": "1m", "limit": 5}


def coder(project: str) -> Iterator[Turn]:
    """Search a project and log an attempt on it."""
    for number in itertools.count():
        yield "graph_search", {"project_root": project, "query": "withdraw balance"}
        yield "graph_context_for_files", {"project_root": project, "files": ["bank.py"]}
        note = {"message": f"checked withdrawal {number}", "graph_version": "cg1-none"}
        event = {"attempt_id": f"soak-{number // 50}", "kind": "checkpoint", "payload": note}
        yield "etg_log_event", {**event, "project_root": project}


def calls(turns: Iterator[Turn]) -> Callable[[Client], None]:
    """One turn of a client of the plain HTTP door."""

    def turn(client: Client) -> None:
        tool, arguments = next(turns)
        client.post(f"/tools/{tool}", arguments)

    return turn


def session(client: Client) -> None:
    """Shake hands, list the tools, read the market over MCP, and leave."""
    headers, _ = client.post("/mcp", _rpc("initialize", HELLO))
    own = {"Mcp-Session-Id": headers["mcp-session-id"]}
    client.post("/mcp", _rpc("tools/list", {}), own)
    client.post("/mcp", _rpc("prompts/list", {}), own)
    client.connection.request("DELETE", "/mcp", headers={**own, "Authorization": f"Bearer {client.token}"})
    client.connection.getresponse().read()


def _rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def work(client: Client, turn: Callable[[Client], None], until: float) -> None:
    while time.monotonic() < until:
        turn(client)
        time.sleep(PAUSE)


def main() -> None:
    port, seconds, project, run = sys.argv[1:5]
    token, counts = sys.stdin.readline().strip(), Counter[str]()
    turns = [calls(turns) for turns in (trader(), keeper(), backtester(run), watcher(), coder(project))]
    until = time.monotonic() + float(seconds)
    threads: list[threading.Thread] = []
    for turn in (*turns, session):
        client = Client(
            int(port), token, counts, http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        )
        threads.append(threading.Thread(target=work, args=(client, turn, until)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
