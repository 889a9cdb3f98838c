"""The process of the local exchange: `python -m tracedesk.exchange.local.host HOME exchange local PLAN`."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.local.app import HOST, Address, serving
from tracedesk.exchange.local.auth import Keys
from tracedesk.exchange.local.clock import Warp
from tracedesk.exchange.local.exchange import LocalExchange
from tracedesk.exchange.local.launch import BUSY, Files, running
from tracedesk.exchange.local.limits import Limits
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.local.stage import Stage, build
from tracedesk.exchange.units import ONE, text
from tracedesk.exchange.venue.store import Store, StoreError
from tracedesk.hosts import Host, HostCall, Method, serve_host
from tracedesk.primitives import json, time
from tracedesk.primitives.locks import try_lock
from tracedesk.primitives.supervision import persist

log = logging.getLogger(__name__)

Params = dict[str, Any]
NICE: Final = 2
"""How nice the process is: others wait for its answers."""
GRACE: Final = 3.0
LEAVING: Final = GRACE + 3.0
"""Seconds that an exchange which is ending gets to be gone: its grace, and what unwinding takes."""
_AGAIN: Final = 0.05
EVERY: Final = 1.0
"""Seconds between two snapshots of the figures."""
BALANCES: Final = {
    "USDT": 100_000 * ONE,
    "BTC": 1 * ONE,
    "ETH": 20 * ONE,
    "BNB": 50 * ONE,
    "SOL": 200 * ONE,
}
"""What a new account is given."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/-]{0,63}")


@dataclass(slots=True)
class Ready:
    """An exchange that is put together and not yet on the wire."""

    stage: Stage
    exchange: LocalExchange


