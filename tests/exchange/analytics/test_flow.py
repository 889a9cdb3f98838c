"""Pressure and impact: properties that hold for every series, and what too little data gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.exchange.analytics import flow, spreads
from tracedesk.exchange.analytics.span import Insufficient, Span
from tracedesk.exchange.series import Covered, Prints, Touches
from tracedesk.exchange.units import ONE
from tracedesk.primitives.time import SECOND

TICK = ONE // 100
HUGE = 8 * 10**18
"""Near the end of 64 bits: four of these overflow a 64-bit sum."""

quantity = st.integers(1, 10**12)
touch = st.tuples(st.integers(1, 10**6), quantity, st.integers(1, 50), quantity)
trade = st.tuples(st.integers(1, 10**6), quantity, st.booleans())


def touches(rows: Sequence[tuple[int, int, int, int]], step_ns: int = SECOND) -> Touches:
    """From bid in ticks, its size, the spread in ticks and the ask's size."""
    bid = np.array([row[0] for row in rows], dtype=np.int64) * TICK
    ask = bid + np.array([row[2] for row in rows], dtype=np.int64) * TICK
    order = np.arange(len(rows), dtype=np.int64)
    sizes = [np.array([row[at] for row in rows], dtype=np.int64) for at in (1, 3)]
    return Touches(order * step_ns, order, bid, sizes[0], ask, sizes[1])


def prints(rows: Sequence[tuple[int, int, bool]], step_ns: int = SECOND) -> Prints:
    order = np.arange(len(rows), dtype=np.int64)
    columns = [np.array([int(row[at]) for row in rows], dtype=np.int64) for at in range(3)]
    return Prints(order * step_ns, order, columns[0] * TICK, columns[1], columns[2])


def seconds(count: int) -> Span:
    return Span.of(0, count * SECOND)


def mirrored(given_touches: Touches) -> Touches:
    """Bids for asks, around a price above all."""
    top = 10**9 * TICK
    return Touches(
        given_touches.ns,
        given_touches.id,
        top - given_touches.ask,
        given_touches.ask_quantity,
        top - given_touches.bid,
        given_touches.bid_quantity,
    )


@given(st.lists(touch, min_size=2, max_size=40))
def test_the_mirror_image_of_a_market_has_the_opposite_imbalance(
    rows: list[tuple[int, int, int, int]],
) -> None:
    market = touches(rows)
    assert (flow.contributions(market) == -flow.contributions(mirrored(market))).all()


