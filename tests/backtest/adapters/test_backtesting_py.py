"""backtesting.py is recorded as it ran, and runs as it would have run."""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backtest.adapters.prices import frame
from tests.backtest.adapters.sinks import Memory, obey
from tracedesk.backtest import Recorder
from tracedesk.backtest.adapters import backtesting_py
from tracedesk.backtest.adapters.backtesting_events import MARGIN, kind_of
from tracedesk.backtest.adapters.tape import Sink
from tracedesk.journal import Reader
from tracedesk.primitives import json

engine: Any = importlib.import_module("backtesting")
pandas: Any = importlib.import_module("pandas")

HUGE = 1_000_000


def sma(values: Any, n: int) -> Any:
    return pandas.Series(values).rolling(n).mean().to_numpy()


class Cross(engine.Strategy):
    """Crossing averages with brackets, and three orders that no account could pay for."""

    def init(self) -> None:
        self.fast = self.I(sma, self.data.Close, 10)
        self.slow = self.I(sma, self.data.Close, n=30)
        self.calls = 0

    def next(self) -> None:
        self.calls += 1
        price = self.data.Close[-1]
        if self.calls in (50, 150, 250):
            self.buy(size=HUGE, tag="too much")
        if self.fast[-1] > self.slow[-1] and self.fast[-2] <= self.slow[-2]:
            self.position.close()
            self.buy(size=0.5, sl=price * 0.93, tp=price * 1.2)
        elif self.fast[-1] < self.slow[-1] and self.fast[-2] >= self.slow[-2]:
            self.position.close()
            self.sell(size=0.5, sl=price * 1.07)


def ran(strategy: Any, sink: Sink | None = None, count: int = 1_000, **options: Any) -> Any:
    """The engine's result, recorded if there is a sink."""
    return said(strategy, sink, count, **options)[0]


