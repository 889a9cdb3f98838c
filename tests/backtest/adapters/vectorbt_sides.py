"""Runs vectorbt with requests that are all rejected, of every direction and kind of size; prints their sides.

The engine rolls for a rejection only after it has worked out the side, so the same requests are run once more
without rejections, and what was executed then is what they asked for.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import warnings
from typing import Any

from tests.backtest.adapters.sinks import Memory
from tracedesk.backtest.adapters import vectorbt

DIRECTIONS = ("longonly", "shortonly", "both")
KINDS = ("amount", "value", "percent", "targetamount", "targetvalue", "targetpercent")
SIZES = {"amount": 2.0, "value": 20.0, "percent": 0.5, "targetamount": 1.0, "targetvalue": 5.0}
SIZES["targetpercent"] = 0.1


def sides(engine: Any, direction: str, kind: str, sign: int, chance: float) -> list[str]:
    """The sides of the second request, after a first one that opened a position."""
    pandas: Any = importlib.import_module("pandas")
    days = pandas.date_range("2024-01-01", periods=2)
    close = pandas.Series([10.0, 11.0], index=days, name="X")
    opening = -4.0 if direction == "both" and sign > 0 else 4.0
    made = engine.Portfolio.from_orders(
        close,
        size=pandas.Series([opening, sign * SIZES[kind]], index=days),
        size_type=pandas.Series(["amount", kind], index=days),
        direction=direction,
        reject_prob=pandas.Series([0.0, chance], index=days),
        init_cash=100.0,
        log=True,
        seed=1,
    )
    sink = Memory()
    vectorbt.record(made, sink)
    return [e.properties["Direction"] for e in sink.of("OrderPlaced")][1:]


def main() -> None:
    warnings.simplefilter("ignore")
    engine: Any = importlib.import_module("vectorbt")
    found: list[dict[str, Any]] = []
    for direction, kind, sign in itertools.product(DIRECTIONS, KINDS, (1, -1)):
        if kind == "percent" and direction == "both":
            continue  # the engine refuses to turn a position by a percentage
        case = {"direction": direction, "kind": kind, "sign": sign}
        filled, rejected = (sides(engine, direction, kind, sign, chance) for chance in (0.0, 1.0))
        found.append({**case, "filled": filled, "rejected": rejected})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
