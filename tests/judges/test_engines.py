"""NautilusTrader and vectorbt are recorded as they ran, and run as they would have run; so is the sample.

The engines have environments of their own, in which `tests.backtest.adapters` holds scripts that run them
with and without the recorder, assert what holds for every recorded run, and print the rest for these tests.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.judges.install import NAUTILUS, VECTORBT, Judge
from tests.judges.support import ROOT
from tracedesk.market.dataset import EMBEDDED

pytestmark = [pytest.mark.judge, pytest.mark.timeout(300)]

SAMPLE: Final = ROOT / "src" / "tracedesk" / "backtest" / "data"
MAKER: Final = ROOT / "scripts" / "make_sample_run.py"

Event = dict[str, Any]


def ran(engine: Judge, script: str, *arguments: str) -> dict[str, Any]:
    """What an engine's script printed."""
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    command = [str(engine.python), "-m", f"tests.backtest.adapters.{script}", *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout, object_hook=_exact)


def _exact(value: dict[str, Any]) -> Any:
    return Decimal(value["exact"]) if set(value) == {"exact"} else value


def events(answer: dict[str, Any]) -> list[Event]:
    names = ("seq", "type", "time", "properties", "parent")
    return [dict(zip(names, row, strict=True)) for row in answer["events"]]


def of(told: list[Event], kind: str) -> list[dict[str, Any]]:
    return [event["properties"] for event in told if event["type"] == kind]


# --- NautilusTrader -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nautilus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ran(NAUTILUS, "nautilus_engine", str(tmp_path_factory.mktemp("home")))


def test_nautilus_reports_the_same_with_and_without_the_recorder(nautilus: dict[str, Any]) -> None:
    assert nautilus["plain"]["orders"] > 50
    assert nautilus["plain"] == nautilus["recorded"]


def test_nautilus_executions_are_recorded_once_each_and_all_have_their_order_as_parent(
    nautilus: dict[str, Any],
) -> None:
    told = events(nautilus)
    fills = [event for event in told if event["type"] == "TradeExecution"]
    assert len(fills) == nautilus["plain"]["fills"].count("\n") - 1 > 20
    assert all(told[int(event["parent"]) - 1]["type"] == "OrderPlaced" for event in fills)
    assert len(of(told, "OrderPlaced")) == nautilus["plain"]["orders"]


def test_nautilus_orders_over_the_balance_are_rejections_with_the_engines_reason(
    nautilus: dict[str, Any],
) -> None:
    rejections = of(events(nautilus), "OrderRejection")
    assert len(rejections) == 3
    for rejection in rejections:
        assert rejection["RejectionReason"] == "NOTIONAL_EXCEEDS_FREE_BALANCE"
        assert "free=" in rejection["Message"]
        assert rejection["Tag"] == "too much"


def test_nautilus_brackets_that_go_with_their_sibling_are_cancelled_and_not_rejected(
    nautilus: dict[str, Any],
) -> None:
    told = events(nautilus)
    brackets = {p["OrderId"] for p in of(told, "OrderPlaced") if "ParentOrderId" in p}
    assert len(brackets) > 10
    assert {p["OrderId"] for p in of(told, "OrderCancelled")} <= brackets
    assert len(of(told, "OrderCancelled")) > 10


def test_nautilus_prices_keep_their_digits(nautilus: dict[str, Any]) -> None:
    bars = of(events(nautilus), "MarketDataEvent")
    first = EMBEDDED["AAPL"][2_600]
    shown = {name: str(bars[0]["Data"][name]) for name in ("Open", "High", "Low", "Close")}
    prices = (first.open, first.high, first.low, first.close)
    assert shown == dict(zip(shown, (f"{price:.2f}" for price in prices), strict=True))
    assert all(isinstance(p["Price"], Decimal) for p in of(events(nautilus), "TradeExecution"))


def test_nautilus_indicators_are_told_with_their_parameters_and_outputs(nautilus: dict[str, Any]) -> None:
    names = Counter(
        (p["IndicatorName"], tuple(sorted(p["Parameters"].items())))
        for p in of(events(nautilus), "IndicatorCalculation")
    )
    bands = {
        (f"BollingerBands.{line}", (("k", 2.5), ("period", 20))) for line in ("lower", "middle", "upper")
    }
    averages = {("SimpleMovingAverage", (("period", n),)) for n in (10, 30)}
    assert set(names) == bands | averages
    assert names["SimpleMovingAverage", (("period", 10),)] == 600 - 9


