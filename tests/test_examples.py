"""Every example runs as its own text says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

EXPECTED = {
    "backtest_record_backtesting.py": [
        "trades: 29",
        "rejected orders: 14",
        "its story: OrderPlaced > OrderRejection",
    ],
    "backtest_record_backtrader.py": [
        "value: 11256.97",
        "rejected orders: 29",
        "its story: OrderPlaced > OrderRejection",
    ],
    "exchange_preview_and_place.py": [
        "mode: sim - real money: False",
        "fills at once: 0.01000 - needs confirmation: False",
        "placed: FILLED 0.01",
        "placed twice: False",
        "the audit knows it: True",
    ],
    "fuzz_a_vault.py": [
        "broken: echidna_leaving_dilutes_nobody",
        "by: deposit() > earn() > withdraw(1)",
        "lines covered: 100.0 %",
    ],
    "remember_what_was_tried.py": [
        "found: session.py",
        "it says: Doc: «Sessions: who is logged in, and until when.» Defines Session, Session.refresh.",
        "tried before: fix-1 failed ['pytest']",
    ],
    "ask_the_desk.py": ["traced: call desk_status ok"],
    "trade_with_a_trace.py": [
        "filled at: 190.8554",
        "sent twice, traded once: True",
        "which says: 190.76",
        "ledger is sound: True",
    ],
}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_runs_and_prints_what_it_promises(path: Path) -> None:
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=True)
    for line in EXPECTED[path.name]:
        assert line in done.stdout.splitlines()
