"""What a session has already been told: an id answers once, and repeats itself word for word."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from tracedesk.contract import Link
from tracedesk.errors import ToolError
from tracedesk.primitives import json
from tracedesk.trading.model import Trade

SIMULATION: Final = "trade_simulate"
MOST: Final = 4_096
MOST_BYTES: Final = 32 << 20
"""Answers are kept up to both bounds, oldest out first; an id that is out is answered anew."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer as it was given."""

    tool: str
    params: str
    body: bytes
    call: str
    at_ns: int
    links: tuple[Link, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What a later call may hold the answer to."""


@dataclass(slots=True)
class Memory:
    """Answers by (account, scope, id), and the ones in the making."""

    _told: OrderedDict[tuple[str, ...], Told] = field(default_factory=OrderedDict[tuple[str, ...], Told])
    _making: dict[tuple[str, ...], asyncio.Future[None]] = field(
        default_factory=dict[tuple[str, ...], "asyncio.Future[None]"]
    )
    _bytes: int = 0

    def find(self, key: tuple[str, ...]) -> Told | None:
        return self._told.get(key)

    async def once(
        self, key: tuple[str, ...], tool: str, params: str, make: Callable[[], Awaitable[Told]]
    ) -> tuple[Told, bool]:
        """The answer of that id, made now or told before, and whether it is a repetition.

        A second call with an id in the making waits for the first; if that fails, it makes its own.
        """
        while True:
            known = self._told.get(key)
            if known is not None:
                check(known.tool, known.params, tool, params, key[-1])
                self._told.move_to_end(key)
                return known, True
            if key not in self._making:
                return await self._make(key, make), False
            await asyncio.wait([self._making[key]])

    async def alone(self, key: tuple[str, ...], make: Callable[[], Awaitable[Any]]) -> Any:
        """Run `make` while no other call with that key runs; nothing is remembered."""
        while key in self._making:
            await asyncio.wait([self._making[key]])
        done = self._making[key] = asyncio.get_running_loop().create_future()
        try:
            return await make()
        finally:
            del self._making[key]
            done.set_result(None)

    async def _make(self, key: tuple[str, ...], make: Callable[[], Awaitable[Told]]) -> Told:
        done = self._making[key] = asyncio.get_running_loop().create_future()
        try:
            told = await make()
            self._keep(key, told)
            return told
        finally:
            del self._making[key]
            done.set_result(None)

    def _keep(self, key: tuple[str, ...], told: Told) -> None:
        self._told[key] = told
        self._bytes += len(told.body)
        while len(self._told) > MOST or (self._bytes > MOST_BYTES and len(self._told) > 1):
            _, gone = self._told.popitem(last=False)
            self._bytes -= len(gone.body)


def packed(told: Told) -> bytes:
    """A simulation as other desks of the home need it: what it was of, not what it answered."""
    facts = {**told.facts, "trades": [_fields_of(trade) for trade in told.facts["trades"]]}
    return json.dumps({"params": told.params, "call": told.call, "at_ns": told.at_ns, "facts": facts})


def unpacked(body: bytes) -> Told:
    """A simulation of another desk, or of another session."""
    kept = json.loads(body)
    facts = {**kept["facts"], "trades": [Trade(**trade) for trade in kept["facts"]["trades"]]}
    return Told(SIMULATION, kept["params"], b"", kept["call"], kept["at_ns"], (), facts)


def _fields_of(trade: Trade) -> dict[str, Any]:
    return {each.name: getattr(trade, each.name) for each in fields(trade)}


def check(known_tool: str, known_params: str, tool: str, params: str, id: str) -> None:
    """Refuse an id that was used for something else."""
    if (known_tool, known_params) == (tool, params):
        return
    message = (
        f"tool_call_id {id!r} was used for another request ({known_tool}). Nothing was done; "
        "use a new id for a new request."
    )
    details = {
        "retryable": False,
        "known": {"tool": known_tool, "params_sha256": known_params},
        "given": {"tool": tool, "params_sha256": params},
    }
    raise ToolError("TOOL_CALL_ID_CONFLICT", message, details)
