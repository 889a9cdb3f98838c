"""Orders and positions of real engines are told with the terms, sides and quantities that they have there."""

from __future__ import annotations

import json
import os
import subprocess
from decimal import Decimal
from typing import Any

import pytest

from tests.judges.install import NAUTILUS, VECTORBT, Judge
from tests.support import ROOT

pytestmark = [pytest.mark.judge, pytest.mark.timeout(300)]


def ran(engine: Judge, script: str, *arguments: str) -> Any:
    """What an engine's script printed."""
    command = [str(engine.python), "-m", f"tests.backtest.adapters.{script}", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_a_nautilus_order_is_told_again_with_each_amendment_and_filled_with_the_last() -> None:
    found = ran(NAUTILUS, "nautilus_amended")
    told, engine = found["told"], found["engine"]
    assert [kind for _, kind, *_ in told] == ["OrderPlaced"] * 3 + ["TradeExecution"]
    placed = [properties for _, kind, properties, _ in told if kind == "OrderPlaced"]
    assert [p["Quantity"] for p in placed] == ["10", "7", "7"]
    assert placed[0]["Price"] == placed[1]["Price"] != placed[2]["Price"] == engine["price"]
    assert (told[-1][2]["Quantity"], engine["status"]) == ("7", "FILLED")
    assert [parent for *_, parent in told[1:]] == [seq for seq, *_ in told[:-1]]


def test_a_rejected_vectorbt_request_has_the_side_that_it_would_have_been_filled_on() -> None:
    found = ran(VECTORBT, "vectorbt_sides")
    assert len(found) == 34
    assert {tuple(case["filled"]) for case in found} == {("Buy",), ("Sell",)}
    assert [case for case in found if case["filled"] != case["rejected"]] == []


def test_nautilus_positions_of_one_instrument_are_told_each_on_its_own() -> None:
    """A venue with hedging: a position's events tell that position, and nothing is told twice."""
    found = ran(NAUTILUS, "nautilus_hedged")
    updates = [properties for _, kind, _, properties, _ in found["told"] if kind == "PositionUpdate"]
    assert sorted(found["held"].values()) == ["0", "40"]
    latest = {update["PositionId"]: update for update in updates}
    assert {id_: update["Quantity"] for id_, update in latest.items()} == found["held"]
    marks = [(update["PositionId"], update["Quantity"]) for update in updates if update["Cause"] == "Mark"]
    assert set(marks) == {(id_, quantity) for id_, quantity in marks if quantity in ("20", "40")}
    assert {id_ for id_, _ in marks} == set(found["held"])
    profits = [p["StateAfter"] for _, kind, _, p, _ in found["told"] if kind == "StateChange"]
    for name, total in (("RealizedPnL", "Realized"), ("UnrealizedPnL", "Unrealized")):
        assert sum(Decimal(update[name]) for update in latest.values()) == Decimal(profits[-1][total])


def test_a_fault_while_nautilus_is_recorded_is_one_last_event_and_its_report_stays_the_same() -> None:
    found = ran(NAUTILUS, "nautilus_faults")
    assert found["own"] == "the strategy's own fault"
    for place, run in found["broken"].items():
        assert run["result"] == found["plain"], place
        assert (run["faults"], run["last"]) == ([f"RuntimeError: no {place}"], "RiskEvent"), place


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ran(VECTORBT, "vectorbt_sweep", str(tmp_path_factory.mktemp("homes")))


def test_each_column_of_a_vectorbt_sweep_is_a_run_with_the_account_that_the_engine_gives_it(
    sweep: dict[str, Any],
) -> None:
    runs, (values, cash, fees) = sweep["columns"]["runs"], sweep["columns"]["engine"]
    assert [run["name"] for run in runs] == ["sweep", "sweep 10/30", "sweep 15/40"]
    assert [run["parent"] for run in runs] == [None, runs[0]["id"], runs[0]["id"]]
    assert [run["first"]["Equity"] for run in runs] == [10_000] * 3
    assert [run["last"]["Equity"] for run in runs] == values
    assert [run["last"]["Cash"] for run in runs] == cash
    assert [run["fees"] for run in runs] == pytest.approx(fees)
    assert [(run["head"]["f_window"], run["head"]["s_window"]) for run in runs] == [
        (5, 20),
        (10, 30),
        (15, 40),
    ]
    assert runs[1]["config"] == {"cash": 10_000, "f_window": 10, "s_window": 30}


def test_the_columns_of_vectorbt_that_share_their_cash_are_one_run(sweep: dict[str, Any]) -> None:
    runs, (values, cash, _) = sweep["groups"]["runs"], sweep["groups"]["engine"]
    assert [run["symbols"] for run in runs] == [["AAPL", "IBM"], ["GOOG", "MSFT"]]
    assert [run["last"]["Equity"] for run in runs] == values
    assert [run["last"]["Cash"] for run in runs] == cash


def test_a_fault_in_one_account_of_vectorbt_leaves_the_others_whole(sweep: dict[str, Any]) -> None:
    runs = sweep["broken"]
    assert [run["status"] for run in runs] == ["ended", "crashed", "ended"]
    assert [run["faults"] for run in runs] == [[], ["RuntimeError: no execution"], []]
    assert runs[2]["last"] == sweep["columns"]["runs"][2]["last"]


def test_several_accounts_for_a_sink_that_is_one_run_are_refused_with_the_remedy(
    sweep: dict[str, Any],
) -> None:
    assert "3 accounts" in sweep["refused"]
    assert "in a Recorder" in sweep["refused"]
