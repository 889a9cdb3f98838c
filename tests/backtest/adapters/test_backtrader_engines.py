"""Every shape of a backtrader engine runs as it would run alone, and is recorded as far as it can be."""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.backtest.adapters.prices import frame
from tests.backtest.adapters.sinks import Memory, obey
from tracedesk.backtest import Recorder
from tracedesk.backtest.adapters import backtrader
from tracedesk.journal import Reader

engine: Any = importlib.import_module("backtrader")

COUNT = 120
QUOTES = "\n".join(
    ["date,bid,ask", *(f"2024-01-02 10:00:{second:02},{10 + second},{11 + second}" for second in range(9))]
)


class Buyer(engine.Strategy):
    """Buys and sells by the calendar; the engines of these tests run it so that pickles find its class."""

    params = (("every", 10), ("size", 1))

    def __init__(self) -> None:
        self.mean = engine.ind.SMA(self.data, period=5)

    def next(self) -> None:
        if len(self) % self.p.every == 0:
            self.buy(size=self.p.size)
        elif len(self) % self.p.every == self.p.every // 2 and self.position:
            self.close()


class Seller(Buyer):
    """A second strategy in the same engine."""

    params = (("every", 14), ("size", 2))


def bars(symbol: str = "IBM") -> Any:
    return engine.feeds.PandasData(dataname=frame(symbol, COUNT))


def bought(*strategies: Any) -> Any:
    """An engine with one feed."""
    cerebro = engine.Cerebro()
    cerebro.adddata(bars(), name="IBM")
    for strategy in strategies:
        cerebro.addstrategy(strategy)
    return cerebro


def outcome(cerebro: Any, done: list[Any]) -> list[Any]:
    """What a user sees of a run: values, figures of the strategies, and what they print."""
    seen: list[Any] = [cerebro.broker.getvalue(), cerebro.broker.getcash(), len(cerebro.analyzers)]
    for strategy in done:
        trades = [(trade.pnl, trade.barlen) for each in strategy._trades.values() for trade in each[0]]
        seen += [len(strategy), len(strategy.analyzers), strategy.analyzers.getnames(), trades]
    return seen


def recorded(make: Callable[[], Any], **options: Any) -> Memory:
    """An engine's events, after it ran as it does without them."""
    plain = make()
    expected = outcome(plain, plain.run(**options))
    sink, cerebro = Memory(), make()
    backtrader.record(cerebro, sink)
    assert outcome(cerebro, cerebro.run(**options)) == expected
    obey(sink)
    return sink


def values(sink: Memory, name: str) -> list[Any]:
    found = [event.properties for event in sink.of("IndicatorCalculation")]
    return [each["Value"] for each in found if each["IndicatorName"] == name]


# --- the four shapes that stopped their engine --------------------------------------------------


class Quotes(engine.feeds.GenericCSVData):
    """A feed of bid and ask, with neither open nor close."""

    linesoverride = True
    lines = ("bid", "ask", "datetime")
    params = (("bid", 1), ("ask", 2))


class Watcher(engine.Strategy):
    """Looks at quotes and does nothing."""

    def next(self) -> None:
        assert self.data.bid[0] < self.data.ask[0]


def test_a_feed_without_open_and_close_is_recorded_with_the_lines_that_it_has(tmp_path: Path) -> None:
    quotes = tmp_path / "quotes.csv"
    quotes.write_text(QUOTES, encoding="ascii")

    def make() -> Any:
        cerebro = engine.Cerebro()
        cerebro.adddata(Quotes(dataname=str(quotes)), name="EURUSD")
        cerebro.addstrategy(Watcher)
        return cerebro

    events = recorded(make).of("MarketDataEvent")
    assert [event.properties["Data"] for event in events] == [
        {"Bid": 10 + second, "Ask": 11 + second} for second in range(9)
    ]


class Spread(engine.Strategy):
    """Plots the difference of two lines, which is an operation and no indicator."""

    def __init__(self) -> None:
        self.range = self.data.high - self.data.low
        engine.LinePlotterIndicator(self.range, name="range")


def test_an_operation_on_lines_is_recorded_by_its_name() -> None:
    sink = recorded(lambda: bought(Spread), stdstats=False)
    table = frame("IBM", COUNT)
    assert values(sink, "LinesOperation") == (table.High - table.Low).tolist()
    (parameters,) = {
        str(event.properties["Parameters"])
        for event in sink.of("IndicatorCalculation")
        if event.properties["IndicatorName"] == "LinesOperation"
    }
    assert "sub" in parameters


class Coupled(engine.Strategy):
    """Compares a daily close with a monthly pivot, through a coupler of the two clocks."""

    def __init__(self) -> None:
        self.pivot = engine.ind.PivotPoint(self.data1)
        self.below = self.data0.close < self.pivot.s1()


def test_a_line_coupled_to_a_feed_of_another_timeframe_is_recorded_on_each_bar() -> None:
    def make() -> Any:
        cerebro = engine.Cerebro()
        daily = bars()
        cerebro.adddata(daily)
        cerebro.resampledata(daily, timeframe=engine.TimeFrame.Months)
        cerebro.addstrategy(Coupled)
        return cerebro

    sink = recorded(make, stdstats=False, runonce=False)
    assert values(sink, "SingleCoupler")
    assert values(sink, "LinesOperation")
    symbols = {event.properties["SecuritySymbol"] for event in sink.of("MarketDataEvent")}
    assert len(symbols) == 2


