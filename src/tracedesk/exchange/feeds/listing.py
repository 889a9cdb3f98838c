"""What the venue lists, asked for once an hour."""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.client.errors import ClientError, Unreachable
from tracedesk.exchange.client.rest import Rest
from tracedesk.exchange.instruments import Instrument, named
from tracedesk.foreign import listed
from tracedesk.primitives.time import Clock

FRESH: Final = 3600.0
"""Seconds for which a listing is taken for true."""
_AGAIN: Final = 60.0
"""Seconds after which a symbol that is not listed is worth another look."""
_SHOWN: Final = 40


class Listing:
    """The instruments of one venue. Many may ask at once; the venue is asked once."""

    def __init__(self, rest: Rest, clock: Clock) -> None:
        self._rest = rest
        self._clock = clock
        self._info: dict[str, Any] | None = None
        self._published: dict[str, dict[str, Any]] = {}
        self._instruments: dict[str, Instrument] = {}
        self._asked = 0.0
        self._asking = asyncio.Lock()
        self.last_error: str | None = None
        """Why the listing could not be renewed; None while it is fresh."""

    async def info(self) -> dict[str, Any]:
        """`exchangeInfo` as published."""
        return await self._known(FRESH)

    async def instrument(self, symbol: str) -> Instrument:
        """The instrument of a symbol, in any case; INVALID_SYMBOL names those that look like it."""
        name = named(symbol)
        await self._known(FRESH)
        if name not in self._published:
            await self._known(_AGAIN)
        if name not in self._published:
            raise self._unknown(symbol)
        if name not in self._instruments:
            self._instruments[name] = _instrument(name, self._published[name])
        return self._instruments[name]

    def symbols(self, prefix: str = "", most: int = 100) -> list[str]:
        """Listed symbols that begin so, as far as the listing is known now."""
        start = prefix.upper()
        return sorted(name for name in self._published if name.startswith(start))[:most]

    async def _known(self, fresh: float) -> dict[str, Any]:
        """The listing, renewed where it is older than `fresh`; an old one is used while the venue is away."""
        async with self._asking:
            if self._info is not None and self._clock.monotonic() - self._asked < fresh:
                return self._info
            try:
                self._take(await self._rest.exchange_info())
            except ClientError as fault:
                if self._info is None:
                    raise
                self.last_error = fault.message
            assert self._info is not None
            return self._info

    def _take(self, info: dict[str, Any]) -> None:
        try:
            self._published = {each["symbol"]: each for each in info["symbols"]}
        except (KeyError, TypeError):
            raise Unreachable("its listing of symbols cannot be read") from None
        self._info = info
        self._instruments.clear()
        self._asked = self._clock.monotonic()
        self.last_error = None

    def _unknown(self, symbol: str) -> ToolError:
        shown = symbol[:_SHOWN]
        near = get_close_matches(shown.upper(), self._published, n=5, cutoff=0.6)
        hint = f"Did you mean {listed(near)}?" if near else "Use one that get_exchange_info lists."
        message = f"symbol {shown!r} is not listed by the venue. {hint}"
        return ToolError("INVALID_SYMBOL", message, {"symbol": shown, "near": near})


def _instrument(name: str, published: dict[str, Any]) -> Instrument:
    try:
        return Instrument.of(published)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise Unreachable(f"its listing of {name} cannot be read") from None
