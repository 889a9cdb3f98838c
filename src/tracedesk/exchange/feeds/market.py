"""One market, live: its book kept in step, its tape, its touch and its day's figures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracedesk.exchange.book.sync import Change, Depth, MalformedEvent, Step, Sync, levels
from tracedesk.exchange.book.tape import Ring, Tape
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.errors import ClientError, RateLimited
from tracedesk.exchange.client.streams import Frame, Subscription
from tracedesk.exchange.client.waiting import ended, within
from tracedesk.exchange.feeds.prints import LARGEST, TOO_LARGE, Trades
from tracedesk.exchange.feeds.throttle import Throttle
from tracedesk.exchange.feeds.ticker import day_of
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.units import units
from tracedesk.foreign import closed
from tracedesk.primitives.supervision import persist

State = Literal["starting", "synced", "resyncing", "disconnected"]
Touch = tuple[int, int, int, int]
"""Bid, its quantity, ask, its quantity; 0 where a side is empty."""

_CHANGES: Final = 400_000
"""Level changes that are remembered."""
_PAUSE: Final = 0.5
_LONGEST: Final = 30.0
_FIRST_EVENT: Final = 0.5
"""Seconds that a snapshot waits for the stream's first event, which shows a snapshot that is too old."""
_CALM: Final = 10.0
"""Seconds between two snapshots after which the next one is fetched at once."""


@dataclass(frozen=True, slots=True)
class MarketStatus:
    """How far a market's picture can be trusted."""

    symbol: str
    state: State
    synced: bool
    age_ms: int | None
    """Since the book last took an event; a quiet market is old and still right."""
    last_update_id: int | None
    resyncs: int
    last_error: str | None
    holders: int

    def document(self) -> dict[str, Any]:
        return {
            "symbol": self.symbol,
            "state": self.state,
            "synced": self.synced,
            "age_ms": self.age_ms,
            "last_update_id": self.last_update_id,
            "resyncs": self.resyncs,
            "last_error": self.last_error,
            "holders": self.holders,
        }


@dataclass(frozen=True, slots=True)
class Tap:
    """Where the frames of one stream go."""

    frame: Callable[[Frame], None]
    live: Callable[[], None]
    lost: Callable[[str], None]


