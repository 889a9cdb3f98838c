"""backtrader is recorded as it ran, and runs as it would have run."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backtest.adapters.prices import frame
from tests.backtest.adapters.sinks import Memory, obey
from tracedesk.backtest.adapters import backtrader

engine: Any = importlib.import_module("backtrader")

HUGE = 1_000_000
SYMBOLS = ("AAPL", "IBM")


class Cross(engine.Strategy):
    """Crossing averages with brackets on two stocks, and three orders that no account could pay for."""

    def __init__(self) -> None:
        self.crosses: dict[Any, Any] = {}
        for data in self.datas:
            fast, slow = engine.ind.SMA(data.close, period=10), engine.ind.SMA(data, period=30)
            self.crosses[data] = engine.ind.CrossOver(fast, slow)
        self.macd = engine.ind.MACD(self.data1)
        self.calls = 0

    def next(self) -> None:
        self.calls += 1
        if self.calls in (50, 150, 250):
            self.buy(size=HUGE, purpose="too much")
        for data, cross in self.crosses.items():
            price = data.close[0]
            if cross[0] > 0:
                self.buy_bracket(
                    data=data,
                    size=10,
                    exectype=engine.Order.Market,
                    stopprice=price * 0.93,
                    limitprice=price * 1.2,
                )
            elif cross[0] < 0 and self.getposition(data).size:
                self.close(data)
        if self.calls % 100 == 0:
            until = self.data1.datetime.date(0) + timedelta(days=5)
            self.buy(
                data=self.data1,
                size=1,
                exectype=engine.Order.Limit,
                price=self.data1.close[0] / 2,
                valid=until,
            )


def ran(strategy: Any, sink: Memory | None = None, count: int = 700, **broker: Any) -> tuple[Any, Any]:
    """The engine's value curve and its orders, recorded if there is a sink."""
    cerebro = engine.Cerebro()
    cerebro.broker.set_cash(20_000)
    cerebro.broker.setcommission(broker.get("commission", 0.001))
    cerebro.broker.set_coc(broker.get("close", False))
    cerebro.broker.set_shortcash(broker.get("shortcash", True))
    cerebro.broker.set_checksubmit(broker.get("check", True))
    for symbol in SYMBOLS:
        cerebro.adddata(engine.feeds.PandasData(dataname=frame(symbol, count)), name=symbol)
    cerebro.addstrategy(strategy)
    cerebro.addanalyzer(engine.analyzers.TimeReturn, _name="returns")
    cerebro.addanalyzer(engine.analyzers.Transactions, _name="transactions")
    if sink is not None:
        backtrader.record(cerebro, sink)
    (done,) = cerebro.run()
    curve = (
        cerebro.broker.getvalue(),
        cerebro.broker.getcash(),
        dict(done.analyzers.returns.get_analysis()),
        dict(done.analyzers.transactions.get_analysis()),
    )
    return curve, cerebro


@pytest.fixture(scope="module")
def crossed() -> Memory:
    sink = Memory()
    ran(Cross, sink)
    return sink


def test_the_result_is_the_same_with_and_without_the_recorder() -> None:
    plain, _ = ran(Cross)
    recorded, _ = ran(Cross, Memory())
    assert len(plain[3]) > 20
    assert plain == recorded


def test_every_execution_follows_from_its_order_and_every_order_from_a_bar_or_its_bracket(
    crossed: Memory,
) -> None:
    obey(crossed)
    assert len(crossed.of("TradeExecution")) > 20
    for event in crossed.of("OrderPlaced"):
        bracket = "ParentOrderId" in event.properties
        assert crossed.parent(event).type == ("OrderPlaced" if bracket else "MarketDataEvent")


def test_orders_that_no_account_could_pay_are_rejections_with_the_cash_there_was(crossed: Memory) -> None:
    rejections = [e for e in crossed.of("OrderRejection") if e.properties["RequestedQuantity"] == HUGE]
    assert len(rejections) == 3
    for event in rejections:
        assert event.properties["RejectionReason"] == backtrader.MARGIN
        assert event.properties["CashBefore"] < event.properties["OrderValue"]
        assert f"{event.properties['CashBefore']:.2f}" in event.properties["Message"]
        assert event.properties["Tag"] == "purpose=too much"


