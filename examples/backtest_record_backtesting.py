"""Records a run of backtesting.py with two added lines, then asks the desk which orders vanished, and why.

Run it with `python examples/backtest_record_backtesting.py` once `make dev` has been done.
"""

# The engine and pandas have no complete types.
# pyright: basic

from __future__ import annotations

import asyncio
import sys
import tempfile
import warnings
from pathlib import Path

import pandas as pd
from backtesting import Backtest, Strategy
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tracedesk.backtest import Recorder
from tracedesk.backtest.adapters import backtesting_py
from tracedesk.market.dataset import EMBEDDED


def sma(values, n: int):
    return pd.Series(values).rolling(n).mean()


class SmaCross(Strategy):
    """Crossing averages; every third time it wants twice the shares that it can pay for."""

    def init(self) -> None:
        self.fast = self.I(sma, self.data.Close, 10)
        self.slow = self.I(sma, self.data.Close, 30)
        self.entries = 0

    def next(self) -> None:
        price = self.data.Close[-1]
        if self.fast[-1] > self.slow[-1] and not self.position:
            self.entries += 1
            affordable = int(self.equity / price * 0.95)
            self.buy(size=affordable * 2 if self.entries % 3 == 0 else affordable, sl=price * 0.9)
        elif self.fast[-1] < self.slow[-1] and self.position:
            self.position.close()


def prices(symbol: str) -> pd.DataFrame:
    names = ("open", "high", "low", "close", "volume")
    bars = [bar for bar in EMBEDDED[symbol] if bar.session.year >= 2006]  # no split from here on
    columns = {name.title(): [float(getattr(bar, name)) for bar in bars] for name in names}
    return pd.DataFrame(columns, index=pd.to_datetime([bar.session for bar in bars]))


async def rejections(home: Path, run_id: str) -> None:
    """Ask the desk, as an agent would."""
    desk = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tracedesk.cli", "--home", str(home), "serve", "--stdio", "--toolsets", "backtest"],
    )
    async with Client(stdio_client(desk)) as client:
        question = {"runId": run_id, "eventType": "OrderRejection"}
        found = (await client.call_tool("get_events_by_type", question)).structured_content or {}
        print("rejected orders:", found["metadata"]["totalCount"])
        event = found["events"][0]
        print(
            event["timestamp"][:10],
            event["properties"]["RejectionReason"],
            "-",
            event["properties"]["Message"],
        )

        chain = {"runId": run_id, "rootEventId": event["parentEventId"]}
        answer = (await client.call_tool("query_event_sequence", chain)).structured_content or {}
        print("its story:", " > ".join(e["eventType"] for e in answer["sequences"][0]["events"]))


def main(home: Path) -> None:
    backtest = Backtest(prices("GOOG"), SmaCross, cash=10_000, commission=0.002, finalize_trades=True)
    with Recorder(home, "sma cross", engine=backtesting_py.version()) as recorder:
        backtesting_py.record(backtest, recorder, symbol="GOOG")
        result = backtest.run()
    print("trades:", result["# Trades"])
    asyncio.run(rejections(home, recorder.run_id))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the engine says there that it cancelled an order, and nowhere else
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
