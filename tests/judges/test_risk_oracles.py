"""Our three risk figures against the libraries that define each of them the same way.

skfolio takes an order statistic as value at risk, like us; all three libraries have our drawdown; empyrical
and quantstats have our Sharpe ratio. Where 5 % of n is whole, skfolio takes the next smaller loss: one test
is about that, and the portfolios of the others have lengths that are no multiples of 20.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.judges.install import RISK, bars_wheel
from tests.trading.test_risk import VECTORS, figures, series
from tracedesk.market.dataset import EMBEDDED
from tracedesk.trading import risk
from tracedesk.trading.sources.seam import Series

pytestmark = [pytest.mark.judge, pytest.mark.timeout(300)]

PORTFOLIOS: Final = 120
TOLERANCE: Final = 1e-12
DAYS: Final = 2148
"""Days that the four old symbols share."""
_ORACLES: Final = """
import json, sys, warnings
warnings.simplefilter("ignore")
import empyrical, numpy, pandas, quantstats
from skfolio import measures
answers = []
for case in json.load(sys.stdin):
    prices = numpy.array(case["prices"])
    returns = numpy.array(case["weights"]) @ (prices[:, 1:] / prices[:, :-1] - 1)
    dated = pandas.Series(returns, index=pandas.date_range("2001-01-01", periods=len(returns)))
    answers.append({
        "var": {"skfolio": measures.value_at_risk(returns, beta=0.95)},
        "drawdown": {
            "skfolio": measures.max_drawdown(measures.get_drawdowns(returns, compounded=True)),
            "empyrical": -empyrical.max_drawdown(dated),
            "quantstats": -quantstats.stats.max_drawdown(dated),
        },
        "sharpe": {
            "empyrical": empyrical.sharpe_ratio(dated, (1 + case["rate"]) ** (1 / 252) - 1),
            "quantstats": quantstats.stats.sharpe(dated, rf=case["rate"], periods=252),
        },
    })
print(json.dumps(answers, default=float))
"""

Answer = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Case:
    """One portfolio: what is asked of us, and the same as a plain table for the others."""

    weights: list[float]
    prices: list[list[float]]
    rate: float

    def ours(self) -> tuple[float, float, float]:
        names = [f"S{number}" for number in range(len(self.weights))]
        held = {name: series(prices) for name, prices in zip(names, self.prices, strict=True)}
        weights = dict(zip(names, self.weights, strict=True))
        return figures(risk.metrics(weights, held, window=10**6, risk_free=self.rate))


@cache
def _closes(symbol: str) -> list[float]:
    return [units / 10**12 for units in EMBEDDED[symbol].adjusted_closes][-DAYS:]


def _case(draw: random.Random, n: int) -> Case:
    """Some of the old symbols over `n` returns somewhere, long or short, at most once the money."""
    symbols = draw.sample(("AAPL", "GOOG", "IBM", "MSFT"), draw.randint(1, 4))
    shares = [draw.choice((1, 1, 1, -1)) * draw.random() for _ in symbols]
    scale = draw.uniform(0.1, 1.0) / sum(map(abs, shares))
    start = draw.randrange(DAYS - n)
    prices = [_closes(symbol)[start : start + n + 1] for symbol in symbols]
    return Case([share * scale for share in shares], prices, draw.choice((0.0, 0.02, 0.05)))


def _asked(cases: Sequence[Case]) -> list[Answer]:
    command = [str(RISK.python), "-c", _ORACLES]
    question = json.dumps([asdict(case) for case in cases])
    done = subprocess.run(command, input=question, check=True, capture_output=True, text=True, timeout=240)
    return json.loads(done.stdout)


def test_random_portfolios_have_the_figures_of_the_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(20130301)
    lengths = (n for n in iter(lambda: draw.randint(30, 1500), None) if n % 20)
    cases = [_case(draw, next(lengths)) for _ in range(PORTFOLIOS)]
    worst: dict[str, float] = {}
    for case, answer in zip(cases, _asked(cases), strict=True):
        for name, ours in zip(("var", "drawdown", "sharpe"), case.ours(), strict=True):
            for library, theirs in answer[name].items():
                key = f"{name} of {library}"
                worst[key] = max(worst.get(key, 0.0), abs(ours / theirs - 1))
    with capsys.disabled():
        print(
            f"\n{PORTFOLIOS} portfolios, largest relative error:", {k: f"{v:.1e}" for k, v in worst.items()}
        )
    assert set(worst) == {
        "var of skfolio",
        "drawdown of skfolio",
        "drawdown of empyrical",
        "drawdown of quantstats",
        "sharpe of empyrical",
        "sharpe of quantstats",
    }
    assert max(worst.values()) < TOLERANCE


def test_where_five_percent_is_whole_skfolio_takes_the_next_smaller_loss() -> None:
    draw = random.Random(95)
    cases = [_case(draw, n) for n in (40, 100, 200, 1000)]
    for case, answer in zip(cases, _asked(cases), strict=True):
        rows = zip(*([b / a - 1 for a, b in pairwise(p)] for p in case.prices), strict=True)
        ordered = sorted(sum(w * r for w, r in zip(case.weights, row, strict=True)) for row in rows)
        k = len(ordered) // 20
        assert case.ours()[0] == pytest.approx(-ordered[k - 1], rel=1e-11)
        assert answer["var"]["skfolio"] == pytest.approx(-ordered[k], rel=1e-11)


def test_a_loss_on_the_first_day_is_a_drawdown_for_all() -> None:
    case = Case([1.0], [[100.0, 90.0, *(91.0 + 0.5 * (day % 3) for day in range(40))]], 0.0)
    (answer,) = _asked([case])
    assert case.ours()[1] == pytest.approx(0.1, rel=1e-12)
    assert list(answer["drawdown"].values()) == pytest.approx([0.1] * 3, rel=1e-12)


@pytest.fixture(scope="module")
def published() -> dict[str, Series]:
    """The adjusted closes as their publisher rounded them, which the vectors on record were made from."""
    with zipfile.ZipFile(bars_wheel()) as wheel:
        text = gzip.decompress(wheel.read("bokeh_sampledata/_data/stocks.csv.gz")).decode("utf-8")
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in csv.DictReader(text.splitlines()):
        rows.setdefault(row["Ticker"], []).append(row)
    return {symbol: _published(lines) for symbol, lines in rows.items()}


def _published(rows: Sequence[dict[str, Any]]) -> Series:
    days = [date.fromisoformat(row["Date"]).toordinal() for row in rows]
    return series([float(row["Adj Close"]) for row in rows], days)


@pytest.mark.parametrize("name", VECTORS)
def test_the_vectors_on_record_come_out_of_the_column_they_were_made_from(
    name: str, published: dict[str, Series]
) -> None:
    weights, *wanted = VECTORS[name]
    assert figures(risk.metrics(weights, published)) == pytest.approx(tuple(wanted), rel=1e-13, abs=0)
