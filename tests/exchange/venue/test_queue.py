"""Queue positions of users' orders in a recorded book, by hand and against a list of single units."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.venue.support import SYMBOL, Bench
from tracedesk.exchange.units import units
from tracedesk.exchange.venue.events import Traded
from tracedesk.exchange.venue.venue import Venue

STEP: Final = units("0.001")
TICK: Final = units("0.01")


def show(bench: Bench, side: Any, price: str, quantity: str) -> None:
    bench.venue.set_level(SYMBOL, side, units(price), units(quantity))


def sold(bench: Bench, price: str, quantity: str) -> None:
    """A recorded trade whose taker sold."""
    bench.venue.print_trade(SYMBOL, units(price), units(quantity), buyer_is_maker=True)


def ahead(bench: Bench, id: int) -> int | None:
    return bench.venue.quantity_ahead(SYMBOL, id)


def executed(bench: Bench, id: int, account: str = "ann") -> int:
    return bench.venue.order(account, SYMBOL, order_id=id).executed


# --- by hand ------------------------------------------------------------------------------------


def test_an_order_waits_until_trades_at_its_price_have_passed_what_was_there_before_it() -> None:
    bench = Bench()
    show(bench, "BUY", "100", "5")
    id = bench.limit("ann", "BUY", "2", "100").order.id
    show(bench, "BUY", "100", "8")
    seen = [(ahead(bench, id), executed(bench, id))]
    for quantity in ("3", "1.5", "1"):
        sold(bench, "100", quantity)
        seen.append((ahead(bench, id), executed(bench, id)))
    assert seen == [
        (units("5"), 0),
        (units("2"), 0),
        (units("0.5"), 0),
        (0, units("0.5")),
    ]
    sold(bench, "100", "4")
    assert (ahead(bench, id), executed(bench, id)) == (None, units("2"))


def test_what_leaves_a_level_leaves_from_behind_an_order_first() -> None:
    bench = Bench()
    show(bench, "BUY", "100", "5")
    id = bench.limit("ann", "BUY", "1", "100").order.id
    show(bench, "BUY", "100", "7")
    seen = list[Any]()
    for quantity in ("6", "4", "0", "9"):
        show(bench, "BUY", "100", quantity)
        seen.append(ahead(bench, id))
    assert seen == [units("5"), units("4"), 0, 0]


def test_a_trade_and_the_level_that_shows_it_advance_an_order_once() -> None:
    bench = Bench()
    show(bench, "BUY", "100", "5")
    id = bench.limit("ann", "BUY", "1", "100").order.id
    sold(bench, "100", "3")
    assert ahead(bench, id) == units("2")
    show(bench, "BUY", "100", "2")
    assert ahead(bench, id) == units("2")


def test_a_trade_beyond_the_price_of_an_order_fills_it_whatever_was_shown_before_it() -> None:
    bench = Bench()
    show(bench, "BUY", "100", "5")
    id = bench.limit("ann", "BUY", "2", "100").order.id
    sold(bench, "99.99", "0.5")
    assert (ahead(bench, id), executed(bench, id)) == (0, units("0.5"))


def test_orders_at_one_price_wait_in_one_queue_and_share_a_trade() -> None:
    bench = Bench()
    show(bench, "BUY", "100", "1")
    first = bench.limit("ann", "BUY", "2", "100").order.id
    show(bench, "BUY", "100", "2")
    second = bench.limit("bob", "BUY", "2", "100").order.id
    assert (ahead(bench, first), ahead(bench, second)) == (units("1"), units("4"))
    sold(bench, "100", "3.5")
    assert (executed(bench, first), executed(bench, second, "bob")) == (units("2"), 0)
    assert ahead(bench, second) == units("0.5")
    sold(bench, "100", "1")
    assert executed(bench, second, "bob") == units("0.5")


def test_a_trade_is_shared_by_all_prices_that_it_passed() -> None:
    bench = Bench()
    better = bench.limit("ann", "BUY", "1", "101").order.id
    show(bench, "BUY", "100", "1")
    worse = bench.limit("ann", "BUY", "2", "100").order.id
    sold(bench, "100", "2.5")
    assert (executed(bench, better), executed(bench, worse)) == (units("1"), units("0.5"))


def test_a_cancel_of_an_order_in_front_lets_those_behind_it_advance() -> None:
    bench = Bench()
    show(bench, "BUY", "100", "1")
    first = bench.limit("ann", "BUY", "2", "100").order.id
    second = bench.limit("bob", "BUY", "1", "100").order.id
    bench.venue.cancel("ann", SYMBOL, order_id=first)
    assert ahead(bench, second) == units("1")


def test_the_hidden_part_of_an_iceberg_waits_behind_everything_at_its_price() -> None:
    bench = Bench()
    show(bench, "BUY", "100", "1")
    id = bench.limit("ann", "BUY", "3", "100", iceberg="1").order.id
    show(bench, "BUY", "100", "3")
    sold(bench, "100", "2")
    assert (ahead(bench, id), executed(bench, id)) == (units("2"), units("1"))
    sold(bench, "100", "2.5")
    assert executed(bench, id) == units("1.5")


def test_a_recorded_quantity_that_an_order_took_comes_back_only_by_additions() -> None:
    bench = Bench()
    show(bench, "SELL", "100", "5")
    bench.place("ann", "BUY", "MARKET", "4")
    left = list[Any]()
    for quantity in ("5", "6", "5", "4", "9", "0", "3"):
        show(bench, "SELL", "100", quantity)
        asks = bench.depth()[1]
        left.append(asks[0][1] if asks else 0)
    # Five of which four are taken; one more; one and one fewer; five more; none; three new ones.
    assert left == [units(each) for each in ("1", "2", "1", "0", "5", "0", "3")]


def test_a_level_that_crosses_an_order_fills_it_once_with_what_it_shows() -> None:
    bench = Bench()
    id = bench.limit("ann", "BUY", "30", "100").order.id
    for quantity in ("2", "3", "1", "4"):
        show(bench, "SELL", "99", quantity)
    assert executed(bench, id) == units("6")


def test_an_order_that_takes_meets_resting_orders_and_recorded_quantities_in_the_order_of_the_queue() -> None:
    bench = Bench()
    show(bench, "BUY", "100", "2")
    resting = bench.limit("ann", "BUY", "1", "100").order.id
    show(bench, "BUY", "100", "5")
    bench.place("bob", "SELL", "MARKET", "1.5")
    assert (ahead(bench, resting), executed(bench, resting)) == (units("0.5"), 0)
    bench.place("bob", "SELL", "MARKET", "1")
    assert executed(bench, resting) == units("0.5")


def test_without_a_queue_the_first_trade_at_its_price_fills_an_order() -> None:
    bench = Bench(queue="none")
    show(bench, "BUY", "100", "5")
    id = bench.limit("ann", "BUY", "2", "100").order.id
    assert ahead(bench, id) is None
    sold(bench, "100", "0.5")
    assert executed(bench, id) == units("0.5")


def test_an_order_from_before_a_restart_waits_behind_the_first_recorded_quantity(tmp_path: Any) -> None:
    bench = Bench(path=tmp_path / "venue.db")
    show(bench, "BUY", "100", "1")
    id = bench.limit("ann", "BUY", "2", "100").order.id
    sold(bench, "100", "2")
    bench.reopen()
    bench.venue.begin_levels(SYMBOL, [(units("100"), units("4"))], [])
    assert ahead(bench, id) == units("4")
    bench.venue.close()


def test_the_place_in_the_queue_of_the_seeded_flow_is_the_true_one() -> None:
    bench = Bench()
    first = bench.flow("BUY", "3", "100")
    id = bench.limit("ann", "BUY", "1", "100").order.id
    bench.flow("BUY", "2", "100")
    assert ahead(bench, id) == units("3")
    bench.venue.flow_cancel(SYMBOL, first)
    assert ahead(bench, id) == 0


def test_an_order_that_does_not_rest_has_no_place() -> None:
    bench = Bench()
    stop = bench.place("ann", "BUY", "STOP_LOSS", "1", stop="120").order.id
    assert ahead(bench, stop) is None
    assert ahead(bench, 12345) is None


# --- against a list of single units -------------------------------------------------------------

RECORDED: Final = 0
"""The owner of a unit that a recording shows."""


@dataclass(slots=True)
class Units:
    """A recorded book with users' orders as lists of the owners of single units, oldest first."""

    levels: dict[tuple[int, int], list[int]] = field(default_factory=dict[tuple[int, int], list[int]])
    shown: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    filled: Counter[int] = field(default_factory=Counter[int])
    side: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Sign and price of each order, in the order they were placed."""

    def show(self, sign: int, price: int, quantity: int) -> None:
        change = quantity - self.shown[sign, price]
        self.shown[sign, price] = quantity
        level = self.levels.setdefault((sign, price), [])
        level += [RECORDED] * change
        for _ in range(min(-change, level.count(RECORDED))):
            del level[max(index for index, owner in enumerate(level) if owner == RECORDED)]

    def settle(self) -> None:
        """Fill the orders that recorded quantities cross, the best and oldest first."""
        for id in self.open():
            sign, price = self.side[id]
            for _, level in self.meeting(-sign, price):
                while RECORDED in level and id in self.levels[sign, price]:
                    level.remove(RECORDED)
                    self.fill(id)

    def trade(self, sign: int, price: int, quantity: int) -> None:
        for id in self.open(sign):
            if self.side[id][1] * sign > price * sign and quantity:
                level = self.levels[self.side[id]]
                for _ in range(min(quantity, level.count(id))):
                    self.fill(id)
                    quantity -= 1
                level.sort(key=lambda owner: owner == RECORDED)
        level = self.levels.get((sign, price), [])
        passed, level[:] = level[:quantity], level[quantity:]
        self.filled.update(owner for owner in passed if owner)
        level += [RECORDED] * passed.count(RECORDED)

    def place(self, id: int, sign: int, price: int, quantity: int) -> None:
        for _, level in self.meeting(-sign, price):
            while level and quantity:
                self.filled.update(owner for owner in (level.pop(0), id) if owner)
                quantity -= 1
        self.side[id] = (sign, price)
        self.levels.setdefault((sign, price), []).extend([id] * quantity)

    def cancel(self, id: int) -> None:
        level = self.levels[self.side[id]]
        level[:] = [owner for owner in level if owner != id]

    def fill(self, id: int) -> None:
        self.levels[self.side[id]].remove(id)
        self.filled[id] += 1

    def meeting(self, sign: int, limit: int) -> list[tuple[int, list[int]]]:
        """The levels of a side that an order of the other side can take, the best first."""
        found = [
            (price, level)
            for (s, price), level in self.levels.items()
            if s == sign and price * sign >= limit * sign
        ]
        return sorted(found, key=lambda each: -each[0] * sign)

    def open(self, *signs: int) -> list[int]:
        """Orders that rest, by side, the best and oldest first."""
        resting = [id for id, place in self.side.items() if id in self.levels.get(place, [])]
        wanted = [id for id in resting if not signs or self.side[id][0] in signs]
        return sorted(wanted, key=lambda id: -self.side[id][1] * self.side[id][0])

    def ahead(self, id: int) -> int:
        return self.levels[self.side[id]].index(id)


PRICES: Final = st.integers(9_998, 10_003)
SIGNS: Final = st.sampled_from((1, -1))
LEVELS: Final = st.dictionaries(st.tuples(SIGNS, PRICES), st.integers(0, 9), min_size=1, max_size=4)
ACTS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("show"), LEVELS),
        st.tuples(st.just("trade"), SIGNS, PRICES, st.integers(1, 9)),
        st.tuples(st.just("place"), SIGNS, PRICES, st.integers(1, 6)),
        st.tuples(st.just("cancel"), st.integers(0, 50)),
    ),
    min_size=5,
    max_size=60,
)


def _uncrossed(levels: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """A whole recorded book after a change: no bid is as high as an ask."""
    asks = [price for (sign, price), quantity in levels.items() if sign < 0 and quantity]
    lowest = min(asks, default=1 << 60)
    return {
        (sign, price): 0 if sign > 0 and price >= lowest else quantity
        for (sign, price), quantity in levels.items()
    }


class Recording:
    """A venue and the list of units, given the same recording and the same orders."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.naive = Units()
        self.recorded: dict[tuple[int, int], int] = {}
        self.added: Counter[int] = Counter()
        """Quantity by sign that ever joined the recorded levels."""
        self.printed: Counter[int] = Counter()
        """Quantity by sign of the makers that was ever traded."""
        self.ids: list[int] = []

    @property
    def venue(self) -> Venue:
        return self.bench.venue

    def show(self, changes: dict[tuple[int, int], int]) -> None:
        after = _uncrossed(self.recorded | changes)
        changed = {place: q for place, q in after.items() if q != self.recorded.get(place, 0)}
        for (sign, price), quantity in sorted(changed.items(), key=lambda each: -each[0][0]):
            self.added[sign] += max(0, quantity - self.recorded.get((sign, price), 0))
            self.naive.show(sign, price, quantity)
        self.naive.settle()
        bids, asks = (
            [(price * TICK, q * STEP) for (s, price), q in changed.items() if s == sign] for sign in (1, -1)
        )
        self.venue.set_levels(SYMBOL, bids, asks)
        self.recorded = after

    def trade(self, sign: int, price: int, quantity: int) -> None:
        self.printed[sign] += quantity
        self.naive.trade(sign, price, quantity)
        self.venue.print_trade(SYMBOL, price * TICK, quantity * STEP, buyer_is_maker=sign > 0)

    def place(self, sign: int, price: int, quantity: int) -> None:
        side, at = "BUY" if sign > 0 else "SELL", f"{price / 100:.2f}"
        id = self.bench.limit("ann", side, f"{quantity / 1000:.3f}", at).order.id
        self.naive.place(id, sign, price, quantity)
        self.ids.append(id)

    def cancel(self, number: int) -> None:
        resting = self.naive.open()
        if resting:
            id = resting[number % len(resting)]
            self.naive.cancel(id)
            self.venue.cancel("ann", SYMBOL, order_id=id)

    def check(self) -> None:
        for id in self.ids:
            assert executed(self.bench, id) == self.naive.filled[id] * STEP
        for id in self.naive.open():
            assert ahead(self.bench, id) == self.naive.ahead(id) * STEP

    def check_units(self) -> None:
        """What users got from outside is no more than what was traded and shown, each unit once."""
        got: Counter[int] = Counter()
        for trade in self.bench.told(Traded):
            if 0 in (trade.buyer_order_id, trade.seller_order_id):
                got[1 if trade.buyer_order_id else -1] += trade.quantity
        for sign in (1, -1):
            assert got[sign] <= (self.printed[sign] + self.added[-sign]) * STEP


@settings(max_examples=150, deadline=None)
@given(ACTS)
def test_any_recording_with_any_orders_fills_as_a_list_of_single_units(acts: list[tuple[Any, ...]]) -> None:
    recording = Recording()
    for name, *given_ in acts:
        getattr(recording, name)(*given_)
        recording.check()
    recording.check_units()
    recording.venue.close()


def test_a_large_order_gets_no_more_than_was_sold_at_its_price_and_shown_across_it() -> None:
    bench = Bench()
    show(bench, "BUY", "100", "5")
    id = bench.limit("ann", "BUY", "500", "100").order.id
    prints = ["1", "6", "2.5", "0.001"]
    asks = ["0", "3", "2", "7", "0", "1"]
    for quantity in prints:
        sold(bench, "100", quantity)
    for quantity in asks:
        show(bench, "SELL", "100", quantity)
    sold_here = sum(map(units, prints)) - units("5")
    crossing = sum(max(0, units(late) - units(early)) for early, late in pairwise(asks))
    assert executed(bench, id) == sold_here + crossing
