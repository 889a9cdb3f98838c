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


def ran(engine: Judge, script: str) -> Any:
    """What an engine's script printed."""
    command = [str(engine.python), "-m", f"tests.backtest.adapters.{script}"]
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
