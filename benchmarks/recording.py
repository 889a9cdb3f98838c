"""What recording a read call costs: our desk with its call log, and the same desk with one that forgets."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
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


def measure(rounds: int) -> list[dict[str, Any]]:
    """The record's share of a call's CPU, for each protocol era: the best round with it, and without."""
    return [_claim(era, rounds) for era in ERAS] if rounds else []


def _claim(era: Any, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, client_placed():
        row, _ = runs.stdio(_contestants(Path(folder)), runs.Plan(rounds, stdio_calls=CALLS), era)
    recorded, forgotten = (summary([sample.cpu_us for sample in row[name]]) for name in (OURS, FORGETFUL))
    share = 1 - forgotten["best"] / recorded["best"]
    return {
        "name": f"recording {era}",
        "bar": BAR,
        "ratio": round(share, 3),
        "met": share <= BAR,
        "against": "no record",
        "recorded_us": recorded["best"],
        "forgotten_us": forgotten["best"],
    }


def _contestants(folder: Path) -> list[Contestant]:
    served = (sys.executable, "-m", "benchmarks.servers.recorded")
    return [
        Contestant(OURS, "Tracedesk", stdio=(*served, str(folder / "a"), "recorded")),
        Contestant(FORGETFUL, "without records", stdio=(*served, str(folder / "b"), "forgotten")),
    ]
