"""Order flow imbalance, VPIN and weighted mid, judged by another library on recorded streams."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest
import wickra

from tests.exchange.analytics.markets import OURS, OUTSIDE, Market, outside, recorded
from tracedesk.exchange.analytics import flow, quotes
from tracedesk.exchange.units import ONE

CLOSE = 1e-9
BUCKETS = 50


def _snapshots(market: Market) -> list[tuple[list[float], list[float], list[float], list[float]]]:
    touches = market.touches
    columns = (touches.bid, touches.bid_quantity, touches.ask, touches.ask_quantity)
    rows = zip(*((column / ONE).tolist() for column in columns), strict=True)
    return [([bid], [bids], [ask], [asks]) for bid, bids, ask, asks in rows]


def check_ofi(market: Market) -> None:
    events = 100
    theirs = list(wickra.OrderFlowImbalance(events).batch(_snapshots(market)))[events:]
    ours = flow.rolling(market.touches, events)
    assert len(ours) == len(theirs) > 5_000
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < CLOSE


def check_weighted_mid(market: Market) -> None:
    theirs = list(wickra.Microprice().batch(_snapshots(market)))
    ours = quotes.weighted_mids(market.touches)
    assert len(ours) == len(theirs) > 5_000
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < CLOSE


def check_vpin(market: Market) -> None:
    """Compared at every full bucket, and the tool's own figure at the end."""
    prints = market.prints
    quantities: list[int] = prints.quantity.tolist()
    signs: list[int] = (1 - 2 * prints.maker).tolist()
    # No divisor of the whole: where a print fills a bucket exactly, binary sums cannot tell that it does.
    volume = sum(quantities) // 200 + 1
    judge = wickra.Vpin(volume / ONE, BUCKETS)
    theirs = [
        judge.update(price / ONE, quantity / ONE, sign == 1)
        for price, quantity, sign in zip(prints.price.tolist(), quantities, signs, strict=True)
    ]
    sums = [0, *accumulate(flow.bucket_imbalances(quantities, signs, volume))]
    filled = [done // volume for done in accumulate(quantities)]
    compared = 0
    for buckets, value in zip(filled, theirs, strict=True):
        if buckets >= BUCKETS and value is not None:
            ours = (sums[buckets] - sums[buckets - BUCKETS]) / (BUCKETS * volume)
            assert abs(ours - value) < CLOSE
            compared += 1
    assert compared > len(theirs) // 2
    last = flow.vpin(prints, market.span, BUCKETS, volume)
    assert isinstance(last, flow.Toxicity)
    assert theirs[-1] is not None
    assert abs(last.value - theirs[-1]) < CLOSE


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_order_flow_imbalance_equals_the_judge_on_our_own_recording(path: Path) -> None:
    check_ofi(recorded(path))


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_the_weighted_mid_equals_the_judge_on_our_own_recording(path: Path) -> None:
    check_weighted_mid(recorded(path))


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_vpin_equals_the_judge_on_our_own_recording(path: Path) -> None:
    check_vpin(recorded(path))


@pytest.mark.prove
@pytest.mark.parametrize("name", OUTSIDE)
def test_order_flow_imbalance_equals_the_judge_on_the_venues_recording(
    name: str, checkout: Callable[[str], Path]
) -> None:
    check_ofi(recorded(outside(checkout("binance_spot"), name)))


@pytest.mark.prove
@pytest.mark.parametrize("name", OUTSIDE)
def test_the_weighted_mid_equals_the_judge_on_the_venues_recording(
    name: str, checkout: Callable[[str], Path]
) -> None:
    check_weighted_mid(recorded(outside(checkout("binance_spot"), name)))


@pytest.mark.prove
@pytest.mark.parametrize("name", OUTSIDE)
def test_vpin_equals_the_judge_on_the_venues_recording(name: str, checkout: Callable[[str], Path]) -> None:
    check_vpin(recorded(outside(checkout("binance_spot"), name)))
