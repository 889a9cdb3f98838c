"""Runs NautilusTrader with a strategy that amends its order, and prints what was told of it."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import Any

from tests.backtest.adapters.nautilus_engine import BARS, EQUITY, Price, Quantity, Side, Strategy, engine
from tests.backtest.adapters.sinks import Memory, obey
from tracedesk.backtest.adapters import nautilus


class Patient(Strategy):
    """Bids far below the market, then for fewer and far above it, which is filled."""

    def on_start(self) -> None:
        self.subscribe_bars(BARS)
        self.calls = 0

    def on_bar(self, bar: Any) -> None:
        self.calls += 1
        close = float(bar.close)
        if self.calls == 1:
            low = Price.from_str(f"{close / 2:.2f}")
            self.order = self.order_factory.limit(EQUITY.id, Side.BUY, Quantity.from_int(10), low)
            self.submit_order(self.order)
        elif self.calls == 3:
            self.modify_order(self.order, quantity=Quantity.from_int(7))
        elif self.calls == 5:
            self.modify_order(self.order, price=Price.from_str(f"{close * 2:.2f}"))


def main() -> None:
    made, sink = engine(Patient()), Memory()
    with nautilus.record(made, sink):
        made.run()
    obey(sink)
    (order,) = made.cache.orders()
    told = [(e.seq, e.type, dict(e.properties), e.parent) for e in sink.events if "OrderId" in e.properties]
    engine_says = {
        "quantity": str(order.quantity),
        "price": str(order.price),
        "status": order.status_string(),
    }
    json.dump({"told": told, "engine": engine_says}, sys.stdout, default=lambda value: str(Decimal(value)))


if __name__ == "__main__":
    main()
