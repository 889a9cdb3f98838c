"""Any sequence of orders, cancellations, repetitions and moves of the clock, against a plain model."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
import uvloop
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.judges.size import Size
from tests.support import run
from tests.trading.crash import settings, trading_desk
from tests.trading.model_account import LARGEST, PARTICIPATION, SHARE, Account, Order, Refused
from tracedesk.config import Settings
from tracedesk.market import ClockError, ReplayClock, calendar, eastern
from tracedesk.market.clock import LAST_NS
from tracedesk.market.dataset import EMBEDDED
from tracedesk.primitives import json
from tracedesk.primitives.time import DAY, HOUR, parse
from tracedesk.trading import audit, clockwork
from tracedesk.trading.draft import order_id
from tracedesk.trading.ledger import Reading
from tracedesk.wire.dispatch import Origin
from tracedesk.wire.door import Silence
from tracedesk.wire.encode import Reply

CASH: Final = (10_000_000, 10_000_000, 10_000_000, 3_000)
"""What accounts begin with: enough for most orders, or hardly for any and its fees."""
STARTS: Final = ("2012-12-03T15:30:00Z", "2013-02-05T18:00:00Z", "2005-02-24T14:30:00Z")
"""The default one, one before three dividends, and one two sessions before a split."""
FINAL: Final = ("INSUFFICIENT_FUNDS", "INSUFFICIENT_POSITION", "INVALID_SYMBOL", "MARKET_CLOSED")
"""Refusals that an id keeps, with RISK_LIMIT_EXCEEDED."""

_SYMBOLS: Final = ("AAPL", "IBM", "MSFT", "GOOG")
_QUANTITIES: Final = st.one_of(
    st.integers(1, 60).map(Decimal),
    st.integers(1, 60 * 10**3).map(lambda n: Decimal(n).scaleb(-3)),
    st.sampled_from(
        [Decimal("0.333333333"), Decimal("0.05"), Decimal("0.000000001"), Decimal(300), Decimal(5_000)]
    ),
)
_LEGS: Final = st.fixed_dictionaries(
    {
        "symbol": st.sampled_from([*_SYMBOLS * 6, "FB", "NONE"]),
        "action": st.sampled_from(["buy", "buy", "buy", "sell"]),
        "quantity": _QUANTITIES,
        "order_type": st.sampled_from(["market", "limit", "stop"]),
        "time_in_force": st.sampled_from(["ioc", "day", "gtc", "gtc"]),
    }
)
_LEVELS: Final = st.one_of(st.integers(-30, 30), st.sampled_from([-200, 0, 200, "low", "high"]))
"""How far from the open a limit or a stop is, in thousandths of it; or the end of the session's range."""

_AWAY: Final = st.one_of(st.integers(1, 40), st.sampled_from(["low", "high"]))
_RESTING: Final = st.tuples(st.sampled_from(["limit", "stop"]), st.sampled_from(["day", "gtc"]))
_MOVES: Final = (
    *["into the next session"] * 4,
    "to the open",
    "to the close",
    "by an hour",
    *["by ten days"] * 2,
)

_MEMORY: Final = next((folder for folder in ("/dev/shm",) if Path(folder).is_dir()), None)
"""Where syncs cost nothing, if there is such a place: durability is the kills' affair, not the model's."""

Call = tuple[str, dict[str, Any]]


