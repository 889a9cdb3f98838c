"""What risk, a simulation and a start cost: `python -m benchmarks.trading [--json] [--quick]`.

Prints ratios; it judges nothing by its exit code, which is 0 unless a server answers wrongly.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import command, trading_desk, trading_risk, trading_rival
from benchmarks.command import Claim
from benchmarks.measure import Neighbours, best_ratio, machine, paired_ratio, summary
from benchmarks.process import client_placed
from benchmarks.trading_desk import ALPACA, Simulations, Start

BARS: Final = {"risk": 1.5, "simulate": 10.0, "start": 0.7, "bytes": 0.3}
METHOD: Final = {
    "ratio": "of times, our best round / their best round; contestants take turns and each round begins with "
    "another",
    "paired_ratio": "median over rounds of ours / theirs within the same round",
    "risk": f"the three figures of {trading_risk.SYMBOLS} symbols over {trading_risk.DAYS} returns, wall "
    "clock, one thread of BLAS; all contestants must agree to 1e-9. Ours starts from one series a symbol, "
    "aligns their days, and says what the figures rest on; days were compared and prices checked when the "
    "series were made",
    trading_risk.SERIES: "the most direct numpy from the same series: one array of all of them, then "
    "P[1:] / P[:-1] - 1, a product with the weights, sort, cumprod, mean and std; days are not looked at",
    trading_risk.MATRIX: "the same when somebody has already put all prices into one matrix",
    "simulate": f"milliseconds of trade_simulate with {len(trading_desk.SYMBOLS)} trades in as many symbols, "
    "over stdio, each call under its own id, with files as the provider of quotes and history: the server's "
    "own measure in its call records (from the request's admission to the encoded result), median of all "
    "calls but the first few; `client_ms` is what the client waited, and the first call reads all files",
    "start": "CPU of all threads from spawn to the answered tools/list after a handshake, from the kernel's "
    "schedstat, in a warm page cache; ours is `tracedesk serve --stdio --toolsets trading`",
    "bytes": "the whole line that answers tools/list",
    "rival": f"alpaca-mcp-server {trading_rival.VERSION} as pip installs it; its credentials open nothing",
    "placement": "the client on one CPU, every server on another",
    "neighbours_cores": command.NEIGHBOURS,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of each; the defaults are for claims."""

    risk_rounds: int = 60
    calls: int = 200
    starts: int = 9


QUICK: Final = Plan(3, 5, 1)


# --- claims


def risk_claims(rounds: Mapping[str, Sequence[float]]) -> list[Claim]:
    """Ours against numpy from the same series, and from a ready matrix, which nobody hands the desk."""
    ours = rounds[trading_risk.OURS]
    series, matrix = trading_risk.SERIES, trading_risk.MATRIX
    return [
        _compared("risk of 500 x 2,500", BARS["risk"], ours, rounds[series], series),
        _compared("the same, prices put together", BARS["risk"], ours, rounds[matrix], matrix),
    ]


def _compared(name: str, bar: float, ours: Sequence[float], theirs: Sequence[float], against: str) -> Claim:
    ratio = best_ratio(ours, theirs)
    paired = round(paired_ratio(ours, theirs), 3)
    return {
        "name": name,
        "bar": bar,
        "ratio": round(ratio, 3),
        "paired_ratio": paired,
        "met": ratio <= bar,
        "against": against,
    }


def simulate_claim(found: Simulations) -> Claim:
    """The one figure that is no ratio: milliseconds against a limit of milliseconds."""
    spent = median(found.recorded_us) / 1000
    claim = {"name": "trade_simulate, 20 symbols, ms", "bar": BARS["simulate"], "ratio": round(spent, 3)}
    return {**claim, "met": spent <= BARS["simulate"], "against": "its limit"}


