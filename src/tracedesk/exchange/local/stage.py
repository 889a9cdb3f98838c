"""A local exchange put together: the venue, its market data, and what moves them, on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracedesk.errors import ToolError
from tracedesk.exchange.book.recording import RecordingError
from tracedesk.exchange.local.clock import Warp
from tracedesk.exchange.local.flow import Flow
from tracedesk.exchange.local.flow.past import number, past
from tracedesk.exchange.local.market import Markets
from tracedesk.exchange.local.plan import WARM_UP, Plan
from tracedesk.exchange.local.replay import Recorded, Replay, first_ns
from tracedesk.exchange.local.trading import Trading
from tracedesk.exchange.venue import listings
from tracedesk.exchange.venue.listings import Listing
from tracedesk.exchange.venue.store import Store
from tracedesk.exchange.venue.venue import Venue
from tracedesk.primitives.time import SECOND


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that an exchange consists of, ready to open."""

    plan: Plan
    clock: Warp
    venue: Venue
    markets: Markets
    source: Flow | Replay
    trading: Trading

    def status(self) -> dict[str, Any]:
        """What moves the markets, for people and programs."""
        if isinstance(self.source, Replay):
            return {"source": "replay", "queue": self.plan.queue, **self.source.status()}
        return {"source": "flow", "seed": self.source.seed, "pace": f"{self.source.pace:g}"}


def build(plan: Plan, clock: Warp, store: Store | None = None, *, warm_up: int = WARM_UP) -> Stage:
    """Put an exchange together; what keeps it from being so is a `ToolError`."""
    return _replayed(plan, clock, store) if plan.replay else _seeded(plan, clock, store, warm_up)


def _seeded(plan: Plan, clock: Warp, store: Store | None, warm_up: int) -> Stage:
    now = clock.now_ns()
    # The venue's time never goes back, so that the past has to come before it is made.
    clock.hold(now - warm_up * SECOND)
    venue = Venue(_listed(plan.symbols), clock, store)
    if warm_up and _has_users_orders(venue):
        # They rested while nothing traded; nobody may have filled them in the meantime.
        clock.hold(now)
    begun = clock.now_ns()
    instruments = [listing.instrument for listing in venue.listings.values()]
    markets = Markets(instruments, clock)
    flow = Flow(venue, instruments, seed=plan.seed, pace=plan.pace)
    for market in markets:
        before = past(plan.seed, market.instrument, flow.crowds[market.symbol], begun)
        number(before, venue.last_trade_id(market.symbol))
        market.begin_candles(before.minutes, before.seconds, before.trades)
        market.begin_book(venue.last_update_id(market.symbol), *venue.books(market.symbol).depth())
    venue.listen(markets.hear)
    venue.listen(flow.hear)
    trading = Trading(flow, markets, begun)
    flow.open(begun)
    trading.simulate(clock, now)
    clock.release()
    return Stage(plan, clock, venue, markets, flow, trading)


def _has_users_orders(venue: Venue) -> bool:
    return any(venue.open_orders(account) for account in venue.accounts())


def _replayed(plan: Plan, clock: Warp, store: Store | None) -> Stage:
    recordings = read_recordings([Path(name) for name in plan.replay])
    if plan.as_recorded:
        # Before anything takes the time: the venue's never goes back.
        clock.run_from(first_ns(recordings), plan.speed)
    venue = Venue(_listed([each.symbol for each in recordings]), clock, store, queue=plan.queue)
    markets = Markets([listing.instrument for listing in venue.listings.values()], clock)
    replay = Replay(
        recordings, markets, venue, speed=plan.speed, loop=plan.loop, as_recorded=plan.as_recorded
    )
    begun = clock.now_ns()
    replay.open(begun)
    return Stage(plan, clock, venue, markets, replay, Trading(replay, markets, begun))


def read_recordings(paths: Sequence[Path]) -> list[Recorded]:
    """Recordings of one market each; raises a `ToolError` that names the file."""
    read: list[Recorded] = []
    for path in paths:
        try:
            recorded = Recorded.read(path)
        except OSError as fault:
            reason = fault.strerror or str(fault)
            raise ToolError("INVALID_PARAMETER", f"replay: {path.name} cannot be read: {reason}.") from None
        except (RecordingError, KeyError, TypeError, ValueError) as fault:
            raise ToolError("INVALID_PARAMETER", f"replay: {_words(path, fault)}.") from None
        if any(each.symbol == recorded.symbol for each in read):
            message = f"replay: two recordings are of {recorded.symbol}; give one for each market."
            raise ToolError("INVALID_PARAMETER", message)
        read.append(recorded)
    return read


def _words(path: Path, fault: Exception) -> str:
    if isinstance(fault, RecordingError):
        return str(fault)
    return f"{path.name} holds a message that is not Binance's ({type(fault).__name__}: {fault})"


def _listed(symbols: Sequence[str]) -> list[Listing]:
    """The listings of some symbols, or all."""
    known = {each.instrument.symbol: each for each in listings.default()}
    if not symbols:
        return list(known.values())
    if missing := [symbol for symbol in symbols if symbol not in known]:
        message = f"symbols: {', '.join(missing)} is not listed; there are {', '.join(known)}."
        raise ToolError("INVALID_SYMBOL", message)
    return [known[symbol] for symbol in symbols]
