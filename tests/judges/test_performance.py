"""Sharpe ratios beside QuantStats and empyrical, and win rates beside each engine's own.

`tests.backtest.adapters.performance_runs` runs four engines in their own environments. The two libraries get
the engine's own daily returns; ours come from what was recorded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from scripts.proof.record import Recorder
from tests.backtest.files import opened
from tests.judges.install import NAUTILUS, RISK, VECTORBT
from tests.judges.size import Size
from tests.judges.support import ROOT
from tracedesk.backtest.performance import FEWEST_RETURNS, Performance, performance_of
from tracedesk.home import Home

pytestmark = [pytest.mark.judge, pytest.mark.timeout(600)]

TOLERANCE: Final = 1e-12
SEED: Final = 20
SMA_RUNS: Final = 24
_ORACLES: Final = """
import json, sys, warnings
warnings.simplefilter("ignore")
import empyrical, pandas, quantstats
answers = []
for returns in json.load(sys.stdin):
    dated = pandas.Series(returns, index=pandas.date_range("2001-01-01", periods=len(returns)))
    pair = quantstats.stats.sharpe(dated, periods=252), empyrical.sharpe_ratio(dated, annualization=252)
    answers.append(pair)
json.dump(answers, sys.stdout, default=float)
"""


class Judged(NamedTuple):
    """One recorded run: our figures beside the engine's and the libraries'."""

    run: str
    ours: Performance
    closed: int
    won: int
    returns: int
    sharpes: Sequence[float]

    @property
    def error(self) -> float:
        """Largest distance of our Sharpe ratio from theirs, relative to theirs where that is over 1."""
        assert self.ours.returns.sharpe is not None, self
        return max(abs(self.ours.returns.sharpe - one) / max(1.0, abs(one)) for one in self.sharpes)


def python_of(engine: str) -> Path:
    """backtesting.py and backtrader are beside the tests; the others have environments of their own."""
    judges = {"vectorbt": VECTORBT, "nautilus": NAUTILUS}
    return judges[engine].python if engine in judges else Path(sys.executable)


def printed(python: Path, *arguments: str, given: bytes = b"") -> bytes:
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [python, *arguments], cwd=ROOT, env=environment, input=given, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def judged(engine: str, folder: Path, count: int) -> list[Judged]:
    """The engine's runs, recorded and judged."""
    runs = ("-m", "tests.backtest.adapters.performance_runs", engine, str(folder), str(count), str(SEED))
    rows: list[Any] = [json.loads(line) for line in printed(python_of(engine), *runs).splitlines()]
    returns = json.dumps([row[1] for row in rows]).encode()
    sharpes: list[list[float]] = json.loads(printed(RISK.python, "-c", _ORACLES, given=returns))
    home = Home.open(folder)
    return [
        Judged(run, figures(home, run), closed, won, len(returns), theirs)
        for (run, returns, closed, won), theirs in zip(rows, sharpes, strict=True)
    ]


def figures(home: Home, run: str) -> Performance:
    with opened(home, run) as recording:
        return performance_of(recording)


def differing(found: Sequence[Judged]) -> Iterator[tuple[str, Any]]:
    """Runs whose figures are not the engine's."""
    for one in found:
        trades = (one.ours.trades.count, one.ours.trades.wins)
        if trades != (one.closed, one.won):
            yield "trades", (one.run, trades, (one.closed, one.won))
        if one.ours.returns.count != one.returns:
            yield "returns", (one.run, one.ours.returns.count, one.returns)
        if one.returns >= FEWEST_RETURNS and one.error > TOLERANCE:
            yield "sharpe", (one.run, one.ours.returns.sharpe, one.sharpes)


def test_crossing_averages_on_the_engines_data_are_ordered_as_by_quantstats_and_empyrical(
    tmp_path: Path, prove: Recorder
) -> None:
    found = judged("backtesting_sma", tmp_path, SMA_RUNS)
    assert list(differing(found)) == []
    pairs = list(combinations(found, 2))
    assert len(pairs) == 276
    for a, b in pairs:
        ours = a.ours.returns.sharpe, b.ours.returns.sharpe
        assert ours[0] is not None
        assert ours[1] is not None
        assert (ours[0] < ours[1]) == (a.sharpes[0] < b.sharpes[0])
    prove.record("backtest-sharpe-sma", max(one.error for one in found), seeds=[])


def test_sharpe_ratios_and_win_rates_of_four_engines_are_theirs(
    tmp_path: Path, prove: Recorder, size: Size
) -> None:
    found: list[Judged] = []
    for engine in ("backtesting", "backtrader", "vectorbt", "nautilus"):
        some = judged(engine, tmp_path / engine, size.of(judge=8, prove=50))
        assert list(differing(some)) == [], engine
        assert sum(one.closed for one in some) > 10 * len(some), engine
        found += some
    prove.record("backtest-sharpe-engines", max(one.error for one in found), seeds=[SEED])