@given(st.lists(trade, min_size=1, max_size=60), st.integers(1, 10**12))
def test_buckets_hold_what_was_traded_and_never_more_than_their_volume(
    rows: list[tuple[int, int, bool]], volume: int
) -> None:
    quantities, signs = [row[1] for row in rows], [-1 if row[2] else 1 for row in rows]
    volume = max(volume, sum(quantities) // 500)
    found = flow.bucket_imbalances(quantities, signs, volume)
    assert len(found) == sum(quantities) // volume
    assert all(0 <= each <= volume for each in found)


@given(st.lists(trade, min_size=60, max_size=80))
def test_vpin_lies_between_zero_and_one(rows: list[tuple[int, int, bool]]) -> None:
    found = flow.vpin(prints(rows), seconds(100))
    assert isinstance(found, flow.Toxicity)
    assert 0.0 <= found.value <= 1.0


def test_one_sided_trading_is_wholly_toxic() -> None:
    found = flow.vpin(prints([(100, ONE, True)] * 60), seconds(60))
    assert isinstance(found, flow.Toxicity)
    assert found.value == 1.0


def test_sums_beyond_64_bits_are_exact() -> None:
    market = prints([(100, HUGE, False)] * 60)
    found = flow.order_flow(touches([(10, 5, 1, 5), (11, 5, 1, 5)]), market, seconds(60))
    assert isinstance(found, flow.OrderFlow)
    assert found.buys == 60 * HUGE
    assert found.document()["cumulative_delta"] == str(60 * HUGE // ONE)


def test_an_imbalance_beyond_64_bits_is_exact_and_keeps_its_sign() -> None:
    market = touches([(10, HUGE, 2, HUGE), (11, HUGE, 2, HUGE)])
    found = flow.ofi(market, seconds(2))
    assert isinstance(found, flow.Imbalance)
    assert found.quantity == 2 * HUGE
    summary = flow.order_flow(market, prints([]), seconds(2))
    assert isinstance(summary, flow.OrderFlow)
    assert (summary.imbalance, summary.bid_events, summary.ask_events) == (2 * HUGE, 1, 0)
    assert flow.rolling(market, 1) == [2 * HUGE / ONE]


@pytest.mark.parametrize(
    ("bids", "asks", "said"),
    [
        (21, 10, "StrongBuy"),
        (20, 10, "ModerateBuy"),
        (13, 10, "ModerateBuy"),
        (12, 10, "Neutral"),
        (8, 10, "Neutral"),
        (7, 10, "ModerateSell"),
        (5, 10, "ModerateSell"),
        (4, 10, "StrongSell"),
        (0, 0, "Neutral"),
        (1, 0, "StrongBuy"),
        (0, 1, "StrongSell"),
    ],
)
def test_the_direction_follows_the_bands_of_the_ratio(bids: int, asks: int, said: str) -> None:
    assert flow.direction(bids, asks) == said


def test_kyles_lambda_recovers_the_impact_a_market_was_made_with() -> None:
    chance = np.random.default_rng(5)
    volumes = chance.normal(0, 3, 400)
    ticks = 10**6 + np.cumsum(np.rint(200 * volumes + chance.normal(0, 40, 400))).astype(np.int64)
    market = touches([(10**6, ONE, 2, ONE), *((int(tick), ONE, 2, ONE) for tick in ticks)])
    # A print lies in the middle of the interval whose end has the touch after it.
    base = prints([(10**6, max(1, int(abs(each) * ONE)), bool(each < 0)) for each in volumes])
    traded = Prints(base.ns + SECOND // 2, base.id, base.price, base.quantity, base.maker)
    found = flow.kyle(market, traded, seconds(400))
    assert isinstance(found, flow.Impact)
    assert found.slope == pytest.approx(2.0, abs=4 * found.standard_error)
    assert found.standard_error < 0.02
    assert found.intervals == 400
    assert found.r_squared > 0.95


def test_the_spreads_of_a_steady_market_are_what_takers_pay() -> None:
    market = touches([(100_000, ONE, 4, ONE)] * 30)
    base = prints([(100_004, ONE, False), (100_000, ONE, True)] * 10)
    traded = Prints(base.ns + 1, base.id, base.price, base.quantity, base.maker)
    found = spreads.spreads(market, traded, seconds(29))
    assert isinstance(found, spreads.Spreads)
    assert found.effective is not None
    assert found.realised is not None
    for cost in (found.quoted, found.effective, found.realised):
        assert cost.price == pytest.approx(0.04)
        assert cost.bps == pytest.approx(0.04 / 1000.02 * 1e4)


def test_rolls_spread_is_that_of_a_bouncing_price_and_undefined_for_a_trending_one() -> None:
    chance = np.random.default_rng(7)
    bounce = [(1_000 + (2 if up else -2), ONE, False) for up in chance.random(4_000) < 0.5]
    found = spreads.roll(prints(bounce), seconds(4_000))
    assert isinstance(found, spreads.ImpliedSpread)
    assert found.price == pytest.approx(0.04, rel=0.05)
    trend = spreads.roll(prints([(at * at, ONE, False) for at in range(1, 60)]), seconds(60))
    assert isinstance(trend, spreads.ImpliedSpread)
    assert trend.price is None


def test_amihuds_measure_is_the_mean_return_for_a_million() -> None:
    market = prints([(100_00, ONE, False), (101_00, ONE, False)] * 20)
    found = spreads.amihud(market, seconds(40))
    assert isinstance(found, spreads.Illiquidity)
    ups, downs = 0.01 / 101 * 1e6, (1 - 100 / 101) / 100 * 1e6
    assert found.per_million == pytest.approx((20 * ups + 19 * downs) / 39)


def test_prints_without_a_quantity_are_no_evidence() -> None:
    market, empty = touches([(10, 5, 1, 5)] * 60), prints([(10, 0, False)] * 60)
    found = spreads.spreads(market, empty, seconds(60))
    assert isinstance(found, spreads.Spreads)
    assert (found.effective, found.realised) == (None, None)
    assert isinstance(spreads.amihud(empty, seconds(60)), Insufficient)


def test_too_little_data_is_a_result_that_says_what_is_missing() -> None:
    none, span = prints([]), seconds(60)
    market = touches([(10, 5, 1, 5)])
    for found in (
        flow.ofi(market, span),
        flow.vpin(none, span),
        flow.kyle(market, none, span),
        flow.order_flow(market, none, span),
        spreads.spreads(market, none, span),
        spreads.amihud(none, span),
        spreads.roll(none, span),
    ):
        assert isinstance(found, Insufficient)
        document = found.document()
        assert document["status"] == "insufficient_data"
        assert any(document["have"][name] < least for name, least in document["needed"].items())
        assert {"window_requested", "window_covered", "method", "sample_size"} <= document.keys()


def test_a_side_that_was_empty_is_left_out() -> None:
    rows = [(10, 5, 1, 5), (10, 0, 1, 5), (10, 7, 1, 5)]
    found = flow.ofi(touches(rows), seconds(3))
    assert isinstance(found, flow.Imbalance)
    assert found.quantity == 2


def test_the_window_covered_is_what_all_kinds_know_of_the_one_requested() -> None:
    span = Span.of(100, 900, Covered(200, 1_000), Covered(50, 800))
    assert (span.covered.from_ns, span.covered.to_ns) == (200, 800)
    assert (span.known.from_ns, span.known.to_ns) == (200, 800)
    unknown = Span.of(100, 900, Covered(200, 1_000), None)
    assert unknown.covered.seconds == 0


def test_the_figures_are_imported_without_numpy() -> None:
    names = (
        "anomalies",
        "flow",
        "health",
        "microprice",
        "profile",
        "quotes",
        "slippage",
        "spreads",
        "vacuums",
        "walls",
    )
    imports = "; ".join(f"import tracedesk.exchange.analytics.{name}" for name in names)
    code = f"{imports}; import sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
