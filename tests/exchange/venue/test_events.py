"""What the venue tells is enough to know it: books, touches and orders rebuilt from events alone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.exchange.venue.support import FUNDS, SYMBOL, Bench, asking
from tracedesk.exchange.units import units
from tracedesk.exchange.venue.events import (
    BalancesChanged,
    LevelsChanged,
    Reported,
    StatusChanged,
    TouchChanged,
    Traded,
)
from tracedesk.exchange.venue.orders import PREVENTIONS, NewOrder, VenueRefused
from tracedesk.exchange.venue.store import Batch, Store
from tracedesk.exchange.venue.venue import Venue, VenueStopped


def _busy(bench: Bench, seed: int, count: int) -> None:
    dice = random.Random(seed)
    flow: list[int] = []
    for _ in range(count):
        side: Any = dice.choice(["BUY", "SELL"])
        price, quantity = dice.randint(9_950, 10_050) * units("0.01"), dice.randint(1, 3_000) * units("0.001")
        choice = dice.random()
        if choice < 0.5:
            flow.append(bench.venue.flow_limit(SYMBOL, side, price, quantity))
        elif choice < 0.6 and flow:
            bench.venue.flow_cancel(SYMBOL, flow.pop(dice.randrange(len(flow))))
        else:
            prevention = dice.choice(PREVENTIONS)
            asked = NewOrder(
                SYMBOL,
                side,
                "LIMIT",
                quantity=quantity,
                price=price,
                time_in_force="GTC",
                prevention=prevention,
            )
            try:
                bench.venue.place(dice.choice(["ann", "bob"]), asked)
            except VenueRefused:
                continue


def test_the_book_can_be_rebuilt_from_the_changes_of_its_levels() -> None:
    bench = Bench()
    _busy(bench, 1, 800)
    books: tuple[dict[int, int], dict[int, int]] = ({}, {})
    last = bench.told(LevelsChanged)[0].first_id - 1
    for change in bench.told(LevelsChanged):
        assert change.first_id == last + 1
        assert change.last_id - change.first_id + 1 == len(change.bids) + len(change.asks)
        last = change.last_id
        for book, levels in zip(books, (change.bids, change.asks), strict=True):
            book.update(levels)
    bids, asks = ({price: q for price, q in book.items() if q} for book in books)
    assert bench.depth() == (sorted(bids.items(), reverse=True), sorted(asks.items()))
    assert bench.venue.last_update_id(SYMBOL) == last


def test_every_change_of_the_touch_is_told_and_nothing_else_is() -> None:
    bench = Bench()
    seen: list[Any] = [(None, None)]

    def hear(event: object) -> None:
        if isinstance(event, LevelsChanged):
            touch = bench.venue.books(SYMBOL).touch()
            if touch != seen[-1]:
                seen.append(touch)

    bench.venue.listen(hear)
    _busy(bench, 2, 500)
    told = [(each.bid, each.ask) for each in bench.told(TouchChanged)]
    assert told == seen[1:]
    assert len(told) > 50


def test_trades_are_numbered_without_gaps_and_say_who_was_the_maker() -> None:
    bench = Bench()
    _busy(bench, 3, 400)
    ids = [each.id for each in bench.told(Traded)]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    bench.events.clear()
    resting = bench.flow("BUY", "1", "10")
    bench.venue.cancel_all("ann", SYMBOL)
    bench.venue.cancel_all("bob", SYMBOL)
    bench.venue.flow_market(SYMBOL, "SELL", units("1000000"), units("10"))
    last = bench.told(Traded)[-1]
    assert (last.buyer_order_id, last.buyer_is_maker, last.price) == (resting, True, units("10"))


def test_reports_add_up_to_the_orders_and_balances_that_are_asked_for() -> None:
    bench = Bench()
    _busy(bench, 4, 400)
    latest: dict[int, Any] = {}
    balances = {
        name: dict.fromkeys(FUNDS, (0, 0)) | {a: (n, 0) for a, n in FUNDS.items()} for name in ("ann", "bob")
    }
    numbers: list[int] = []
    for event in bench.events:
        if isinstance(event, Reported):
            latest[event.order.id] = event.order
            numbers.append(event.execution_id)
        if isinstance(event, BalancesChanged):
            balances[event.account].update(event.balances)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    for name in ("ann", "bob"):
        for order in bench.venue.all_orders(name, SYMBOL, limit=1_000):
            assert latest[order.id] == order
        assert balances[name] == bench.venue.account(name).balances


def test_a_taker_is_reported_new_and_then_filled_with_what_the_maker_is_told_too() -> None:
    bench = Bench()
    bench.limit("ann", "SELL", "1", "100")
    bench.events.clear()
    bench.place("bob", "BUY", "MARKET", "1")
    told = [(each.account, each.execution, each.is_maker, each.order.status) for each in bench.told(Reported)]
    assert told == [
        ("bob", "NEW", False, "NEW"),
        ("bob", "TRADE", False, "FILLED"),
        ("ann", "TRADE", True, "FILLED"),
    ]
    assert len({each.trade_id for each in bench.told(Reported)[1:]}) == 1


def test_a_listener_can_stop_and_hears_of_statuses() -> None:
    bench = Bench()
    heard: list[object] = []
    stop = bench.venue.listen(heard.append)
    bench.venue.set_status(SYMBOL, "HALT")
    stop()
    bench.venue.set_status(SYMBOL, "TRADING")
    assert [event.status for event in heard if isinstance(event, StatusChanged)] == ["HALT"]
    with pytest.raises(ValueError, match="use one of TRADING"):
        bench.venue.set_status(SYMBOL, "OPEN")


class Full(Store):
    """A disk with no room left."""

    is_full = False

    def commit(self, batch: Batch, accounts: Any, execution: int) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().commit(batch, accounts, execution)


def test_a_command_that_cannot_be_written_is_told_to_nobody_and_stops_the_venue() -> None:
    bench = Bench()
    store = Full()
    venue = Venue(bench.listed, bench.clock, store)
    venue.open_account("ann", FUNDS)
    heard: list[object] = []
    venue.listen(heard.append)
    store.is_full = True
    with pytest.raises(OSError, match="No space"):
        venue.place("ann", asking("BUY", "LIMIT", "1", price="100", tif="GTC"))
    store.is_full = False
    assert heard == []
    for act in (
        lambda: venue.place("ann", asking("BUY", "LIMIT", "1", price="100", tif="GTC")),
        lambda: venue.flow_limit(SYMBOL, "BUY", units("1"), units("1")),
        lambda: venue.deposit("ann", "BTC", 1),
    ):
        with pytest.raises(VenueStopped, match="open it again"):
            act()
    venue.close()


# --- recordings --------------------------------------------------------------------------------


def test_users_trade_with_what_a_recording_offers() -> None:
    bench = Bench()
    bench.venue.set_levels(
        SYMBOL, [(units("99"), units("5"))], [(units("100"), units("2")), (units("101"), units("2"))]
    )
    result = bench.place("ann", "BUY", "MARKET", "3")
    assert [(each.price, each.quantity) for each in result.fills] == [
        (units("100"), units("2")),
        (units("101"), units("1")),
    ]
    bench.venue.set_levels(SYMBOL, [], [(units("100"), units("3")), (units("101"), 0)])
    assert bench.depth() == ([(units("99"), units("5"))], [(units("100"), units("1"))])


def test_a_recorded_book_that_crosses_a_users_order_fills_it_at_its_own_price() -> None:
    bench = Bench()
    order = bench.limit("ann", "BUY", "3", "100").order
    bench.venue.set_level(SYMBOL, "SELL", units("99"), units("2"))
    (fill,) = bench.venue.my_trades("ann", SYMBOL, order_id=order.id)
    assert (fill.price, fill.quantity, fill.is_maker) == (units("100"), units("2"), True)
    assert bench.depth() == ([(units("100"), units("1"))], [])


def test_a_recorded_trade_fills_the_users_orders_it_would_have_met_best_and_oldest_first() -> None:
    bench = Bench()
    placed = {
        price: bench.limit(who, "BUY", "1", price).order.id
        for who, price in (("ann", "100"), ("bob", "101"), ("ann", "99"))
    }
    bench.venue.print_trade(SYMBOL, units("99.5"), units("1.5"), buyer_is_maker=True)
    executed = {price: _executed(bench, id) for price, id in placed.items()}
    assert executed == {"101": units("1"), "100": units("0.5"), "99": 0}
    assert bench.venue.last_price(SYMBOL) == units("99.5")
    bench.venue.print_trade(SYMBOL, units("90"), units("5"), buyer_is_maker=False)
    assert _executed(bench, placed["99"]) == 0


def _executed(bench: Bench, id: int) -> int:
    found = [bench.venue.all_orders(name, SYMBOL, from_id=id, limit=1) for name in ("ann", "bob")]
    return next(each.executed for orders in found for each in orders if each.id == id)


def test_a_recorded_trade_sets_off_stops() -> None:
    bench = Bench()
    bench.venue.set_level(SYMBOL, "BUY", units("90"), units("5"))
    order = bench.place("ann", "SELL", "STOP_LOSS", "1", stop="95").order
    bench.venue.print_trade(SYMBOL, units("95"), units("0.001"), buyer_is_maker=True)
    assert bench.venue.order("ann", SYMBOL, order_id=order.id).status == "FILLED"
