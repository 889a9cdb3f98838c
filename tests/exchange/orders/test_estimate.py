"""Estimates: the book walked exactly, against walking it unit by unit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.orders.desks import INSTRUMENT, LIMIT, MARKET
from tracedesk.exchange.orders.estimate import Account, Balance, Estimate, walk
from tracedesk.exchange.orders.party import View
from tracedesk.exchange.orders.ticket import Ticket
from tracedesk.exchange.units import ONE, units

RICH = Account({"BTC": Balance(10**15, 0), "USDT": Balance(10**18, 0)}, 100_000, 200_000, can_withdraw=False)
levels = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 9)), min_size=1, max_size=8, unique_by=lambda x: x[0]
)


def _view(bids: list[tuple[int, int]], asks: list[tuple[int, int]]) -> View:
    return View(INSTRUMENT, sorted(bids, reverse=True), sorted(asks), True, 0, units("50000"))


@given(levels, st.integers(1, 60), st.sampled_from(["BUY", "SELL"]), st.none() | st.integers(1, 60))
def test_a_walk_takes_the_best_units_first_and_none_beyond_the_limit(
    book: list[tuple[int, int]], quantity: int, side: str, limit: int | None
) -> None:
    order = {**(MARKET if limit is None else LIMIT), "side": side, "quantity": str(quantity)}
    ticket = Ticket.of(order if limit is None else {**order, "price": str(limit)})
    scaled = [(price * ONE, resting * ONE) for price, resting in book]
    found = walk(ticket, _view(scaled, scaled))
    singles = sorted((price for price, resting in book for _ in range(resting)), reverse=side == "SELL")
    if limit is not None:
        singles = [price for price in singles if (price <= limit if side == "BUY" else price >= limit)]
    taken = singles[:quantity]
    assert found.quantity == len(taken) * ONE
    assert found.worth == sum(taken) * ONE * ONE
    assert found.worst == (taken[-1] * ONE if taken else None)


def _estimate(order: dict[str, str]) -> Estimate:
    view = _view([(units("49999"), ONE)], [(units("50001"), ONE), (units("50101"), ONE)])
    return Estimate.of(Ticket.of(order), view, RICH)


def test_slippage_is_how_much_worse_than_the_mid_on_either_side() -> None:
    assert _estimate({**MARKET, "quantity": "2"}).slippage_bps == Fraction(51, 50_000) * 10_000
    assert _estimate({**MARKET, "quantity": "1", "side": "SELL"}).slippage_bps == Fraction(1, 50_000) * 10_000
    assert _estimate(LIMIT).slippage_bps is None


def test_what_a_market_order_asks_beyond_the_book_is_told_and_counted_at_the_worst_price() -> None:
    found = _estimate({**MARKET, "quantity": "3"})
    assert found.unfilled == ONE
    assert found.notional == units("150203")
    assert found.document()["insufficient_depth"] is True


def test_a_notional_is_rounded_up_so_that_no_cap_is_passed_by_less_than_a_unit() -> None:
    assert _estimate({**LIMIT, "price": "0.00000003", "quantity": "0.5"}).notional == 2


def _selling(kind: str, **terms: str) -> Estimate:
    return _estimate({**MARKET, "order_type": kind, "side": "SELL", "quantity": "2", **terms})


def test_caps_count_the_larger_of_an_orders_own_prices_and_what_the_book_gives() -> None:
    assert _selling("LIMIT", price="10000").notional == units("59999")
    assert _selling("LIMIT", price="50000").notional == units("100000")
    assert _selling("LIMIT_MAKER", price="50000").notional == units("100000")
    assert _estimate({**LIMIT, "quantity": "1", "price": "50101"}).notional == units("50101")
    stop = {"stop_price": "45000", "price": "44000"}
    assert _selling("STOP_LOSS_LIMIT", **stop).notional == units("90000")
    assert _selling("TAKE_PROFIT_LIMIT", **stop).notional == units("99998")
    assert _selling("TAKE_PROFIT", stop_price="55000").notional == units("110000")


def test_a_buyer_needs_what_the_venue_locks() -> None:
    stop = {
        **LIMIT,
        "order_type": "STOP_LOSS_LIMIT",
        "quantity": "1",
        "stop_price": "51000",
        "price": "50900",
    }
    assert _estimate(stop).needs == ("USDT", units("50900"))
    assert _estimate(stop).notional == units("51000")


def test_the_fee_of_what_trades_at_once_is_the_takers_and_of_what_rests_the_makers() -> None:
    crossing = _estimate({**LIMIT, "quantity": "2", "price": "50050"}).document()["fees"]
    assert crossing["amount"] == "0.003"
    resting = _estimate({**LIMIT, "quantity": "2", "price": "49000"}).document()["fees"]
    assert resting["amount"] == "0.002"
    sold = _estimate({**MARKET, "quantity": "1", "side": "SELL"}).document()["fees"]
    assert (sold["asset"], sold["amount"]) == ("USDT", "99.998")
    immediate = _estimate({**LIMIT, "quantity": "2", "price": "50050", "time_in_force": "IOC"}).document()[
        "fees"
    ]
    assert immediate["amount"] == "0.002"


def test_rates_of_a_side_are_added() -> None:
    rates = {"maker": "0.001", "taker": "0.002", "buyer": "0.0001", "seller": "0.0002"}
    told: dict[str, Any] = {"commissionRates": rates, "balances": []}
    assert (Account.of(told, "BUY").maker, Account.of(told, "SELL").taker) == (110_000, 220_000)