def test_the_cash_of_a_rejection_is_what_the_account_had_at_the_bar_before(crossed: Memory) -> None:
    cash = 0.0
    for event in crossed.of("StateChange", "OrderRejection"):
        if event.type == "StateChange":
            cash = event.properties["StateAfter"]["Cash"]
        elif event.properties["RejectionReason"] == backtrader.MARGIN:
            assert event.properties["CashBefore"] == cash


class Flip(engine.Strategy):
    """Turns a position round with an order of which the account can pay only the closing part."""

    def next(self) -> None:
        if len(self) == 5:
            self.buy(size=10)
        elif len(self) == 10:
            self.sell(size=5_000)


def test_an_order_that_closes_and_cannot_open_is_executed_in_part_and_refused_for_the_rest() -> None:
    sink = Memory()
    _, cerebro = ran(Flip, sink, 30, shortcash=False, check=False)
    obey(sink)
    (rejection,) = sink.of("OrderRejection")
    assert rejection.properties["FilledQuantity"] == 10
    last = sink.of("PositionUpdate")[-1].properties
    assert (last["Quantity"], last["AveragePrice"]) == (0, 0)
    assert cerebro.broker.positions[cerebro.datas[0]].size == 0


def test_brackets_that_go_with_their_sibling_are_cancelled_and_not_rejected(crossed: Memory) -> None:
    reasons = Counter(event.properties["CancelReason"] for event in crossed.of("OrderCancelled"))
    assert reasons["Cancelled with its bracket"] > 5
    assert reasons["Expired"] > 2
    refused = {event.properties["RejectionReason"] for event in crossed.of("OrderRejection")}
    assert refused <= {backtrader.MARGIN, backtrader.ORPHANED}


def test_an_order_and_its_execution_have_the_times_of_their_own_bars(crossed: Memory) -> None:
    assert all(a.time <= b.time for a, b in pairwise(crossed.events))
    times = frame("IBM", 700).index.as_unit("ns").asi8.tolist()
    for event in crossed.of("TradeExecution"):
        placed = crossed.parent(event)
        if placed.properties["OrderType"] == "Market":
            assert times.index(event.time) == times.index(placed.time) + 1


def test_every_bar_of_every_feed_is_recorded_once_with_its_own_digits(crossed: Memory) -> None:
    for symbol in SYMBOLS:
        bars = [e for e in crossed.of("MarketDataEvent") if e.properties["SecuritySymbol"] == symbol]
        closes = frame(symbol, 700).Close.tolist()
        assert [event.properties["Data"]["Close"] for event in bars] == closes


def test_indicators_are_told_by_line_feed_and_parameters(crossed: Memory) -> None:
    told = {
        (
            e.properties["IndicatorName"],
            e.properties["SecuritySymbol"],
            tuple(e.properties["Parameters"].values()),
        )
        for e in crossed.of("IndicatorCalculation")
    }
    sma = {("SMA", symbol, (period,)) for symbol in SYMBOLS for period in (10, 30)}
    macd = {(f"MACD.{line}", "IBM", (12, 26, 9)) for line in ("macd", "signal")}
    assert told == sma | macd | {("CrossOver", symbol, ()) for symbol in SYMBOLS}
    closes = frame("IBM", 700).Close.rolling(10).mean().dropna().tolist()
    values = [
        e.properties["Value"]
        for e in crossed.of("IndicatorCalculation")
        if (e.properties["SecuritySymbol"], e.properties["Parameters"]) == ("IBM", {"period": 10})
    ]
    assert values == pytest.approx(closes)


def test_the_last_state_is_the_brokers_value(crossed: Memory) -> None:
    (value, cash, *_), _ = ran(Cross)
    after = crossed.of("StateChange")[-1].properties["StateAfter"]
    assert (after["Equity"], after["Cash"]) == (value, cash)
    last = {e.properties["SecuritySymbol"]: e.properties for e in crossed.of("PositionUpdate")}
    parts = sum(p["RealizedPnL"] + p["UnrealizedPnL"] for p in last.values())
    assert after["Total"] == pytest.approx(parts)


