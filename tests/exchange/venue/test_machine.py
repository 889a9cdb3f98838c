"""The whole venue under every command there is, against a plain model, with restarts in between."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.exchange.venue.naive import Item, Naive
from tests.judges.size import Size
from tracedesk.exchange.units import notional, units
from tracedesk.exchange.venue.listings import Listing, publish
from tracedesk.exchange.venue.orders import (
    CONTINGENT,
    ORDER_TYPES,
    PREVENTIONS,
    CancelResult,
    NewOrder,
    OrderResult,
    VenueRefused,
)
from tracedesk.exchange.venue.store import Store
from tracedesk.exchange.venue.venue import Venue
from tracedesk.primitives.time import ManualClock

SYMBOL = "ETHBTC"
TICK, STEP = units("0.00001"), units("0.0001")
# A tick times a step is a tenth of a unit, so that amounts are rounded all the time.
LISTING = Listing.of(
    publish(
        "ETH",
        "BTC",
        tick="0.00001000",
        step="0.00010000",
        max_price="1.00000000",
        max_quantity="10.00000000",
        max_market="10.00000000",
        min_notional="0.00000001",
        max_notional="0.00000000",
    )
)
RATES = {"ann": (0, 150_000), "bob": (100_000, 100_000), "cat": (75_000, 0)}
NAMES = tuple(RATES)
SIDES: st.SearchStrategy[Any] = st.sampled_from(["BUY", "SELL"])
PRICES = st.integers(95, 105).map(lambda ticks: ticks * TICK)
QUANTITIES = st.integers(1, 30).map(lambda steps: steps * STEP)
WHO = st.sampled_from(NAMES)
PICK = st.integers(0, 1 << 16)


@st.composite
def orders(draw: st.DrawFn) -> NewOrder:
    """An order of any type that has the parameters its type needs."""
    kind = draw(st.sampled_from(ORDER_TYPES))
    is_priced = kind not in ("MARKET", "STOP_LOSS", "TAKE_PROFIT")
    is_timed = is_priced and kind != "LIMIT_MAKER"
    tif: Any = draw(st.sampled_from(["GTC", "GTC", "IOC", "FOK"])) if is_timed else None
    by_amount = kind == "MARKET" and draw(st.booleans())
    quantity = draw(QUANTITIES)
    can_hide = is_priced and tif in (None, "GTC") and draw(st.booleans())
    trailing = draw(st.sampled_from([None, None, 10, 100, 300])) if kind in CONTINGENT else None
    return NewOrder(
        symbol=SYMBOL,
        side=draw(SIDES),
        type=kind,
        quantity=None if by_amount else quantity,
        price=draw(PRICES) if is_priced else None,
        quote_quantity=notional(draw(PRICES), quantity) + draw(st.integers(0, 99)) + 1 if by_amount else None,
        time_in_force=tif,
        stop_price=draw(PRICES) if kind in CONTINGENT and (trailing is None or draw(st.booleans())) else None,
        trailing_delta=trailing,
        iceberg_quantity=draw(st.integers(1, 5)) * STEP if can_hide else None,
        prevention=draw(st.sampled_from([None, *PREVENTIONS])),
    )


def any_order(dice: random.Random) -> NewOrder:
    """The same from a seeded source, which is much faster than drawing."""
    kind: Any = dice.choice(ORDER_TYPES)
    is_priced = kind not in ("MARKET", "STOP_LOSS", "TAKE_PROFIT")
    is_timed = is_priced and kind != "LIMIT_MAKER"
    tif: Any = dice.choice(["GTC", "GTC", "GTC", "IOC", "FOK"]) if is_timed else None
    by_amount = kind == "MARKET" and dice.random() < 0.4
    quantity = dice.randint(1, 30) * STEP
    can_hide = is_priced and tif in (None, "GTC") and dice.random() < 0.3
    trailing = dice.choice([None, None, 10, 100, 300]) if kind in CONTINGENT else None
    has_stop = kind in CONTINGENT and (trailing is None or dice.random() < 0.5)
    return NewOrder(
        symbol=SYMBOL,
        side=dice.choice(["BUY", "SELL"]),
        type=kind,
        quantity=None if by_amount else quantity,
        price=dice.randint(95, 105) * TICK if is_priced else None,
        quote_quantity=notional(100 * TICK, quantity) + dice.randint(1, 99) if by_amount else None,
        time_in_force=tif,
        stop_price=dice.randint(95, 105) * TICK if has_stop else None,
        trailing_delta=trailing,
        iceberg_quantity=dice.randint(1, 5) * STEP if can_hide else None,
        prevention=dice.choice(PREVENTIONS),
    )


class Machine(RuleBasedStateMachine):
    """Each rule does the same to the venue and to the model."""

    @initialize(rich=st.booleans())
    def begin(self, rich: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "venue.db"
        self.clock = ManualClock(1_790_000_000_000_000_000)
        self.venue = self._open()
        self.model = Naive("ETH", "BTC", RATES)
        self.flow: list[int] = []
        self.last_id = 0
        for name, (maker, taker) in RATES.items():
            funds = {"ETH": 100 * STEP if rich else 20 * STEP, "BTC": (100 if rich else 20) * STEP // 1000}
            self.venue.open_account(name, funds, maker=maker, taker=taker)
            for asset, amount in funds.items():
                self.model.has[name, asset] += amount

    def _open(self) -> Venue:
        store = Store(self.path)
        # What the disk does at a power cut is proven elsewhere.
        store.connection.execute("PRAGMA synchronous = OFF")
        return Venue([LISTING], self.clock, store)

    def teardown(self) -> None:
        self.venue.close()
        self.folder.cleanup()

    @rule(who=WHO, asked=orders())
    def place(self, who: str, asked: NewOrder) -> None:
        try:
            result = self.venue.place(who, asked)
        except VenueRefused:
            return
        self._placed(result)

    def _placed(self, result: OrderResult) -> None:
        order = result.order
        assert order.id > self.last_id
        self.last_id = order.id
        before = len(self.model.trades)
        self.model.place(Item.of(order))
        mine = [each for each in self.model.trades[before:] if each[0] == order.id]
        assert [(each.price, each.quantity) for each in result.fills if not each.is_maker] == [
            (price, quantity) for _, _, price, quantity in mine
        ]
        if order.quote_quantity:
            assert order.executed_quote <= order.quote_quantity

    @rule(side=SIDES, price=PRICES, quantity=QUANTITIES)
    def flow_limit(self, side: Any, price: int, quantity: int) -> None:
        id = self.venue.flow_limit(SYMBOL, side, price, quantity)
        assert id > self.last_id
        self.last_id = id
        self.flow.append(id)
        self.model.place(Item(id, side, "LIMIT", None, price, quantity))

    @rule(side=SIDES, price=st.none() | PRICES, quantity=QUANTITIES)
    def flow_market(self, side: Any, price: int | None, quantity: int) -> None:
        taken = self.venue.flow_market(SYMBOL, side, quantity, price)
        item = Item(0, side, "MARKET", None, price or 0, quantity, tif="IOC")
        self.model.place(item)
        assert taken == item.executed

    @precondition(lambda self: self.flow)
    @rule(pick=PICK)
    def flow_cancel(self, pick: int) -> None:
        id = self.flow.pop(pick % len(self.flow))
        there = any(each.id == id for each in self.model.book)
        assert self.venue.flow_cancel(SYMBOL, id) == there
        if there:
            self.model.cancel(id)

    @rule(who=WHO, pick=PICK)
    def cancel(self, who: str, pick: int) -> None:
        found = self.venue.open_orders(who)
        if found:
            order = found[pick % len(found)]
            self.venue.cancel(who, SYMBOL, client_order_id=order.client_order_id)
            self.model.cancel(order.id)

    @rule(who=WHO)
    def cancel_all(self, who: str) -> None:
        if self.venue.open_orders(who):
            for each in self.venue.cancel_all(who, SYMBOL):
                self.model.cancel(each.order.id)

    @rule(who=WHO, pick=PICK, asked=orders(), mode=st.sampled_from(["STOP_ON_FAILURE", "ALLOW_FAILURE"]))
    def cancel_replace(self, who: str, pick: int, asked: NewOrder, mode: Any) -> None:
        found = self.venue.open_orders(who)
        id = found[pick % len(found)].id if found else 1
        try:
            result = self.venue.cancel_replace(who, asked, mode=mode, cancel_order_id=id)
        except VenueRefused:
            return
        if isinstance(result.cancelled, CancelResult):
            self.model.cancel(id)
        if isinstance(result.placed, OrderResult):
            self._placed(result.placed)

    @rule(who=WHO, pick=PICK, quantity=QUANTITIES)
    def amend(self, who: str, pick: int, quantity: int) -> None:
        found = self.venue.open_orders(who)
        if not found:
            return
        order = found[pick % len(found)]
        try:
            self.venue.amend(who, SYMBOL, order_id=order.id, quantity=quantity)
        except VenueRefused:
            return
        self.model.amend(order.id, quantity)

    @rule(who=WHO, asset=st.sampled_from(["ETH", "BTC"]), amount=st.integers(-1000, 100_000))
    def deposit(self, who: str, asset: str, amount: int) -> None:
        try:
            self.venue.deposit(who, asset, amount)
        except VenueRefused:
            assert self.model.free(who, asset) + amount < 0
            return
        self.model.has[who, asset] += amount

    @rule()
    def restart(self) -> None:
        self.venue.close()
        self.venue = self._open()
        self.model.restart()
        self.flow.clear()

    @rule(seed=st.integers(0, 1 << 32))
    def burst(self, seed: int) -> None:
        """Many commands in a row, so that books are deep and stops are near."""
        dice = random.Random(seed)
        for _ in range(40):
            self._anything(dice)
            self._check()

    def _anything(self, dice: random.Random) -> None:
        who, pick = dice.choice(NAMES), dice.randint(0, 1 << 16)
        choice = dice.random()
        if choice < 0.45:
            self.place(who=who, asked=any_order(dice))
        elif choice < 0.65:
            price, quantity = dice.randint(95, 105) * TICK, dice.randint(1, 30) * STEP
            self.flow_limit(side=dice.choice(["BUY", "SELL"]), price=price, quantity=quantity)
        elif choice < 0.75:
            self.flow_market(
                side=dice.choice(["BUY", "SELL"]), price=None, quantity=dice.randint(1, 60) * STEP
            )
        elif choice < 0.85:
            self.cancel_replace(who=who, pick=pick, asked=any_order(dice), mode="ALLOW_FAILURE")
        elif choice < 0.92:
            self.amend(who=who, pick=pick, quantity=dice.randint(1, 30) * STEP)
        elif choice < 0.98:
            self.cancel(who=who, pick=pick)
        else:
            self.restart()

    def _check(self) -> None:
        self.every_asset_is_conserved()
        self.what_users_hold_is_what_the_model_says_and_never_negative()
        self.the_book_is_the_models_book()
        self.orders_are_as_the_model_has_them()

    @rule(seconds=st.integers(1, 400))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @invariant()
    def every_asset_is_conserved(self) -> None:
        totals = self.venue.totals()
        for asset in ("ETH", "BTC"):
            assert sum(total for (_, each), total in totals.items() if each == asset) == 0

    @invariant()
    def what_users_hold_is_what_the_model_says_and_never_negative(self) -> None:
        for name in NAMES:
            balances = self.venue.account(name).balances
            for asset in ("ETH", "BTC"):
                free, locked = balances[asset]
                assert locked == self.model.locked(name, asset)
                assert free + locked == self.model.has[name, asset]
                assert free >= 0

    @invariant()
    def the_book_is_the_models_book(self) -> None:
        bids, asks = self.venue.books(SYMBOL).depth()
        assert bids == self.model.levels("BUY")
        assert asks == self.model.levels("SELL")

    @invariant()
    def orders_are_as_the_model_has_them(self) -> None:
        for name in NAMES:
            told = {each.id: each for each in self.venue.all_orders(name, SYMBOL, limit=10_000)}
            mine = {id: item for id, item in self.model.known.items() if item.owner == name}
            assert {id: (each.status, each.executed, each.prevented) for id, each in told.items()} == {
                id: (item.status, item.executed, item.prevented) for id, item in mine.items()
            }
            assert [each.id for each in self.venue.open_orders(name)] == sorted(
                id for id, item in mine.items() if item.is_open
            )


def _run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


def test_a_venue_behaves_as_a_plain_model_says_through_every_command_and_restart() -> None:
    _run(examples=40, steps=30)


@pytest.mark.judge
@pytest.mark.timeout(1200)
def test_a_venue_behaves_as_a_plain_model_says_for_long(size: Size) -> None:
    _run(examples=size.of(judge=300, prove=1_000), steps=50)
