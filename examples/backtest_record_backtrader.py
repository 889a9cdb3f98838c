"""Records a run of backtrader with two added lines, then asks the desk which orders vanished, and why.

Run it with `python examples/backtest_record_backtrader.py` once `make dev` has been done.
"""

# The engine and pandas have no complete types.
# pyright: basic, reportCallIssue=false

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import backtrader as bt
import pandas as pd
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tracedesk.backtest import Recorder
from tracedesk.backtest.adapters import backtrader
from tracedesk.market.dataset import EMBEDDED


class SmaCross(bt.Strategy):
    """Crossing averages on two stocks, each of which wants three fifths of the money."""

    def __init__(self) -> None:
        self.crosses = {
            data: bt.ind.CrossOver(bt.ind.SMA(data, period=10), bt.ind.SMA(data, period=30))
            for data in self.datas
        }

    def next(self) -> None:
        for data, cross in self.crosses.items():
            held = self.getposition(data).size
            if cross[0] > 0 and not held:
                self.buy(data=data, size=int(self.broker.getvalue() * 0.6 / data.close[0]))
            elif cross[0] < 0 and held:
                self.close(data)


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
    cerebro = bt.Cerebro()
    cerebro.broker.set_cash(10_000)
    cerebro.addstrategy(SmaCross)
    for symbol in ("IBM", "MSFT"):
        cerebro.adddata(bt.feeds.PandasData(dataname=prices(symbol)), name=symbol)
    with Recorder(home, "sma cross", engine=backtrader.version()) as recorder:
        backtrader.record(cerebro, recorder)
        cerebro.run()
    print("value:", round(cerebro.broker.getvalue(), 2))
    asyncio.run(rejections(home, recorder.run_id))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
