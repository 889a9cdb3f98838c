"""Markets to compute over: recordings, our own and outside ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tracedesk.exchange.analytics.span import Span
from tracedesk.exchange.book.book import Book
from tracedesk.exchange.book.recording import frames, payload
from tracedesk.exchange.book.sync import Depth, Sync, event_ns, levels
from tracedesk.exchange.book.tape import Tape
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.series import Changes, Covered, Prints, Touches
from tracedesk.exchange.units import ONE, units
from tracedesk.primitives.time import ManualClock

OURS = sorted((Path(__file__).parent.parent / "recordings").glob("*.gz"))
OUTSIDE = ("btcusdt", "ethusdt")
TICK = ONE // 100
TICKS = {"ETHBTC": ONE // 100_000}
EVER = 2**62


@dataclass(frozen=True, slots=True)
class Market:
    """The series of a market over some minutes, and its book at the end of them."""

    instrument: Instrument
    touches: Touches
    prints: Prints
    changes: Changes
    book: Book
    trusted: tuple[int, int]
    since_ns: int = 0
    """What comes before it is known, and not looked at."""

    @property
    def covered(self) -> Covered:
        """The time that all series know."""
        kinds = (self.touches, self.prints, self.changes)
        return Covered(max(int(each.ns[0]) for each in kinds), min(int(each.ns[-1]) for each in kinds))

    @property
    def span(self) -> Span:
        covered = self.covered
        return Span.of(max(self.since_ns, covered.from_ns), covered.to_ns, covered)


def instrument(symbol: str, tick: int = TICK, step: int = ONE // 100_000) -> Instrument:
    quote = "USDT" if symbol.endswith("USDT") else symbol[-3:]
    return Instrument(symbol, symbol.removesuffix(quote), quote, "TRADING", tick, step, ("LIMIT", "MARKET"))


def outside(folder: Path, name: str) -> Path:
    """A recording of the real venue in the checkout that has them."""
    return sorted(folder.glob(f"{name}*.gz"))[0]


def recorded(path: Path) -> Market:
    """The series of a recording."""
    return continued((path,), TICKS.get(_symbol(path), TICK))


def _symbol(path: Path) -> str:
    return path.name.split("_")[0].split(".")[0].upper()


@cache
def continued(paths: tuple[Path, ...], tick: int) -> Market:
    """The series of recordings that follow one another without a gap; the span is that of the last one.

    Touches carry no time of the venue: they get the time they came, moved by how far the venue's clock
    was ahead of the local one at the last trade or depth event.
    """
    tape, sync, newest = Tape(10**7), Sync(ManualClock()), max(paths)
    sync.opened()
    ahead, last, begun = None, 0, 0
    for path, ns, frame in ((each, *row) for each in paths for row in frames(each)):
        said = payload(frame)
        if "lastUpdateId" in said:
            bids, asks, last = levels(said["bids"]), levels(said["asks"]), said["lastUpdateId"]
            tape.changes(sync.snapshot(said["lastUpdateId"], bids, asks, limit=1_000).changes)
        elif said.get("e") == "depthUpdate":
            if "pu" in said and (not last or said["u"] <= last):
                continue
            # Futures number all markets together, and say instead which event an event follows.
            event = Depth.of({**said, "U": last + 1} if "pu" in said else said)
            ahead, last = event.event_ns - ns, said["u"]
            begun = begun or (event.event_ns if path == newest else 0)
            tape.changes(sync.offer(event).changes)
        elif said.get("e") == "trade":
            if price := units(said["p"]):  # futures list trades of their insurance fund without one
                tape.print(event_ns(said["T"]), said["t"], price, units(said["q"]), said["m"])
        elif "A" in said and ahead is not None:
            tape.touch(event_ns(said["T"]) if "T" in said else ns + ahead, said["u"], *_touch(said))
    assert sync.synced
    series = (tape.touches(0, EVER), tape.prints(0, EVER), tape.changed(0, EVER))
    since = begun if len(paths) > 1 else 0
    return Market(instrument(_symbol(newest), tick), *series, sync.book, sync.trusted, since)


def _touch(said: Mapping[str, Any]) -> tuple[int, int, int, int]:
    return units(said["b"]), units(said["B"]), units(said["a"]), units(said["A"])
