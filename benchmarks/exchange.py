"""What books, matching and the exchange desk cost: `python -m benchmarks.exchange [--json] [--quick]`.

Prints ratios; it judges nothing by its exit code, which is 0 unless two sides answer differently.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import command, exchange_book, exchange_desk, exchange_matching
from benchmarks.command import Claim
from benchmarks.exchange_desk import SESSIONS, Waits
from benchmarks.measure import Neighbours, best_ratio, machine, paired_ratio, summary, supported
from benchmarks.process import client_placed

BARS: Final = {"book": 6.0, "matching": 4.0, "read": 20.0, "crowd": 500.0, "prompt": 100.0}
METHOD: Final = {
    "ratio": "of books and engines, their best round / our best round, in CPU time of the thread; the sides "
    "take turns and were shown to agree at every step before. Of the desk, milliseconds a client waited",
    "paired_ratio": "median over rounds of theirs / ours within the same round",
    "book": f"one level set or removed, then best bid and best ask read; {exchange_book.LEVELS:,} levels a "
    "side to begin with, prices uniform over them, half of the updates removals, drawn from a seed",
    "book, recorded": "the same with every level of the depth events of a recording, in their order: our own "
    "exchange's, and the venue's where --recordings names their folder; without a bar",
    "their book": "two SortedDicts behind the same four methods, the ends read by peekitem",
    "matching": "limit orders at prices uniform within so many ticks of a wandering middle, quantities 1 to "
    "20, all to one symbol; ours makes the order inside the clock, as theirs does",
    "read": f"resources/read of {exchange_desk.MARKET} by one raw keep-alive client of the stateless era, on "
    "a book in step with the local exchange, which runs beside it with its background flow; 95th percentile",
    "crowd": f"{SESSIONS} sessions of the handshake era, each on its own raw connection and reading the same "
    "again as soon as it is answered; 95th percentile of all",
    "prompt": "prompts/get of each prompt by the one raw client; the slowest prompt's 95th percentile, "
    "each gotten once before, which loads what computes it and is told as `first`",
    "placement": "the client, books and engines on one CPU, the desk and the exchange on another",
    "neighbours_cores": command.NEIGHBOURS,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of each; the defaults are for claims."""

    updates: int = 200_000
    orders: int = 50_000
    rounds: int = 7
    reads: int = 400
    crowd: int = 20
    prompts: int = 40
    recordings: Path | None = None


QUICK: Final = Plan(5_000, 2_000, 2, 20, 2, 3)


# --- claims


def book_claims(found: dict[str, exchange_book.Rounds]) -> list[Claim]:
    bars = {"seeded": BARS["book"]}
    return [
        _faster(f"book, {name}", bars.get(name), rounds.ours, rounds.theirs, exchange_book.RIVAL)
        for name, rounds in found.items()
    ]


def matching_claims(found: dict[int, exchange_matching.Rounds]) -> list[Claim]:
    bars = {exchange_matching.WIDTHS[0]: BARS["matching"]}
    return [
        _faster(
            f"matching within {width:,} ticks", bars.get(width), r.ours, r.theirs, exchange_matching.RIVAL
        )
        for width, r in found.items()
    ]


def _faster(
    name: str, bar: float | None, ours: Sequence[float], theirs: Sequence[float], against: str
) -> Claim:
    ratio = best_ratio(theirs, ours)
    return {
        "name": name,
        "bar": bar,
        "ratio": round(ratio, 2),
        "paired_ratio": round(paired_ratio(theirs, ours), 2),
        "met": None if bar is None else ratio >= bar,
        "against": against,
    }


def desk_claims(waits: Waits) -> list[Claim]:
    """The figures that are no ratios: milliseconds against a limit of milliseconds."""
    slowest = max(p95(times) for times in waits.prompts.values())
    return [
        _within("resource read, p95 ms", BARS["read"], p95(waits.reads)),
        _within(f"{SESSIONS} sessions, p95 ms", BARS["crowd"], p95(waits.crowd)),
        _within("slowest prompt, p95 ms", BARS["prompt"], slowest),
        _within("slowest first prompt, ms", BARS["prompt"], max(waits.first_prompts.values())),
    ]


