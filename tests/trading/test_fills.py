"""Fills on quotes and on bars: prices, money, caps, and what never happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracedesk.market import Bar, View, calendar
from tracedesk.primitives.time import ManualClock
from tracedesk.trading import fills
from tracedesk.trading.fills import Outcome
from tracedesk.trading.model import Fill, OrderType, Side, TimeInForce, Trade
from tracedesk.trading.settings import Costs
from tracedesk.trading.sources.seam import Quote
from tracedesk.trading.units import money, nanos, price

COSTS = Costs()
FREE = Costs(slippage_bps=Decimal(0), fee_per_share=Decimal(0), fee_minimum=Decimal(0))
SHARE = 10**9
DOLLAR = 10**6


def trade(
    side: Side = "buy",
    shares: int = 10,
    type: OrderType = "market",
    at: str | None = None,
    tif: TimeInForce = "ioc",
) -> Trade:
    """A trade of IBM; `at` is the limit or the stop."""
    micros = None if at is None else int(Decimal(at) * DOLLAR)
    limit, stop = (micros, None) if type == "limit" else (None, micros)
    return Trade("IBM", side, shares * SHARE, type, limit, stop, tif)


def quote(last: str, bid: str | None = None, ask: str | None = None) -> Quote:
    near, far = (None if text is None else Decimal(text) for text in (bid, ask))
    return Quote("IBM", Decimal(last), 0, bid=near, ask=far)


def bar(open: str, high: str, low: str, close: str, volume: int = 1_000_000) -> Bar:
    opened, highest, lowest, closed = (Decimal(text) for text in (open, high, low, close))
    return Bar(date(2012, 12, 3), opened, highest, lowest, closed, volume, closed)


def now(trade: Trade, quote: Quote, adv: int | None = None, costs: Costs = FREE) -> Outcome:
    return fills.now(trade, quote, adv, costs)


def later(trade: Trade, bar: Bar | None, *, costs: Costs = FREE, **given: Any) -> Outcome:
    """A resting order, by default whole and placed in an earlier session, at a close."""
    remaining = given.get("remaining", trade.quantity)
    return fills.at_close(trade, remaining, bar, given.get("today", False), given.get("adv"), costs)


def shown(outcome: Outcome) -> tuple[str, int, str | None]:
    at = None if outcome.price is None else str(price(outcome.price))
    return outcome.status, outcome.quantity // SHARE, at


# --- the worked simulation ---------------------------------------------------------------------


def test_the_worked_simulation_comes_out_to_the_cent() -> None:
    view = View(ManualClock(calendar.close_ns(date(2013, 3, 1))))
    bought = fills.now(Trade("IBM", "buy", 10 * SHARE), _embedded(view, "IBM"), 5_000_000, COSTS)
    sold = fills.now(Trade("MSFT", "sell", 100 * SHARE), _embedded(view, "MSFT"), 50_000_000, COSTS)
    buy = bought.fill("o1", Trade("IBM", "buy", 10 * SHARE))
    sell = sold.fill("o2", Trade("MSFT", "sell", 100 * SHARE))
    assert buy is not None
    assert sell is not None
    assert buy == Fill("o1", "IBM", "buy", 10 * SHARE, 203_011_500, 2_030_12, 1_00)
    assert sell == Fill("o2", "MSFT", "sell", 100 * SHARE, 27_936_000, 2_793_60, 1_00)
    assert (money(buy.total_cost), money(sell.total_cost)) == (Decimal("2031.12"), Decimal("-2792.60"))
    assert (bought.status, sold.status) == ("filled", "filled")
    assert 10_000_00 - buy.total_cost - sell.total_cost == 10_761_48


def _embedded(view: View, symbol: str) -> Quote:
    known = view.quote(symbol)
    return Quote(symbol, known.price, known.as_of_ns)


# --- prices and money --------------------------------------------------------------------------


def test_a_buy_meets_the_ask_and_a_sell_the_bid() -> None:
    both = quote("100", bid="99.5", ask="100.5")
    assert shown(now(trade("buy"), both)) == ("filled", 10, "100.50")
    assert shown(now(trade("sell"), both)) == ("filled", 10, "99.50")
    assert shown(now(trade("sell"), quote("100", ask="100.5"))) == ("filled", 10, "100.00")


def test_slippage_goes_against_the_owner_and_prices_have_four_places() -> None:
    costs = replace(FREE, slippage_bps=Decimal("2.5"))
    assert shown(now(trade("buy"), quote("123.45"), costs=costs)) == ("filled", 10, "123.4809")
    assert shown(now(trade("sell"), quote("123.45"), costs=costs)) == ("filled", 10, "123.4191")


@pytest.mark.parametrize(
    ("last", "at"), [("1.00005", "1.00"), ("1.00015", "1.0002"), ("1.000050001", "1.0001")]
)
def test_a_price_is_rounded_half_even(last: str, at: str) -> None:
    assert shown(now(trade("buy"), quote(last)))[2] == at


def test_no_price_falls_below_one_tick() -> None:
    assert shown(now(trade("sell"), quote("0.00001")))[2] == "0.0001"
    ruinous = replace(FREE, slippage_bps=Decimal(20_000))
    assert shown(now(trade("sell"), quote("5"), costs=ruinous))[2] == "0.0001"


def test_the_notional_is_rounded_half_even_once() -> None:
    half = Trade("IBM", "buy", nanos(Decimal("0.5")))
    assert fills.now(half, quote("0.05"), None, FREE).notional == 2
    assert fills.now(half, quote("0.07"), None, FREE).notional == 4
    assert fills.now(half, quote("0.0701"), None, FREE).notional == 4


@pytest.mark.parametrize(
    ("shares", "cents"), [(0, 0), (1, 100), (200, 100), (201, 100), (203, 102), (1000, 500)]
)
def test_fees_are_per_share_with_a_minimum(shares: int, cents: int) -> None:
    # 201 shares are 100.5 cents, and half-even makes that 100.
    assert fills.fee(shares * SHARE, COSTS) == cents


# --- immediate orders --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "limit", "expected"),
    [
        ("buy", "99.99", ("rejected", 0, None)),
        ("buy", "100", ("filled", 10, "100.00")),
        ("buy", "100.01", ("filled", 10, "100.01")),
        ("buy", "101", ("filled", 10, "100.05")),
        ("sell", "100.01", ("rejected", 0, None)),
        ("sell", "100", ("filled", 10, "100.00")),
        ("sell", "99.99", ("filled", 10, "99.99")),
        ("sell", "99", ("filled", 10, "99.95")),
    ],
)
def test_a_limit_fills_only_if_marketable_and_never_beyond_it(side: Side, limit: str, expected: Any) -> None:
    outcome = now(
        trade(side, type="limit", at=limit), quote("100"), costs=replace(FREE, slippage_bps=Decimal(5))
    )
    assert shown(outcome) == expected
    assert outcome.reason == ("NOT_MARKETABLE" if expected[0] == "rejected" else None)


def test_a_limit_of_six_places_is_rounded_in_its_owners_favour() -> None:
    costs = replace(FREE, slippage_bps=Decimal(5))
    assert shown(now(trade("buy", type="limit", at="100.000099"), quote("100"), costs=costs))[2] == "100.00"
    assert shown(now(trade("sell", type="limit", at="99.999901"), quote("100"), costs=costs))[2] == "100.00"
    tiny = now(trade("buy", type="limit", at="0.000099"), quote("0.00001"))
    assert (tiny.status, tiny.reason) == ("rejected", "NOT_MARKETABLE")


@pytest.mark.parametrize(
    ("side", "stop", "expected"),
    [
        ("buy", "100.01", ("rejected", 0, None)),
        ("buy", "100", ("filled", 10, "101.00")),
        ("buy", "90", ("filled", 10, "101.00")),
        ("sell", "99.99", ("rejected", 0, None)),
        ("sell", "100", ("filled", 10, "99.00")),
        ("sell", "110", ("filled", 10, "99.00")),
    ],
)
def test_a_stop_is_triggered_by_the_last_price_and_fills_like_a_market_order(
    side: Side, stop: str, expected: Any
) -> None:
    outcome = now(trade(side, type="stop", at=stop), quote("100", bid="99", ask="101"))
    assert shown(outcome) == expected
    assert outcome.reason == ("NOT_TRIGGERED" if expected[0] == "rejected" else None)


@pytest.mark.parametrize("tif", ["day", "gtc"])
def test_what_cannot_fill_now_rests_if_it_may(tif: TimeInForce) -> None:
    limit = now(trade(type="limit", at="99", tif=tif), quote("100"))
    stop = now(trade(type="stop", at="101", tif=tif), quote("100"))
    assert (shown(limit), limit.reason) == (("open", 0, None), "NOT_MARKETABLE")
    assert (shown(stop), stop.reason) == (("open", 0, None), "NOT_TRIGGERED")
    assert limit.fill("o", trade()) is None
    assert shown(now(trade(type="limit", at="100", tif=tif), quote("100"))) == ("filled", 10, "100.00")


# --- the participation cap ---------------------------------------------------------------------


def test_more_than_the_cap_is_a_partial_fill() -> None:
    outcome = now(trade(shares=100), quote("50"), adv=755)
    assert shown(outcome) == ("partial", 75, "50.00")
    assert (outcome.reason, outcome.notional, outcome.cap) == ("VOLUME_CAP", 3_750_00, 75 * SHARE)
    assert shown(now(trade(shares=75), quote("50"), adv=755)) == ("filled", 75, "50.00")


def test_without_a_known_volume_nothing_is_capped_and_the_outcome_says_so() -> None:
    outcome = now(trade(shares=10**9), quote("50"), adv=None)
    assert (outcome.status, outcome.cap) == ("filled", None)


def test_a_share_that_hardly_trades_fills_nothing() -> None:
    outcome = now(trade(), quote("50"), adv=9)
    assert (shown(outcome), outcome.reason, outcome.fees) == (("rejected", 0, None), "VOLUME_CAP", 0)
    resting = now(trade(type="limit", at="50", tif="gtc"), quote("50"), adv=9)
    assert (shown(resting), resting.reason) == (("open", 0, None), "VOLUME_CAP")


def test_a_resting_order_takes_its_cap_now_and_rests_with_what_is_left() -> None:
    order = trade(shares=100, type="limit", at="50", tif="gtc")
    outcome = now(order, quote("50"), adv=600)
    assert (shown(outcome), outcome.reason) == (("open", 60, "50.00"), "VOLUME_CAP")
    rest = 40 * SHARE
    same_day = later(order, bar("50", "51", "40", "50"), remaining=rest, today=True, adv=600)
    assert (shown(same_day), same_day.cap) == (("open", 0, None), 0)
    next_day = later(order, bar("50", "51", "40", "50"), remaining=rest, adv=600)
    assert shown(next_day) == ("filled", 40, "50.00")


def test_the_minimum_fee_is_paid_once_however_many_parts_an_order_fills_in() -> None:
    order = trade(shares=100, type="limit", at="50", tif="gtc")
    first = now(order, quote("50"), adv=600, costs=COSTS)
    rest = order.quantity - first.quantity
    second = later(order, bar("50", "51", "40", "50"), remaining=rest, adv=600, costs=COSTS)
    assert (first.quantity, second.quantity) == (60 * SHARE, 40 * SHARE)
    assert (first.fees, second.fees) == (1_00, 0)


def test_the_average_volume_is_that_of_the_last_twenty_sessions() -> None:
    assert fills.average_volume([10**9] * 5 + [100] * 19 + [300]) == 110
    assert fills.average_volume([3, 4]) == 3
    assert fills.average_volume([]) is None


# --- at a close --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "limit", "prices", "expected"),
    [
        ("buy", "95", ("100", "101", "95", "96"), None),
        ("buy", "95", ("100", "101", "94.99", "96"), "95.00"),
        ("buy", "95", ("93", "101", "92", "96"), "93.00"),
        ("buy", "95", ("95", "101", "95", "96"), None),
        ("sell", "105", ("100", "105", "99", "101"), None),
        ("sell", "105", ("100", "105.01", "99", "101"), "105.00"),
        ("sell", "105", ("107", "108", "99", "101"), "107.00"),
    ],
)
def test_a_resting_limit_fills_when_traded_through_or_at_a_better_open(
    side: Side, limit: str, prices: tuple[str, str, str, str], expected: str | None
) -> None:
    order = trade(side, type="limit", at=limit, tif="gtc")
    # A limit pays no slippage: it waited, and took the price that came to it.
    costs = replace(FREE, slippage_bps=Decimal(5))
    assert shown(later(order, bar(*prices), costs=costs)) == (
        ("open", 0, None) if expected is None else ("filled", 10, expected)
    )


@pytest.mark.parametrize(
    ("side", "stop", "prices", "expected"),
    [
        ("buy", "105", ("100", "104.99", "99", "101"), None),
        ("buy", "105", ("100", "105", "99", "101"), "105.0525"),
        ("buy", "105", ("107", "108", "99", "101"), "107.0535"),
        ("sell", "95", ("100", "101", "95.01", "96"), None),
        ("sell", "95", ("100", "101", "95", "96"), "94.9525"),
        ("sell", "95", ("93", "101", "92", "96"), "92.9535"),
    ],
)
def test_a_resting_stop_fills_at_the_stop_or_at_a_worse_open_with_slippage(
    side: Side, stop: str, prices: tuple[str, str, str, str], expected: str | None
) -> None:
    order = trade(side, type="stop", at=stop, tif="gtc")
    costs = replace(FREE, slippage_bps=Decimal(5))
    assert shown(later(order, bar(*prices), costs=costs)) == (
        ("open", 0, None) if expected is None else ("filled", 10, expected)
    )


def test_the_open_of_the_session_of_placement_is_not_judged_again() -> None:
    through = bar("93", "101", "92", "96")
    limit = trade(type="limit", at="95", tif="gtc")
    assert shown(later(limit, through, today=False)) == ("filled", 10, "93.00")
    assert shown(later(limit, through, today=True)) == ("filled", 10, "95.00")
    stop = trade("sell", type="stop", at="95", tif="gtc")
    assert shown(later(stop, through, today=False)) == ("filled", 10, "93.00")
    assert shown(later(stop, through, today=True)) == ("filled", 10, "95.00")


def test_what_is_left_of_a_triggered_stop_trades_at_the_next_open() -> None:
    order = trade("sell", shares=100, type="stop", at="95", tif="gtc")
    high = bar("120", "121", "119", "120")
    assert shown(later(order, high, remaining=40 * SHARE)) == ("filled", 40, "120.00")
    assert shown(later(order, high)) == ("open", 0, None)


def test_a_day_order_expires_at_the_close_with_what_it_filled() -> None:
    still = bar("100", "101", "99", "100")
    order = trade(shares=100, type="limit", at="95", tif="day")
    unfilled = later(order, still, today=True)
    assert (shown(unfilled), unfilled.reason) == (("expired", 0, None), "DAY_ENDED")
    part = later(order, bar("100", "101", "90", "100"), today=True, adv=600)
    assert (shown(part), part.reason) == (("expired", 60, "95.00"), "DAY_ENDED")
    assert shown(later(order, bar("100", "101", "90", "100"), today=True)) == ("filled", 100, "95.00")


def test_a_session_without_a_bar_trades_nothing() -> None:
    assert shown(later(trade(type="limit", at="95", tif="gtc"), None)) == ("open", 0, None)
    assert shown(later(trade(type="limit", at="95", tif="day"), None)) == ("expired", 0, None)


# --- what never happens ------------------------------------------------------------------------

ticks = st.integers(100, 10_000_000)
costs_of = st.builds(
    Costs,
    slippage_bps=st.decimals(0, 100, places=2),
    fee_per_share=st.decimals(0, 1, places=4),
    fee_minimum=st.decimals(0, 5, places=2),
    participation=st.decimals(0, 1, places=2),
)
advs = st.none() | st.integers(0, 10_000)


@st.composite
def bars(draw: st.DrawFn) -> Bar:
    low, *inside, high = sorted(draw(st.lists(ticks, min_size=4, max_size=4)))
    open, close = (Decimal(units).scaleb(-4) for units in draw(st.permutations(inside)))
    return Bar(date(2012, 12, 3), open, Decimal(high).scaleb(-4), Decimal(low).scaleb(-4), close, 100, close)


@st.composite
def orders(draw: st.DrawFn) -> Trade:
    type: OrderType = draw(st.sampled_from(["limit", "stop"]))
    micros = draw(ticks) * 100 + draw(st.sampled_from([0, 0, 1, 50, 99]))
    limit, stop = (micros, None) if type == "limit" else (None, micros)
    side: Side = draw(st.sampled_from(["buy", "sell"]))
    tif: TimeInForce = draw(st.sampled_from(["day", "gtc"]))
    return Trade("IBM", side, draw(st.integers(1, 1000 * SHARE)), type, limit, stop, tif)


@settings(derandomize=True, deadline=None, database=None, max_examples=600)
@given(orders(), bars(), st.booleans(), st.just(1) | st.fractions(0, 1), advs, costs_of)
def test_nothing_fills_outside_the_bar_but_for_slippage(
    order: Trade, bar: Bar, today: bool, part: Any, adv: int | None, costs: Costs
) -> None:
    remaining = max(1, int(order.quantity * part))
    outcome = fills.at_close(order, remaining, bar, today, adv, costs)
    assert 0 <= outcome.quantity <= remaining
    assert (outcome.price is None) == (outcome.quantity == 0)
    if outcome.price is None:
        return
    slip = costs.slippage_bps / 10_000 if order.type == "stop" else Decimal(0)
    room = Decimal("0.00005") if order.type == "stop" else Decimal(0)
    assert bar.low * (1 - slip) - room <= price(outcome.price) <= bar.high * (1 + slip) + room
    assert outcome.price % 100 == 0


@settings(derandomize=True, deadline=None, database=None, max_examples=600)
@given(orders(), bars(), st.booleans(), advs, costs_of, ticks)
def test_no_fill_is_worse_than_its_limit(
    order: Trade, bar: Bar, today: bool, adv: int | None, costs: Costs, last: int
) -> None:
    if order.price is None:
        return
    on_bar = fills.at_close(order, order.quantity, bar, today, adv, costs)
    on_quote = fills.now(order, Quote("IBM", Decimal(last).scaleb(-4), 0), adv, costs)
    for outcome in (on_bar, on_quote):
        assert outcome.price is None or (outcome.price - order.price) * order.sign <= 0


@settings(derandomize=True, deadline=None, database=None, max_examples=300)
@given(orders(), st.lists(bars(), min_size=1, max_size=6), advs, costs_of)
def test_an_order_fills_its_quantity_once_and_pays_its_fees_once(
    order: Trade, sessions: list[Bar], adv: int | None, costs: Costs
) -> None:
    order = replace(order, time_in_force="gtc")
    filled = fees = 0
    for session in sessions:
        outcome = fills.at_close(order, order.quantity - filled, session, False, adv, costs)
        filled, fees = filled + outcome.quantity, fees + outcome.fees
        assert outcome.cap is None or outcome.quantity <= outcome.cap
        assert outcome.status == ("filled" if filled == order.quantity else "open")
        if not outcome.is_open:
            break
    assert filled <= order.quantity
    assert fees == fills.fee(filled, costs)