class ExchangeHost:
    """The methods of the exchange's host, and the market beside them."""

    def __init__(self, ready: Ready) -> None:
        self._stage = ready.stage
        self._exchange = ready.exchange
        self._address: asyncio.Future[Address] | None = None
        self._begun_ns = time.SystemClock().now_ns()

    def methods(self) -> dict[str, Method]:
        answered = (self.address, self.account, self.keys, self.queue, self.faults, self.unban, self.status)
        return {method.__name__: self._counted(method) for method in answered}

    def _counted(self, method: Method) -> Method:
        """A question to the host is a use of the exchange."""

        async def asked(params: Params, call: HostCall) -> Any:
            with self._exchange.use.busy():
                return await method(params, call)

        return asked

    async def work(self, host: Host) -> None:
        """Serve the wire and let the market run until the host is told to stop, or nobody uses it."""
        async with serving(self._exchange, self._stage.plan.port) as address:
            self._where().set_result(address)
            beside = [asyncio.ensure_future(persist("progress", lambda: self._tell(host, address)))]
            if self._stage.plan.idle_seconds:
                beside.append(asyncio.ensure_future(persist("idle end", lambda: self._end_unused(host))))
            try:
                await self._stage.trading.run(self._stage.clock, host.stopping)
            finally:
                for task in beside:
                    task.cancel()
        self._stage.venue.close()

    async def _end_unused(self, host: Host) -> None:
        seconds = self._stage.plan.idle_seconds
        await self._exchange.use.ends(seconds)
        log.info("nobody has used the local exchange for %d s: it ends, and what it has is kept", seconds)
        host.stopping.set()

    async def address(self, params: Params, call: HostCall) -> dict[str, str]:
        """Where the wire is."""
        return (await asyncio.shield(self._where())).document()

    async def account(self, params: Params, call: HostCall) -> dict[str, str]:
        """The key of an account, which is opened with play money where it is new."""
        name = str(params.get("name", ""))
        if not _NAME.fullmatch(name):
            raise ToolError("INVALID_PARAMETER", "name: use letters, digits and ._@/-, at most 64 of them.")
        try:
            self._stage.venue.open_account(name, BALANCES)
        except ValueError as fault:
            raise ToolError("INVALID_PARAMETER", f"name: {fault}.") from None
        found = [key for key in self._exchange.keys.of(name) if key.kind == "HMAC"]
        key = found[0] if found else self._exchange.keys.issue(name)
        return {"account": name, "api_key": key.api_key, "secret": key.material}

    async def keys(self, params: Params, call: HostCall) -> dict[str, Any]:
        """The keys of all accounts, without what signs."""
        names = self._stage.venue.accounts()
        rows = [(name, key) for name in names for key in self._exchange.keys.of(name)]
        return {"keys": [{"account": name, "api_key": k.api_key, "kind": k.kind} for name, k in rows]}

    async def queue(self, params: Params, call: HostCall) -> dict[str, str | None]:
        """The quantity before an order in its queue, which Binance's wire has no word for."""
        ahead = self._stage.venue.quantity_ahead(str(params.get("symbol")), int(params.get("order_id", 0)))
        return {"quantity_ahead": None if ahead is None else text(ahead)}

    async def faults(self, params: Params, call: HostCall) -> dict[str, Any]:
        """Switch faults on or off, so that clients can be tried."""
        faults = self._exchange.faults
        if params.get("clear"):
            faults.clear()
        try:
            for fault in params.get("set", ()):
                faults.set(fault)
            faults.skew(int(params.get("skew_ms", faults.skew_ns // time.MILLISECOND)))
        except (TypeError, ValueError) as fault:
            raise ToolError("INVALID_PARAMETER", f"faults: {fault}.") from None
        if params.get("cut"):
            self._exchange.cut()
        if params.get("shut_down"):
            await self._exchange.shut_down()
        return faults.document()

    async def unban(self, params: Params, call: HostCall) -> dict[str, Any]:
        """End every ban of the limits."""
        return {"unbanned": self._exchange.limits.unban()}

    async def status(self, params: Params, call: HostCall) -> dict[str, Any]:
        """The figures of now."""
        return self.figures(await asyncio.shield(self._where()))

    def figures(self, address: Address) -> dict[str, Any]:
        stage, usage = self._stage, os.times()
        return {
            "pid": os.getpid(),
            "address": address.document(),
            "startedAt": time.format(self._begun_ns),
            "time": time.format(stage.clock.now_ns()),
            **stage.status(),
            "cpuMs": round((usage.user + usage.system) * 1000),
            "sockets": len(self._exchange.sockets),
            "idleSeconds": stage.plan.idle_seconds,
            "accounts": len(stage.venue.accounts()),
            "markets": [_market(stage, symbol) for symbol in stage.markets.symbols],
        }

    async def _tell(self, host: Host, address: Address) -> None:
        while True:
            host.publish("status", self.figures(address))
            await asyncio.sleep(EVERY)

    def _where(self) -> asyncio.Future[Address]:
        if self._address is None:
            self._address = asyncio.get_running_loop().create_future()
        return self._address


def _market(stage: Stage, symbol: str) -> dict[str, Any]:
    market = stage.markets.of(symbol)
    touch = market.book_ticker()
    return {
        "symbol": symbol,
        "price": market.price()["price"],
        "bid": touch["bidPrice"],
        "ask": touch["askPrice"],
        "lastUpdateId": market.depth_feed.last_id,
        "lastTradeId": market.last_trade_id,
    }


# --- the process -------------------------------------------------------------------------------


def prepare(files: Files, plan: Plan) -> Ready:
    """Open the files and lay out the markets: all that can fail before the exchange runs."""
    _check_port(plan.port)
    clock = Warp()
    store = Store(files.replay_venue if plan.replay else files.venue)
    stage = build(plan, clock, store)
    limits = Limits(clock, by=plan.limits)
    return Ready(stage, LocalExchange(stage.venue, stage.markets, clock, Keys(files.keys), limits=limits))


def _check_port(port: int) -> None:
    if not port:
        return
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError as fault:
            reason = fault.strerror or str(fault)
            message = f"port: {port} cannot be used ({reason}); choose another, or 0 for a free one."
            raise ToolError("VENUE_UNAVAILABLE", message) from None


def _hold(files: Files) -> int:
    """Be the only exchange of the home, for as long as this process lives."""
    files.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(files.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.SystemClock().monotonic() + LEAVING
    while not try_lock(fd):
        # One that holds it and cannot be found begins, or is about to be gone.
        if running(files.home) is not None or time.SystemClock().monotonic() >= until:
            os.close(fd)
            raise ToolError(BUSY, "Another local exchange of this home begins or runs; use that one.")
        sleep(_AGAIN)
    return fd


def main() -> None:
    home, kind, id, plan, attempt = sys.argv[1:]
    files = Files(Path(home))
    try:
        _hold(files)
        ready = prepare(files, Plan.of(json.loads(plan)))
    except (ToolError, StoreError) as fault:
        # The pipe carries only words; whoever started this host reads the code here.
        refusal = fault if isinstance(fault, ToolError) else ToolError("VENUE_UNAVAILABLE", f"{fault}.")
        error = {"code": refusal.code, "message": refusal.message, "details": refusal.details}
        files.failure(attempt).write_bytes(json.dumps(error))
        raise SystemExit(refusal.message) from None
    host = ExchangeHost(ready)
    serve_host(Path(home), kind, id, host.methods(), work=host.work, nice=NICE, grace=GRACE)


if __name__ == "__main__":
    main()
