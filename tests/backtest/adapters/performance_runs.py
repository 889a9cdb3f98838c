"""Runs an engine many times, recorded, and prints its figures: `performance_runs ENGINE FOLDER COUNT SEED`.

Each line of the answer has the id of a recorded run, the engine's own daily returns, and its own count of
closed trades and of those that won. Strategies trade at random: they add to positions, close parts of them
and turn them, in one engine after the other, because that is where definitions of a trade differ.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.backtest.adapters.prices import frame
from tracedesk.backtest import Recorder

SYMBOLS = ("AAPL", "GOOG", "IBM", "MSFT")
FAST, SLOW = (5, 10, 15, 20), (30, 40, 50, 60, 80, 100)


class Ran(NamedTuple):
    """What an engine reports of a run."""

    run: str
    returns: list[float]
    closed: int
    won: int


def load(name: str) -> Any:
    return importlib.import_module(name)


def recorder(folder: Path, engine: str, number: int) -> Recorder:
    return Recorder(folder, f"{engine} {number}", engine=engine)


def changes(equity: Any) -> list[float]:
    """Daily returns of an equity by date."""
    return [float(value) for value in equity.pct_change().dropna()]


def unchanged(close: Any) -> Any:
    return close


# --- backtesting.py -----------------------------------------------------------------------------


def backtesting_sma(folder: Path, count: int, seed: int) -> Iterator[Ran]:
    """Crossing averages on the engine's own data, over a grid of periods."""
    engine, data = load("backtesting"), load("backtesting.test").GOOG
    average, cross = load("backtesting.test").SMA, load("backtesting.lib").crossover
    for number in range(count):
        fast, slow = FAST[number // len(SLOW)], SLOW[number % len(SLOW)]

        class Cross(engine.Strategy):
            def init(self, fast: int = fast, slow: int = slow) -> None:
                self.fast = self.I(average, self.data.Close, fast)
                self.slow = self.I(average, self.data.Close, slow)

            def next(self) -> None:
                if cross(self.fast, self.slow):
                    self.buy()
                elif cross(self.slow, self.fast):
                    self.sell()

        made = engine.Backtest(data, Cross, cash=10_000, commission=0.002, exclusive_orders=True)
        yield _backtested(folder, f"sma {fast} {slow}", number, made)


def backtesting(folder: Path, count: int, seed: int) -> Iterator[Ran]:
    engine = load("backtesting")
    for number in range(count):
        dice = random.Random(f"{seed} {number}")

        class Trader(engine.Strategy):
            def init(self) -> None:
                self.lines = self.I(unchanged, self.data.Close)

            def next(self, dice: random.Random = dice) -> None:
                throw, price = dice.random(), self.data.Close[-1]
                if throw < 0.05:
                    self.buy(size=dice.randrange(1, 20), sl=price * 0.9 if dice.random() < 0.5 else None)
                elif throw < 0.1:
                    self.sell(size=dice.randrange(1, 20), tp=price * 0.9 if dice.random() < 0.5 else None)
                elif throw < 0.14:
                    self.position.close(dice.choice((0.3, 0.5, 1.0)))

        options = {"cash": 50_000, "commission": dice.choice((0.0, 0.001, 0.01)), "hedging": number % 3 == 0}
        data = frame(SYMBOLS[number % len(SYMBOLS)], dice.randrange(200, 700))
        yield _backtested(folder, "random", number, engine.Backtest(data, Trader, **options))


def _backtested(folder: Path, name: str, number: int, made: Any) -> Ran:
    adapter = load("tracedesk.backtest.adapters.backtesting_py")
    with recorder(folder, f"backtesting.py {name}", number) as sink:
        adapter.record(made, sink, symbol="A")
        stats = made.run()
    closed = int(stats["# Trades"])
    won = round(stats["Win Rate [%]"] * closed / 100) if closed else 0
    return Ran(sink.run_id, changes(stats._equity_curve.Equity), closed, won)


# --- backtrader ---------------------------------------------------------------------------------


def backtrader(folder: Path, count: int, seed: int) -> Iterator[Ran]:
    engine = load("backtrader")
    for number in range(count):
        dice = random.Random(f"{seed} {number}")

        class Trader(engine.Strategy):
            def next(self, dice: random.Random = dice) -> None:
                data, throw = dice.choice(self.datas), dice.random()
                if throw < 0.08:
                    self.buy(data, size=dice.randrange(1, 20))
                elif throw < 0.16:
                    self.sell(data, size=dice.randrange(1, 20))
                elif throw < 0.22:
                    self.close(data)

        cerebro = engine.Cerebro(stdstats=False)
        for symbol in dice.sample(SYMBOLS, 1 + number % 2):
            cerebro.adddata(engine.feeds.PandasData(dataname=frame(symbol, 500)), name=symbol)
        cerebro.addstrategy(Trader)
        cerebro.broker.setcash(50_000)
        cerebro.broker.setcommission(commission=dice.choice((0.0005, 0.005)))
        cerebro.addanalyzer(engine.analyzers.TradeAnalyzer, _name="trades")
        cerebro.addanalyzer(engine.analyzers.TimeReturn, timeframe=engine.TimeFrame.Days, _name="days")
        yield _cerebro_ran(folder, number, cerebro)


def _cerebro_ran(folder: Path, number: int, cerebro: Any) -> Ran:
    adapter = load("tracedesk.backtest.adapters.backtrader")
    with recorder(folder, "backtrader", number) as sink:
        adapter.record(cerebro, sink)
        (strategy,) = cerebro.run()
    trades = strategy.analyzers.trades.get_analysis()
    _, *returns = strategy.analyzers.days.get_analysis().values()  # the first is that of the starting cash
    return Ran(sink.run_id, returns, trades["total"].get("closed", 0), trades["won"]["total"])


# --- vectorbt -----------------------------------------------------------------------------------


def vectorbt(folder: Path, count: int, seed: int) -> Iterator[Ran]:
    engine, adapter = load("vectorbt"), load("tracedesk.backtest.adapters.vectorbt")
    for number in range(count):
        dice = random.Random(f"{seed} {number}")
        close = frame(SYMBOLS[number % len(SYMBOLS)], dice.randrange(200, 700)).Close.rename("A")
        units = [dice.randrange(-15, 16) if dice.random() < 0.2 else 0 for _ in close]
        sizes = close * 0.0 + units
        options = {"fees": dice.choice((0.0, 0.001, 0.01)), "init_cash": 50_000, "log": True, "freq": "1D"}
        made = engine.Portfolio.from_orders(close, sizes, **options)
        with recorder(folder, "vectorbt", number) as sink:
            adapter.record(made, sink)
        closed = made.trades.closed
        total = int(closed.count())
        won = round(float(closed.win_rate()) * total) if total else 0
        yield Ran(sink.run_id, changes(made.value()), total, won)


# --- NautilusTrader -----------------------------------------------------------------------------


def nautilus(folder: Path, count: int, seed: int) -> Iterator[Ran]:
    runs = load("tests.backtest.adapters.performance_nautilus")
    for number in range(count):
        with recorder(folder, "nautilus_trader", number) as sink:
            returns, closed, won = runs.ran(random.Random(f"{seed} {number}"), sink, turns=number % 2 == 1)
        yield Ran(sink.run_id, returns, closed, won)


ENGINES: dict[str, Callable[[Path, int, int], Iterator[Ran]]] = {
    "backtesting_sma": backtesting_sma,
    "backtesting": backtesting,
    "backtrader": backtrader,
    "vectorbt": vectorbt,
    "nautilus": nautilus,
}


def main(engine: str, folder: str, count: str, seed: str) -> None:
    warnings.simplefilter("ignore")
    for ran in ENGINES[engine](Path(folder), int(count), int(seed)):
        print(json.dumps(ran, default=float))


if __name__ == "__main__":
    main(*sys.argv[1:])
