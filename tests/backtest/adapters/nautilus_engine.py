"""Runs NautilusTrader in its own environment and prints what came of it: `nautilus_engine.py FOLDER`."""

from __future__ import annotations

import importlib
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.backtest.adapters.sinks import Memory, obey
from tracedesk.backtest import Recorder
from tracedesk.backtest.adapters import nautilus
from tracedesk.backtest.adapters.tape import Sink
from tracedesk.journal import Reader
from tracedesk.market.dataset import EMBEDDED
from tracedesk.primitives.time import DAY, HOUR

COUNT = 600
FIRST = 2_600
OVERSIZE = (100, 200, 300)
UNPAID = 50


def part(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"nautilus_trader.{module}"), name)


Side: Any = part("model.enums", "OrderSide")
Quantity: Any = part("model.objects", "Quantity")
Price: Any = part("model.objects", "Price")
Strategy: Any = part("trading.strategy", "Strategy")
EQUITY: Any = part("test_kit.providers", "TestInstrumentProvider").equity("AAPL", "XNAS")
BARS: Any = part("model.data", "BarType").from_str("AAPL.XNAS-1-DAY-LAST-EXTERNAL")


class Cross(Strategy):
    """Crossing averages, a bracket now and then, and orders that no account could pay for."""

    def __init__(self) -> None:
        Strategy.__init__(self)
        self.fast = part("indicators.averages", "SimpleMovingAverage")(10)
        self.slow = part("indicators.averages", "SimpleMovingAverage")(30)
        self.bands = part("indicators.volatility", "BollingerBands")(20, 2.5)
        self.calls = 0

    def on_start(self) -> None:
        for indicator in (self.fast, self.slow, self.bands):
            self.register_indicator_for_bars(BARS, indicator)
        self.subscribe_bars(BARS)

    def on_bar(self, bar: Any) -> None:
        self.calls += 1
        make = self.order_factory
        if self.calls in OVERSIZE:
            huge = Quantity.from_int(1_000_000)
            self.submit_order(make.limit(EQUITY.id, Side.BUY, huge, bar.close, tags=["too much"]))
        if not self.indicators_initialized():
            return
        flat = self.portfolio.is_flat(EQUITY.id)
        if self.fast.value > self.slow.value and flat:
            close = float(bar.close)
            self.submit_order_list(
                make.bracket(
                    EQUITY.id,
                    Side.BUY,
                    Quantity.from_int(100),
                    sl_trigger_price=Price.from_str(f"{close * 0.95:.2f}"),
                    tp_price=Price.from_str(f"{close * 1.1:.2f}"),
                )
            )
        elif self.fast.value < self.slow.value and not flat:
            self.cancel_all_orders(EQUITY.id)
            self.close_all_positions(EQUITY.id)


class Reckless(Strategy):
    """One order that the account cannot pay for, with nobody to check it."""

    def on_start(self) -> None:
        self.subscribe_bars(BARS)
        self.calls = 0

    def on_bar(self, bar: Any) -> None:
        self.calls += 1
        if self.calls == UNPAID:
            self.submit_order(self.order_factory.market(EQUITY.id, Side.BUY, Quantity.from_int(1_000_000)))


def bars() -> list[Any]:
    make = part("model.data", "Bar")
    found: list[Any] = []
    for index in range(FIRST, FIRST + COUNT):
        bar = EMBEDDED["AAPL"][index]
        prices = [Price.from_str(f"{value:.2f}") for value in (bar.open, bar.high, bar.low, bar.close)]
        time = (bar.session.toordinal() - 719_163) * DAY + 21 * HOUR
        found.append(make(BARS, *prices, Quantity.from_int(bar.volume), time, time))
    return found


def engine(strategy: Any, *, check: bool = True, oms: Any = None) -> Any:
    logging = part("config", "LoggingConfig")(bypass_logging=True)
    risk = part("config", "RiskEngineConfig")(bypass=not check)
    config = part("backtest.engine", "BacktestEngineConfig")(logging=logging, risk_engine=risk)
    made = part("backtest.engine", "BacktestEngine")(config)
    usd = part("model.currencies", "USD")
    made.add_venue(
        part("model.identifiers", "Venue")("XNAS"),
        oms or part("model.enums", "OmsType").NETTING,
        part("model.enums", "AccountType").CASH,
        [part("model.objects", "Money")(100_000, usd)],
        base_currency=usd,
    )
    made.add_instrument(EQUITY)
    made.add_data(bars())
    made.add_strategy(strategy)
    return made


def outcome(made: Any) -> dict[str, Any]:
    """All that the engine reports of its run; ids of events are new in each run."""
    result = made.get_result()
    fills = made.trader.generate_fills_report().drop(columns=["event_id", "init_id"], errors="ignore")
    return {
        "pnl": result.stats_pnls,
        "iterations": result.iterations,
        "orders": result.total_orders,
        "fills": fills.to_csv(),
        "account": made.trader.generate_account_report(part("model.identifiers", "Venue")("XNAS")).to_csv(),
    }


def crossed(sink: Sink | None) -> dict[str, Any]:
    made = engine(Cross())
    if sink is None:
        made.run()
    else:
        with nautilus.record(made, sink):
            made.run()
    found = outcome(made)
    made.dispose()
    return found


def stopped(folder: Path) -> dict[str, Any]:
    """A run that the engine gives up half-way, recorded to a file."""
    made = engine(Reckless(), check=False)
    said = ""
    recorder = Recorder(folder, "reckless", engine=nautilus.version())
    try:
        with recorder, nautilus.record(made, recorder):
            made.run()
    except nautilus.EngineStopped as problem:
        said = str(problem)
    with Reader(recorder.path) as reader:
        seal = reader.seal(recorder.run_id)
        events = reader.events(recorder.run_id)
    counted = sum(event.kind == "MarketDataEvent" for event in events)
    return {"said": said, "status": seal.status if seal else None, "bars": counted}


def main(folder: Path) -> None:
    plain, sink = crossed(None), Memory()
    recorded = crossed(sink)
    obey(sink)
    events = [(e.seq, e.type, e.time, e.properties, e.parent) for e in sink.events]
    answer = {"plain": plain, "recorded": recorded, "events": events, "stopped": stopped(folder)}
    json.dump(answer, sys.stdout, default=_exact)


def _exact(value: Any) -> dict[str, str]:
    """Decimals keep their digits in a form that no reader takes for a float."""
    assert isinstance(value, Decimal), value
    return {"exact": str(value)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
