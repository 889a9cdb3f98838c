"""What a ledger tells its readers: calls, orders, clocks, portfolios, in steps that do not grow with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import apsw
import pytest

from tests.trading.ledgers import (
    DOLLAR,
    OPEN_NS,
    SHARE,
    WALL_NS,
    call,
    fill,
    later,
    open_ledger,
    opening,
    placing,
    resting,
    rows,
    script,
    trading,
    write,
)
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.time import DAY, SECOND, ManualClock
from tracedesk.trading import book
from tracedesk.trading.ledger import Ledger, New
from tracedesk.trading.model import Order, OrderState, Trade
from tracedesk.trading.schema import CACHES


def test_a_reader_sees_what_others_commit_and_cannot_write(ledger: Ledger, path: Path) -> None:
    write(ledger, [opening()])
    with Ledger.read_only(path) as reader:
        assert reader.portfolio("default").cash == 10_000_000
        with ledger.writing() as writer:
            writer.append(trading("o1"))
            assert reader.portfolio("default").version == 1, "not before it is committed"
        assert reader.portfolio("default").version == 2
        with reader.at_once():
            write(ledger, [trading("o2", clock_ns=later(1))])
            assert reader.head()[0] == 3 or reader.head()[0] == 2
            seen = reader.head()
            write(ledger, [trading("o3", clock_ns=later(2))])
            assert reader.head() == seen
        assert reader.head()[0] == 4
        assert not hasattr(reader, "writing")


def test_accounts_are_those_with_entries_of_their_own(ledger: Ledger) -> None:
    assert ledger.accounts() == []
    write(ledger, script())
    assert ledger.accounts() == ["default", "second account"]
    assert ledger.portfolio("nobody") == book.opened("nobody")


def test_the_clock_is_where_its_last_move_went(ledger: Ledger) -> None:
    assert ledger.clock_ns() is None
    write(ledger, script()[:1])
    assert ledger.clock_ns() == OPEN_NS
    write(ledger, script()[1:])
    assert ledger.clock_ns() == OPEN_NS + DAY


def test_a_call_is_found_with_its_answer_and_when_it_was_made(ledger: Ledger) -> None:
    write(ledger, script())
    found = ledger.call("default", "refused")
    assert found is not None
    assert (found.code, found.entry, found.at_ns) == ("MARKET_CLOSED", 8, WALL_NS)
    assert found.response == b'{"of":"refused"}'
    assert ledger.call("second account", "refused") is None
    assert ledger.call("default", "other") is None


def test_a_call_is_found_in_any_allowed_account_the_newest_first(ledger: Ledger) -> None:
    write(ledger, [opening("a"), opening("b")])
    for account in ("a", "b"):
        write(ledger, [replace(trading(f"o-{account}", account=account), call=call("same"))])
    newest = ledger.call_anywhere("same", ["a", "b"])
    assert newest is not None
    assert newest.account == "b"
    only = ledger.call_anywhere("same", ["a"])
    assert only is not None
    assert only.account == "a"
    assert ledger.call_anywhere("same", ["c"]) is None


def test_an_order_has_the_last_of_its_states(ledger: Ledger) -> None:
    write(ledger, script())
    found = ledger.order("o4")
    assert found is not None
    order, state = found
    assert order == Order("o4", "default", resting("MSFT", "sell", 100, 30), client_id="td-o4")
    assert state == OrderState("o4", "cancelled", 40 * SHARE, "ASKED")
    assert ledger.order("o9") is None
    assert ledger.entry_of_order("o4") == 7
    assert ledger.entry_of_order("o9") is None


def test_orders_are_listed_newest_first_a_page_at_a_time(ledger: Ledger) -> None:
    write(ledger, script())
    assert [order.id for order, _ in ledger.orders("default")] == ["o5", "o4", "o2", "o1"]
    assert [order.id for order, _ in ledger.orders("default", limit=2)] == ["o5", "o4"]
    assert [order.id for order, _ in ledger.orders("default", after="o4")] == ["o2", "o1"]
    assert [order.id for order, _ in ledger.orders("second account")] == ["o6", "o3"]


def test_only_orders_that_can_still_fill_are_open(ledger: Ledger) -> None:
    write(ledger, script()[:8])
    sent = placing(Trade("AAPL", "buy", SHARE), "o7", "sent", account="second account")
    write(ledger, [sent])
    assert [order.id for order, _ in ledger.open_orders()] == ["o6", "o4", "o7"]
    assert [order.id for order, _ in ledger.open_orders("second account")] == ["o6", "o7"]
    assert ledger.open_orders("nobody") == []
    assert [order.id for order, _ in ledger.orders("default", open_only=True)] == ["o4"]
    newest = ledger.orders("second account", open_only=True, limit=1)
    assert [order.id for order, _ in newest] == ["o7"]
    older = ledger.orders("second account", open_only=True, after="o7")
    assert [order.id for order, _ in older] == ["o6"]
    write(ledger, script()[8:13])
    assert [(order.id, state.filled) for order, state in ledger.open_orders("default")] == [
        ("o4", 40 * SHARE),
    ]
    write(ledger, script()[13:14])
    assert [order.id for order, _ in ledger.open_orders()] == ["o6", "o7"]


def test_orders_come_with_the_market_time_they_were_placed_at(ledger: Ledger) -> None:
    write(ledger, script())
    at = {order.id: clock_ns for order, _, clock_ns in ledger.orders_placed("default")}
    assert at == {"o5": OPEN_NS + DAY, "o4": OPEN_NS, "o2": OPEN_NS, "o1": OPEN_NS}
    late = placing(resting("A", "buy", 1, 1), "o7", "open", clock_ns=later(7))
    write(ledger, [late])
    placed = [(order.id, clock_ns) for order, _, clock_ns in ledger.open_orders_placed()]
    assert placed == [("o6", OPEN_NS), ("o7", later(7))]
    assert ledger.open_orders_placed("default") == ledger.orders_placed("default", open_only=True)


def test_the_last_change_of_an_accounts_orders_is_an_entry(ledger: Ledger) -> None:
    seen: list[tuple[int, int]] = []
    for new in script():
        write(ledger, [new])
        seen.append((ledger.last_order_change("default"), ledger.last_order_change("second account")))
    default = [0, 0, 0, 4, 5, 5, 7, 7, 7, 7, 7, 7, 13, 14, 15]
    assert seen == list(zip(default, [0] * 5 + [6] * 10, strict=True))


class Steps:
    """Counts what SQLite does for a connection, in its own smallest steps."""

    def __init__(self, connection: Connection) -> None:
        self._connection = cast("apsw.Connection", connection)
        self.count = 0

    def __enter__(self) -> Steps:
        self._connection.set_progress_handler(self._step, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.set_progress_handler(None)

    def _step(self) -> bool:
        self.count += 1
        return False


def _fill_resting_orders(ledger: Ledger, orders: int, days: int) -> None:
    ledger.connection.execute("PRAGMA synchronous = OFF")
    with ledger.writing() as writer:
        writer.append(opening())
        for number in range(orders):
            at, name = OPEN_NS + number * days // orders * DAY, f"o{number}"
            writer.append(placing(resting("IBM", "buy", 1, 203), name, "open", clock_ns=at))
            done = fill(name, shares=1)
            states, postings = [OrderState(name, "filled", SHARE)], book.for_fill(done)
            writer.append(New("fill", "default", at, states=states, fills=[done], postings=postings))


def _steps(path: Path, orders: int, days: int) -> dict[str, int]:
    """What a trade costs, part by part, on a ledger that was just opened."""
    today = OPEN_NS + (days - 1) * DAY
    with open_ledger(path) as ledger:
        _fill_resting_orders(ledger, orders, days)
    parts: dict[str, Callable[[Ledger], object]] = {
        "day start": lambda found: found.portfolio_at("default", today),
        "day start with splits": lambda found: found.portfolio_at("default", today, and_at=("split",)),
        "open orders": lambda found: found.open_orders("default"),
        "last change": lambda found: found.last_order_change("default"),
        "append": lambda found: write(found, [trading("new", clock_ns=today)]),
    }
    found: dict[str, int] = {}
    for name, act in parts.items():
        with open_ledger(path) as ledger, Steps(ledger.connection) as steps:
            act(ledger)
            found[name] = steps.count
    return found


@pytest.mark.parametrize("days", [1, 5])
def test_what_a_trade_reads_does_not_grow_with_the_ledger(tmp_path: Path, days: int) -> None:
    small, large = _steps(tmp_path / "small.db", 50, days), _steps(tmp_path / "large.db", 500, days)
    assert all(0 < large[part] < 1.2 * small[part] + 20 for part in small), (small, large)


def test_orders_are_counted_by_wall_time(path: Path) -> None:
    clock = ManualClock(WALL_NS)
    with Ledger(path, clock=clock) as ledger:
        write(ledger, [opening()])
        for number in range(4):
            write(ledger, [trading(f"o{number}")])
            clock.advance(10)
        assert ledger.orders_since("default", WALL_NS) == 4
        assert ledger.orders_since("default", WALL_NS + 20 * SECOND) == 2
        assert ledger.orders_since("default", WALL_NS + 20 * SECOND + 1) == 1
        assert ledger.orders_since("b", WALL_NS) == 0


def test_a_portfolio_of_an_earlier_market_time_is_what_was_before_it(ledger: Ledger) -> None:
    write(ledger, [opening()])
    for number in range(5):
        write(ledger, [trading(f"o{number}", clock_ns=later(number + 1))])
    for number in (5, 2, 0, 3, 4, 3, 1):
        portfolio = ledger.portfolio_at("default", later(number + 1))
        held = portfolio.positions.get("IBM")
        assert (held.quantity if held else 0) == number * 10 * SHARE
    write(ledger, [trading("late", clock_ns=later(1))])
    for number in (2, 3):
        portfolio = ledger.portfolio_at("default", later(number))
        assert (portfolio.version, portfolio.positions["IBM"].quantity) == (7, number * 10 * SHARE)


def test_a_missing_cache_is_folded_anew_and_can_be_rebuilt(ledger: Ledger) -> None:
    write(ledger, script())
    before, caches = ledger.portfolio("default"), rows(ledger.connection)
    assert all(caches[table] for table in CACHES)
    ledger.connection.execute("DELETE FROM holding")
    assert ledger.portfolio("default") == before
    for table in CACHES:
        ledger.connection.execute(f"DELETE FROM {table}")
    with ledger.writing() as writer:
        writer.rebuild()
    assert rows(ledger.connection) == caches


def test_what_a_position_has_cost_may_be_larger_than_64_bits(ledger: Ledger) -> None:
    write(ledger, [opening(cash=10**17)])
    write(ledger, [trading("o1", shares=10**6, price=10**6)])
    assert ledger.portfolio("default").positions["IBM"].cost == 10**6 * SHARE * 10**6 * DOLLAR
    assert ledger.refold("default") == ledger.portfolio("default")
