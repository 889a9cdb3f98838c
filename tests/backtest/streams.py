"""Streams of events for tests and measurements: a causal one like an engine's, and arbitrary ones."""

from __future__ import annotations

import random
from collections.abc import Generator
from decimal import Decimal
from typing import Any, Final, NamedTuple

from tracedesk.backtest.ids import event_id
from tracedesk.backtest.model import DEFAULT_CATEGORY, DEFAULT_SEVERITY, EventType
from tracedesk.backtest.recorder import Recorder
from tracedesk.primitives import json
from tracedesk.primitives import time as times

START_NS: Final = times.parse("2024-01-02T14:30:00Z").ns
SYMBOLS: Final = tuple(f"SYM{n:02}" for n in range(20))


class Sample(NamedTuple):
    """An event as it is given to a recorder."""

    type: EventType
    time_ns: int
    properties: dict[str, Any]
    parent: int | None


def causal(count: int, seed: int = 1) -> Generator[Sample]:
    """Candles that lead to indicators, orders, fills and positions; some orders are rejected."""
    dice = random.Random(seed)
    done = 0
    order = 0
    while done < count:
        for sample in _bar(dice, done, order):
            if done == count:
                return
            yield sample
            done += 1
        order += 1


def _bar(dice: random.Random, done: int, order: int) -> Generator[Sample]:
    now = START_NS + order * times.SECOND
    symbol = SYMBOLS[order % len(SYMBOLS)]
    price = Decimal(dice.randrange(1_000, 99_999)).scaleb(-2)
    candle = {
        "SecuritySymbol": symbol,
        "DataType": "Candle",
        "Data": {
            "Open": price,
            "High": price + 1,
            "Low": price - 1,
            "Close": price,
            "Volume": dice.randrange(10_000),
        },
    }
    yield Sample(EventType.MarketDataEvent, now, candle, None)
    for step, period in enumerate((10, 20), 1):
        value = price + Decimal(dice.randrange(9_999)).scaleb(-4)
        yield Sample(EventType.IndicatorCalculation, now, _sma(symbol, period, value), done + step)
    yield from _order(dice, now, done + 4, symbol, price)


def _sma(symbol: str, period: int, value: Decimal) -> dict[str, Any]:
    parameters = {"Period": period}
    return {
        "IndicatorName": f"SMA_{period}",
        "SecuritySymbol": symbol,
        "Value": value,
        "Parameters": parameters,
    }


def _order(dice: random.Random, now: int, seq: int, symbol: str, price: Decimal) -> Generator[Sample]:
    """Events from `seq` on: the order is the child of the last indicator."""
    name = f"{dice.getrandbits(32):08x}-0000-4000-8000-{seq:012x}"
    size = dice.randrange(1, 500)
    about: dict[str, Any] = {"OrderId": name, "SecuritySymbol": symbol}
    placed = {**about, "Direction": "Buy" if seq % 2 else "Sell", "Quantity": size, "Price": price}
    yield Sample(EventType.OrderPlaced, now, placed, seq - 1)
    if dice.random() < 0.04:
        yield Sample(EventType.OrderRejection, now, {**about, "RejectionReason": "Insufficient margin"}, seq)
        risk = {"RiskType": "Margin", "Threshold": 1, "CurrentValue": price, "Action": "Reject"}
        yield Sample(EventType.RiskEvent, now, risk, seq + 1)
        return
    yield Sample(EventType.TradeExecution, now, {**placed, "Commission": Decimal("1.00")}, seq)
    if dice.random() < 0.99:
        held = {"SecuritySymbol": symbol, "Quantity": size, "AveragePrice": price}
        held |= {
            "UnrealizedPnL": Decimal(dice.randrange(-9_999, 9_999)).scaleb(-2),
            "RealizedPnL": Decimal("0.00"),
        }
        yield Sample(EventType.PositionUpdate, now, held, seq + 1)


def record(recorder: Recorder, samples: Any) -> None:
    """Give every sample to a recorder."""
    for kind, now, properties, parent in samples:
        recorder.emit(kind, now, properties, parent=parent)


def line(run: str, seq: int, sample: Sample) -> bytes:
    """The event as a line of JSON, in the contract's shape."""
    return json.dumps(
        {
            "eventId": event_id(run, seq),
            "runId": run,
            "timestamp": times.format(sample.time_ns),
            "eventType": sample.type.name,
            "severity": DEFAULT_SEVERITY[sample.type].name,
            "category": DEFAULT_CATEGORY[sample.type].name,
            "properties": sample.properties,
            "parentEventId": None if sample.parent is None else event_id(run, sample.parent),
            "validationErrors": None,
        }
    )