def start_claims(found: Mapping[str, Sequence[Start]]) -> list[Claim]:
    """CPU and bytes up to the list of tools; none without the rival."""
    if ALPACA not in found:
        return []
    ours, theirs = found[trading_desk.OURS], found[ALPACA]
    cpu = _compared(
        "spawn to tools/list, CPU",
        BARS["start"],
        [s.cpu_us for s in ours],
        [s.cpu_us for s in theirs],
        ALPACA,
    )
    ratio = ours[0].bytes / theirs[0].bytes
    claim = {"name": "bytes of tools/list", "bar": BARS["bytes"], "ratio": round(ratio, 3)}
    return [cpu, {**claim, "met": ratio <= BARS["bytes"], "against": ALPACA}]


# --- figures


def measure(folder: Path, plan: Plan) -> dict[str, Any]:
    """Everything, in the order of the report."""
    neighbours = Neighbours()
    with client_placed():
        command.say("risk")
        rounds = trading_risk.measure(plan.risk_rounds)
        command.say("cold start")
        starts = trading_desk.starts(folder / "start", plan.starts)
        command.say("simulations")
        simulated = trading_desk.simulations(folder / "simulate", plan.calls)
    return {
        "claims": [*risk_claims(rounds), simulate_claim(simulated), *start_claims(starts)],
        "risk_us": {name: summary(values) for name, values in rounds.items()},
        "simulate": _simulated(simulated),
        "start": {name: _started(values) for name, values in starts.items()},
        "seeds": [trading_risk.SEED],
        "rivals": {ALPACA: trading_rival.VERSION} if ALPACA in starts else {},
        "not_installed": [] if ALPACA in starts else [f"{ALPACA} {trading_rival.VERSION}"],
        "machine": {**machine(), "neighbours_cores": round(neighbours.cores(), 2)},
        "method": METHOD,
    }


def _simulated(found: Simulations) -> dict[str, Any]:
    return {
        "calls": len(found.waits_us),
        "server_ms": _milliseconds(found.recorded_us),
        "client_ms": _milliseconds(found.waits_us),
        "cpu_ms": round(found.cpu_us / 1000, 3),
        "first_ms": round(found.first_us / 1000, 3),
    }


def _milliseconds(micros: Sequence[float]) -> dict[str, float]:
    ordered = sorted(micros)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: round(ordered[min(len(ordered) - 1, int(len(ordered) * q))] / 1000, 3) for name, q in at.items()
    }


def _started(starts: Sequence[Start]) -> dict[str, Any]:
    return {
        "cpu_us": summary([start.cpu_us for start in starts]),
        "wall_us": summary([start.wall_us for start in starts]),
        "bytes": starts[0].bytes,
        "tools": starts[0].tools,
    }


# --- the report


def as_text(found: dict[str, Any]) -> str:
    lines = command.claim_lines(found["claims"])
    lines.append("")
    lines += [f"{name:34}{spent['best'] / 1000:>9.2f} ms" for name, spent in found["risk_us"].items()]
    lines += ["", f"simulate: {json.dumps(found['simulate'])}"]
    for name, row in found["start"].items():
        spent = row["cpu_us"]["best"] / 1e6
        lines.append(f"{name:34}{spent:>9.2f} s CPU, {row['tools']} tools in {row['bytes']:,} bytes")
    return "\n".join([*lines, *_notes(found)])


def _notes(found: dict[str, Any]) -> list[str]:
    notes: list[str] = []
    if found["not_installed"]:
        missing = ", ".join(found["not_installed"])
        notes.append(
            f"Not installed, so not measured: {missing}. `python -m benchmarks.trading_rival` installs."
        )
    return [*notes, *command.busy_lines(found["machine"])]


def main(argv: Sequence[str] | None = None) -> int:
    def planned(folder: Path, quick: bool) -> command.Found:
        return measure(folder, QUICK if quick else Plan())

    return command.main("trading", __doc__, planned, as_text, argv)


if __name__ == "__main__":
    sys.exit(main())
