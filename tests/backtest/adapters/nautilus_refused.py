"""Orders that NautilusTrader refuses, thousands of them: prints the properties of each recorded rejection."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from tests.backtest.adapters.nautilus_engine import BARS, EQUITY, Price, Quantity, Side, Strategy
from tests.backtest.adapters.performance_nautilus import engine
from tests.backtest.adapters.sinks import Memory
from tracedesk.backtest.adapters import nautilus

BAR_COUNT = 600
ORDERS_A_BAR = 10


class Eager(Strategy):
    """Orders on the wrong side of the market, each at a price of its own."""

    def __init__(self) -> None:
        Strategy.__init__(self)
        self.dice = random.Random(1)

    def on_start(self) -> None:
        self.subscribe_bars(BARS)

    def on_bar(self, bar: Any) -> None:
        for _ in range(ORDERS_A_BAR):
            self.submit_order(self.refused(float(bar.close)))

    def refused(self, close: float) -> Any:
        side, beyond = self.dice.choice((Side.BUY, Side.SELL)), 0.5 + 9 * self.dice.random()
        sign = 1 if side == Side.BUY else -1
        above, below = (Price.from_str(f"{close + way * sign * beyond:.2f}") for way in (1, -1))
        make, units = self.order_factory, Quantity.from_int(self.dice.randrange(1, 99))
        kind = self.dice.randrange(3)
        if kind == 0:
            return make.limit(EQUITY.id, side, units, above, post_only=True)
        if kind == 1:
            return make.stop_market(EQUITY.id, side, units, below)
        return make.stop_limit(EQUITY.id, side, units, above, below)


def main() -> None:
    made, sink = engine(Eager(), BAR_COUNT), Memory()
    with nautilus.record(made, sink):
        made.run()
    rejections = [event.properties for event in sink.of("OrderRejection")]
    json.dump(rejections, sys.stdout, default=str)


if __name__ == "__main__":
    main()
