"""Campaigns and fuzz desks under test: real hosts, real contracts, asked over MCP on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from tests.support import BOUND, Client, Reply, until
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.fuzz.desk import Campaigns
from tracedesk.fuzz.folder import KIND, Folder
from tracedesk.fuzz.launch import Request, configured, start
from tracedesk.home import Home
from tracedesk.hosts import HostInfo, find, find_one
from tracedesk.serve import build_app, listen
from tracedesk.wire.http import Bind, serving

ENDLESS: Final = 2**50
"""Calls that no test waits for."""

SEED: Final = 7
"""Of every campaign that names none."""

PATIENCE: Final = 20
"""How often a late answer is asked for again."""

VAULT: Final = """# pragma version ~=0.4.0
balances: public(HashMap[address, uint256])
total: public(uint256)
fee: public(uint256)
is_open: bool

event Deposited:
    who: indexed(address)
    amount: uint256

@external
@payable
def deposit():
    self.balances[msg.sender] += msg.value
    self.total += msg.value
    log Deposited(who=msg.sender, amount=msg.value)

@external
def set_fee(fee: uint256):
    assert fee < 1000, "too high"
    self.fee = fee

@external
def withdraw(amount: uint256):
    assert self.balances[msg.sender] >= amount, "not yours"
    self.balances[msg.sender] -= amount
    self.total -= amount

@external
def unlock(key: bytes32, who: address):
    if keccak256(key) == 0x53af343cfb01257cf991a6bab1ed4477f5206bc32c75e9b82c6d21a03af08835:
        self.is_open = True

@external
@view
def echidna_fee_is_not_13() -> bool:
    return self.fee != 13

@external
@view
def echidna_total_is_held() -> bool:
    return self.total <= self.balance

@external
@view
def echidna_stays_locked() -> bool:
    return not self.is_open
"""


def vault(folder: Path) -> Path:
    """A vault with one bug that is found at once, and one that needs a hint."""
    path = folder / "Vault.vy"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(VAULT)
    return path


@dataclass(frozen=True, slots=True)
class Started:
    """A campaign of a home, and its host."""

    home: Home
    folder: Folder
    info: HostInfo

    @property
    def id(self) -> str:
        return self.folder.id

    def kill(self) -> None:
        """End its process without a word, and wait until it is gone."""
        os.kill(self.info.pid, signal.SIGKILL)
        self.wait()

    def wait(self, seconds: float = 2 * BOUND) -> None:
        """Wait, bounded, until its host is gone."""
        asyncio.run(until(lambda: find_one(self.home.path, KIND, self.id) is None, seconds))


def started(home: Path, source: Path, contract: str | None = None, **keys: Any) -> Started:
    """A campaign that was just started."""
    return asyncio.run(starting(home, source, contract, **keys))


async def starting(home: Path, source: Path, contract: str | None = None, **keys: Any) -> Started:
    opened = Home.open(home)
    replay: Path | None = keys.pop("replay", None)
    reading = configured(None, {"testLimit": ENDLESS, "workers": 1, "seed": SEED, "timeout": 120, **keys})
    request = Request(source, contract, reading.config, reading.warnings, replay)
    return Started(opened, *await start(opened, request))


@contextmanager
def no_host_left(home: Path) -> Generator[None]:
    """Whatever a test does, no campaign of its home outlives it."""
    try:
        yield
    finally:
        for info in find(home, KIND):
            with contextlib.suppress(ProcessLookupError):
                os.kill(info.pid, signal.SIGKILL)


@dataclass(slots=True)
class Agent:
    """A client of a desk that serves fuzz alone."""

    client: Client

    @property
    def campaigns(self) -> Campaigns:
        return cast("Campaigns", self.client.desk.states["fuzz"])

    async def raw(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        return await self.client.call(tool, dict(arguments))

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The answer of a call that succeeds; one that a busy machine made late is made again, as it says."""
        result = (await self.timely(tool, arguments)).json["result"]
        assert result["isError"] is False, result
        return result["structuredContent"]

    async def timely(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """The reply of a call; one that a busy machine made late is made again."""
        reply = await self.raw(tool, arguments)
        for _ in range(PATIENCE):
            result = reply.json["result"]
            if not result["isError"] or "EXECUTION_TIMEOUT" not in result["content"][0]["text"]:
                break
            reply = await self.raw(tool, arguments)
        return reply

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call that is refused, its envelope checked."""
        envelope = (await self.timely(tool, arguments)).envelope
        assert envelope["success"] is False
        return envelope["error"]

    async def until(self, tool: str, condition: Callable[[Any], bool], **arguments: Any) -> Any:
        """Ask, bounded, until the answer is as wanted."""
        async with asyncio.timeout(BOUND):
            while not condition(answer := await self.call(tool, **arguments)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            return answer


@asynccontextmanager
async def agent(home: Path, roots: Path | None = None, **settings: Any) -> AsyncGenerator[Agent]:
    """An agent at a desk that serves the fuzz toolset, every answer checked against its contract."""
    table: dict[str, Any] = {"roots": [str(roots or home.parent)]}
    given: dict[str, Any] = {"check_output": True, **settings}
    chosen = Settings(home=home, toolsets=("fuzz",), tables={"fuzz": table}, **given)
    listener = listen("127.0.0.1", 0)
    bind = Bind(listener)
    async with open_desk(chosen) as desk:
        app, token = build_app(desk, bind)
        async with serving(app, bind):
            yield Agent(Client(desk, app, listener.getsockname()[1], token).authorised())


def lines(path: Path) -> list[Any]:
    """The JSON documents of a file with one a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]
