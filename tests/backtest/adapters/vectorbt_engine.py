"""Runs vectorbt in its own environment and prints what came of it."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from typing import Any

from tests.backtest.adapters.prices import frame
from tests.backtest.adapters.sinks import Memory, obey
from tracedesk.backtest.adapters import vectorbt

SYMBOLS = ("AAPL", "MSFT")
COUNT = 600
HUGE = 1e6


def portfolio(engine: Any, *, log: bool) -> tuple[Any, dict[str, Any]]:
    """Crossing averages in two columns with one cash, which cannot pay for a hundred bars' sizes."""
    pandas: Any = importlib.import_module("pandas")
    close = pandas.DataFrame({symbol: frame(symbol, COUNT).Close for symbol in SYMBOLS})
    fast, slow = engine.MA.run(close, 10), engine.MA.run(close, 30)
    entries, exits = fast.ma_crossed_above(slow), fast.ma_crossed_below(slow)
    entries.columns = exits.columns = close.columns
    size = pandas.DataFrame(10.0, index=close.index, columns=close.columns)
    size.iloc[200:300] = HUGE
    options = {
        "size": size,
        "log": log,
        "allow_partial": False,
        "init_cash": 50_000,
        "fees": 0.001,
        "freq": "1D",
        "group_by": True,
        "cash_sharing": True,
    }
    made = engine.Portfolio.from_signals(close, entries, exits, **options)
    return made, {"MA fast": fast, "MA slow": slow}


def outcome(made: Any) -> dict[str, Any]:
    return {
        "values": made.value().to_numpy().reshape(-1, 1).tolist(),
        "orders": made.orders.records.to_dict("records"),
        "trades": made.trades.records.to_dict("records"),
        "rejected": int((made.logs.records.res_status == 2).sum()),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    engine: Any = importlib.import_module("vectorbt")
    made, indicators = portfolio(engine, log=True)
    plain, sink = outcome(made), Memory()
    vectorbt.record(made, sink, indicators=indicators)
    obey(sink)
    unlogged, _ = portfolio(engine, log=False)
    said = ""
    try:
        vectorbt.record(unlogged, Memory())
    except ValueError as problem:
        said = str(problem)
    events = [(e.seq, e.type, e.time, e.properties, e.parent) for e in sink.events]
    answer = {"plain": plain, "recorded": outcome(made), "events": events, "unlogged": said}
    json.dump(answer, sys.stdout, default=float)


if __name__ == "__main__":
    main()
