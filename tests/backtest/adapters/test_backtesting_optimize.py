"""An optimisation of backtesting.py runs as it does alone, and its last run is recorded."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import multiprocessing.dummy
import pickle
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backtest.adapters.prices import frame
from tests.backtest.adapters.sinks import Memory, obey
from tracedesk.backtest import Recorder
from tracedesk.backtest.adapters import backtesting_py
from tracedesk.backtest.adapters.tape import Sink
from tracedesk.catalog import Catalog
from tracedesk.home import Home
from tracedesk.journal import Reader

engine: Any = importlib.import_module("backtesting")
pandas: Any = importlib.import_module("pandas")

COUNT = 200
GRID: dict[str, Any] = {"fast": [3, 5, 8], "slow": [13, 21]}


def mean(values: Any, n: int) -> Any:
    return pandas.Series(values).rolling(n).mean().to_numpy()


class Cross(engine.Strategy):
    """Crossing averages; a class of this module, as a process pool needs it."""

    fast = 5
    slow = 13

    def init(self) -> None:
        self.quick = self.I(mean, self.data.Close, self.fast)
        self.calm = self.I(mean, self.data.Close, self.slow)

    def next(self) -> None:
        if self.quick[-1] > self.calm[-1] and not self.position:
            self.buy(size=0.5)
        elif self.quick[-1] < self.calm[-1]:
            self.position.close()


def backtest(strategy: Any = Cross) -> Any:
    return engine.Backtest(frame("GOOG", COUNT), strategy, cash=10_000, finalize_trades=True)


def shown(result: Any) -> Any:
    return result.drop(["_strategy", "_equity_curve", "_trades"])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The engine warns of its own slowness and of trades that stay open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(params=["processes", "threads"])
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine's pool: processes that it pickles the backtest for, or a thread that has a copy of it.

    Two threads would share that copy, and the engine returns what it keeps there: one the other's result.
    """
    pools: dict[str, Any] = {
        "processes": lambda: multiprocessing.get_context("fork").Pool(2),
        "threads": lambda: multiprocessing.dummy.Pool(1),
    }
    monkeypatch.setattr(engine, "Pool", pools[request.param])
    return request.param


def test_an_optimisation_finds_the_same_and_only_its_last_run_is_recorded(pool: str, tmp_path: Path) -> None:
    plain, plain_heat = backtest().optimize(**GRID, maximize="Return [%]", return_heatmap=True)
    with Recorder(tmp_path, "best of six") as recorder:
        tried = backtest()
        backtesting_py.record(tried, recorder, symbol="GOOG")
        found, heat = tried.optimize(**GRID, maximize="Return [%]", return_heatmap=True)
    assert heat.equals(plain_heat)
    assert shown(found).equals(shown(plain))
    with Catalog(Home.open(tmp_path)) as catalog:
        (run,) = catalog.list()
    assert run.status == "ended"
    with Reader(recorder.path) as reader:
        events = reader.events(recorder.run_id)
    kinds = [event.kind for event in events]
    assert kinds.count("MarketDataEvent") == COUNT
    assert kinds.count("TradeExecution") == 2 * found["# Trades"]
    assert kinds.count("RiskEvent") == 0
    best = heat.idxmax()
    assert events[0].kind == "StateChange"
    assert f'"StateAfter":{{"fast":{best[0]},"slow":{best[1]}}}'.encode() in events[0].body


def test_an_optimiser_that_runs_in_this_process_is_recorded_by_its_last_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine's other method calls `run` for each trial; a stand-in for its package tries three."""

    def minimize(fun: Any, **_: Any) -> Any:
        trials = [(3, 13), (8, 21), (5, 13)]
        scores = [fun(trial) for trial in trials]
        return types.SimpleNamespace(x=trials[scores.index(min(scores))])

    monkeypatch.setitem(sys.modules, "sambo", types.SimpleNamespace(minimize=minimize))
    options = {**GRID, "method": "sambo", "maximize": "Return [%]"}
    plain = backtest().optimize(**options)
    sink, tried = Memory(), backtest()
    backtesting_py.record(tried, sink, symbol="GOOG")
    found = tried.optimize(**options)
    assert shown(found).equals(shown(plain))
    obey(sink)
    assert len(sink.of("MarketDataEvent")) == COUNT
    chosen = sink.events[0].properties["StateAfter"]
    assert (chosen["fast"], chosen["slow"]) == (found._strategy.fast, found._strategy.slow)


