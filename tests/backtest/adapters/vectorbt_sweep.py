"""Records vectorbt portfolios of several accounts and prints what the runs hold; takes a folder."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from tests.backtest.adapters.prices import frame
from tests.backtest.adapters.sinks import Memory
from tracedesk.backtest import Recorder
from tracedesk.backtest.adapters import vectorbt
from tracedesk.backtest.adapters.tape import Tape
from tracedesk.catalog import Catalog
from tracedesk.home import Home
from tracedesk.journal import Reader

COUNT = 400
WINDOWS = ([5, 10, 15], [20, 30, 40])
CASH = 10_000.0


def sweep(engine: Any) -> Any:
    """Three pairs of windows over one stock: three columns, each with a cash of its own."""
    close = frame("AAPL", COUNT).Close
    fast, slow = (
        engine.MA.run(close, windows, short_name=name) for name, windows in zip("fs", WINDOWS, strict=True)
    )
    entries, exits = fast.ma_crossed_above(slow), fast.ma_crossed_below(slow)
    return engine.Portfolio.from_signals(
        close, entries, exits, init_cash=CASH, fees=0.001, log=True, freq="1D"
    )


def shared(engine: Any) -> Any:
    """Four stocks in two groups that share their cash."""
    pandas: Any = importlib.import_module("pandas")
    close = pandas.DataFrame(
        {symbol: frame(symbol, COUNT).Close for symbol in ("AAPL", "IBM", "MSFT", "GOOG")}
    )
    size = pandas.DataFrame(0.0, index=close.index, columns=close.columns)
    size.iloc[10], size.iloc[200] = 5.0, -5.0
    return engine.Portfolio.from_orders(
        close, size, group_by=[0, 0, 1, 1], cash_sharing=True, init_cash=CASH, fees=0.001, log=True, freq="1D"
    )


def figures(made: Any, by: bool | None) -> list[list[float]]:
    """Value, cash and fees of each account, as the engine has them."""
    fees = made.orders.records.groupby("col").fees.sum()
    return [
        made.value(group_by=by).iloc[-1].tolist(),
        made.cash(group_by=by).iloc[-1].tolist(),
        [float(fees.get(column, 0.0)) for column in range(len(made.wrapper.columns))],
    ]


def runs(home: Path) -> list[dict[str, Any]]:
    """What each run of the home holds, the oldest first."""
    with Catalog(Home.open(home)) as catalog:
        found = catalog.list()
    return [described(Home.open(home), run) for run in reversed(found)]


def described(home: Home, run: Any) -> dict[str, Any]:
    with Reader(home.run_file(run.id)) as reader:
        events = [(event.kind, json.loads(event.body)) for event in reader.events(run.id)]
    pnl = [
        body["StateAfter"] for kind, body in events if kind == "StateChange" and body["StateType"] == "PnL"
    ]
    fills = [body for kind, body in events if kind == "TradeExecution"]
    return {
        "name": run.meta["name"],
        "status": run.status,
        "parent": run.meta.get("parentRun"),
        "id": run.id,
        "config": run.meta["config"],
        "head": events[0][1].get("StateAfter"),
        "symbols": sorted({body["SecuritySymbol"] for kind, body in events if kind == "MarketDataEvent"}),
        "first": pnl[0],
        "last": pnl[-1],
        "fees": sum(float(fill["Commission"]) for fill in fills),
        "faults": [body["Message"] for kind, body in events if kind == "RiskEvent"],
    }


def recorded(home: Path, name: str, made: Any) -> list[dict[str, Any]]:
    with Recorder(home, name, engine=vectorbt.version(), config={"cash": CASH}) as recorder:
        vectorbt.record(made, recorder)
    return runs(home)


def broken(home: Path, made: Any) -> list[dict[str, Any]]:
    """The same with a fault in the second account alone."""
    own, calls = Tape.executed, [0]
    many = len(made.orders.records[made.orders.records["col"] == 0])

    def executed(self: Tape, *given: Any) -> int:
        calls[0] += 1
        if calls[0] == many + 2:
            raise RuntimeError("no execution")
        return own(self, *given)

    setattr(Tape, "executed", executed)  # noqa: B010
    try:
        return recorded(home, "broken", made)
    finally:
        setattr(Tape, "executed", own)  # noqa: B010


def refused(made: Any) -> str:
    try:
        vectorbt.record(made, Memory())
    except ValueError as problem:
        return str(problem)
    return ""


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    engine: Any = importlib.import_module("vectorbt")
    columns, groups = sweep(engine), shared(engine)
    answer = {
        "columns": {
            "engine": figures(columns, False),
            "runs": recorded(folder / "columns", "sweep", columns),
        },
        "groups": {"engine": figures(groups, None), "runs": recorded(folder / "groups", "pairs", groups)},
        "broken": broken(folder / "broken", columns),
        "refused": refused(columns),
    }
    json.dump(answer, sys.stdout, default=float)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