def test_two_strategies_are_one_run_of_the_account_that_they_share() -> None:
    sink = recorded(lambda: bought(Buyer, Seller))
    orders = [event.properties for event in sink.of("OrderPlaced")]
    assert {order["StrategyId"] for order in orders} == {"Buyer", "Seller"}
    assert {order["Quantity"] for order in orders if order["StrategyId"] == "Buyer"} == {1, 3}
    assert len({order["OrderId"] for order in orders}) == len(orders) > 10
    assert len(sink.of("MarketDataEvent")) == COUNT
    names = {
        (e.properties["IndicatorName"], e.properties["StrategyId"]) for e in sink.of("IndicatorCalculation")
    }
    assert names == {("SMA", "Buyer"), ("SMA#2", "Seller")}


# --- others of their kind -----------------------------------------------------------------------


def test_two_feeds_of_one_name_are_two_symbols_with_their_timeframes() -> None:
    def make() -> Any:
        cerebro = engine.Cerebro()
        daily = bars()
        cerebro.adddata(daily, name="IBM")
        cerebro.resampledata(daily, name="IBM", timeframe=engine.TimeFrame.Weeks)
        cerebro.addstrategy(Buyer)
        return cerebro

    events = recorded(make).of("MarketDataEvent")
    frames = {event.properties["SecuritySymbol"]: event.properties["TimeFrame"] for event in events}
    assert frames == {"IBM": "Day", "IBM#2": "Week"}


def test_only_the_next_run_of_an_engine_is_recorded() -> None:
    sink, cerebro = Memory(), bought(Buyer)
    backtrader.record(cerebro, sink)
    cerebro.run()
    count = len(sink.events)
    cerebro.run()
    assert len(sink.events) == count > COUNT
    assert type(cerebro) is engine.Cerebro
    assert cerebro.analyzers == []


def test_the_writer_prints_what_it_prints_without_the_recorder() -> None:
    def written(sink: Memory | None) -> str:
        text, cerebro = io.StringIO(), bought(Buyer)
        cerebro.addanalyzer(engine.analyzers.SQN, _name="sqn")
        cerebro.addwriter(engine.WriterFile, out=text, csv=True)
        if sink is not None:
            backtrader.record(cerebro, sink)
        cerebro.run()
        return text.getvalue()

    assert written(None) == written(Memory())


@pytest.mark.parametrize("cpus", [1, 2])
def test_an_optimisation_runs_as_it_does_alone_and_is_said_to_be_left_out(cpus: int) -> None:
    def best(sink: Memory | None) -> list[list[int]]:
        cerebro = engine.Cerebro(maxcpus=cpus, optreturn=True)
        cerebro.adddata(bars(), name="IBM")
        cerebro.optstrategy(Buyer, every=[8, 10, 12])
        cerebro.addanalyzer(engine.analyzers.TradeAnalyzer, _name="trades")
        if sink is not None:
            backtrader.record(cerebro, sink)
        return [[one.p.every, one.analyzers.trades.get_analysis().total.total] for (one,) in cerebro.run()]

    sink = Memory()
    assert best(sink) == best(None)
    (event,) = sink.events
    assert (event.type, event.properties["RiskType"]) == ("RiskEvent", "RunNotRecorded")
    assert "optimisation" in event.properties["Message"]


def test_an_engine_that_waits_to_be_recorded_copies_and_pickles_as_a_plain_one(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as recorder:
        cerebro = bought(Buyer)
        backtrader.record(cerebro, recorder)
        for twin in (pickle.loads(pickle.dumps(cerebro)), copy.deepcopy(cerebro), copy.copy(cerebro)):
            assert type(twin) is engine.Cerebro
            assert twin.analyzers == []
        cerebro.run()
    with Reader(recorder.path) as reader:
        assert len(reader.events(recorder.run_id)) > COUNT


def test_an_error_of_the_strategy_passes_unchanged_and_the_engine_is_left_plain() -> None:
    class Failing(Buyer):
        def next(self) -> None:
            super().next()
            if len(self) == 60:
                raise ZeroDivisionError("the strategy's own fault")

    sink, cerebro = Memory(), bought(Failing)
    backtrader.record(cerebro, sink)
    with pytest.raises(ZeroDivisionError, match="own fault"):
        cerebro.run()
    assert len(sink.of("MarketDataEvent")) in (59, 60)
    assert cerebro.analyzers == []


def test_an_indicator_that_cannot_be_read_is_left_out_alone() -> None:
    class Broken(engine.Strategy):
        def __init__(self) -> None:
            engine.ind.SMA(self.data, period=5)
            self.odd = engine.ind.EMA(self.data, period=5)

        def start(self) -> None:
            with contextlib.suppress(AttributeError):
                del self.odd.params
            self.odd.params = None

    sink = Memory()
    cerebro = bought(Broken)
    backtrader.record(cerebro, sink)
    cerebro.run()
    (event,) = sink.of("RiskEvent")
    assert event.properties["Action"] == "Indicator left out"
    assert event.properties["IndicatorName"] == "EMA"
    assert len(values(sink, "SMA")) == COUNT - 4