def nothing(_: Any) -> bool:
    """A constraint that no parameters meet."""
    return False


def test_an_optimisation_that_fails_passes_its_error_and_leaves_a_plain_backtest() -> None:
    sink, tried = Memory(), backtest()
    backtesting_py.record(tried, sink, symbol="GOOG")
    with pytest.raises(ValueError, match="No admissible"):
        tried.optimize(**GRID, constraint=nothing)
    assert type(tried) is engine.Backtest
    assert sink.events == []


# --- copies, pickles, threads -------------------------------------------------------------------


def test_a_recorded_result_pickles_and_copies_like_a_plain_one() -> None:
    tried = backtest()
    backtesting_py.record(tried, Memory(), symbol="GOOG")
    result = tried.run()
    strategy = result._strategy
    for twin in (strategy, pickle.loads(pickle.dumps(result))._strategy, copy.deepcopy(strategy)):
        assert type(twin) is Cross
        assert "I" not in vars(twin)
        assert type(twin._broker) is type(backtest().run()._strategy._broker)
        assert type(twin._broker.orders) is list


def test_a_strategy_may_copy_and_pickle_itself_while_it_is_recorded(tmp_path: Path) -> None:
    class Copying(Cross):
        def next(self) -> None:
            super().next()
            if len(self.data) == 100:
                twins = (copy.deepcopy(self), copy.copy(self))
                assert type(twins[0]._broker) is not type(self._broker)
                assert type(twins[0]._broker.orders) is list
                pickle.dumps(self._broker)

    plain = backtest().run()
    with Recorder(tmp_path, "x") as recorder:
        tried = backtest(Copying)
        backtesting_py.record(tried, recorder, symbol="GOOG")
        assert tried.run()["Equity Final [$]"] == plain["Equity Final [$]"]
    with Reader(recorder.path) as reader:
        assert {event.kind for event in reader.events(recorder.run_id)} >= {"TradeExecution"}


def test_a_backtest_that_waits_to_be_recorded_copies_and_pickles_as_a_plain_one(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as recorder:
        tried = backtest()
        backtesting_py.record(tried, recorder, symbol="GOOG")
        for twin in (pickle.loads(pickle.dumps(tried)), copy.deepcopy(tried), copy.copy(tried)):
            assert type(twin) is engine.Backtest
            twin.run()
    with Reader(recorder.path) as reader:
        assert list(reader.events(recorder.run_id)) == []


def test_parameters_and_indicators_may_have_the_names_that_the_adapter_uses_inside() -> None:
    def scaled(values: Any, own: float, strategy: float = 1.0) -> Any:
        return values * own * strategy

    class Named(Cross):
        own = 1
        backtest = 2

        def init(self) -> None:
            super().init()
            self.I(func=scaled, values=self.data.Close, own=2.0)
            self.I(scaled, self.data.Close, own=3.0, strategy=4.0, name="both")

    sink, tried = Memory(), backtest(Named)
    backtesting_py.record(tried, sink, symbol="GOOG")
    found = tried.run(own=3, backtest=4)
    assert shown(found).equals(shown(backtest(Named).run(own=3, backtest=4)))
    indicators = [event.properties for event in sink.of("IndicatorCalculation")]
    seen = {each["IndicatorName"]: each["Parameters"] for each in indicators}
    assert [seen[name] for name in sorted(seen) if "own" in seen[name]] == [
        {"own": 3.0, "strategy": 4.0},
        {"own": 2.0},
    ]


def test_the_last_recorder_of_a_backtest_records_it() -> None:
    first, last, tried = Memory(), Memory(), backtest()
    backtesting_py.record(tried, first, symbol="GOOG")
    backtesting_py.record(tried, last, symbol="GOOG")
    tried.run()
    assert first.events == []
    obey(last)
    assert len(last.of("MarketDataEvent")) == COUNT


def test_runs_in_threads_with_recorders_of_their_own_do_not_mix() -> None:
    sinks = [Memory() for _ in range(4)]

    def one(sink: Sink, fast: int) -> None:
        tried = backtest()
        backtesting_py.record(tried, sink, symbol="GOOG")
        tried.run(fast=fast)

    threads = [threading.Thread(target=one, args=(sink, 3 + at)) for at, sink in enumerate(sinks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for at, sink in enumerate(sinks):
        alone = Memory()
        one(alone, 3 + at)
        assert sink.events == alone.events
