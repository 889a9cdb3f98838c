"""Starting the local exchange of a home, or finding the one that runs."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from tracedesk.errors import ToolError
from tracedesk.exchange.local.limits import By
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.venue.queue import QueueModel
from tracedesk.hosts import HostBusy, HostClient, HostFailed, HostGone, HostInfo, HostTimeout, find_one, spawn
from tracedesk.hosts.launch import log_path
from tracedesk.primitives import json, time
from tracedesk.storage import probe

KIND: Final = "exchange"
ID: Final = "local"
MODULE: Final = "tracedesk.exchange.local.host"
PATIENCE: Final = 60.0
"""Seconds that laying out the markets and reading recordings may take."""
_AGAIN: Final = 0.1


class Sim(Protocol):
    """What the settings say of the local exchange."""

    @property
    def port(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def replay(self) -> str: ...

    @property
    def queue(self) -> QueueModel: ...

    @property
    def idle_seconds(self) -> int: ...

    @property
    def limits(self) -> By: ...


@dataclass(frozen=True, slots=True)
class Files:
    """Where an exchange keeps its things in a home."""

    home: Path

    @property
    def venue(self) -> Path:
        """Accounts, orders and trades of users."""
        return self.home / "exchange.db"

    @property
    def replay_venue(self) -> Path:
        """The same while recordings are replayed, whose prices are those of another day."""
        return self.home / "exchange-replay.db"

    @property
    def keys(self) -> Path:
        return self.home / "exchange.keys"

    @property
    def lock(self) -> Path:
        """Held while an exchange begins or runs."""
        return self.home / "run" / f"{KIND}-{ID}.lock"

    def failure(self, attempt: str) -> Path:
        """Why the exchange did not begin at one attempt; others may begin one at the same time."""
        return self.home / "run" / f"{KIND}-{ID}.{attempt}.failure"


def running(home: Path) -> HostInfo | None:
    """The exchange of this home that runs now."""
    return find_one(home, KIND, ID)


async def ensure(home: Path, sim: Sim) -> HostInfo:
    """The running exchange of this home, started where there is none; that one ends when nobody uses it."""
    if (info := running(home)) is not None:
        return info
    replay = (sim.replay,) if sim.replay else ()
    plan = Plan(
        port=sim.port,
        seed=sim.seed,
        replay=replay,
        queue=sim.queue,
        idle_seconds=sim.idle_seconds,
        limits=sim.limits,
    )
    return await start(home, plan, or_find=True)


async def start(home: Path, plan: Plan, *, or_find: bool = False, outlives: bool = True) -> HostInfo:
    """Start the exchange; one that runs already is `HostBusy`, or the answer where that is as good.

    It `outlives` this process or ends with it. One that another process begins is waited for; where that one
    ends instead, this one is started after all.
    """
    clock = time.SystemClock()
    until = clock.monotonic() + PATIENCE
    while (left := until - clock.monotonic()) > 0:
        if (info := running(home)) is not None:
            if not or_find:
                raise HostBusy(KIND, ID, info.pid)
            return info
        try:
            return await _begun(home, plan, left, outlives)
        except _Another:
            await asyncio.sleep(_AGAIN)
    raise _too_slow()


class _Another(Exception):
    """Another exchange of this home begins, runs, or is about to be gone."""


async def _begun(home: Path, plan: Plan, patience: float, outlives: bool) -> HostInfo:
    """The exchange, started by this process; raises `_Another` where it was not alone."""
    files = Files(home)
    attempt = secrets.token_hex(8)
    args = (json.dumps(plan.document()).decode(), attempt)
    try:
        files.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return await spawn(home, KIND, ID, MODULE, args, timeout=patience, outlives=outlives)
    except HostBusy as busy:
        if busy.pid is None:
            raise
        raise _Another from None
    except HostTimeout:
        raise _too_slow() from None
    except HostFailed as fault:
        refusal = _refusal(files.failure(attempt)) or _failure(home, str(fault))
        raise _Another if refusal.code == BUSY else refusal from None
    except OSError as fault:
        raise _failure(home, f"{fault}.") from None
    finally:
        with suppress(OSError):  # where it could not be written, there is none
            files.failure(attempt).unlink()


def _too_slow() -> ToolError:
    message = (
        f"The local exchange was not ready within {PATIENCE:.0f} s, or another one of this home was neither "
        "ready nor gone by then. Try again; `tracedesk exchange status` tells whether one runs."
    )
    return ToolError("VENUE_UNAVAILABLE", message, {"venue": "sim"})


def _failure(home: Path, words: str) -> ToolError:
    fault = probe(home)
    if fault is not None:
        message = f"The local exchange could not start: {fault.text}"
        return ToolError("VENUE_UNAVAILABLE", message, {"venue": "sim", "kind": fault.kind})
    last = words.rstrip().rpartition("\n")[2]
    log = log_path(home, KIND, ID).name
    message = f"The local exchange could not start: {last} More is in logs/{log} of the home."
    return ToolError("VENUE_UNAVAILABLE", message)


BUSY: Final = "EXCHANGE_BUSY"
"""The code of a failure that says: another exchange of this home begins or runs."""


def _refusal(failure: Path) -> ToolError | None:
    try:
        error = json.loads(failure.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return ToolError(error["code"], error["message"], error["details"])


async def ask(home: Path, method: str, params: dict[str, Any] | None = None, *, timeout: float = 30.0) -> Any:
    """Ask the running exchange; raises `HostGone` where there is none."""
    info = running(home)
    if info is None:
        raise HostGone("No local exchange is running in this home; start it with tracedesk exchange serve.")
    async with await HostClient.connect(info) as client:
        return await client.call(method, params, timeout=timeout)
