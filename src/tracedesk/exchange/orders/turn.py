"""One order of an account at a time: a file lock that the system releases when its desk dies.

So an order that the venue does not have is one that nobody is sending any more.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
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


def turn(home: Path, identity: str, seconds: float = WAIT_S) -> AbstractAsyncContextManager[None]:
    """Hold the account against every other call, of this desk and of others on its home, under any name."""
    return turns.turn(home, "orders", identity, seconds, Occupied)
