"""Fills of resting orders in a replay, judged by hftbacktest's risk-averse queue model in the same run.

Each second an order joins the best bid and another the best ask, to be cancelled ten seconds later. Both
programs are given the same recording, and the same orders at the same times.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

from scripts.proof.record import Recorder
from tests.judges.install import HFTBACKTEST, LOCKS
from tracedesk.exchange.book.book import Level
from tracedesk.exchange.local.clock import Warp
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.local.replay import Recorded
from tracedesk.exchange.local.stage import Stage, build
from tracedesk.exchange.units import text, units
from tracedesk.exchange.venue.events import Event, Reported
from tracedesk.exchange.venue.listings import default
from tracedesk.exchange.venue.orders import NewOrder
from tracedesk.primitives.time import MILLISECOND, SECOND, ManualClock

OURS: Final = sorted((Path(__file__).parent / "recordings").glob("*.gz"))
OUTSIDE: Final = {
    "spot/btcusdt_20240808.gz": "5d263f4c5379cfc27379ef0e22779aa33804463d1b69c292e9c0714e31f2e1b4",
    "spot/ethusdt_20240808.gz": "179a67651ec90f8d299c033f85df29027315a30a738eae74a1388d560f80a737",
    "spot/btcusdt_20240809.gz": "2981a27474b8903133cc66e25f4da561140dd061c942b84801b9d8c60e4b3599",
    "spot/ethusdt_20240809.gz": "7be2b6113ced0cdb125bfa7607aacb18acd1f3cea9a248d1f53c627c7eed6bb8",
    "usdm/btcusdt_20240808.gz": "0ad7b3a0f5cff220761ea890cfd6e3c15f6899edc7f94637ec915043d7a72251",
    "usdm/ethusdt_20240808.gz": "6b76bc224bbb7fe402e7206066775e17e18dbc697247fbab8ebcc38289a3f772",
}
"""The recordings that judge, by digest: named before the model was written."""
RIVAL: Final = "2.4.4"
QUANTITIES: Final = {"BTCUSDT": units("0.001"), "ETHUSDT": units("0.01")}
LIFE: Final = 10 * SECOND
NOW: Final = 1_800_000_000 * SECOND
FUNDS: Final = {"USDT": units("1000000"), "BTC": units("100"), "ETH": units("1000")}
SAME_TIME: Final = 100 * MILLISECOND
FEWEST: Final = 2_000
VERDICTS: Final = 0.99
TIMES: Final = 0.95


@dataclass(frozen=True, slots=True)
class Probe:
    """An order that rests from one recorded time to another."""

    ns: int
    sign: int
    price: int
    quantity: int

    @property
    def until_ns(self) -> int:
        return self.ns + LIFE - MILLISECOND

    def asked(self, symbol: str) -> NewOrder:
        side = "BUY" if self.sign > 0 else "SELL"
        return NewOrder(symbol, side, "LIMIT_MAKER", quantity=self.quantity, price=self.price)


@dataclass(slots=True)
class Replayed:
    """A recording that plays in the local exchange, by the recording's own times."""

    recorded: Recorded
    stage: Stage

    @classmethod
    def of(cls, path: Path, **options: Any) -> Replayed:
        stage = build(Plan(replay=(str(path),), **options), Warp(ManualClock(NOW)))
        return cls(Recorded.read(path), stage)

    def play_to(self, ns: int) -> None:
        self.stage.trading.simulate(self.stage.clock, NOW + ns - self.recorded.first_ns)

    def recorded_ns(self, ns: int) -> int:
        return ns - NOW + self.recorded.first_ns


def probes(path: Path, seconds: int) -> list[Probe]:
    """Orders at the best bid and the best ask of each second, as the recorded depth has them."""
    replayed = Replayed.of(path)
    symbol = replayed.recorded.symbol
    book = replayed.stage.markets.of(symbol).depth_feed.book
    found: list[Probe] = []
    last = min(replayed.recorded.last_ns - LIFE, replayed.recorded.first_ns + seconds * SECOND)
    for ns in range(replayed.recorded.first_ns + SECOND, last, SECOND):
        replayed.play_to(ns)
        for sign, level in ((1, book.best_bid()), (-1, book.best_ask())):
            assert level is not None
            found.append(Probe(ns, sign, level[0], QUANTITIES[symbol]))
    replayed.stage.venue.close()
    return found


def fills(path: Path, orders: Sequence[Probe]) -> list[int | None]:
    """When the local exchange filled each order wholly, by the recording's time."""
    replayed = Replayed.of(path)
    venue, symbol = replayed.stage.venue, replayed.recorded.symbol
    venue.open_account("me", FUNDS)
    filled: dict[int, int] = {}

    def hear(event: Event) -> None:
        if isinstance(event, Reported) and event.order.status == "FILLED":
            filled[event.order.id] = replayed.recorded_ns(event.ns)

    venue.listen(hear)
    ids: dict[int, int] = {}
    for ns, number, begins in _acts(orders):
        replayed.play_to(ns)
        if begins:
            ids[number] = venue.place("me", orders[number].asked(symbol)).order.id
        elif ids[number] not in filled:
            venue.cancel("me", symbol, order_id=ids[number])
    venue.close()
    return [filled.get(ids[number]) for number in range(len(orders))]


