"""The figures of a market that was followed for minutes: every document by its contract, money as text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support import ROOT, run
from tracedesk import contracts
from tracedesk.exchange import flows, report
from tracedesk.exchange.book.recording import frames, payload
from tracedesk.exchange.book.sync import Depth, Sync, levels
from tracedesk.exchange.book.tape import Tape
from tracedesk.exchange.feeds.market import Market
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.memo import Memo
from tracedesk.exchange.provider import Provider
from tracedesk.exchange.units import units
from tracedesk.exchange.venue import listings
from tracedesk.primitives.time import MILLISECOND, ManualClock
from tracedesk.wire.validate import compile_schema

RECORDING = ROOT / "tests" / "exchange" / "recordings" / "btcusdt_local.gz"


@dataclass
class Followed:
    """What the figures take from a market."""

    instrument: Instrument
    sync: Sync
    tape: Tape
    now_ns: int = 0

    @property
    def symbol(self) -> str:
        return self.instrument.symbol


@dataclass
class Desk:
    """What the figures take from the provider."""

    at: int
    mode: str = "sim"
    costly: Memo = field(default_factory=lambda: Memo(ManualClock(), fresh=1, kept=1))

    def now_ns(self) -> int:
        return self.at

    async def compute(self, work: Callable[[], Any]) -> Any:
        return work()


@cache
def followed(path: Path = RECORDING) -> Followed:
    """A market fed from a recording."""
    clock = ManualClock()
    instrument = next(each.instrument for each in listings.default() if each.instrument.symbol == "BTCUSDT")
    market = Followed(instrument, Sync(clock), Tape())
    market.sync.opened()
    for ns, frame in frames(path):
        _take(market, ns, payload(frame))
        market.now_ns = ns
    market.tape.reached(market.now_ns)
    return market


def _take(market: Followed, ns: int, data: Mapping[str, Any]) -> None:
    if "lastUpdateId" in data:
        step = market.sync.snapshot(data["lastUpdateId"], levels(data["bids"]), levels(data["asks"]), 1000)
        market.tape.changes(step.changes)
    elif data.get("e") == "depthUpdate":
        market.tape.changes(market.sync.offer(Depth.of(data)).changes)
    elif data.get("e") == "trade":
        market.tape.print(data["T"] * MILLISECOND, data["t"], units(data["p"]), units(data["q"]), data["m"])
    elif "u" in data:
        market.tape.touch(ns, data["u"], *(units(data[name]) for name in ("b", "B", "a", "A")))


def made(work: Callable[[Provider, Market], Awaitable[Any]]) -> Any:
    market = followed()

    async def main() -> Any:
        return await work(cast("Provider", Desk(market.now_ns)), cast("Market", market))

    return run(main())


Work = Callable[[Provider, Market], Awaitable[Any]]
FIGURES: dict[str, Work] = {
    "get_order_flow": lambda p, m: flows.order_flow_of(p, m, 60),
    "get_volume_profile": lambda p, m: flows.volume_profile_of(p, m, 1),
    "detect_market_anomalies": lambda p, m: flows.anomalies_of(p, m, 60),
    "get_microstructure_health": flows.health_of,
    "get_liquidity_vacuums": lambda p, m: flows.vacuums_of(p, m, 3600),
}


@pytest.mark.parametrize("tool", FIGURES)
def test_a_market_that_was_followed_for_minutes_has_figures_by_the_contract(tool: str) -> None:
    found = made(FIGURES[tool])
    assert found["status"] == "ok", found
    output = contracts.load("exchange", tool).output
    assert output is not None
    compile_schema(output).validate({"symbol": "BTCUSDT", "mode": "sim", **found})
    assert found["window_covered"]["seconds"] > 50
    assert found["sample_size"] > 0


def test_walls_and_the_micro_price_are_told_from_minutes_too() -> None:
    assert made(lambda p, m: flows.walls(p, m, 60))["status"] == "ok"
    assert made(flows.micro_price)["status"] == "ok"


def test_the_baseline_of_who_names_none_is_what_is_known() -> None:
    found = made(lambda p, m: flows.anomalies_of(p, m, 60))
    assert 200 <= found["baseline_seconds"] < 300
    assert made(lambda p, m: flows.anomalies_of(p, m, 60, 60))["baseline_seconds"] == 60


def test_every_section_of_a_report_has_figures() -> None:
    sections = (
        report.orderbook_metrics,
        report.liquidity_in(1),
        report.market_microstructure,
        report.market_anomalies,
        report.microstructure_health,
    )
    for section in sections:
        text = made(partial(_section, section))
        assert "|" in text or "None." in text
        assert "Insufficient data" not in text
        assert "nan" not in text


async def _section(section: report.Section, provider: Provider, market: Market) -> str:
    return await section(provider, market, 20)