def said(strategy: Any, sink: Sink | None, count: int, **options: Any) -> tuple[Any, list[str]]:
    """The engine's result, and the orders that its warnings say it refused."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        backtest = engine.Backtest(frame("GOOG", count), strategy, **{"cash": 10_000, **options})
        if sink is not None:
            backtesting_py.record(backtest, sink, symbol="GOOG")
        result = backtest.run()
    texts = [str(one.message) for one in heard]
    return result, [text for text in texts if "insufficient margin" in text]


def same(one: Any, other: Any) -> bool:
    """Whether two results agree in every trade, every point of the equity and every statistic."""
    hidden = ("_strategy", "_equity_curve", "_trades")
    return bool(
        one._trades.equals(other._trades)
        and one._equity_curve.equals(other._equity_curve)
        and one.drop(list(hidden)).equals(other.drop(list(hidden)))
    )


@pytest.fixture(scope="module")
def crossed() -> Memory:
    sink = Memory()
    ran(Cross, sink, commission=0.002, finalize_trades=True)
    return sink


def test_the_result_is_the_same_with_and_without_the_recorder() -> None:
    options: dict[str, Any] = {"commission": 0.002, "finalize_trades": True}
    plain, recorded = ran(Cross, **options), ran(Cross, Memory(), **options)
    assert len(plain._trades) > 20
    assert same(plain, recorded)


def test_every_execution_follows_from_its_order_and_every_order_from_a_bar_or_an_execution(
    crossed: Memory,
) -> None:
    obey(crossed)
    causes = Counter(crossed.parent(event).type for event in crossed.of("OrderPlaced"))
    assert set(causes) == {"MarketDataEvent", "TradeExecution"}
    for event in crossed.of("OrderPlaced"):
        bracket = event.properties["OrderType"] in ("StopLoss", "TakeProfit")
        assert crossed.parent(event).type == ("TradeExecution" if bracket else "MarketDataEvent")


def test_orders_that_no_account_could_pay_are_rejections_with_the_margin_there_was(crossed: Memory) -> None:
    rejections = crossed.of("OrderRejection")
    assert [event.properties["RequestedQuantity"] for event in rejections] == [HUGE] * 3
    for event in rejections:
        assert event.properties["RejectionReason"] == MARGIN
        assert f"margin available, {event.properties['MarginAvailable']:.2f}" in event.properties["Message"]
        assert event.properties["Tag"] == "too much"


def test_the_figures_of_a_rejection_are_those_of_the_engines_own_warning() -> None:
    sink = Memory()
    _, (text,) = said(Cross, sink, 120)
    (event,) = sink.of("OrderRejection")
    equity, margin = event.properties["Equity"], event.properties["MarginAvailable"]
    assert f"equity={equity:.2f}, margin_available={margin:.2f}" in text


def test_brackets_that_go_with_their_trade_are_cancelled_and_not_rejected(crossed: Memory) -> None:
    reasons = Counter(event.properties["CancelReason"] for event in crossed.of("OrderCancelled"))
    assert set(reasons) == {"Its trade was closed"}
    kinds = {crossed.parent(event).properties["OrderType"] for event in crossed.of("OrderCancelled")}
    assert kinds == {"StopLoss", "TakeProfit"}


def test_every_bar_is_recorded_once_with_its_own_digits(crossed: Memory) -> None:
    bars = crossed.of("MarketDataEvent")
    table = frame("GOOG", 1_000)
    assert len(bars) == len(table)
    assert [event.time for event in bars] == table.index.as_unit("ns").asi8.tolist()
    assert bars[0].properties["Data"] == {
        "Open": 100.01, "High": 104.06, "Low": 95.96, "Close": 100.335, "Volume": 44659000,
    }  # fmt: skip


def test_indicators_have_names_parameters_and_the_values_that_the_strategy_saw(crossed: Memory) -> None:
    table = frame("GOOG", 1_000)
    for name, n in (("sma(C,10)", 10), ("sma(C,30)", 30)):
        told = [
            event for event in crossed.of("IndicatorCalculation") if event.properties["IndicatorName"] == name
        ]
        expected = sma(table.Close, n)
        days = {time: at for at, time in enumerate(table.index.as_unit("ns").asi8.tolist())}
        assert told
        assert len({event.time for event in told}) == len(told)
        assert all(event.properties["Parameters"] == {"n": n} for event in told)
        assert [event.properties["Value"] for event in told] == [expected[days[event.time]] for event in told]


def test_the_last_state_is_the_engines_final_equity(crossed: Memory) -> None:
    result = ran(Cross, commission=0.002, finalize_trades=True)
    after = crossed.of("StateChange")[-1].properties["StateAfter"]
    assert after["Equity"] == result["Equity Final [$]"]
    assert after["Realized"] + after["Unrealized"] == pytest.approx(after["Total"], abs=1e-9)


def test_only_the_next_run_is_recorded() -> None:
    sink = Memory()
    backtest = engine.Backtest(frame("GOOG", 200), Cross, cash=10_000, finalize_trades=True)
    backtesting_py.record(backtest, sink, symbol="GOOG")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backtest.run()
        told = len(sink.events)
        backtest.run()
    assert len(sink.events) == told > 200


def test_a_commission_function_is_called_no_more_often_than_the_engine_calls_it() -> None:
    def counted(sink: Memory | None) -> list[tuple[float, float]]:
        calls: list[tuple[float, float]] = []

        def commission(size: float, price: float) -> float:
            calls.append((size, price))
            return 1 + len(calls) / 100

        ran(Cross, sink, commission=commission)
        return calls

    assert counted(None) == counted(Memory())


class Twice(engine.Strategy):
    """Reduces a bracketed trade, then closes it twice on one bar."""

    def init(self) -> None:
        self.calls = 0

    def next(self) -> None:
        self.calls += 1
        price = self.data.Close[-1]
        if self.calls == 1:
            self.buy(size=10, sl=price / 2, tp=price * 2)
        elif self.calls == 3:
            self.position.close(0.3)
        elif self.calls == 5:
            self.position.close()
            self.position.close()


def test_a_reduced_trade_shrinks_its_brackets_and_a_second_close_is_cancelled() -> None:
    sink = Memory()
    ran(Twice, sink, 20)
    obey(sink)
    changes = [event.properties for event in sink.of("StateChange") if "OrderId" in event.properties]
    assert [(change["StateBefore"], change["StateAfter"]) for change in changes] == [(10, 7), (10, 7)]
    ended = Counter(
        (event.properties["CancelReason"], event.properties["RemainingQuantity"])
        for event in sink.of("OrderCancelled")
    )
    assert ended == {("Its trade was closed", 7): 2, ("Its trade was closed already", 7): 1}


class Reverse(engine.Strategy):
    """Turns a position round with a part of the equity."""

    def init(self) -> None:
        self.calls = 0

    def next(self) -> None:
        self.calls += 1
        if self.calls == 1:
            self.buy(size=20)
        elif self.calls == 3:
            self.sell(size=0.9)


def test_a_part_of_the_equity_that_turns_a_position_round_is_whole_when_the_engine_says_nothing() -> None:
    sink = Memory()
    _, refusals = said(Reverse, sink, 20)
    obey(sink)
    assert not refusals
    assert not sink.of("OrderRejection", "OrderCancelled")
    orders = [order.placed.properties["Quantity"] for order in sink.replayed().values()]
    assert orders == [20, 0.9]
    assert len(sink.of("TradeExecution")) == 3


class Ruin(engine.Strategy):
    """All on margin, until nothing is left."""

    def init(self) -> None:
        pass

    def next(self) -> None:
        if not self.position:
            self.sell(size=0.99)


def test_an_account_that_is_worth_nothing_is_a_risk_event_and_its_liquidation_follows_from_it() -> None:
    sink = Memory()
    assert same(ran(Ruin, margin=0.2), ran(Ruin, sink, margin=0.2))
    obey(sink)
    (risk,) = sink.of("RiskEvent")
    assert risk.properties["RiskType"] == "OutOfMoney"
    assert risk.properties["CurrentValue"] <= 0
    last = sink.of("TradeExecution")[-1]
    assert sink.parent(sink.parent(last)) == risk
    assert sink.of("StateChange")[-1].properties["StateAfter"]["Equity"] == 0


def test_data_without_dates_is_refused_with_the_remedy() -> None:
    plain = frame("GOOG", 100).reset_index(drop=True)
    with pytest.warns(UserWarning, match="not datetime"):
        backtest = engine.Backtest(plain, Cross)
    with pytest.raises(ValueError, match="DatetimeIndex"):
        backtesting_py.record(backtest, Memory(), symbol="GOOG")


# --- any strategy -------------------------------------------------------------------------------

Act = tuple[str, float, float]


def scripted(acts: list[Act]) -> Any:
    """A strategy that does one act a bar; what the engine itself refuses to take is left out."""

    class Scripted(engine.Strategy):
        def init(self) -> None:
            self.mean = self.I(sma, self.data.Close, 3)
            self.script = iter(acts)

        def next(self) -> None:
            kind, size, near = next(self.script, ("wait", 0.0, 0.0))
            price = self.data.Close[-1]
            doing: dict[str, Callable[[], Any]] = {
                "wait": lambda: None,
                "buy": lambda: self.buy(size=size),
                "sell": lambda: self.sell(size=size),
                "limit": lambda: self.buy(size=size, limit=price * (1 - near)),
                "stop": lambda: self.sell(size=size, stop=price * (1 - near)),
                "bracket": lambda: self.buy(size=size, sl=price * (1 - near), tp=price * (1 + near)),
                "close": lambda: self.position.close(),
                "half": lambda: self.position.close(0.5),
                "cancel": lambda: [order.cancel() for order in self.orders[:1]],
                "tighten": lambda: [
                    setattr(trade, "sl", price * (1 - near)) for trade in self.trades if trade.is_long
                ],
            }
            doing[kind]()

    return Scripted


ACTS = st.tuples(
    st.sampled_from(
        ("wait", "buy", "sell", "limit", "stop", "bracket", "close", "half", "cancel", "tighten")
    ),
    st.sampled_from((0.1, 0.5, 0.99, 1.0, 3.0, 20.0, 500.0)),
    st.sampled_from((0.005, 0.02, 0.1)),
)
OPTIONS = st.fixed_dictionaries(
    {
        "hedging": st.booleans(),
        "exclusive_orders": st.booleans(),
        "trade_on_close": st.booleans(),
        "finalize_trades": st.booleans(),
        "margin": st.sampled_from((1.0, 0.1)),
        "spread": st.sampled_from((0.0, 0.001)),
        "commission": st.sampled_from((0.0, 0.002)),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTS, min_size=5, max_size=50), OPTIONS)
def test_any_strategy_runs_the_same_and_its_orders_add_up(acts: list[Act], options: dict[str, Any]) -> None:
    sink, count = Memory(), len(acts) + 6
    plain = ran(scripted(acts), None, count, **options)
    recorded, refusals = said(scripted(acts), sink, count, **options)
    assert same(plain, recorded)
    assert len(sink.of("OrderRejection")) == len(refusals)
    obey(sink)
    assert all(a.time <= b.time for a, b in pairwise(sink.of("MarketDataEvent")))
    still = Counter(
        order.placed.properties["OrderType"] for order in sink.replayed().values() if order.is_open
    )
    assert still == Counter(map(kind_of, plain._strategy.orders))


# --- the real recorder --------------------------------------------------------------------------


def test_a_recorded_file_holds_every_event_as_it_was_told(tmp_path: Path, crossed: Memory) -> None:
    with Recorder(tmp_path, "cross", engine=backtesting_py.version()) as recorder:
        ran(Cross, recorder, commission=0.002, finalize_trades=True)
    with Reader(recorder.path) as reader:
        held = reader.events(recorder.run_id)
        seal = reader.seal(recorder.run_id)
    assert seal is not None
    assert seal.status == "ended"
    assert [(e.kind, e.time_ns, e.parent) for e in held] == [
        (e.type, e.time, e.parent) for e in crossed.events
    ]
    assert [e.body for e in held] == [json.dumps(e.properties) for e in crossed.events]


def test_a_strategy_that_fails_leaves_a_crashed_run_with_all_that_came_before(tmp_path: Path) -> None:
    class Failing(Cross):
        def next(self) -> None:
            super().next()
            if self.calls == 60:
                raise ZeroDivisionError("the strategy's own fault")

    with pytest.raises(ZeroDivisionError), Recorder(tmp_path, "failing") as recorder:
        ran(Failing, recorder)
    with Reader(recorder.path) as reader:
        seal = reader.seal(recorder.run_id)
        bars = sum(event.kind == "MarketDataEvent" for event in reader.events(recorder.run_id))
    assert seal is not None
    assert seal.status == "crashed"
    assert bars == 30 + 60