def _acts(orders: Sequence[Probe]) -> list[tuple[int, int, bool]]:
    begun = [(order.ns, number, True) for number, order in enumerate(orders)]
    return sorted(begun + [(order.until_ns, number, False) for number, order in enumerate(orders)])


def judged(path: Path, orders: Sequence[Probe]) -> list[int | None]:
    """When hftbacktest filled each order wholly."""
    recorded = Recorded.read(path)
    book = recorded.snapshot
    instrument = next(each.instrument for each in default() if each.instrument.symbol == recorded.symbol)
    document = {
        "recording": str(path),
        "book": {"ns": book.ns, "id": book.last_id, "b": _texts(book.bids), "a": _texts(book.asks)},
        "tick": text(instrument.tick),
        "step": text(instrument.step),
        "orders": [
            (each.ns, each.sign, text(each.price), text(each.quantity), each.until_ns) for each in orders
        ],
    }
    ran = subprocess.run(
        [sys.executable, LOCKS / "exchange" / "queued.py"],
        input=json.dumps(document),
        env={**os.environ, "PYTHONPATH": str(HFTBACKTEST.require("packages"))},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["version"] == RIVAL
    return told["filled"]


def _texts(side: Iterable[Level]) -> list[tuple[str, str]]:
    return [(text(price), text(quantity)) for price, quantity in side]


@dataclass(slots=True)
class Agreement:
    """How far two programs agree about the fills of the same orders."""

    orders: int = 0
    same: int = 0
    both: int = 0
    timely: int = 0
    ours: list[float] = field(default_factory=list[float])
    theirs: list[float] = field(default_factory=list[float])

    def add(self, orders: Sequence[Probe], ours: Sequence[int | None], theirs: Sequence[int | None]) -> None:
        for order, own, other in zip(orders, ours, theirs, strict=True):
            self.orders += 1
            self.same += (own is None) == (other is None)
            self.ours += [] if own is None else [(own - order.ns) / SECOND]
            self.theirs += [] if other is None else [(other - order.ns) / SECOND]
            if own is not None and other is not None:
                self.both += 1
                self.timely += abs(own - other) <= SAME_TIME

    @property
    def verdicts(self) -> float:
        return self.same / self.orders

    @property
    def times(self) -> float:
        return self.timely / self.both

    def document(self) -> dict[str, Any]:
        return {
            "orders": self.orders,
            "filled here": len(self.ours),
            "filled there": len(self.theirs),
            "median seconds here": round(median(self.ours), 3),
            "median seconds there": round(median(self.theirs), 3),
            "verdicts": round(self.verdicts, 4),
            "times": round(self.times, 4),
        }


def check_fills_agree(paths: Iterable[Path], seconds: int) -> tuple[Agreement, dict[str, Any]]:
    """Compare the fills of both programs, here with all orders at a price in one queue."""
    total, details = Agreement(), dict[str, Any]()
    for path in paths:
        orders = probes(path, seconds)
        ours, theirs = fills(path, orders), judged(path, orders)
        here = Agreement()
        for agreement in (here, total):
            agreement.add(orders, ours, theirs)
        details[f"{path.parent.name}/{path.name}"] = here.document()
    return total, details


def test_every_recording_that_judges_is_the_one_that_was_named(tmp_path: Path) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(b"another")
    with pytest.raises(AssertionError, match=r"a\.gz is another file"):
        check_named(file, OUTSIDE["spot/btcusdt_20240808.gz"])


def check_named(path: Path, digest: str) -> Path:
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest, (
        f"{path.name} is another file than was named"
    )
    return path


BUILT: Final = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="hftbacktest has no build for this Python"
)


@BUILT
@pytest.mark.judge
@pytest.mark.timeout(300)
def test_orders_in_our_own_recording_fill_as_by_the_risk_averse_queue_model() -> None:
    found, details = check_fills_agree(OURS[:1], 120)
    assert found.orders >= 200
    assert found.verdicts >= VERDICTS, details
    assert found.times >= TIMES, details


@BUILT
@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_orders_in_real_recordings_fill_as_by_the_risk_averse_queue_model(
    checkout: Callable[[str], Path], prove: Recorder
) -> None:
    folder = checkout("hftbacktest")
    paths = [check_named(folder / "examples" / name, digest) for name, digest in OUTSIDE.items()]
    found, details = check_fills_agree(paths, 3600)
    assert found.orders >= FEWEST
    for bar, figure, least in (
        ("exchange-queue-verdicts", found.verdicts, VERDICTS),
        ("exchange-queue-times", found.times, TIMES),
    ):
        assert figure >= least, details
        prove.record(
            bar,
            figure,
            seeds=(),
            rivals={"hftbacktest": RIVAL},
            checkouts={"hftbacktest": folder},
            details={"recordings": OUTSIDE, **details},
        )
