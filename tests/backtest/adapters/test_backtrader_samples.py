"""backtrader's own samples end the same with and without the recorder.

`test_backtrader_engines.py` has the shapes of engines that once ended otherwise.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.proof.record import Recorder
from tests.support import ROOT

ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "macd-settings/macd-settings.py": ("--dataset", "yhoo"),
    "order_target/order_target.py": ("--target-value",),
    "stop-trading/stop-loss-approaches.py": ("manual",),
}
"""What a sample that refuses to run without arguments is given."""
SECONDS: Final = 240
ADDRESS: Final = re.compile(rb"0x[0-9a-f]{6,}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script left behind: all that a user sees of it."""

    status: int
    printed: bytes
    files: Mapping[str, bytes]


def ran(script: Path, folder: Path, events: Path | None) -> Outcome:
    """Run a script of the checkout in a copy of its folder."""
    samples = script.parent.parent
    place = folder / "samples" / script.parent.name
    shutil.copytree(script.parent, place)
    (folder / "datas").symlink_to(samples.parent / "datas")
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    given = ARGUMENTS.get(f"{script.parent.name}/{script.name}", ())
    command = [sys.executable, "-m", "tests.backtest.adapters.backtrader_script", script.name]
    done = subprocess.run(
        [*command, "-" if events is None else str(events), *given],
        cwd=place,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    files = {
        str(file.relative_to(place)): ADDRESS.sub(b"0x", file.read_bytes())
        for file in sorted(place.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    return Outcome(done.returncode, ADDRESS.sub(b"0x", done.stdout), files)


def check_sample(script: Path, folder: Path) -> dict[str, Any] | None:
    """What the recorder made of a script, and whether it ended the same; None for one that fails alone."""
    alone = ran(script, folder / "alone", None)
    if alone.status:
        return None
    events = folder / "events.json"
    recorded = ran(script, folder / "recorded", events)
    summary: dict[str, Any] = json.loads(events.read_bytes()) if events.exists() else {"faults": None}
    # An optimisation is left out with the reason, which is no fault.
    whole = events.exists() and all(fault["RiskType"] == "RunNotRecorded" for fault in summary["faults"])
    return {**summary, "same": whole and recorded == alone}


_SAMPLE: Final = """
import backtrader as bt


class Quotes(bt.feeds.GenericCSVData):
    linesoverride = True
    lines = ("bid", "ask", "datetime")
    params = (("bid", 1), ("ask", 2))


class Watcher(bt.Strategy):
    def next(self):
        print(len(self), self.data.bid[0], self.data.ask[0])

    def stop(self):
        open("watched.txt", "w").write(str(len(self)))


cerebro = bt.Cerebro()
cerebro.adddata(Quotes(dataname="../../datas/quotes.csv"))
cerebro.addstrategy(Watcher)
cerebro.run()
"""


def test_a_sample_of_quotes_ends_the_same_recorded(tmp_path: Path) -> None:
    script = tmp_path / "own" / "samples" / "quotes" / "quotes.py"
    script.parent.mkdir(parents=True)
    script.write_text(_SAMPLE, encoding="ascii")
    data = tmp_path / "own" / "datas"
    data.mkdir()
    rows = [f"2024-01-02 10:00:{second:02},{10 + second},{11 + second}" for second in range(9)]
    (data / "quotes.csv").write_text("\n".join(["date,bid,ask", *rows]), encoding="ascii")
    found = check_sample(script, tmp_path)
    assert found is not None
    assert (found["same"], found["runs"], found["counts"]["MarketDataEvent"]) == (True, 1, 9)


@pytest.mark.prove
@pytest.mark.timeout(1_200)
def test_every_sample_that_runs_offline_ends_the_same_recorded(
    tmp_path: Path, checkout: Callable[[str], Path], prove: Recorder
) -> None:
    source = checkout("backtrader")
    found: dict[str, dict[str, Any]] = {}
    for at, script in enumerate(sorted(source.glob("samples/*/*.py"))):
        outcome = check_sample(script, tmp_path / str(at))
        if outcome is not None:
            found[f"{script.parent.name}/{script.name}"] = outcome
    changed = [name for name, outcome in found.items() if not outcome["same"]]
    details = {"changed": changed, "samples": sorted(found)}
    shared: dict[str, Any] = {"seeds": [7], "checkouts": {"backtrader": source}, "details": details}
    prove.record("backtest-samples-run", len(found), **shared)
    prove.record("backtest-samples-changed", len(changed), **shared)
    assert changed == []
    assert len(found) >= 59
