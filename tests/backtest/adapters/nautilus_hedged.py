"""Runs NautilusTrader on a venue with hedging, two positions at once, and prints what was told of them."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import Any

from tests.backtest.adapters.nautilus_engine import BARS, EQUITY, Quantity, Side, Strategy, engine, part
from tests.backtest.adapters.sinks import Memory
from tracedesk.backtest.adapters import nautilus


class Hedged(Strategy):
    """Buys twice, which opens two positions, and then sells the first alone."""

    def on_start(self) -> None:
        self.subscribe_bars(BARS)
        self.calls = 0

    def on_bar(self, bar: Any) -> None:
        self.calls += 1
        make = self.order_factory
        if self.calls in (2, 4):
            size = Quantity.from_int(10 * self.calls)
            self.submit_order(make.market(EQUITY.id, Side.BUY, size))
        elif self.calls == 6:
            first = min(self.cache.positions_open(), key=lambda position: position.ts_opened)
            sale = make.market(EQUITY.id, Side.SELL, first.quantity)
            self.submit_order(sale, position_id=first.id)


def main() -> None:
    made, sink = engine(Hedged(), oms=part("model.enums", "OmsType").HEDGING), Memory()
    with nautilus.record(made, sink):
        made.run()
    told = [(e.seq, e.type, e.time, dict(e.properties), e.parent) for e in sink.events]
    held = {str(p.id): str(p.signed_decimal_qty()) for p in made.cache.positions()}
    json.dump({"told": told, "held": held}, sys.stdout, default=lambda value: str(Decimal(value)))


if __name__ == "__main__":
    main()