def test_nautilus_profit_and_cash_are_the_engines(nautilus: dict[str, Any]) -> None:
    last = [p for p in of(events(nautilus), "StateChange") if p["StateType"] == "PnL"][-1]["StateAfter"]
    (figures,) = nautilus["plain"]["pnl"].values()
    assert last["Unrealized"] == 0
    assert float(last["Realized"]) == float(last["Total"]) == figures["PnL (total)"]
    *_, account = csv.DictReader(nautilus["plain"]["account"].splitlines())
    assert last["Cash"] == last["Equity"] == Decimal(account["total"])


def test_a_nautilus_run_that_its_engine_gives_up_is_sealed_as_crashed(nautilus: dict[str, Any]) -> None:
    assert nautilus["stopped"]["status"] == "crashed"
    assert nautilus["stopped"]["bars"] == 50
    assert "could not pay" in nautilus["stopped"]["said"]


# --- vectorbt -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vectorbt() -> dict[str, Any]:
    return ran(VECTORBT, "vectorbt_engine")


def test_vectorbt_is_only_read(vectorbt: dict[str, Any]) -> None:
    assert len(vectorbt["plain"]["orders"]) > 20
    assert vectorbt["plain"] == vectorbt["recorded"]


def test_vectorbt_executions_are_its_orders_and_all_have_their_request_as_parent(
    vectorbt: dict[str, Any],
) -> None:
    told = events(vectorbt)
    fills = [event for event in told if event["type"] == "TradeExecution"]
    assert all(told[int(event["parent"]) - 1]["type"] == "OrderPlaced" for event in fills)
    ours = sorted((p["Price"], p["Quantity"], p["Commission"]) for p in of(told, "TradeExecution"))
    theirs = sorted((o["price"], o["size"], o["fees"]) for o in vectorbt["plain"]["orders"])
    assert ours == theirs


def test_vectorbt_requests_over_the_cash_are_rejections_with_its_reason(vectorbt: dict[str, Any]) -> None:
    rejections = of(events(vectorbt), "OrderRejection")
    assert len(rejections) == vectorbt["plain"]["rejected"] > 2
    for rejection in rejections:
        assert rejection["RejectionReason"] == "PartialFill"
        assert rejection["Message"] == "Final size is less than requested"
        assert rejection["RequestedQuantity"] == 1_000_000


def test_vectorbt_equity_is_the_portfolios_value_on_every_bar(vectorbt: dict[str, Any]) -> None:
    equity: dict[int, float] = {}
    now = 0.0
    for event in events(vectorbt):
        if event["type"] == "StateChange":
            now = event["properties"]["StateAfter"]["Equity"]
        equity[event["time"]] = now
    assert list(equity.values()) == pytest.approx([sum(row) for row in vectorbt["plain"]["values"]])


def test_vectorbt_profits_of_closing_executions_are_those_of_its_trades(vectorbt: dict[str, Any]) -> None:
    ours = sorted(p["RealizedPnL"] for p in of(events(vectorbt), "TradeExecution") if "RealizedPnL" in p)
    closed = [trade for trade in vectorbt["plain"]["trades"] if trade["status"] == 1]
    theirs = sorted(trade["pnl"] + trade["entry_fees"] + trade["exit_fees"] for trade in closed)
    assert ours == pytest.approx(theirs)


def test_a_vectorbt_portfolio_without_a_log_is_refused_with_the_remedy(vectorbt: dict[str, Any]) -> None:
    assert "log=True" in vectorbt["unlogged"]


# --- the sample ---------------------------------------------------------------------------------


def test_the_script_makes_the_committed_sample_byte_for_byte(tmp_path: Path) -> None:
    """Of the packed file its content: compressors differ between machines."""
    command = [sys.executable, str(MAKER), "--out", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    assert (tmp_path / "sample.json").read_bytes() == (SAMPLE / "sample.json").read_bytes()
    made, kept = (gzip.decompress((folder / "sample.jsonl.gz").read_bytes()) for folder in (tmp_path, SAMPLE))
    assert made == kept


def test_the_sample_loses_its_money_because_its_hedge_was_refused() -> None:
    """The same rules with a broker that grants the hedge lose less than a fifth of it."""
    command = [sys.executable, str(MAKER), "--credit"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    granted = 100_000 - float(done.stdout.split("became ")[1].split(";")[0])
    with gzip.open(SAMPLE / "sample.jsonl.gz", "rt", encoding="utf-8") as lines:
        *_, last = (event for event in map(json.loads, lines) if event["eventType"] == "StateChange")
    refused = -last["properties"]["StateAfter"]["Total"]
    assert refused > 20_000
    assert 0 < granted < refused / 5
