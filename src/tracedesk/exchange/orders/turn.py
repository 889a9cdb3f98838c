"""One order of an account at a time: file locks that the system releases when their desk dies.

So an order that the venue does not have is one that nobody is sending any more. A turn is that of the
account's name, and then that of what it is told by: a name may have a new key, and a key several names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from tracedesk import turns
from tracedesk.errors import ToolError

WAIT_S: Final = 5.0
"""How long a call waits for another one of its account."""


class Occupied(ToolError):
    """Another call is dealing with the account's orders."""

    def __init__(self) -> None:
        message = "Another call is sending an order of this account. Nothing was sent; try again in a moment."
        super().__init__("RATE_LIMITED", message, {"retryAfterSeconds": 1})


@asynccontextmanager
async def turn(
    home: Path, name: str, told_by: Callable[[], Awaitable[str]], seconds: float = WAIT_S
) -> AsyncGenerator[str]:
    """Hold the account against every other call, of this desk and of others on its home, under any name.

    Yields what the account is told by; names come first everywhere, so that no two wait for each other.
    """
    identity = await told_by()
    until = asyncio.get_running_loop().time() + seconds
    async with AsyncExitStack() as held:
        for each in dict.fromkeys((name, identity)):
            left = max(0.0, until - asyncio.get_running_loop().time())
            await held.enter_async_context(turns.turn(home, "orders", each, left, Occupied))
        if await told_by() != identity:
            raise Occupied  # it turned out to be one with another account meanwhile
        yield identity
