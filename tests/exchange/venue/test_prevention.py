"""Self-trade prevention, by the scenarios of the venue's own documentation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exchange.venue.support import SYMBOL, Bench
from tracedesk.exchange.units import units
from tracedesk.exchange.venue.events import Reported


def _makers(bench: Bench, *orders: tuple[str, str]) -> list[int]:
    return [bench.limit("ann", "BUY", quantity, price, stp="NONE").order.id for quantity, price in orders]


def _states(bench: Bench, ids: list[int]) -> list[tuple[str, int]]:
    found = [bench.venue.order("ann", SYMBOL, order_id=id) for id in ids]
    return [(each.status, each.prevented) for each in found]


THREE = (("1.2", "1.2"), ("1.3", "1.1"), ("8.1", "1"))


def test_none_lets_an_account_trade_with_itself() -> None:
    bench = Bench()
    (maker,) = _makers(bench, ("1", "1"))
    assert bench.limit("ann", "SELL", "1", "1", stp="NONE").order.status == "FILLED"
    assert _states(bench, [maker]) == [("FILLED", 0)]
    assert {each.is_maker for each in bench.venue.my_trades("ann", SYMBOL)} == {True, False}


def test_expire_maker_expires_what_rests_and_the_taker_goes_on() -> None:
    bench = Bench()
    makers = _makers(bench, *THREE)
    result = bench.limit("ann", "SELL", "3", "1", stp="EXPIRE_MAKER")
    assert _states(bench, makers) == [("EXPIRED_IN_MATCH", units(quantity)) for quantity, _ in THREE]
    assert (result.order.status, result.order.executed, result.order.prevented) == ("NEW", 0, 0)
    assert [(each.maker_order_id, each.maker_quantity, each.taker_quantity) for each in result.prevented] == [
        (maker, units(quantity), None) for maker, (quantity, _) in zip(makers, THREE, strict=True)
    ]
    assert bench.depth() == ([], [(units("1"), units("3"))])
    assert bench.venue.account("ann").balances["USDT"][1] == 0


def test_expire_taker_expires_the_taker_and_nothing_else() -> None:
    bench = Bench()
    makers = _makers(bench, *THREE)
    result = bench.limit("ann", "SELL", "3", "1", stp="EXPIRE_TAKER")
    assert _states(bench, makers) == [("NEW", 0)] * 3
    assert (result.order.status, result.order.prevented) == ("EXPIRED_IN_MATCH", units("3"))


def test_expire_both_expires_both() -> None:
    bench = Bench()
    makers = _makers(bench, ("1", "1"))
    result = bench.limit("ann", "SELL", "3", "1", stp="EXPIRE_BOTH")
    assert _states(bench, makers) == [("EXPIRED_IN_MATCH", units("1"))]
    assert (result.order.status, result.order.prevented) == ("EXPIRED_IN_MATCH", units("3"))
    (match,) = result.prevented
    assert (match.taker_quantity, match.maker_quantity) == (units("3"), units("1"))


def test_the_mode_of_the_taker_decides() -> None:
    bench = Bench()
    maker = bench.limit("ann", "BUY", "1", "1", stp="EXPIRE_MAKER").order.id
    result = bench.limit("ann", "SELL", "1", "1", stp="EXPIRE_TAKER")
    assert result.order.status == "EXPIRED_IN_MATCH"
    assert _states(bench, [maker]) == [("NEW", 0)]


def test_a_market_order_that_expires_its_makers_expires_for_want_of_others() -> None:
    bench = Bench()
    makers = _makers(bench, ("1", "1"))
    order = bench.place("ann", "SELL", "MARKET", "1", stp="EXPIRE_MAKER").order
    assert _states(bench, makers) == [("EXPIRED_IN_MATCH", units("1"))]
    assert (order.status, order.expiry_reason) == ("EXPIRED", "INSUFFICIENT_LIQUIDITY")


@pytest.mark.parametrize(("taker", "left"), [("2", "4"), ("6", "0"), ("8", "0")])
def test_decrement_takes_from_both_and_the_smaller_expires(taker: str, left: str) -> None:
    bench = Bench()
    (maker,) = _makers(bench, ("6", "2"))
    order = bench.limit("ann", "SELL", taker, "2", stp="DECREMENT").order
    lost = min(units(taker), units("6"))
    assert order.prevented == lost
    assert order.status == ("EXPIRED_IN_MATCH" if units(taker) <= units("6") else "NEW")
    state = bench.venue.order("ann", SYMBOL, order_id=maker)
    assert (state.prevented, state.remaining) == (lost, units(left))
    assert state.status == ("NEW" if units(left) else "EXPIRED_IN_MATCH")
    assert bench.venue.account("ann").balances["USDT"][1] == 2 * units(left)


@pytest.mark.parametrize("mode", ["EXPIRE_TAKER", "EXPIRE_MAKER", "EXPIRE_BOTH", "DECREMENT"])
def test_orders_of_others_trade_before_and_after(mode: Any) -> None:
    bench = Bench()
    bench.limit("bob", "BUY", "1", "3")
    _makers(bench, ("1", "2"))
    bench.limit("bob", "BUY", "1", "1")
    order = bench.limit("ann", "SELL", "3", "1", stp=mode).order
    goes_on = mode in ("EXPIRE_MAKER", "DECREMENT")
    assert order.executed == units("2" if goes_on else "1")


def test_reports_tell_both_sides_of_a_prevented_match() -> None:
    bench = Bench()
    (maker,) = _makers(bench, ("1", "1"))
    taker = bench.limit("ann", "SELL", "3", "1", stp="EXPIRE_BOTH").order.id
    told = [each for each in bench.told(Reported) if each.execution == "TRADE_PREVENTION"]
    assert [(each.order.id, each.counter_order_id, each.last_prevented) for each in told] == [
        (maker, taker, units("1")),
        (taker, maker, units("3")),
    ]
    assert {each.order.status for each in told} == {"EXPIRED_IN_MATCH"}


def test_prevented_matches_can_be_looked_up() -> None:
    bench = Bench()
    first, second = _makers(bench, ("1", "2"), ("1", "1"))
    taker = bench.limit("ann", "SELL", "3", "1", stp="EXPIRE_MAKER")
    both = bench.venue.prevented_matches("ann", SYMBOL, order_id=taker.order.id)
    assert both == taker.prevented
    assert [each.id for each in both] == [0, 1]
    assert [each.maker_order_id for each in bench.venue.prevented_matches("ann", SYMBOL, id=1)] == [second]
    assert bench.venue.prevented_matches("ann", SYMBOL, order_id=first) == both[:1]
    assert bench.venue.prevented_matches("bob", SYMBOL, order_id=first) == ()
