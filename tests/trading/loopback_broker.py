"""A broker on the loopback, in a process of its own: it remembers orders, and fails and lies as it is told.

    python -m tests.trading.loopback_broker MEMORY

prints its port. Every order is filled whole at one price unless a script names another behaviour for its
client id. MEMORY keeps one line per order taken, so that a broker that is started again knows them all.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.request import Request, urlopen

from tracedesk.trading.broker import BrokerRefused, BrokerSilent, Report
from tracedesk.trading.model import Order

PRICE: Final = 20_000_000
"""Twenty dollars: what market orders trade at."""
FEES: Final = 100

Json = dict[str, Any]


# --- the server --------------------------------------------------------------------------------


@dataclass(slots=True)
class Exchange:
    """Orders by client id, how often each was submitted, and what to do with the next."""

    memory: Path
    orders: dict[str, Json] = field(default_factory=dict[str, Json])
    submissions: Counter[str] = field(default_factory=Counter[str])
    script: dict[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0

    def remember(self) -> None:
        if self.memory.exists():
            for line in self.memory.read_text(encoding="utf-8").splitlines():
                order = json.loads(line)
                self.orders[order["client_id"]] = order

    def take(self, order: Json, how: str) -> Json:
        """Trade an order, once; an id that is known is answered with what became of it."""
        self.submissions[order["client_id"]] += 1
        known = self.orders.get(order["client_id"])
        if known is None:
            known = self.orders[order["client_id"]] = _traded(order, how)
            with self.memory.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known) + "\n")
        return known


def _traded(order: Json, how: str) -> Json:
    """What truly becomes of an order, whatever is said of it."""
    if how == "reject":
        return {**order, "status": "rejected", "quantity": 0, "price": None, "fees": 0, "reason": "NO_BORROW"}
    whole = how != "partial"
    traded = order["quantity"] if whole else order["quantity"] // 2
    status = "filled" if whole else "partial"
    paid = order["price"] if order["type"] == "limit" else PRICE
    return {**order, "status": status, "quantity": traded, "price": paid, "fees": FEES}


LIES: Final[dict[str, Json]] = {
    "wrong-symbol": {"symbol": "ZZZ"},
    "too-much": {"quantity": 10**15},
    "negative-price": {"price": -PRICE},
    "no-price": {"price": None},
    "other-id": {"client_id": "tdsomebodyelse"},
    "negative-fees": {"fees": -1},
    "rejected-but-traded": {"status": "rejected"},
    "not-all-of-it": {"quantity": 1},
    "past-the-limit": {"price": 10**12},
    "endless": {"price": 10**40},
    "half-a-cent": {"fees": 0.5},
    "open": {"status": "open"},
}
"""What is said of an order in place of the truth, whenever it is spoken of."""


class Server:
    """HTTP/1.1, one request a connection."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._stuck = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            verb, path, body = await _request(reader)
            answer = await self._answer(verb, path, body)
            if answer is not None:
                status, document = answer
                head = f"HTTP/1.1 {status} -\r\nContent-Length: {len(document)}\r\n\r\n"
                writer.write(head.encode() + document)
                await writer.drain()
        writer.close()

    async def _answer(self, verb: str, path: str, body: bytes) -> tuple[int, bytes] | None:
        """The answer, or None to close the connection without one."""
        what = path.removeprefix("/")
        if what == "all":
            known = {"orders": self._exchange.orders, "submissions": self._exchange.submissions}
            return 200, json.dumps(known).encode()
        if what == "script":
            told = json.loads(body)
            self._exchange.script |= told["orders"]
            self._exchange.delay_s = told["delay_s"]
            return 200, b"{}"
        await asyncio.sleep(self._exchange.delay_s)
        if verb == "POST":
            return await self._submitted(json.loads(body))
        return await self._looked_up(what.removeprefix("orders/"))

    async def _submitted(self, order: Json) -> tuple[int, bytes] | None:
        how = self._exchange.script.get(order["client_id"], "ok")
        if how == "refuse":
            self._exchange.submissions[order["client_id"]] += 1
            return 422, b"ACCOUNT_RESTRICTED"
        if how in ("close-before", "hang-before"):
            self._exchange.submissions[order["client_id"]] += 1
            return await self._nothing(how)
        known = self._exchange.take(order, how)
        if how in ("close-after", "hang-after", "never-came", "mute"):
            return await self._nothing(how)
        return _said(known, how)

    async def _looked_up(self, client_id: str) -> tuple[int, bytes] | None:
        how = self._exchange.script.get(client_id, "ok")
        if how == "mute":
            return await self._nothing(how)
        known = self._exchange.orders.get(client_id)
        return (404, b"{}") if known is None or how == "never-came" else _said(known, how)

    async def _nothing(self, how: str) -> None:
        if how.startswith("hang"):
            await self._stuck.wait()


