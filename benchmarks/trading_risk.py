"""Risk of a large portfolio against bare numpy, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from benchmarks.process import ROOT
from tracedesk.trading import risk
from tracedesk.trading.sources.seam import Series

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

SYMBOLS: Final = 500
DAYS: Final = 2500
SEED: Final = 4
OURS: Final = "ours"
SERIES: Final = "numpy from the same series"
MATRIX: Final = "numpy from a ready matrix"

Figures = tuple[float, float, float]


def measure(rounds: int) -> dict[str, list[float]]:
    """Microseconds of each round, by contestant."""
    # One thread of BLAS for both sides: others would spin on the clock of whoever comes next.
    command = [sys.executable, "-m", "benchmarks.trading_risk", str(rounds)]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def _contestants() -> dict[str, Callable[[], Figures]]:
    import numpy as np

    draw = np.random.default_rng(SEED)
    prices = 100 * np.exp(np.cumsum(draw.normal(0.0003, 0.012, (DAYS + 1, SYMBOLS)), axis=0))
    shares = draw.dirichlet(np.ones(SYMBOLS))
    names = [f"S{number:03}" for number in range(SYMBOLS)]
    days = array("q", range(730_000, 730_000 + DAYS + 1))
    columns = [array("d", column.tolist()) for column in prices.T]
    own = {name: Series(days[:], column, days) for name, column in zip(names, columns, strict=True)}
    weights = dict(zip(names, shares.tolist(), strict=True))
    return {
        OURS: lambda: _ours(weights, own),
        SERIES: lambda: _from_series(shares, own),
        MATRIX: lambda: _figures((prices[1:] / prices[:-1] - 1) @ shares),
    }


def _ours(weights: dict[str, float], held: dict[str, Series]) -> Figures:
    found = risk.metrics(weights, held, window=DAYS)
    assert found.var_95_1d is not None
    assert found.max_drawdown is not None
    assert found.sharpe_ratio is not None
    return found.var_95_1d, found.max_drawdown, found.sharpe_ratio


def _from_series(shares: NDArray[float64], held: dict[str, Series]) -> Figures:
    import numpy as np

    prices = np.array([np.frombuffer(series.adjusted) for series in held.values()])
    return _figures(shares @ (prices[:, 1:] / prices[:, :-1] - 1))


def _figures(returns: NDArray[float64]) -> Figures:
    """The same three figures as anyone would write them."""
    import numpy as np

    curve = np.concatenate(([1.0], np.cumprod(1 + returns)))
    return (
        float(-np.sort(returns)[DAYS // 20 - 1]),
        float((1 - curve / np.maximum.accumulate(curve)).max()),
        float(returns.mean() / returns.std(ddof=1) * np.sqrt(252)),
    )


def _rounds(rounds: int) -> dict[str, list[float]]:
    """Everyone once a round, each round begun by another; all must agree."""
    contestants = _contestants()
    spent: dict[str, list[float]] = {name: [] for name in contestants}
    wanted = contestants[MATRIX]()
    names = list(contestants)
    for number in range(-1, rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.perf_counter_ns()
            found = contestants[name]()
            took = (time.perf_counter_ns() - began) / 1000
            if any(abs(a / b - 1) > 1e-9 for a, b in zip(found, wanted, strict=True)):
                raise SystemExit(f"{name}: {found} is not {wanted}")
            if number >= 0:  # the first round imports and grows the heap
                spent[name].append(took)
    return spent


if __name__ == "__main__":
    print(json.dumps(_rounds(int(sys.argv[1]))))
