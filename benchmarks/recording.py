"""What recording a read call costs: our desk with its call log, and the same desk with one that forgets.

Of the cheapest call there is, and of a page of a recorded backtest.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import messages, runs
from benchmarks.lineup import OURS, Contestant
from benchmarks.messages import ERAS, Misbehaved
from benchmarks.process import Server, client_placed, running
from benchmarks.stdio_client import StdioClient
from tracedesk.backtest import sample
from tracedesk.home import Home

BAR: Final = 0.15
CALLS: Final = 3_000
"""Calls per round: so many that several groups of records are committed within it."""

PAGES: Final = 1_000
MOST_PAGES: Final = 100
"""Pages that are asked for in turn: what an answer says is kept once, however often it comes."""

FORGETFUL: Final = "forgetful"
SEEDS: Final = ("1", "2", "3", "4", "5", "6", "7")
"""Seeds of Python's hashes, a pair of desks each: a seed moves what a call costs, so both have the same."""


Round = tuple[float, float]
"""Microseconds of CPU a call: of a desk that records, and of one that does not, one right after the other."""


def measure(rounds: int) -> list[dict[str, Any]]:
    """The record's share of a call's CPU: the median over rounds in which both desks take their turns."""
    if not rounds:
        return []
    echoes = [_claim(f"recording {era}", [_echoes(era, rounds, seed) for seed in SEEDS]) for era in ERAS]
    return [*echoes, _claim("recording a page", [_pages(rounds, seed) for seed in SEEDS[:3]])]


def _claim(name: str, pairs: list[list[Round]]) -> dict[str, Any]:
    taken = [each for pair in pairs for each in pair]
    share = _share(taken)
    recorded, forgotten = (median(costs) for costs in zip(*taken, strict=True))
    return {
        "name": name,
        "bar": BAR,
        "ratio": round(share, 3),
        "met": share <= BAR,
        "against": "no record",
        "recorded_us": round(recorded, 1),
        "forgotten_us": round(forgotten, 1),
        "pairs": [round(_share(pair), 3) for pair in pairs],
    }


def _share(taken: list[Round]) -> float:
    return median(1 - without / recorded for recorded, without in taken)


def _echoes(era: Any, rounds: int, seed: str) -> list[Round]:
    with tempfile.TemporaryDirectory() as folder, client_placed():
        plan = runs.Plan(rounds, stdio_calls=CALLS)
        row, _ = runs.stdio(_contestants(Path(folder), seed), plan, era)
    costs = ([sample.cpu_us for sample in row[name]] for name in (OURS, FORGETFUL))
    return list(zip(*costs, strict=True))


def _contestants(folder: Path, seed: str) -> list[Contestant]:
    env = {"PYTHONHASHSEED": seed}
    return [
        Contestant(OURS, "Tracedesk", stdio=_served(folder / "a", "recorded"), env=env),
        Contestant(FORGETFUL, "without records", stdio=_served(folder / "b", "forgotten"), env=env),
    ]


def _served(home: Path, kind: str, *toolsets: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "benchmarks.servers.recorded", str(home), kind, *toolsets)


# --- a page


class Pages(StdioClient):
    """Asks for one page of a run's candles after the other."""

    def __init__(self, server: Server, run: str) -> None:
        super().__init__(server, "modern")
        self._run = run

    def call(self, times: int) -> list[int]:
        for _ in range(times):
            number = self._next()
            page = {"pageSize": 10, "pageIndex": number % MOST_PAGES}
            arguments = {"runId": self._run, "eventType": "MarketDataEvent", **page}
            params = {"name": "get_events_by_type", "arguments": arguments}
            answer = json.loads(self._ask(messages.request(number, "tools/call", "modern", params)))
            if answer["result"].get("isError"):
                raise Misbehaved(f"no page: {json.dumps(answer)[:400]}")
        return [1]


def _pages(rounds: int, seed: str) -> list[Round]:
    with tempfile.TemporaryDirectory() as folder, client_placed(), ExitStack() as stack:
        desks = {
            kind: stack.enter_context(_paged(Path(folder) / kind, kind, seed))
            for kind in ("recorded", "forgotten")
        }
        taken: dict[str, list[float]] = {kind: [] for kind in desks}
        for kind in runs.turns(list(desks), rounds):
            taken[kind].append(desks[kind].round(PAGES).cpu_us)
        return list(zip(*taken.values(), strict=True))


@contextmanager
def _paged(home: Path, kind: str, seed: str) -> Generator[Pages]:
    run = sample.bring_in(Home.open(home)).id
    env = {"PYTHONHASHSEED": seed}
    with running(kind, _served(home, kind, "backtest"), env, pipes=True) as server, server.blamed():
        desk = Pages(server, run)
        desk.call(PAGES)
        yield desk
