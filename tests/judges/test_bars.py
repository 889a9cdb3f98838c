"""The embedded bars against the wheel they were made from: byte for byte, and figure for figure."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
import zipfile
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest

from tests.judges.install import bars_wheel
from tests.judges.support import ROOT
from tracedesk.market import Dividend, Split
from tracedesk.market.dataset import EMBEDDED, FOLDER

pytestmark = pytest.mark.judge

MAKER: Final = ROOT / "scripts" / "market" / "make_bars.py"
WRITTEN: Final = "LICENCE.md"
"""The one file of the folder that a person wrote."""
TOLERANCE: Final = Fraction(1, 10**12)

Rows = dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module")
def source() -> Rows:
    with zipfile.ZipFile(bars_wheel()) as wheel:
        text = gzip.decompress(wheel.read("bokeh_sampledata/_data/stocks.csv.gz")).decode("utf-8")
    rows: Rows = defaultdict(list)
    for row in csv.DictReader(text.splitlines()):
        rows[row["Ticker"]].append(row)
    return rows


def test_the_script_makes_the_committed_files_byte_for_byte(tmp_path: Path) -> None:
    command = [sys.executable, str(MAKER), str(bars_wheel()), "--out", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.name != WRITTEN}


def test_every_price_and_volume_is_the_sources(source: Rows) -> None:
    assert set(EMBEDDED) == set(source)
    for symbol, bars in EMBEDDED.items():
        ours = [(bar.session, bar.open, bar.high, bar.low, bar.close, bar.volume) for bar in bars]
        names = ("Open", "High", "Low", "Close", "Volume")
        theirs = [(row["Date"], *(Decimal(row[name]) for name in names)) for row in source[symbol]]
        assert [(day.isoformat(), *figures) for day, *figures in ours] == theirs


def test_every_adjusted_close_follows_from_closes_splits_and_dividends(
    source: Rows, capsys: pytest.CaptureFixture[str]
) -> None:
    worst = {symbol: _worst_error(symbol, rows) for symbol, rows in source.items()}
    with capsys.disabled():
        print("\nadjusted closes, largest relative error:", {k: f"{float(v):.1e}" for k, v in worst.items()})
    assert max(worst.values()) < TOLERANCE


def _worst_error(symbol: str, rows: list[dict[str, str]]) -> Fraction:
    """The source's series also holds actions after its end; they are one factor, taken from the last row."""
    bars = EMBEDDED[symbol]
    later = Fraction(rows[-1]["Adj Close"]) / Fraction(rows[-1]["Close"])
    pairs = zip(bars, rows, strict=True)
    return max(abs(Fraction(bar.adjusted_close) * later / Fraction(r["Adj Close"]) - 1) for bar, r in pairs)


def test_every_step_of_the_sources_adjustment_is_one_of_our_actions(source: Rows) -> None:
    for symbol, rows in source.items():
        ratios = [Fraction(row["Adj Close"]) / Fraction(row["Close"]) for row in rows]
        steps = {
            row["Date"]: now / past for row, past, now in zip(rows[1:], ratios, ratios[1:], strict=False)
        }
        actions = {action.ex_date.isoformat(): action for action in EMBEDDED[symbol].actions}
        assert {day for day, step in steps.items() if abs(step - 1) > TOLERANCE} == set(actions)
        closes = {row["Date"]: Fraction(row["Close"]) for row in rows}
        for day, action in actions.items():
            assert abs(_moved(action, closes[day], steps[day])) < Fraction(1, 10**10)


def _moved(action: Split | Dividend, close: Fraction, step: Fraction) -> Fraction:
    """How far the source's step is from the action: in shares for a split, in dollars for a dividend."""
    if isinstance(action, Split):
        return step - Fraction(action.new, action.old)
    return close * (step - 1) - Fraction(action.amount)
