"""Makes the sample run by running backtrader on the embedded bars, the same each time.

    python scripts/make_sample_run.py [--out FOLDER]

The strategy holds three stocks in equal parts, rebalances them monthly, and means to hedge a portfolio that
falls by selling a fourth short. It keeps almost no cash and its broker wants cash for a short sale, so the
hedge is refused each time. `--credit` runs the same rules with a broker that grants it, and writes nothing.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from tracedesk.backtest import ids
from tracedesk.backtest.adapters import backtrader as adapter
from tracedesk.backtest.model import DEFAULT_CATEGORY, DEFAULT_SEVERITY, TYPES
from tracedesk.market.dataset import EMBEDDED
from tracedesk.primitives import json
from tracedesk.primitives.time import format

OUT: Final = Path(__file__).parents[1] / "src" / "tracedesk" / "backtest" / "data"
FIRST: Final = date(2007, 7, 2)
LAST: Final = date(2009, 3, 31)
CLOSE: Final = time(21)
"""A session's bar is stamped with the exchange's close; the hour is UTC's and the same all year."""
HELD: Final = ("AAPL", "GOOG", "IBM")
HEDGE: Final = "MSFT"
CASH: Final = 100_000
COMMISSION: Final = 0.001
NAME: Final = "Three stocks and a hedge"
RULES: Final = {"fast": 20, "slow": 60, "reserve": 0.04, "drawdown": 0.1, "hedge": 0.6}
LEVEL: Final = 9

engine: Any = importlib.import_module("backtrader")


class Bars(engine.feed.DataBase):
    """A feed of one embedded symbol. No split falls into the span, and dividends are left out."""

    params = (("symbol", ""),)

    def start(self) -> None:
        engine.feed.DataBase.start(self)
        self.rows = iter(EMBEDDED[self.p.symbol].between(FIRST, LAST))

    def _load(self) -> bool:
        bar = next(self.rows, None)
        if bar is None:
            return False
        self.lines.datetime[0] = engine.date2num(datetime.combine(bar.session, CLOSE))
        for name in ("open", "high", "low", "close", "volume"):
            getattr(self.lines, name)[0] = float(getattr(bar, name))
        self.lines.openinterest[0] = 0.0
        return True


class HedgedHoldings(engine.Strategy):
    """Equal parts, rebalanced monthly; a short hedge is wanted while the portfolio is well below its peak."""

    params = tuple(RULES.items())

    def __init__(self) -> None:
        periods = (self.p.fast, self.p.slow)
        self.trends = {
            data._name: [engine.ind.SMA(data, period=period) for period in periods] for data in self.datas
        }
        self.peak = 0.0
        self.month = 0

    def next(self) -> None:
        self.peak = max(self.peak, self.broker.getvalue())
        month = self.data.datetime.date(0).month
        if month != self.month:
            self.month = month
            self.rebalance()
            self.protect()

    def rebalance(self) -> None:
        """Bring each holding back to its part; what is sold pays for what is bought, so sales come first."""
        part = self.broker.getvalue() * (1 - self.p.reserve) / len(HELD)
        changes = {name: self.change(name, part) for name in HELD}
        for name in sorted(HELD, key=changes.__getitem__):
            if changes[name]:
                self.order(name, changes[name], "rebalance")

    def change(self, name: str, part: float) -> int:
        data = self.getdatabyname(name)
        return int(part / data.close[0]) - self.getposition(data).size

    def protect(self) -> None:
        """Want the hedge while the portfolio is well below its peak; end it when the hedge's trend is up."""
        data = self.getdatabyname(HEDGE)
        held = self.getposition(data).size
        fast, slow = self.trends[HEDGE]
        fallen = 1 - self.broker.getvalue() / self.peak > self.p.drawdown
        if fallen and not held:
            self.order(HEDGE, -int(self.broker.getvalue() * self.p.hedge / data.close[0]), "hedge")
        elif held and not fallen and fast[0] > slow[0]:
            self.order(HEDGE, -held, "hedge no longer needed")

    def order(self, name: str, units: int, purpose: str) -> None:
        place = self.buy if units > 0 else self.sell
        place(data=self.getdatabyname(name), size=abs(units), purpose=purpose)


class Lines:
    """A sink that writes the contract's event objects, one a line."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.lines: list[bytes] = []
        self.counts: Counter[str] = Counter()

    def emit(
        self, type: str, time: int, properties: Mapping[str, Any], /, *, parent: int | None = None
    ) -> int:
        seq, kind = len(self.lines) + 1, TYPES[type]
        event = {
            "eventId": ids.event_id(self._run_id, seq),
            "runId": self._run_id,
            "timestamp": format(time),
            "eventType": type,
            "severity": DEFAULT_SEVERITY[kind].name,
            "category": DEFAULT_CATEGORY[kind].name,
            "properties": dict(properties),
            "parentEventId": None if parent is None else ids.event_id(self._run_id, parent),
            "validationErrors": None,
        }
        self.lines.append(json.dumps(event))
        self.counts[type] += 1
        return seq


def manifest() -> dict[str, Any]:
    """What the run is: its id follows from its settings, so the same settings are the same run."""
    config = {
        "strategy": "HedgedHoldings",
        **RULES,
        "held": list(HELD),
        "hedgeSymbol": HEDGE,
        "cash": CASH,
        "commission": COMMISSION,
        "first": FIRST.isoformat(),
        "last": LAST.isoformat(),
        "shortSalesNeedCash": True,
    }
    run_id = str(uuid5(NAMESPACE_OID, json.dumps([NAME, config]).decode()))
    return {"runId": run_id, "name": NAME, "engine": adapter.version(), "config": config}


def run(about: Mapping[str, Any], *, credit: bool = False) -> tuple[Lines, float]:
    """Run the strategy with the adapter on it; returns the events and the account's worth at the end."""
    lines = Lines(about["runId"])
    cerebro = engine.Cerebro()
    cerebro.broker.set_cash(CASH)
    cerebro.broker.setcommission(COMMISSION)
    cerebro.broker.set_shortcash(credit)
    for symbol in (*HELD, HEDGE):
        cerebro.adddata(Bars(symbol=symbol), name=symbol)
    cerebro.addstrategy(HedgedHoldings)
    adapter.record(cerebro, lines)
    cerebro.run()
    return lines, cerebro.broker.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the sample run.")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder to write to")
    parser.add_argument(
        "--credit", action="store_true", help="let the broker grant the hedge; writes nothing"
    )
    chosen = parser.parse_args()
    about = manifest()
    lines, value = run(about, credit=chosen.credit)
    print(f"{CASH} became {value:.2f}; {dict(lines.counts)}")
    if not chosen.credit:
        write(chosen.out, about, lines)


def write(folder: Path, about: Mapping[str, Any], lines: Lines) -> None:
    """Write the events and what they are of. The digest is of the events, for compressors differ."""
    text = b"\n".join(lines.lines) + b"\n"
    packed = gzip.compress(text, LEVEL, mtime=0)
    (folder / "sample.jsonl.gz").write_bytes(packed)
    told = {**about, "events": len(lines.lines), "sha256": hashlib.sha256(text).hexdigest()}
    (folder / "sample.json").write_bytes(json.dumps(told) + b"\n")
    print(f"{len(lines.lines)} events, {len(text)} bytes, {len(packed)} compressed")


if __name__ == "__main__":
    main()
