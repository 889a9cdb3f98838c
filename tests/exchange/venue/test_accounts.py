"""Money: commissions, locks, deposits, and that nothing comes from nowhere."""

from __future__ import annotations

import pytest

from tests.exchange.venue.support import SYMBOL, Bench
from tracedesk.exchange.units import units
from tracedesk.exchange.venue.accounts import Posting, commission, is_balanced
from tracedesk.exchange.venue.events import BalancesChanged, Deposited, Reported
from tracedesk.exchange.venue.orders import VenueRefused


def test_commission_is_taken_from_what_is_received_at_the_rate_of_the_role() -> None:
    bench = Bench()
    bench.venue.open_account("cat", {"BTC": units("10")}, maker=units("0.0002"), taker=units("0.0004"))
    bench.venue.open_account("dan", {"USDT": units("1000")}, maker=units("0.0002"), taker=units("0.0004"))
    bench.limit("cat", "SELL", "1", "100")
    (bought,) = bench.limit("dan", "BUY", "1", "100").fills
    assert (bought.commission, bought.commission_asset) == (units("0.0004"), "BTC")
    (sold,) = bench.venue.my_trades("cat", SYMBOL)
    assert (sold.commission, sold.commission_asset, sold.is_maker) == (units("0.02"), "USDT", True)
    assert bench.venue.account("dan").balances["BTC"] == (units("0.9996"), 0)
    assert bench.venue.account("cat").balances["USDT"] == (units("99.98"), 0)
    assert bench.venue.totals()["fees", "USDT"] == units("0.02")


def test_commission_is_rounded_as_in_the_documented_example() -> None:
    assert commission(units("17491.25"), units("0.00000230")) == units("0.04022988")
    assert commission(units("17491.25"), units("0.00000060")) == units("0.01049475")


def test_a_resting_order_locks_what_it_may_have_to_pay_and_no_more() -> None:
    bench = Bench()
    bench.limit("ann", "BUY", "3", "100")
    bench.limit("ann", "SELL", "2", "200")
    assert bench.venue.account("ann").balances["USDT"] == (units("999700"), units("300"))
    assert bench.venue.account("ann").balances["BTC"] == (units("998"), units("2"))
    bench.flow("SELL", "1", "90")
    assert bench.venue.account("ann").balances["USDT"] == (units("999700"), units("200"))


def test_a_better_price_gives_back_the_difference() -> None:
    bench = Bench()
    bench.flow("SELL", "1", "90")
    bench.limit("ann", "BUY", "2", "100")
    assert bench.venue.account("ann").balances["USDT"] == (units("999810"), units("100"))


def test_every_change_of_a_balance_is_told_once_per_command() -> None:
    bench = Bench()
    bench.flow("SELL", "1", "100")
    bench.flow("SELL", "1", "101")
    bench.events.clear()
    bench.limit("ann", "BUY", "2", "101")
    (told,) = bench.told(BalancesChanged)
    assert dict(told.balances) == {"BTC": (units("1002"), 0), "USDT": (units("999799"), 0)}


def test_a_deposit_is_told_and_a_withdrawal_takes_only_what_is_free() -> None:
    bench = Bench()
    bench.limit("ann", "BUY", "1", "100")
    bench.venue.deposit("ann", "BNB", units("5"))
    assert bench.told(Deposited)[-1].amount == units("5")
    with pytest.raises(VenueRefused, match="insufficient balance"):
        bench.venue.deposit("ann", "USDT", -units("999900.01"))
    bench.venue.deposit("ann", "USDT", -units("999900"))
    assert bench.venue.account("ann").balances["USDT"] == (0, units("100"))
    assert sum(total for (_, asset), total in bench.venue.totals().items() if asset == "USDT") == 0


def test_an_account_is_opened_once() -> None:
    bench = Bench()
    first = bench.venue.account("ann")
    assert bench.venue.open_account("ann", {"BTC": units("1")}) == first
    for name in ("market", "fees", "issuance", ""):
        with pytest.raises(ValueError, match="choose another name"):
            bench.venue.open_account(name)
        with pytest.raises(VenueRefused, match="Invalid API-key"):
            bench.venue.account(name)


def test_more_than_the_file_can_hold_is_not_issued() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="can be issued"):
        bench.venue.deposit("ann", "BTC", 2**62)
    assert bench.venue.account("ann").balances["BTC"] == (units("1000"), 0)


def test_the_background_flow_gets_no_reports_and_pays_no_commission() -> None:
    bench = Bench()
    bench.flow("SELL", "1", "100")
    bench.flow("BUY", "1", "100")
    assert bench.told(Reported) == []
    assert bench.told(BalancesChanged) == []
    assert ("market", "BTC") not in bench.venue.totals()


def test_postings_that_do_not_sum_to_zero_are_noticed() -> None:
    assert is_balanced([Posting(1, "BTC", 5), Posting(2, "BTC", -5)])
    assert not is_balanced([Posting(1, "BTC", 5), Posting(2, "USDT", -5)])