def _said(known: Json, how: str) -> tuple[int, bytes]:
    if how == "garbage":
        return 200, b'{"client_id": '
    return 200, json.dumps({**known, **LIES.get(how, {})}).encode()


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.split("\r\n")
    verb, path, _ = first.split(" ")
    names = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return verb, path, await reader.readexactly(int(names.get("content-length", "0")))


async def _main(memory: Path) -> None:
    exchange = Exchange(memory)
    exchange.remember()
    server = await asyncio.start_server(Server(exchange).serve, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- what tests hold ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Venue:
    """The server as its operator sees it."""

    port: int

    def tell(self, script: dict[str, str] | None = None, *, delay_s: float = 0.0) -> None:
        """What to do with orders, by client id."""
        self._ask("script", json.dumps({"orders": script or {}, "delay_s": delay_s}).encode())

    @property
    def orders(self) -> dict[str, Json]:
        """The truth, by client id."""
        return self._ask("all")["orders"]

    @property
    def submissions(self) -> dict[str, int]:
        return self._ask("all")["submissions"]

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        url = f"http://127.0.0.1:{self.port}/{path}"
        with urlopen(Request(url, body), timeout=10) as answer:
            return json.loads(answer.read())


@contextmanager
def venue(memory: Path) -> Generator[Venue]:
    """A broker for as long as the context lasts."""
    command = [sys.executable, "-m", "tests.trading.loopback_broker", str(memory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Venue(int(process.stdout.readline()))
        finally:
            process.kill()


@dataclass(slots=True)
class LoopbackBroker:
    """The broker as a desk sees it."""

    port: int
    answer_s: float = 5.0
    arrives_s: float = 0.0
    name: str = "loopback"

    async def submit(self, order: Order) -> Report:
        trade = order.trade
        asked = {
            "client_id": order.client_id,
            "symbol": trade.symbol,
            "side": trade.side,
            "quantity": trade.quantity,
            "type": trade.type,
            "price": trade.price,
        }
        status, body = await self._exchange("POST", "/orders", json.dumps(asked).encode())
        if status == 422:
            raise BrokerRefused(body.decode())
        return _report(body)

    async def lookup(self, client_id: str) -> Report | None:
        status, body = await self._exchange("GET", f"/orders/{client_id}", b"")
        return None if status == 404 else _report(body)

    async def _exchange(self, verb: str, path: str, body: bytes) -> tuple[int, bytes]:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            raise BrokerSilent("the broker cannot be reached") from None
        try:
            head = f"{verb} {path} HTTP/1.1\r\nHost: broker\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            status = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
            return int(status), await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            raise BrokerSilent("the connection was lost") from None
        finally:
            writer.close()


def _report(body: bytes) -> Report:
    try:
        said = cast("Json", json.loads(body))
        numbers = (said["quantity"], said["price"], said["fees"])
        return Report(said["client_id"], said["symbol"], said["status"], *numbers, said.get("reason"), body)
    except (ValueError, KeyError, TypeError):
        raise BrokerSilent("the answer cannot be read") from None


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
