"""Who trades and where: the account, the signed client of its venue, and the market as it looks now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.orders.identity import Identity
from tracedesk.hooks import holder_of

Levels = Sequence[tuple[int, int]]
"""Prices and quantities in units, best first."""


@dataclass(frozen=True, slots=True)
class View:
    """One market at one moment."""

    instrument: Instrument
    bids: Levels
    asks: Levels
    synced: bool
    age_ms: int
    average: int | None = None
    """The venue's average price, which its filters compare with; None where it gave none."""

    @property
    def mid2(self) -> int | None:
        """Twice the mid, so that it is whole."""
        return self.bids[0][0] + self.asks[0][0] if self.bids and self.asks else None

    def against(self, sign: int) -> Levels:
        """What a buyer (1) or seller (-1) trades with."""
        return self.asks if sign > 0 else self.bids


class Venue(Protocol):
    """What orders need of the signed client; parameters are named as the venue names them.

    Methods raise `Unreachable`, `VenueError`, `RateLimited` or `OutcomeUnknown` of `exchange.client.errors`.
    """

    async def new_order(self, **params: Any) -> Any: ...
    async def test_order(self, **params: Any) -> Any: ...
    async def order(self, symbol: str, **params: Any) -> Any: ...
    async def cancel_order(self, symbol: str, **params: Any) -> Any: ...
    async def cancel_open_orders(self, symbol: str) -> Any: ...
    async def open_orders(self, symbol: str | None = None) -> Any: ...
    async def account(self) -> Any: ...
    async def server_time(self) -> int:
        """The venue's time, asked for now, in ms."""
        ...

    def now_ms(self) -> int:
        """The venue's time, by the offset that was measured last."""
        ...


@dataclass(frozen=True, slots=True)
class Party:
    """A caller with an account."""

    scope: str
    account: str
    """The account's public name, the same in every process: `sim/default`, `live/main`; never a secret."""
    profile: str | None
    """The operator's profile that it signs by; None for credentials that a session brought."""
    venue: Venue
    look: Callable[[str], Awaitable[View]]
    """The market of a symbol; raises INVALID_SYMBOL or VENUE_UNAVAILABLE."""
    marks: tuple[str, ...] = ()
    """What tells the account from others, whatever it is called; see `identity`."""
    place: str = ""
    """Where the venue is, for the numbers that it gives accounts."""
    subject: str | None = None
    """The principal that previews belong to, on every desk of the home; None where the scope owns them."""

    @property
    def holder(self) -> str:
        """The key of its previews; see `Call.holder`."""
        return holder_of(self.scope, self.subject)

    @property
    def identity(self) -> Identity:
        return Identity(self.account, self.marks)