def _within(name: str, bar: float, found: float) -> Claim:
    return {"name": name, "bar": bar, "ratio": round(found, 2), "met": found < bar, "against": "its limit"}


def p95(values: Sequence[float]) -> float:
    """The value that 95 of 100 do not exceed."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * 95 // 100) - 1]


# --- figures


def measure(folder: Path, plan: Plan) -> dict[str, Any]:
    """Everything, in the order of the report."""
    neighbours = Neighbours()
    with client_placed():
        command.say("books")
        markets = [exchange_book.seeded(plan.updates), *exchange_book.recorded(plan.recordings)]
        books = {market.name: exchange_book.measure(market, plan.rounds) for market in markets}
        command.say("matching")
        engines = {
            width: exchange_matching.measure(plan.orders, width, plan.rounds)
            for width in exchange_matching.WIDTHS
        }
        command.say("the desk")
        waits = exchange_desk.measure(folder / "home", plan.reads, plan.crowd, plan.prompts)
    return {
        "claims": [*book_claims(books), *matching_claims(engines), *desk_claims(waits)],
        "book_ns": {name: _sides(rounds.ours, rounds.theirs) for name, rounds in books.items()},
        "matching_ns": {
            str(width): {**_sides(r.ours, r.theirs), "fills": r.fills} for width, r in engines.items()
        },
        "desk_ms": _desk(waits),
        "seeds": [exchange_book.SEED, *exchange_matching.WIDTHS],
        "machine": {**machine(), "neighbours_cores": round(neighbours.cores(), 2)},
        "method": METHOD,
    }


def _sides(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    return {"ours": summary(ours), "theirs": summary(theirs)}


def _desk(waits: Waits) -> dict[str, Any]:
    return {
        "read": _quantiles(waits.reads),
        "crowd": {**_quantiles(waits.crowd), "per_second": round(waits.crowd_per_second, 1)},
        "prompts": {
            name: {**_quantiles(times), "first": round(waits.first_prompts[name], 2)}
            for name, times in waits.prompts.items()
        },
    }


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    middle, last = ordered[len(ordered) // 2], ordered[-1]
    return {"p50": round(middle, 2), "p95": round(p95(values), 2), "max": round(last, 2)}


# --- the report


def as_text(found: dict[str, Any]) -> str:
    lines = [*command.claim_lines(found["claims"]), ""]
    for name, sides in found["book_ns"].items():
        ours, theirs = sides["ours"]["best"], sides["theirs"]["best"]
        lines.append(f"book, {name:24}{ours:>9.0f} ns an update, theirs {theirs:.0f}")
    for width, sides in found["matching_ns"].items():
        ours, theirs = sides["ours"]["best"], sides["theirs"]["best"]
        lines.append(f"matching, {width:20}{ours:>9.0f} ns an order, theirs {theirs:.0f}")
    lines.append(f"desk, ms: {json.dumps(found['desk_ms'])}")
    return "\n".join([*lines, *command.busy_lines(found["machine"])])


def main(argv: Sequence[str] | None = None) -> int:
    options = command.parser("exchange", __doc__, quick="less of everything: shows that it works")
    options.add_argument("--recordings", type=Path, help="folder with recordings of the venue's streams")
    chosen = options.parse_args(argv)
    if not supported():
        print("CPU per thread cannot be read here: this needs Linux with schedstat", file=sys.stderr)
        return 0
    plan = replace(QUICK if chosen.quick else Plan(), recordings=chosen.recordings)
    return command.run(lambda folder: measure(folder, plan), as_text, as_json=chosen.json)


if __name__ == "__main__":
    sys.exit(main())
