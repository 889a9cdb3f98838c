"""A market's trades without holes: what the stream missed is asked for by number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tracedesk.exchange.book.sync import event_ns
from tracedesk.exchange.book.tape import Tape
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.errors import ClientError, RateLimited
from tracedesk.exchange.client.streams import Frame
from tracedesk.exchange.client.waiting import ended
from tracedesk.exchange.units import units
from tracedesk.primitives.supervision import persist

LARGEST: Final = 2**63 - 1
"""The largest number of units that a tape holds."""
TOO_LARGE: Final = "a quantity is too large for the tape, which begins anew: flow figures are incomplete"
_PAGE: Final = 1_000
_PAGES: Final = 5
"""Pages of trades asked for at most to fill one hole."""
_WAITING: Final = 50_000
"""Trades kept while earlier ones are asked for."""
_TRIES: Final = 5
"""Times that missing trades are asked for before the tape begins anew behind them."""
_PAUSE: Final = 0.25
_LONGEST: Final = 30.0
"""Seconds before they are asked for again, the first time and at most."""


class Print(NamedTuple):
    """One trade as the tape takes it."""

    ns: int
    id: int
    price: int
    quantity: int
    maker: bool


class Trades:
    """Puts trades on the tape in order of their numbers, earlier ones first."""

    def __init__(self, symbol: str, client: Client, tape: Tape, changed: Callable[[], None]) -> None:
        self.complete = False
        """Whether every trade since the tape's beginning is on it, up to now."""
        self.last_error: str | None = None
        self._symbol = symbol
        self._client = client
        self._tape = tape
        self._changed = changed
        self._last: int | None = None
        self._live = False
        self._wanted = False
        """Whether trades may be missing that have not been asked for."""
        self._waiting: list[Print] = []
        """Trades since the stream is live that cannot follow yet."""
        self._filling: asyncio.Task[None] | None = None

    def live(self) -> None:
        self._live = True
        self._fill()

    def lost(self, reason: str) -> None:
        self._live = self.complete = False
        # They are asked for again, together with what was missed behind them.
        self._waiting.clear()

    def frame(self, frame: Frame) -> None:
        try:
            trade = _streamed(frame.data)
        except ValueError:
            self._fill()
            raise
        if self.complete and self._last is not None and trade.id == self._last + 1:
            self._put([trade])
        elif self._last is None or trade.id > self._last:
            self._wait(trade)
        self._changed()

    async def stop(self) -> None:
        if self._filling is not None:
            await ended(self._filling)

    # --- filling holes

    def _wait(self, trade: Print) -> None:
        self._waiting.append(trade)
        if len(self._waiting) >= _WAITING:
            self._skip()
        if self._filling is None:
            self._fill()

    def _fill(self) -> None:
        self.complete = False
        self._wanted = True
        if self._filling is None:
            self._filling = asyncio.create_task(self._filled())

    async def _filled(self) -> None:
        try:
            await persist("trades that are missing", self._completed)
        finally:
            self._filling = None
        self._changed()

    async def _completed(self) -> None:
        """Ask for what is missing until the tape reaches the stream; `complete` says that it does."""
        failures = 0
        while self._wanted:
            self._wanted = False
            try:
                failures = await self._tried(failures)
            except Exception:
                self._wanted = True
                raise
        self.complete = self._live

    async def _tried(self, failures: int) -> int:
        """Ask once and let what waits follow; returns how often in a row that failed."""
        least = 0.0
        try:
            await self._ask()
        except ClientError as fault:
            self.last_error = fault.message
            least = fault.retry_after if isinstance(fault, RateLimited) else 0.0
        except ValueError as fault:
            self.last_error = str(fault)
        else:
            self._join()
            return 0
        if failures + 1 >= _TRIES and self._waiting:
            self._skip()
            return 0
        self._wanted = True
        self._changed()
        await self._pause(failures, least)
        return failures + 1

    async def _pause(self, failures: int, least: float) -> None:
        longest = min(_LONGEST, _PAUSE * 2 ** min(failures, 10))
        seconds = max(least, longest * self._client.random.uniform(0.5, 1.0))
        await self._client.clock.sleep_until(self._client.clock.monotonic() + seconds)

    async def _ask(self) -> None:
        """Put on the tape what lies before the trades that wait; `ValueError` where the venue lacks it."""
        rest = self._client.public
        if self._last is None:
            self._take(await rest.trades(self._symbol, _PAGE))
        else:
            await self._ask_from(self._last + 1)
        if self._hole():
            raise ValueError(f"the venue does not show the trades after {self._last}")

    async def _ask_from(self, id: int) -> None:
        for _ in range(_PAGES):
            if self._waiting and not self._hole():
                return
            rows = await self._client.public.historical_trades(self._symbol, fromId=id, limit=_PAGE)
            self._take(rows)
            if len(rows) < _PAGE:
                return
            id = (self._last or 0) + 1

    def _take(self, rows: list[Any]) -> None:
        trades = _published(rows)
        self.last_error = None
        self._put(trades)

    def _hole(self) -> bool:
        """Whether trades are missing before those that wait."""
        first = min((trade.id for trade in self._waiting), default=0)
        return self._last is not None and first > self._last + 1

    def _join(self) -> None:
        """Put on the tape what waited up to its own next hole, which is asked for."""
        waiting = sorted(self._waiting, key=lambda trade: trade.id)
        follows = next((n for n, (a, b) in enumerate(pairwise(waiting), 1) if b.id > a.id + 1), len(waiting))
        self._put(waiting[:follows])
        self._waiting = waiting[follows:]
        self._wanted = self._wanted or bool(self._waiting)

    def _skip(self) -> None:
        """Go on with what waited, whatever is missing before it."""
        waiting, self._waiting = sorted(self._waiting, key=lambda trade: trade.id), []
        self._put(waiting)

    def _put(self, trades: Iterable[Print]) -> None:
        """Put trades on the tape, which begins anew where one is missing."""
        for trade in trades:
            if self._last is not None and trade.id <= self._last:
                continue
            if self._last is not None and trade.id > self._last + 1:
                self._tape.printed.interrupted(trade.ns)
            self._last = trade.id
            if max(trade.price, trade.quantity) <= LARGEST:
                self._tape.print(*trade)
            else:
                self._tape.printed.interrupted(trade.ns)
                self.last_error = TOO_LARGE


def _streamed(data: dict[str, Any]) -> Print:
    try:
        price, quantity = units(data["p"]), units(data["q"])
        return Print(event_ns(data["T"]), int(data["t"]), price, quantity, bool(data["m"]))
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not a trade: {type(fault).__name__}") from None


def _published(rows: list[Any]) -> list[Print]:
    try:
        return [
            Print(
                event_ns(row["time"]),
                int(row["id"]),
                units(row["price"]),
                units(row["qty"]),
                row["isBuyerMaker"],
            )
            for row in rows
        ]
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"the venue's trades cannot be read: {type(fault).__name__}") from None
