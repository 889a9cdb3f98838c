"""The committed sample: small, whole, and a run that has something to find."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import ROOT
from tracedesk.backtest.ids import seq_of
from tracedesk.backtest.model import TYPES
from tracedesk.backtest.runs import open_home
from tracedesk.backtest.sample import bring_in
from tracedesk.primitives import json

FOLDER: Final = ROOT / "src" / "tracedesk" / "backtest" / "data"
Event = dict[str, Any]


@pytest.fixture(scope="module")
def text() -> bytes:
    return gzip.decompress((FOLDER / "sample.jsonl.gz").read_bytes())


@pytest.fixture(scope="module")
def events(text: bytes) -> list[Event]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def facts() -> Event:
    return json.loads((FOLDER / "sample.json").read_bytes())


def test_the_sample_is_small_and_is_what_its_facts_say(
    text: bytes, events: list[Event], facts: Event
) -> None:
    assert (FOLDER / "sample.jsonl.gz").stat().st_size <= 400_000
    assert hashlib.sha256(text).hexdigest() == facts["sha256"]
    assert len(events) == facts["events"]
    assert {event["runId"] for event in events} == {facts["runId"]}


def test_every_event_is_the_contracts_object_and_its_parent_is_earlier(
    events: list[Event], facts: Event
) -> None:
    keys = [
        "eventId", "runId", "timestamp", "eventType", "severity", "category",
        "properties", "parentEventId", "validationErrors",
    ]  # fmt: skip
    for number, event in enumerate(events, start=1):
        assert list(event) == keys
        assert event["eventType"] in TYPES
        assert seq_of(facts["runId"], event["eventId"]) == number
        parent = event["parentEventId"]
        assert parent is None or 0 < (seq_of(facts["runId"], parent) or 0) < number


def test_the_run_lost_money_and_its_hedge_was_refused_each_time(events: list[Event]) -> None:
    *_, last = (event["properties"] for event in events if event["eventType"] == "StateChange")
    assert last["StateAfter"]["Total"] < Decimal(-20_000)
    rejections = [event["properties"] for event in events if event["eventType"] == "OrderRejection"]
    assert len(rejections) >= 3
    assert Counter(rejection["RejectionReason"] for rejection in rejections) == {
        "Insufficient margin": len(rejections)
    }
    for rejection in rejections:
        assert rejection["Tag"] == "purpose=hedge"
        assert rejection["OrderValue"] > rejection["CashBefore"]


def test_every_execution_has_the_order_it_came_from_as_parent(events: list[Event]) -> None:
    by_id = {event["eventId"]: event for event in events}
    executions = [event for event in events if event["eventType"] == "TradeExecution"]
    assert len(executions) > 40
    for event in executions:
        order = by_id[event["parentEventId"]]
        assert order["eventType"] == "OrderPlaced"
        assert order["properties"]["OrderId"] == event["properties"]["OrderId"]


def test_no_adapter_imports_an_engine_before_it_is_used() -> None:
    code = (
        "import sys\n"
        "from tracedesk.backtest.adapters import backtesting_py, backtrader, nautilus, vectorbt\n"
        "engines = {'backtesting', 'backtrader', 'nautilus_trader', 'vectorbt', 'pandas', 'numpy'}\n"
        "print(sorted(engines & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_sample_comes_into_a_home_without_an_engine_and_without_a_fault(
    tmp_path: Path, facts: Event
) -> None:
    run = bring_in(open_home(tmp_path))
    assert (run.id, run.name, run.events) == (facts["runId"], facts["name"], facts["events"])
    assert (run.invalid, run.malformed) == (0, 0)
