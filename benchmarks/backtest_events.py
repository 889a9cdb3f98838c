"""The events of the benchmark: a causal stream, the same from every seed, one bar after another.

A candle leads to two indicators, they to an order, that to a fill and a position. 4 % of the orders are
rejected and a risk event follows, 1 % of the fills leave no position, 0.2 % of the order ids are no GUIDs.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from tracedesk.backtest.model import DEFAULT_CATEGORY, DEFAULT_SEVERITY, EventType
from tracedesk.primitives import json
from tracedesk.primitives import time as times

START_NS: Final = times.parse("2024-01-02T14:30:00Z").ns
SYMBOLS: Final = tuple(f"SYM{number:02}" for number in range(20))
SHARES: Final = (0.64, 0.12, 0.12, 0.12)
"""What the runs hold of all events; questions are about the first."""
_REJECTED: Final = 0.04
_UNTOLD: Final = 0.01
_ODD: Final = 0.002


class Sample(NamedTuple):
    """One event, before either store gives it its shape."""

    type: EventType
    time_ns: int
    properties: dict[str, Any]
    parent: int | None


def identity(dice: random.Random) -> str:
    """A random GUID, as the seed's origin gives everything."""
    return str(UUID(int=dice.getrandbits(128), version=4))


def stream(seed: int) -> Generator[Sample]:
    """Bars without an end, a second apart."""
    dice = random.Random(seed)
    seq, bar = 1, 0
    while True:
        for sample in _bar(dice, seq, bar):
            yield sample
            seq += 1
        bar += 1


def _bar(dice: random.Random, seq: int, bar: int) -> Generator[Sample]:
    now = START_NS + bar * times.SECOND
    about = {"SecuritySymbol": SYMBOLS[bar % len(SYMBOLS)]}
    price = Decimal(dice.randrange(1_000, 99_999)).scaleb(-2)
    candle = {
        "Open": price,
        "High": price + 1,
        "Low": price - 1,
        "Close": price,
        "Volume": dice.randrange(10_000),
    }
    yield Sample(EventType.MarketDataEvent, now, {**about, "DataType": "Candle", "Data": candle}, None)
    for period in (10, 20):
        value = price + Decimal(dice.randrange(9_999)).scaleb(-4)
        mean = {"IndicatorName": f"SMA_{period}", "Value": value, "Parameters": {"Period": period}}
        yield Sample(EventType.IndicatorCalculation, now, {**mean, **about}, seq)
    yield from _order(dice, now, seq + 3, about, price)


def _order(
    dice: random.Random, now: int, seq: int, about: dict[str, Any], price: Decimal
) -> Generator[Sample]:
    """The order has this seq, and the second indicator is its parent."""
    name = f"order-{seq}" if dice.random() < _ODD else identity(dice)
    own: dict[str, Any] = {"OrderId": name, **about}
    placed = {"StateType": "Order", "OrderStatus": "Placed", "ChangeReason": "cross", **own}
    yield Sample(EventType.StateChange, now, placed, seq - 1)
    if dice.random() < _REJECTED:
        reason = {"RejectionReason": "Insufficient margin", "RequestedQuantity": 100}
        yield Sample(EventType.OrderRejection, now, {**own, **reason}, seq)
        limit = {"RiskType": "Margin", "Threshold": 1, "CurrentValue": price, "Action": "Reject"}
        yield Sample(EventType.RiskEvent, now, limit, seq + 1)
        return
    size = dice.randrange(1, 500)
    fill = {"Direction": dice.choice(("Buy", "Sell")), "Quantity": size, "Price": price}
    costs = {"Commission": Decimal("1.00"), "Slippage": Decimal("0.05")}
    yield Sample(EventType.TradeExecution, now, {**own, **fill, **costs}, seq)
    if dice.random() < _UNTOLD:
        return
    gain = Decimal(dice.randrange(-99_999, 99_999)).scaleb(-2)
    held = {"Quantity": size, "AveragePrice": price, "UnrealizedPnL": gain, "RealizedPnL": Decimal("0.00")}
    yield Sample(EventType.PositionUpdate, now, {**about, **held}, seq + 1)


def line(sample: Sample, own: str, run: str, parent: str | None) -> bytes:
    """The event as a line of JSON in the contract's shape, without its end."""
    return json.dumps(
        {
            "eventId": own,
            "runId": run,
            "timestamp": times.format(sample.time_ns),
            "eventType": sample.type.name,
            "severity": DEFAULT_SEVERITY[sample.type].name,
            "category": DEFAULT_CATEGORY[sample.type].name,
            "properties": sample.properties,
            "parentEventId": parent,
            "validationErrors": None,
        }
    )
