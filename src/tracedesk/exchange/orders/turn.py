"""One order of an account at a time: a file lock that the system releases when its desk dies.

So an order that the venue does not have is one that nobody is sending any more.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tracedesk.errors import ToolError

WAIT_S: Final = 5.0
"""How long a call waits for another one of its account."""
_RETRY_S: Final = 0.005


class Occupied(ToolError):
    """Another call is dealing with the account's orders."""

    def __init__(self) -> None:
        message = "Another call is sending an order of this account. Nothing was sent; try again in a moment."
        super().__init__("RATE_LIMITED", message, {"retryAfterSeconds": 1})


@asynccontextmanager
async def turn(home: Path, account: str, seconds: float = WAIT_S) -> AsyncGenerator[None]:
    """Hold the account against every other call, of this desk and of others on its home."""
    name = hashlib.sha256(account.encode()).hexdigest()[:16]
    folder = home / "run"
    folder.mkdir(exist_ok=True, mode=0o700)
    descriptor = os.open(folder / f"orders-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        await _locked(descriptor, asyncio.get_running_loop().time() + seconds)
        yield
    finally:
        os.close(descriptor)


async def _locked(descriptor: int, until: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if asyncio.get_running_loop().time() >= until:
                raise Occupied from None
        await asyncio.sleep(_RETRY_S)
