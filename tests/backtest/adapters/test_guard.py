"""A fault of the recording is an event of its run; the engine and the code that runs it never meet it."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backtest.adapters.prices import frame
from tests.backtest.adapters.sinks import Memory
from tracedesk.backtest import Recorder, RecordingError
from tracedesk.backtest.adapters import backtesting_py, backtrader, nautilus, vectorbt
from tracedesk.backtest.adapters.guard import Guard, guarded
from tracedesk.backtest.adapters.tape import Sink, Tape
from tracedesk.catalog import Catalog, Run
from tracedesk.home import Home
from tracedesk.journal import Journal, Reader

trader: Any = importlib.import_module("backtrader")
testing: Any = importlib.import_module("backtesting")

COUNT = 80
TAPE = ("bar", "indicator", "placed", "executed", "rejected", "cancelled", "position", "marked", "account")

Engine = Callable[[Sink | None], Any]


class Trading(trader.Strategy):
    """Orders of every fate: filled, cancelled and refused."""

    def __init__(self) -> None:
        self.mean = trader.ind.SMA(self.data, period=5)

    def next(self) -> None:
        if len(self) == 10:
            self.buy(size=10**9)
        elif len(self) == 20:
            self.cancel(self.sell(size=1, exectype=trader.Order.Limit, price=10**6))
        elif len(self) % 9 == 0:
            self.close() if self.position else self.buy(size=3)


def doubled(values: Any) -> Any:
    return values * 2.0


class Trades(testing.Strategy):
    """The same for the other engine."""

    def init(self) -> None:
        self.mean = self.I(doubled, self.data.Close)
        self.calls = 0

    def next(self) -> None:
        self.calls += 1
        if self.calls == 10:
            self.buy(size=10**6)
        elif self.calls == 20:
            self.sell(size=1, limit=10**6).cancel()
        elif self.calls % 9 == 0:
            self.position.close() if self.position else self.buy(size=3, sl=1, tp=10**6)


def by_backtrader(sink: Sink | None) -> Any:
    cerebro = trader.Cerebro()
    cerebro.adddata(trader.feeds.PandasData(dataname=frame("IBM", COUNT)), name="IBM")
    cerebro.addstrategy(Trading)
    cerebro.addanalyzer(trader.analyzers.Transactions, _name="transactions")
    if sink is not None:
        backtrader.record(cerebro, sink)
    (done,) = cerebro.run()
    assert type(cerebro) is trader.Cerebro
    return cerebro.broker.getvalue(), dict(done.analyzers.transactions.get_analysis()), len(done.analyzers)


def by_backtesting(sink: Sink | None) -> Any:
    backtest = testing.Backtest(frame("IBM", COUNT), Trades, cash=10_000, finalize_trades=True)
    if sink is not None:
        backtesting_py.record(backtest, sink, symbol="IBM")
    result = backtest.run()
    assert type(backtest) is testing.Backtest
    return result["Equity Final [$]"], result._trades.to_csv(), result._equity_curve.to_csv()


ENGINES: dict[str, Engine] = {"backtrader": by_backtrader, "backtesting.py": by_backtesting}
engines = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def faults(sink: Memory) -> list[Any]:
    return [
        event.properties for event in sink.of("RiskEvent") if event.properties["RiskType"] == "RecorderFault"
    ]


def break_second(patch: pytest.MonkeyPatch, name: str, problem: BaseException) -> None:
    """Let a method of the tape fail at its second call."""
    own, calls = getattr(Tape, name), [0]

    def broken(self: Tape, *given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise problem
        return own(self, *given, **named)

    patch.setattr(Tape, name, broken)


def entry(home: Path) -> Run:
    with Catalog(Home.open(home)) as catalog:
        (run,) = catalog.list()
    return run


@engines
def test_a_fault_at_any_place_is_one_last_event_and_the_engine_ends_as_without_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain, failed = engine(None), list[str]()
    for name in TAPE:
        sink = Memory()
        caplog.clear()
        with monkeypatch.context() as patch:
            break_second(patch, name, RuntimeError(f"no {name}"))
            assert engine(sink) == plain, name
        if faults(sink):
            (fault,) = faults(sink)
            assert fault == sink.events[-1].properties
            assert (fault["Message"], fault["Action"]) == (f"RuntimeError: no {name}", "Recording stopped")
            assert "in broken" in fault["Place"]
            assert f"no {name}" in caplog.text
            failed.append(name)
    assert set(failed) >= {"bar", "indicator", "placed", "executed", "position", "marked", "account"}


@engines
def test_a_run_that_was_recorded_in_part_is_sealed_as_crashed_with_the_fault(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_second(monkeypatch, "executed", RuntimeError("no execution"))
    with Recorder(tmp_path, "x") as recorder:
        assert engine(recorder)
    run = entry(tmp_path)
    assert run.status == "crashed"
    assert run.meta["recordingError"] == "Recording stopped: RuntimeError: no execution"


@engines
def test_an_interrupt_inside_the_recording_passes_unchanged(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Memory()
    break_second(monkeypatch, "account", KeyboardInterrupt("the user's"))
    with pytest.raises(KeyboardInterrupt, match="the user's"):
        engine(sink)
    assert faults(sink) == []


def test_an_error_of_a_commission_function_passes_unchanged_and_the_backtest_is_left_plain() -> None:
    def commission(size: float, price: float) -> float:
        raise LookupError("no such tariff")

    backtest = testing.Backtest(frame("IBM", COUNT), Trades, cash=10_000, commission=commission)
    sink = Memory()
    backtesting_py.record(backtest, sink, symbol="IBM")
    with pytest.raises(LookupError, match="no such tariff"):
        backtest.run()
    assert type(backtest) is testing.Backtest
    assert faults(sink) == []


@engines
def test_a_disk_that_fails_ends_the_record_and_not_the_engine(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain = engine(None)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Journal, "_appended", full)
    with Recorder(tmp_path, "x", batch=10, seconds=0.0) as recorder:
        assert engine(recorder) == plain
    assert "no space left" in caplog.text
    assert entry(tmp_path).status == "crashed"


@engines
def test_a_recorder_that_is_closed_does_not_stop_an_engine(engine: Engine, tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as recorder:
        pass
    assert engine(recorder) == engine(None)
    assert entry(tmp_path).events == 0


@engines
def test_a_second_engine_in_one_recorder_is_left_out_with_the_reason(engine: Engine, tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as recorder:
        assert engine(recorder) == engine(recorder) == engine(None)
    with Recorder(tmp_path / "alone", "x") as alone:
        engine(alone)
    with Reader(recorder.path) as reader, Reader(alone.path) as other:
        *first, last = reader.events(recorder.run_id)
        kinds = [(event.kind, event.time_ns) for event in other.events(alone.run_id)]
    assert [(event.kind, event.time_ns) for event in first] == kinds
    assert last.kind == "RiskEvent"
    assert last.time_ns == first[-1].time_ns
    assert b"RunNotRecorded" in last.body
    assert b"a Recorder of its own" in last.body
    assert entry(tmp_path).status == "ended"


@engines
def test_a_process_forked_from_the_recording_one_runs_engines_that_nobody_records(
    engine: Engine, tmp_path: Path
) -> None:
    with Recorder(tmp_path, "x") as recorder:
        child = multiprocessing.get_context("fork").Process(
            target=lambda: sys.exit(0 if engine(recorder) == engine(None) else "another result")
        )
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert engine(recorder) == engine(None)
    with Reader(recorder.path) as reader:
        events = list(reader.events(recorder.run_id))
    assert sum(event.kind == "MarketDataEvent" for event in events) == COUNT
    assert entry(tmp_path).status == "ended"


def test_an_engine_without_the_attributes_that_an_adapter_needs_is_one_event() -> None:
    adapters: list[Callable[[Any, Sink], Any]] = [
        backtrader.record,
        lambda engine, sink: backtesting_py.record(engine, sink, symbol="X"),
        lambda engine, sink: nautilus.record(engine, sink).__exit__(None, None, None),
        vectorbt.record,
    ]
    for record in adapters:
        sink = Memory()
        record(object(), sink)
        (fault,) = faults(sink)
        assert fault["Message"].startswith("AttributeError")
        assert fault["TimeUnknown"] is True


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("nothing to say")


def test_a_fault_that_cannot_be_put_into_words_is_still_an_event() -> None:
    class Owner:
        def __init__(self, sink: Sink) -> None:
            self.guard = Guard(sink)

        @guarded
        def called(self) -> None:
            raise Mute

    sink = Memory()
    owner = Owner(sink)
    owner.called()
    owner.called()
    (fault,) = faults(sink)
    assert "Mute" in fault["Message"]


def test_a_recorder_that_no_engine_uses_still_reports_a_failing_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Journal, "_appended", full)
    with pytest.raises(RecordingError, match="no space left"), Recorder(tmp_path, "x") as recorder:
        recorder.risk(1, "mine")
