"""Questions about the past: orders, fills and amendments by id, time and number."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.exchange.venue.support import NOON, SYMBOL, Bench
from tracedesk.exchange.units import units
from tracedesk.exchange.venue import market
from tracedesk.exchange.venue.orders import VenueRefused
from tracedesk.exchange.venue.store import Store
from tracedesk.exchange.venue.venue import VenueStopped
from tracedesk.primitives.time import SECOND


@pytest.fixture
def bench() -> Bench:
    """Ten orders of ann a second apart, each of which filled."""
    found = Bench()
    for number in range(10):
        found.flow("SELL", "1", f"{100 + number}")
        found.limit("ann", "BUY", "1", f"{100 + number}", id=f"n{number}")
        found.clock.advance(1)
    return found


def test_the_most_recent_orders_are_returned_oldest_first(bench: Bench) -> None:
    found = bench.venue.all_orders("ann", SYMBOL, limit=3)
    assert [each.client_order_id for each in found] == ["n7", "n8", "n9"]


def test_orders_and_fills_can_be_read_from_an_id_on(bench: Bench) -> None:
    orders = bench.venue.all_orders("ann", SYMBOL)
    found = bench.venue.all_orders("ann", SYMBOL, from_id=orders[4].id, limit=2)
    assert [each.client_order_id for each in found] == ["n4", "n5"]
    fills = bench.venue.my_trades("ann", SYMBOL)
    assert bench.venue.my_trades("ann", SYMBOL, from_id=fills[7].trade_id) == fills[7:]
    assert bench.venue.my_trades("ann", SYMBOL, order_id=orders[2].id) == fills[2:3]
    assert bench.venue.my_trades("ann", SYMBOL, limit=2) == fills[-2:]


def test_orders_and_fills_can_be_read_from_a_time_on_and_until_another(bench: Bench) -> None:
    start, end = NOON + 2 * SECOND, NOON + 4 * SECOND
    orders = bench.venue.all_orders("ann", SYMBOL, start_ns=start, end_ns=end)
    assert [each.client_order_id for each in orders] == ["n2", "n3", "n4"]
    fills = bench.venue.my_trades("ann", SYMBOL, start_ns=start, end_ns=end)
    assert [each.price for each in fills] == [units("102"), units("103"), units("104")]
    first = bench.venue.all_orders("ann", SYMBOL, start_ns=start, limit=1)
    assert [each.client_order_id for each in first] == ["n2"]


def test_a_stranger_and_a_strange_symbol_are_refused(bench: Bench) -> None:
    with pytest.raises(VenueRefused, match="Invalid API-key"):
        bench.venue.all_orders("eve", SYMBOL)
    for ask in (bench.venue.all_orders, bench.venue.my_trades, bench.venue.open_orders):
        with pytest.raises(VenueRefused, match="Invalid symbol"):
            ask("ann", "NONE")


def test_time_does_not_run_backwards_for_the_venue(bench: Bench) -> None:
    bench.clock.set(NOON)
    order = bench.limit("ann", "BUY", "1", "50").order
    assert order.created_ns >= bench.venue.all_orders("ann", SYMBOL)[-2].created_ns


def test_numbers_that_could_not_be_reserved_are_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(market, "_BLOCK", 2)
    bench = Bench(path=tmp_path / "venue.db")
    given: list[int] = []
    with monkeypatch.context() as full:
        full.setattr(Store, "set_counter", _no_space)
        with pytest.raises(OSError, match="No space"):
            bench.limit("ann", "BUY", "1", "50")
    for _ in range(10):
        given.append(bench.limit("ann", "BUY", "1", "50").order.id)
        assert bench.venue._store.counters()["order"] >= given[-1]  # pyright: ignore[reportPrivateUsage]
    assert len(set(given)) == 10


def _no_space(store: Store, name: str, value: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_new_order_is_never_written_over_another(tmp_path: Path) -> None:
    bench = Bench(path=tmp_path / "venue.db")
    first = bench.limit("ann", "BUY", "1", "50", id="first").order
    bench.venue._ids.last = first.id - 1  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(apsw.ConstraintError):
        bench.limit("ann", "BUY", "1", "51", id="second")
    with pytest.raises(VenueStopped):
        bench.limit("ann", "BUY", "1", "51", id="third")
    assert bench.reopen().order("ann", SYMBOL, order_id=first.id).client_order_id == "first"
