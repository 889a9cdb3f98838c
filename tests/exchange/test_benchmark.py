"""The exchange's benchmark runs and says what it should; what the figures are is not a test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import exchange_book, exchange_matching, measure
from benchmarks.exchange import p95
from benchmarks.messages import Misbehaved
from tracedesk.exchange.book.book import Book

ROOT = Path(__file__).parent.parent.parent
LIMITS = {
    "resource read, p95 ms": 20.0,
    "50 sessions, p95 ms": 500.0,
    "slowest prompt, p95 ms": 100.0,
    "slowest first prompt, ms": 100.0,
}
RATIOS = {"book, seeded": 6.0, "matching within 1,000 ticks": 4.0}
NO_BARS = {"book, btcusdt_local", "book, ethusdt_local", "matching within 200 ticks"}


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    if not measure.supported():
        pytest.skip("needs Linux with schedstat")
    command = [sys.executable, "-m", "benchmarks.exchange", "--quick", "--json"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_every_promise_is_a_claim_with_its_bar_and_its_verdict(figures: dict[str, Any]) -> None:
    claims = {claim["name"]: claim for claim in figures["claims"]}
    assert claims.keys() == LIMITS.keys() | RATIOS.keys() | NO_BARS
    for name, bar in RATIOS.items():
        assert (claims[name]["bar"], claims[name]["met"]) == (bar, claims[name]["ratio"] >= bar)
    for name, bar in LIMITS.items():
        assert (claims[name]["bar"], claims[name]["met"]) == (bar, claims[name]["ratio"] < bar)
    assert {(claims[name]["bar"], claims[name]["met"]) for name in NO_BARS} == {(None, None)}


def test_the_figures_behind_the_claims_the_machine_and_the_method_are_told(figures: dict[str, Any]) -> None:
    assert figures["desk_ms"]["prompts"].keys() == {
        "trading_analysis",
        "portfolio_risk",
        "market_microstructure_analysis",
        "order_flow_trading",
        "liquidity_mapping",
    }
    assert all(row["fills"] > 100 for row in figures["matching_ns"].values())
    assert {"cpus", "python", "neighbours_cores"} <= figures["machine"].keys()
    assert {"book", "matching", "read", "crowd", "prompt"} <= figures["method"].keys()
    assert str(ROOT) not in json.dumps(figures)


def test_a_book_that_is_wrong_once_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(Book):
        """Forgets one update in a hundred."""

        __slots__ = ("seen",)

        def set_bid(self, price: int, quantity: int) -> None:
            self.seen = getattr(self, "seen", 0) + 1
            if self.seen % 100:
                super().set_bid(price, quantity)

    monkeypatch.setattr(exchange_book, "Book", Late)
    with pytest.raises(Misbehaved, match="seeded"):
        exchange_book.measure(exchange_book.seeded(20_000), 1)


def test_both_engines_are_given_the_same_orders_every_time() -> None:
    assert exchange_matching.orders(100, 50) == exchange_matching.orders(100, 50)
    assert {sign for sign, _, _ in exchange_matching.orders(100, 50)} == {1, -1}


def test_95_of_100_do_not_exceed_the_95th_percentile() -> None:
    assert p95(range(1, 101)) == 95
    assert p95([3.0]) == 3.0
    assert p95(range(1, 21)) == 19
