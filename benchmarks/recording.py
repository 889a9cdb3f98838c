"""What recording a read call costs: our desk with its call log, and the same desk with one that forgets."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any, Final

from benchmarks import runs
from benchmarks.lineup import OURS, Contestant
from benchmarks.measure import summary
from benchmarks.messages import ERAS
from benchmarks.process import client_placed

BAR: Final = 0.15
CALLS: Final = 3_000
"""Calls per round: so many that several groups of records are committed within it."""

FORGETFUL: Final = "forgetful"
SEEDS: Final = ("1", "2", "3")
"""Seeds of Python's hashes, a pair of desks each: a seed moves what a call costs, so both have the same."""


def measure(rounds: int) -> list[dict[str, Any]]:
    """The record's share of a call's CPU, for each protocol era: the best rounds with it, and without."""
    return [_claim(era, rounds) for era in ERAS] if rounds else []


def _claim(era: Any, rounds: int) -> dict[str, Any]:
    pairs = [_pair(era, rounds, seed) for seed in SEEDS]
    recorded, forgotten = (mean(bests) for bests in zip(*pairs, strict=True))
    share = 1 - forgotten / recorded
    return {
        "name": f"recording {era}",
        "bar": BAR,
        "ratio": round(share, 3),
        "met": share <= BAR,
        "against": "no record",
        "recorded_us": round(recorded, 1),
        "forgotten_us": round(forgotten, 1),
        "pairs_us": pairs,
    }


def _pair(era: Any, rounds: int, seed: str) -> tuple[float, float]:
    """The best round of a desk that records, and of one that does not, in microseconds a call."""
    with tempfile.TemporaryDirectory() as folder, client_placed():
        plan = runs.Plan(rounds, stdio_calls=CALLS)
        row, _ = runs.stdio(_contestants(Path(folder), seed), plan, era)
    recorded, forgotten = (summary([sample.cpu_us for sample in row[name]]) for name in (OURS, FORGETFUL))
    return recorded["best"], forgotten["best"]


def _contestants(folder: Path, seed: str) -> list[Contestant]:
    served = (sys.executable, "-m", "benchmarks.servers.recorded")
    env = {"PYTHONHASHSEED": seed}
    return [
        Contestant(OURS, "Tracedesk", stdio=(*served, str(folder / "a"), "recorded"), env=env),
        Contestant(FORGETFUL, "without records", stdio=(*served, str(folder / "b"), "forgotten"), env=env),
    ]