class AtTheEnd(engine.Strategy):
    """Orders on the last bar alone."""

    def next(self) -> None:
        if len(self) == 40:
            self.buy(size=1)


def test_an_order_of_the_last_bar_is_recorded_as_open() -> None:
    sink = Memory()
    ran(AtTheEnd, sink, 40)
    (order,) = sink.replayed().values()
    assert order.is_open
    assert order.placed.time == sink.of("MarketDataEvent")[-1].time


# --- any strategy -------------------------------------------------------------------------------

Act = tuple[str, int, int, float]


def scripted(acts: list[Act]) -> Any:
    """A strategy that does one act a bar on one of its feeds."""

    class Scripted(engine.Strategy):
        def __init__(self) -> None:
            self.mean = engine.ind.EMA(self.data, period=3)
            self.script = iter(acts)
            self.open: list[Any] = []

        def next(self) -> None:
            kind, which, size, near = next(self.script, ("wait", 0, 0, 0.0))
            data = self.datas[which]
            price, order = data.close[0], engine.Order
            doing: dict[str, Callable[[], Any]] = {
                "wait": lambda: None,
                "buy": lambda: self.buy(data=data, size=size),
                "sell": lambda: self.sell(data=data, size=size),
                "limit": lambda: self.buy(
                    data=data, size=size, exectype=order.Limit, price=price * (1 - near)
                ),
                "stop": lambda: self.sell(
                    data=data, size=size, exectype=order.Stop, price=price * (1 - near)
                ),
                "trail": lambda: self.sell(data=data, size=size, exectype=order.StopTrail, trailpercent=near),
                "both": lambda: self.buy(
                    data=data,
                    size=size,
                    exectype=order.StopLimit,
                    price=price * (1 + near),
                    plimit=price * (1 + 2 * near),
                ),
                "bracket": lambda: self.buy_bracket(
                    data=data,
                    size=size,
                    exectype=order.Market,
                    stopprice=price * (1 - near),
                    limitprice=price * (1 + near),
                ),
                "close": lambda: self.close(data),
                "cancel": lambda: self.open and self.cancel(self.open.pop(0)),
            }
            made = doing[kind]()
            if kind in ("limit", "stop", "trail", "both"):
                self.open.append(made)

    return Scripted


ACTS = st.tuples(
    st.sampled_from(("wait", "buy", "sell", "limit", "stop", "trail", "both", "bracket", "close", "cancel")),
    st.sampled_from((0, 1)),
    st.sampled_from((1, 20, 100, 5_000)),
    st.sampled_from((0.005, 0.02, 0.1)),
)
OPTIONS = st.fixed_dictionaries(
    {
        "close": st.booleans(),
        "shortcash": st.booleans(),
        "check": st.booleans(),
        "commission": st.sampled_from((0.0, 0.002)),
    }
)


@settings(max_examples=40, deadline=None)
@given(st.lists(ACTS, min_size=5, max_size=40), OPTIONS)
def test_any_strategy_runs_the_same_and_its_orders_add_up(acts: list[Act], options: dict[str, Any]) -> None:
    sink, count = Memory(), len(acts) + 6
    plain, _ = ran(scripted(acts), None, count, **options)
    recorded, cerebro = ran(scripted(acts), sink, count, **options)
    assert plain == recorded
    obey(sink)
    still = {id_ for id_, order in sink.replayed().items() if order.is_open}
    submitted = [*cerebro.broker.pending, *cerebro.broker.submitted]
    assert still == {str(order.ref) for order in submitted}
    held = {data._name: position.size for data, position in cerebro.broker.positions.items() if position.size}
    last = {e.properties["SecuritySymbol"]: e.properties["Quantity"] for e in sink.of("PositionUpdate")}
    assert {symbol: units for symbol, units in last.items() if units} == held
