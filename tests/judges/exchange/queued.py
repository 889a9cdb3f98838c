# pyright: basic, reportMissingImports=false
"""Fills of resting orders by hftbacktest's risk-averse queue model, from a recording as it was made.

Reads one JSON document: the recording's path, first book, tick and step, and orders as time, sign, price,
quantity and the time of their cancel. Prints when each was wholly filled, or null.
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

import hftbacktest as hft
import numpy as np
from numba import njit

VALID = hft.EXCH_EVENT | hft.LOCAL_EVENT
SIDES = (("b", hft.BUY_EVENT), ("a", hft.SELL_EVENT))


def rows(path: str, book: dict[str, Any]) -> list[tuple[int, int, float, float]]:
    """The book that the recording begins with, then its depth and trades, at the times they were received."""
    with gzip.open(path) as file:
        frames = [line.partition(b" ") for line in file]
    messages = [(int(ns), json.loads(text)) for ns, _, text in frames]
    streamed = [(ns, message.get("data", message)) for ns, message in messages]
    first = next(ns for ns, message in streamed if is_new(message, book))
    found = levels(min(book["ns"], first), book)
    for ns, message in streamed:
        if is_new(message, book):
            found += levels(ns, message)
        elif message.get("e") == "trade" and ns >= first:
            side = hft.SELL_EVENT if message["m"] else hft.BUY_EVENT
            found.append((hft.TRADE_EVENT | side, ns, float(message["p"]), float(message["q"])))
    return found


def is_new(message: dict[str, Any], book: dict[str, Any]) -> bool:
    return message.get("e") == "depthUpdate" and message["u"] > book["id"]


def levels(ns: int, message: dict[str, Any]) -> list[tuple[int, int, float, float]]:
    return [
        (hft.DEPTH_EVENT | side, ns, float(price), float(quantity))
        for name, side in SIDES
        for price, quantity in message[name]
    ]


def events(path: str, book: dict[str, Any]) -> Any:
    found = rows(path, book)
    made: Any = np.zeros(len(found), hft.binding.event_dtype)
    for name, values in zip(("ev", "exch_ts", "px", "qty"), zip(*found, strict=True), strict=True):
        made[name] = values
    made["ev"] |= VALID
    made["local_ts"] = made["exch_ts"]
    assert (np.diff(made["exch_ts"]) >= 0).all()
    return made


@njit
def run(hbt: Any, acts: Any, filled: Any) -> int:
    """Give each act at its time, a new order by its sign, a cancel by 0; return the number of errors."""
    errors = int(hbt.elapse(0) != 0)  # there is no time before the first event
    for act in acts:
        number, sign, price, quantity = act["number"], act["sign"], act["price"], act["quantity"]
        errors += hbt.elapse(act["at"] - hbt.current_timestamp) != 0
        if sign > 0:
            code = hbt.submit_buy_order(0, np.uint64(number), price, quantity, hft.GTX, hft.LIMIT, False)
        elif sign < 0:
            code = hbt.submit_sell_order(0, np.uint64(number), price, quantity, hft.GTX, hft.LIMIT, False)
        else:
            order = hbt.orders(0).get(np.uint64(number))
            code = order.status == hft.EXPIRED
            if order.status == hft.FILLED:
                filled[number] = order.exch_timestamp
            elif order.cancellable:
                code = hbt.cancel(0, np.uint64(number), False)
        errors += code != 0
    return errors


ACT = np.dtype([("at", "i8"), ("sign", "i8"), ("number", "i8"), ("price", "f8"), ("quantity", "f8")])


def fills(asked: dict[str, Any]) -> list[int | None]:
    feed = events(asked["recording"], asked["book"])  # hftbacktest keeps its address alone
    asset = (
        hft.BacktestAsset()
        .linear_asset(1.0)
        .data([feed])
        .no_partial_fill_exchange()
        .constant_order_latency(0, 0)
        .risk_adverse_queue_model()
        .tick_size(float(asked["tick"]))
        .lot_size(float(asked["step"]))
    )
    acts = list[tuple[int, int, int, float, float]]()
    for number, (at, sign, price, quantity, until) in enumerate(asked["orders"]):
        acts.append((at, sign, number, float(price), float(quantity)))
        acts.append((until, 0, number, 0.0, 0.0))
    filled = np.zeros(len(asked["orders"]), "i8")
    hbt = hft.HashMapMarketDepthBacktest([asset])
    errors = run(hbt, np.array(sorted(acts), ACT), filled)
    assert not errors, f"hftbacktest reported {errors} errors"
    hbt.close()
    del feed
    return [int(ns) or None for ns in filled]


print(json.dumps({"version": hft.__version__, "filled": fills(json.load(sys.stdin))}))
