"""Recording a seeded market on a clock of its own: the same plan makes the same file, byte for byte."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tracedesk.exchange.book.recording import Recorder
from tracedesk.exchange.local.clock import Warp
from tracedesk.exchange.local.market import Message
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.local.stage import build
from tracedesk.primitives import json
from tracedesk.primitives.time import MILLISECOND, SECOND, ManualClock

CHANNELS: Final = ("depth@100ms", "bookTicker", "trade")
WARM_UP: Final = 60
"""Seconds of trading before a recording begins."""
SNAPSHOT_AFTER: Final = 250 * MILLISECOND
"""When the book is fetched: a recorder listens first, so that nothing is missed."""
SNAPSHOT_LEVELS: Final = 1_000


@dataclass(slots=True)
class Recording:
    """What was written."""

    symbol: str
    seconds: int
    messages: dict[str, int]

    def document(self) -> dict[str, Any]:
        return {"symbol": self.symbol, "seconds": self.seconds, "messages": self.messages}


def record(plan: Plan, symbol: str, path: Path, *, start_ns: int, seconds: int) -> Recording:
    """Run a seeded market from an instant on, as fast as it goes, and write what it publishes."""
    clock = Warp(ManualClock(start_ns))
    stage = build(replace(plan, symbols=(symbol,), replay=()), clock, warm_up=WARM_UP)
    counts: dict[str, int] = dict.fromkeys([*CHANNELS, "snapshot"], 0)
    with Recorder(path) as out:

        def write(message: Message) -> None:
            counts[message.stream.partition("@")[2]] += 1
            name = json.dumps(message.stream)
            out.write(clock.now_ns(), b'{"stream":%b,"data":%b}' % (name, message.body()))

        for channel in CHANNELS:
            stage.markets.subscribe(f"{symbol.lower()}@{channel}", write)
        stage.trading.simulate(clock, start_ns + SNAPSHOT_AFTER)
        out.write(clock.now_ns(), json.dumps(stage.markets.of(symbol).depth(SNAPSHOT_LEVELS)))
        counts["snapshot"] = 1
        stage.trading.simulate(clock, start_ns + seconds * SECOND)
    return Recording(symbol, seconds, counts)