class Market:
    """A symbol's streams from `start` to `stop`; `holders` says how many still want it."""

    def __init__(
        self,
        instrument: Instrument,
        client: Client,
        *,
        depth_limit: int,
        throttle: float,
        tape: Tape | None = None,
    ) -> None:
        self.instrument = instrument
        self.symbol = instrument.symbol
        self.sync = Sync(client.clock)
        self.holders: set[str] = set()
        self.ticker: dict[str, Any] | None = None
        """The last 24 hours, with the names of REST."""
        self.last_error: str | None = None
        self._tape = tape or _tape()
        self._client = client
        self._clock = client.clock
        self._depth_limit = depth_limit
        self._throttle = Throttle(client.clock, throttle)
        self._trades = Trades(self.symbol, client, self._tape, self._changed)
        self._subscriptions: list[Subscription] = []
        self._touch: Touch | None = None
        self._touching = False
        self._connected: bool | None = None
        """Whether the book's stream is subscribed; None before it ever was."""
        self._was_synced = False
        self._synced = asyncio.Event()
        self._began = asyncio.Event()
        """Whether the stream has brought an event since it was subscribed."""
        self._snapshots: asyncio.Task[None] | None = None
        self._asking_ticker: asyncio.Task[None] | None = None
        self._ticked: float | None = None
        self._snapped = float("-inf")
        self._failures = 0

    # --- its life

    def start(self) -> None:
        """Subscribe to everything."""
        name = self.symbol.lower()
        taps = {
            f"{name}@depth@100ms": Tap(self._depth, self._depth_live, self._depth_lost),
            f"{name}@bookTicker": Tap(self._touched, self._touch_live, self._touch_lost),
            f"{name}@trade": Tap(self._trades.frame, self._trades.live, self._trades.lost),
            f"{name}@ticker": Tap(self._tick, self._ticker_live, self._ignored),
        }
        streams = self._client.streams
        self._subscriptions = [streams.subscribe(stream, tap) for stream, tap in taps.items()]

    async def stop(self) -> None:
        """Let everything go."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()
        await ended(*(task for task in (self._snapshots, self._asking_ticker) if task is not None))
        await self._trades.stop()
        await self._throttle.close()

    # --- what is asked

    @property
    def tape(self) -> Tape:
        """What happened lately, known up to the last sign of life where the streams are up."""
        heard = self._client.streams.status.last_frame_ns
        if heard is not None:
            until = heard + self._client.time.offset_ns
            for ring, live in (
                (self._tape.levels, self.sync.synced),
                (self._tape.touched, self._touching),
                (self._tape.printed, self._trades.complete),
            ):
                if live:
                    ring.reached(until)
        return self._tape

    def touch(self) -> Touch | None:
        """The best bid and ask: of the book while it is in step, else as last told; None before that."""
        if not self.sync.synced:
            return self._touch
        bid, bid_quantity = self.sync.book.best_bid() or (0, 0)
        ask, ask_quantity = self.sync.book.best_ask() or (0, 0)
        return bid, bid_quantity, ask, ask_quantity

    def status(self) -> MarketStatus:
        return MarketStatus(
            self.symbol,
            self._state(),
            self.sync.synced,
            self.sync.age_ms(),
            self.sync.last_update_id,
            self.sync.resyncs,
            self.last_error or self._trades.last_error,
            len(self.holders),
        )

    def _state(self) -> State:
        if self.sync.synced:
            return "synced"
        if self._connected is False:
            return "disconnected"
        return "resyncing" if self._was_synced else "starting"

    def ticker_age_ms(self) -> int | None:
        """Milliseconds since the day's figures came."""
        return None if self._ticked is None else int((self._clock.monotonic() - self._ticked) * 1000)

    async def ready(self, seconds: float) -> bool:
        """Whether the book is in step, waited for so long."""
        if not self.sync.synced:
            try:
                await within(self._clock, seconds, self._synced.wait())
            except TimeoutError:
                return False
        return self.sync.synced

    def listen(self, listener: Callable[[Market], None]) -> Callable[[], None]:
        """Be told of changes, a few times a second at most; what is returned ends it."""
        return self._throttle.listen(lambda: listener(self))

    def _changed(self) -> None:
        self._throttle.changed()

    # --- the book

    def _depth_live(self) -> None:
        self._connected = True
        self.sync.opened()
        self._want_snapshot()

    def _depth_lost(self, reason: str) -> None:
        self._connected = False
        self._began.clear()
        self.sync.lost()
        self._fault(reason)

    def _depth(self, frame: Frame) -> None:
        before = self.sync.synced
        self._began.set()
        try:
            step = self.sync.offer(Depth.of(frame.data))
        except MalformedEvent as fault:
            self._fault(str(fault))
            raise
        self._record(step.changes)
        self._stepped()
        if self.sync.wants_snapshot:
            if before:
                self._fault(f"the book left the stream ({step.happened}) and is fetched again")
            self._want_snapshot()
        self._changed()

    def _stepped(self) -> None:
        if self.sync.synced:
            self._was_synced = True
            self._synced.set()
        else:
            self._synced.clear()

    def _want_snapshot(self) -> None:
        if self.sync.wants_snapshot and self._snapshots is None:
            self._snapshots = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        try:
            await persist("order book snapshots", self._fetched)
        finally:
            self._snapshots = None

    async def _fetched(self) -> None:
        """Fetch snapshots until one joins the stream, ever more slowly."""
        with contextlib.suppress(TimeoutError):
            await within(self._clock, _FIRST_EVENT, self._began.wait())
        while self.sync.wants_snapshot:
            await self._spaced()
            if self.sync.wants_snapshot:
                await self._snapshot()

    async def _spaced(self) -> None:
        now = self._clock.monotonic()
        if now - self._snapped >= _CALM:
            self._failures = 0
        if self._failures:
            seconds = min(_LONGEST, _PAUSE * 2 ** min(self._failures - 1, 10))
            await self._clock.sleep_until(self._snapped + seconds * self._client.random.uniform(0.5, 1.0))
        self._failures += 1
        self._snapped = self._clock.monotonic()

    async def _snapshot(self) -> None:
        try:
            book = await self._client.public.depth(self.symbol, self._depth_limit)
            last, bids, asks = int(book["lastUpdateId"]), levels(book["bids"]), levels(book["asks"])
        except RateLimited as limited:
            self._fault(limited.message)
            await self._clock.sleep_until(self._clock.monotonic() + limited.retry_after)
        except ClientError as fault:
            self._fault(fault.message)
        except (KeyError, TypeError, ValueError) as fault:
            self._fault(f"the venue's snapshot cannot be read: {type(fault).__name__}")
        else:
            self._begin_book(self.sync.snapshot(last, bids, asks, self._depth_limit))

    def _begin_book(self, step: Step) -> None:
        """A snapshot was taken, or not: where it was, the level changes before it are not continued."""
        if self.sync.synced and step.happened == "applied":
            began = step.changes[0].ns if step.changes else self._client.time.now_ns()
            self._tape.levels.interrupted(began)
            self._record(step.changes)
        self._stepped()
        self._changed()

    def _record(self, changes: Sequence[Change]) -> None:
        """Put level changes on the tape, unless one is beyond its numbers: then the past ends there."""
        if any(change.before > LARGEST or change.after > LARGEST for change in changes):
            self._tape.levels.interrupted(changes[-1].ns)
            self._fault(TOO_LARGE)
        else:
            self._tape.changes(changes)

    def _fault(self, reason: str) -> None:
        self.last_error = closed(reason[:300])
        if not self.sync.synced:
            self._synced.clear()
        self._changed()

    # --- the touch

    def _touch_live(self) -> None:
        # What was missed cannot be asked for, so the past is not continued.
        self._tape.touched.interrupted(self._client.time.now_ns())
        self._touching = True

    def _touch_lost(self, reason: str) -> None:
        self._touching = False

    def _touched(self, frame: Frame) -> None:
        data = frame.data
        try:
            bid, ask = units(data["b"]), units(data["a"])
            touch = (bid, units(data["B"]), ask, units(data["A"]))
            id = int(data["u"])
        except (KeyError, TypeError, AttributeError) as fault:
            raise ValueError(f"not a book ticker: {type(fault).__name__}") from None
        self._touch = touch
        # The event has no time of its own: the venue's clock when it was received stands for it.
        ns = frame.received_ns + self._client.time.offset_ns
        if max(touch) <= LARGEST:
            self._tape.touch(ns, id, *touch)
        else:
            self._tape.touched.interrupted(ns)
            self._fault(TOO_LARGE)
        self._changed()

    # --- the day

    def _ticker_live(self) -> None:
        if self._asking_ticker is None:
            self._asking_ticker = asyncio.create_task(self._ask_ticker())

    async def _ask_ticker(self) -> None:
        try:
            await persist("day figures", self._asked_ticker)
        finally:
            self._asking_ticker = None

    async def _asked_ticker(self) -> None:
        """The stream speaks only of changes, so the beginning is asked for."""
        try:
            self._take_ticker(await self._client.public.ticker_24hr(self.symbol))
        except ClientError as fault:
            self._fault(fault.message)

    def _tick(self, frame: Frame) -> None:
        self._take_ticker(day_of(frame.data))

    def _take_ticker(self, day: dict[str, Any]) -> None:
        self.ticker = day
        self._ticked = self._clock.monotonic()
        self._changed()

    def _ignored(self, reason: str) -> None:
        """The day's figures grow old, and their age says so."""


def _tape() -> Tape:
    """A tape that holds ten minutes of a busy book."""
    tape = Tape()
    tape.levels = Ring(6, _CHANGES)
    return tape