class Lives(RuleBasedStateMachine):
    """A desk and a model that are asked for the same."""

    seen: ClassVar[Counter[str]] = Counter()
    """What came up, over all machines of a test."""

    @initialize(start=st.sampled_from(STARTS), cash=st.sampled_from(CASH))
    def begin(self, start: str, cash: int) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=_MEMORY)
        self.home = Path(self.folder.name) / "home"
        self.chosen = _chosen(self.home, start, cash)
        self.model = Account(parse(start).ns, cash)
        self.calls: dict[str, tuple[Call, Reply]] = {}
        """Those whose answers are kept for ever."""
        self.placed: list[str] = []
        self.number = 0
        self.reopened = False
        self.loop = uvloop.new_event_loop()
        self._open()
        # Something that splits and pays dividends is held from the start, where there is money for it.
        self._trade([_bought("AAPL", Decimal(5)), _bought("IBM", Decimal("7.5"))])

    def _open(self) -> None:
        self.stack = AsyncExitStack()
        self.desk, self.trader = self.loop.run_until_complete(
            self.stack.enter_async_context(trading_desk(self.chosen))
        )

    # --- what is done

    @rule(legs=st.lists(st.tuples(_LEGS, _LEVELS, st.integers(2, 6)), min_size=1, max_size=3))
    def trade(self, legs: list[tuple[dict[str, Any], int | str, int]]) -> None:
        self._trade([self._leg(*leg) for leg in legs])

    @rule(symbol=st.sampled_from(_SYMBOLS), quantity=_QUANTITIES)
    def buy(self, symbol: str, quantity: Decimal) -> None:
        self._trade([_bought(symbol, quantity)])

    @rule(symbol=st.sampled_from(_SYMBOLS), quantity=_QUANTITIES, away=_AWAY, kind=_RESTING)
    def buy_later(self, symbol: str, quantity: Decimal, away: int | str, kind: tuple[str, str]) -> None:
        leg = {"symbol": symbol, "action": "buy", "quantity": quantity, "order_type": kind[0]}
        level = away if isinstance(away, str) else -away if kind[0] == "limit" else away
        self._trade([self._leg({**leg, "time_in_force": kind[1]}, level, 2)])

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), part=st.sampled_from([1, 2, 3]), kind=st.sampled_from(["market", "limit", "stop"]))
    def sell_what_is_held(self, data: Any, part: int, kind: str) -> None:
        symbol = data.draw(st.sampled_from(sorted(self.model.held)))
        quantity = Decimal(-(-self.model.quantity(symbol) // part)).scaleb(-9)
        leg = {"symbol": symbol, "action": "sell", "quantity": quantity, "order_type": kind}
        tif = data.draw(st.sampled_from(["ioc", "day", "gtc"]))
        self._trade([self._leg({**leg, "time_in_force": tif}, data.draw(_LEVELS), 2)])

    def _leg(self, leg: dict[str, Any], level: int | str, places: int) -> dict[str, Any]:
        """The leg with a limit or a stop near the last open."""
        if leg["order_type"] == "market":
            return {**leg, "time_in_force": "ioc"}
        name = "price" if leg["order_type"] == "limit" else "stop_price"
        return {**leg, name: self._level(leg["symbol"], level, places)}

    def _level(self, symbol: str, level: int | str, places: int) -> Decimal:
        session = calendar.opened_by(self.model.now)
        bar = EMBEDDED[symbol].on(session) if symbol in EMBEDDED and session else None
        if bar is None:
            return Decimal(25)
        if isinstance(level, str):
            return bar.low if level == "low" else bar.high
        return round(bar.open * (1000 + level) / 1000, places)

    def _trade(self, legs: list[dict[str, Any]]) -> None:
        id = self._id()
        orders = [_order(id, index, leg) for index, leg in enumerate(legs)]
        reply = self._ask("trade_execute", {"tool_call_id": id, "trades": legs})
        try:
            wanted = self.model.place(orders)
        except Refused as refused:
            self._assert_refused(reply, refused)
            return
        told = json.loads(reply.body)["execution"]["trades"]
        assert [_figures(leg) for leg in told] == wanted
        assert [leg["order_id"] for leg in told] == [order.id for order in orders]
        self.placed += [order.id for order in self.model.orders if order in orders]
        self.seen.update(status for status, *_ in wanted)

    @precondition(lambda self: self.placed)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        order = data.draw(st.sampled_from(self.placed[-4:]))
        reply = self._ask("cancel_trade_order", {"tool_call_id": self._id(), "order_id": order})
        try:
            self.model.cancel(order)
        except Refused as refused:
            self._assert_refused(reply, refused)
        else:
            assert json.loads(reply.body)["order"]["status"] == "cancelled"
            self.seen["cancelled"] += 1

    @rule(
        note=st.dictionaries(
            st.text(max_size=5), st.integers(-9, 9) | st.decimals(0, 1, places=3), max_size=3
        )
    )
    def log(self, note: dict[str, Any]) -> None:
        arguments = {"tool_call_id": self._id(), "event_type": "trade", "data": note}
        assert json.loads(self._ask("log_event", arguments).body)["logged"] is True

    @rule(how=st.sampled_from(_MOVES))
    def move(self, how: str) -> None:
        now = self.model.now
        match how:
            case "into the next session":
                self._move(calendar.next_open(now) + HOUR)
            case "to the open":
                self._move(calendar.next_open(now))
            case "to the close":
                self._move(calendar.next_close(now))
            case "by an hour":
                self._move(now + HOUR)
            case _:
                self._move(calendar.open_ns(calendar.next_session(eastern.to_day(now + 9 * DAY))) + HOUR)

    def _move(self, to_ns: int) -> None:
        if to_ns > LAST_NS:
            with pytest.raises(ClockError):
                self._advance(to_ns)
            return
        before = {order.id for order in self.model.orders}
        self._advance(to_ns)
        self.model.move(to_ns)
        self.seen["ended by a move"] += len(before - {order.id for order in self.model.orders})

    def _advance(self, to_ns: int) -> None:
        def step(clock: ReplayClock) -> Any:
            return clock.set(to_ns)

        trader, payloads = self.trader, self.desk.payloads
        work = trader.commit(lambda ledger: clockwork.advance(ledger, payloads, trader.settings, step))
        happened = self.loop.run_until_complete(work).happenings
        self.seen.update(f"{each.kind} in a move" for _, each in happened)

    # --- what changes nothing

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def repeat(self, data: Any) -> None:
        id = data.draw(st.sampled_from(sorted(self.calls)))
        (tool, arguments), first = self.calls[id]
        again = self._unchanged(tool, arguments)
        assert (again.code, again.body) == (first.code, first.body)
        self.seen["repeated"] += 1

    @precondition(lambda self: self.calls)
    @rule(
        data=st.data(),
        other=st.sampled_from(["trade_execute", "log_event", "cancel_trade_order", "get_portfolio"]),
    )
    def reuse(self, data: Any, other: str) -> None:
        id = data.draw(st.sampled_from(sorted(self.calls)))
        leg = {"symbol": "IBM", "action": "buy", "quantity": Decimal("0.123456789"), "order_type": "market"}
        arguments: dict[str, dict[str, Any]] = {
            "trade_execute": {"trades": [leg]},
            "log_event": {"event_type": "trade", "data": {"reused": True}},
            "cancel_trade_order": {"order_id": "td-reused"},
            "get_portfolio": {},
        }
        reply = self._unchanged(other, {"tool_call_id": id, **arguments[other]})
        assert reply.code == "TOOL_CALL_ID_CONFLICT"

    @precondition(lambda self: self.calls and not self.reopened)
    @rule()
    def another_desk(self) -> None:
        self.reopened = True
        self.loop.run_until_complete(self.stack.aclose())
        self._open()

    # --- what always holds

    @invariant()
    def the_account_is_the_models(self) -> None:
        reply = self._call("get_portfolio", {"tool_call_id": self._id()})
        shown = json.loads(reply.body)["portfolio"]
        rows = {row["symbol"]: row for row in shown["positions"]}
        assert shown["cash"] == Decimal(self.model.cash).scaleb(-2)
        assert {s: (r["quantity"], r["avg_price"]) for s, r in rows.items()} == {
            symbol: (Decimal(held).scaleb(-9), Decimal(round(Fraction(cost, held))).scaleb(-6))
            for symbol, (held, cost) in self.model.held.items()
        }
        cash_weight = Fraction(shown["cash"]) / Fraction(shown["total_value"])
        assert abs(sum(Fraction(row["weight"]) for row in rows.values()) + cash_weight - 1) < Fraction(
            1, 10**12
        )
        assert shown["cash"] >= 0, "there is no margin"

    @invariant()
    def the_ledger_is_the_models(self) -> None:
        """The open orders, and what the positions have cost to the last digit."""

        def read(ledger: Reading) -> tuple[list[tuple[str, int]], dict[str, list[int]]]:
            orders = [(order.id, state.filled) for order, state in ledger.open_orders()]
            positions = ledger.portfolio("default").positions.values()
            return orders, {p.symbol: [p.quantity, p.cost] for p in positions}

        orders = [(order.id, order.filled) for order in self.model.orders]
        assert self.loop.run_until_complete(self.trader.ledger(read)) == (orders, self.model.held)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        self.loop.run_until_complete(self.stack.aclose())
        self.loop.close()
        assert audit.verify(self.home / "ledger.db").faults == []
        self.folder.cleanup()

    # --- how the desk is asked

    def _id(self) -> str:
        self.number += 1
        return f"call-{self.number}"

    def _ask(self, tool: str, arguments: dict[str, Any]) -> Reply:
        """Call the tool, and remember the answer if it is kept."""
        self.seen[tool] += 1
        reply = self._call(tool, arguments)
        if reply.code in (None, "RISK_LIMIT_EXCEEDED", *FINAL):
            self.calls[arguments["tool_call_id"]] = ((tool, arguments), reply)
        return reply

    def _call(self, tool: str, arguments: dict[str, Any]) -> Reply:
        return self.loop.run_until_complete(
            self.desk.dispatch.call(tool, arguments, Origin("stdio:model", Silence()))
        )

    def _unchanged(self, tool: str, arguments: dict[str, Any]) -> Reply:
        before = self.loop.run_until_complete(self.trader.ledger(lambda ledger: ledger.head()))
        reply = self._call(tool, arguments)
        assert self.loop.run_until_complete(self.trader.ledger(lambda ledger: ledger.head())) == before
        return reply

    def _assert_refused(self, reply: Reply, refused: Refused) -> None:
        assert reply.code == refused.args[0], reply.body
        self.seen[refused.args[0]] += 1


def _chosen(home: Path, start: str, cash: int) -> Settings:
    limits = {
        "max_order_notional": LARGEST // 100,
        # The model knows no share of the total value; resting orders are exposure at marks.
        "max_position_weight": 1_000,
        "max_gross_leverage": 1_000,
        "max_var_95_1d": 1_000,
        "max_daily_loss": 1,
        "max_orders_per_minute": 10**9,
    }
    participation = Decimal(PARTICIPATION.numerator) / PARTICIPATION.denominator
    costs = {"participation": participation}
    return settings(home, clock=start, cash=cash // 100, limits=limits, costs=costs)


def _bought(symbol: str, quantity: Decimal) -> dict[str, Any]:
    leg = {"symbol": symbol, "action": "buy", "quantity": quantity}
    return {**leg, "order_type": "market", "time_in_force": "ioc"}


def _order(id: str, index: int, leg: dict[str, Any]) -> Order:
    level = int((leg.get("price") or leg.get("stop_price") or 0) * 10**6)
    return Order(
        order_id("default", id, index),
        leg["symbol"],
        1 if leg["action"] == "buy" else -1,
        int(leg["quantity"] * SHARE),
        leg["order_type"],
        level,
        leg["time_in_force"],
    )


def _figures(leg: dict[str, Any]) -> tuple[str, int, int | None, int]:
    """A leg of an answer in the model's units."""
    price = None if leg["price"] is None else int(leg["price"] * 10**6)
    return leg["status"], int(leg["quantity"] * SHARE), price, int(leg["total_cost"] * 100)


def _live(examples: int, steps: int, *, derandomize: bool = False) -> None:
    bounds = hypothesis_settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=derandomize,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    outcomes = ("filled", "partial", "rejected", "open", "cancelled", "repeated", "ended by a move")
    moves = ("fill in a move", "order in a move", "dividend in a move", "split in a move")
    wanted = {*outcomes, *moves, *FINAL, "INVALID_INPUT", "RISK_LIMIT_EXCEEDED"}
    Lives.seen = Counter()
    for _ in range(1 if derandomize else 4):  # lives that are drawn may all miss what is rare
        run_state_machine_as_test(Lives, settings=bounds)
        if wanted <= set(+Lives.seen):
            break
    print(Lives.seen)
    assert wanted - set(+Lives.seen) == set(), "it never came up"


def test_200_lives_of_an_account_agree_with_a_plain_model() -> None:
    """The same lives each time, so that what must come up does; the long run draws others."""
    _live(200, 50, derandomize=True)


@pytest.mark.judge
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("quarter", range(4))
def test_many_lives_of_an_account_agree_with_a_plain_model(quarter: int, size: Size) -> None:
    """In quarters, so that all cores take part; each draws lives of its own."""
    _live(size.of(judge=150, prove=500), 50)


def test_a_sale_that_costs_more_than_it_brings_is_refused_without_the_cash_for_it(tmp_path: Path) -> None:
    async def main() -> list[str | None]:
        chosen = settings(tmp_path / "home", clock=STARTS[0], cash=29)
        async with trading_desk(chosen) as (desk, _):
            origin = Origin("stdio:model", Silence())
            sale = {**_bought("MSFT", Decimal("0.001")), "action": "sell"}
            legs = [_bought("MSFT", Decimal(1)), sale, sale]
            calls = [{"tool_call_id": f"call-{n}", "trades": [leg]} for n, leg in enumerate(legs)]
            return [(await desk.dispatch.call("trade_execute", call, origin)).code for call in calls]

    # 29.00 buys a share for 27.79 and pays 0.97 for one sale of a thousandth; 0.24 is left.
    assert run(main()) == [None, None, "INSUFFICIENT_FUNDS"]
