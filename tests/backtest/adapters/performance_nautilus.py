"""One run of NautilusTrader with orders at random; figures by the engine's own accounts and positions."""

from __future__ import annotations

import random
from decimal import Decimal
from itertools import pairwise
from typing import Any

from tests.backtest.adapters.nautilus_engine import BARS, EQUITY, Quantity, Side, Strategy, bars, part
from tracedesk.backtest.adapters import nautilus
from tracedesk.backtest.adapters.tape import Sink

CASH = 100_000


class Trader(Strategy):
    """Buys, sells and closes at random, and reads its account on every bar.

    The engine's report leaves out positions that an order turned, and counts an open one as lost. So a trader
    that turns none and ends flat is judged by the report, and one that turns by the engine's events. Neither
    trades on the first two bars: the recording has an equity from the second one on.
    """

    def __init__(self, dice: random.Random, bars: int, *, turns: bool) -> None:
        Strategy.__init__(self)
        self.dice, self.left, self.turns = dice, bars, turns
        self.equity: list[float] = []
        self.gains: list[Decimal] = []

    def on_start(self) -> None:
        self.subscribe_bars(BARS)

    def on_bar(self, bar: Any) -> None:
        self.read(bar)
        self.left -= 1
        throw = self.dice.random()
        if self.left < 2 or throw > 0.96:
            self.close_all_positions(EQUITY.id)
        elif throw < 0.14 and len(self.equity) > 2:
            self.order(Side.BUY if throw < 0.07 else Side.SELL, self.dice.randrange(1, 50))

    def order(self, side: Any, units: int) -> None:
        """An order that closes no more than is held, unless the trader turns its positions."""
        held = int(sum((one.signed_decimal_qty() for one in self.cache.positions_open()), start=Decimal(0)))
        if not self.turns and held and (held > 0) == (side == Side.SELL):
            units = min(units, abs(held))
        self.submit_order(self.order_factory.market(EQUITY.id, side, Quantity.from_int(units)))

    def on_position_closed(self, event: Any) -> None:
        self.gains.append(event.realized_pnl.as_decimal())

    def read(self, bar: Any) -> None:
        usd = part("model.currencies", "USD")
        account = self.portfolio.account(EQUITY.id.venue)
        open_ = [position.unrealized_pnl(bar.close) for position in self.cache.positions_open()]
        unrealized = sum((gain.as_decimal() for gain in open_), start=Decimal(0))
        self.equity.append(float(account.balance_total(usd).as_decimal() + unrealized))


def engine(strategy: Any, count: int) -> Any:
    logging = part("config", "LoggingConfig")(bypass_logging=True)
    made = part("backtest.engine", "BacktestEngine")(
        part("backtest.engine", "BacktestEngineConfig")(logging=logging)
    )
    usd = part("model.currencies", "USD")
    made.add_venue(
        part("model.identifiers", "Venue")("XNAS"),
        part("model.enums", "OmsType").NETTING,
        part("model.enums", "AccountType").MARGIN,
        [part("model.objects", "Money")(CASH, usd)],
        base_currency=usd,
    )
    made.add_instrument(EQUITY)
    made.add_data(bars()[:count])
    made.add_strategy(strategy)
    return made


def ran(dice: random.Random, sink: Sink, *, turns: bool) -> tuple[list[float], int, int]:
    """Daily returns, closed positions, and those of them that gained."""
    count = dice.randrange(200, 600)
    strategy = Trader(dice, count, turns=turns)
    made = engine(strategy, count)
    with nautilus.record(made, sink):
        made.run()
    returns = [after / before - 1 for before, after in pairwise(strategy.equity)]
    closed, won = len(strategy.gains), sum(gain > 0 for gain in strategy.gains)
    if not turns:
        closed = len(made.cache.position_snapshots()) + len(made.cache.positions())
        won = round(made.get_result().stats_pnls["USD"]["Win Rate"] * closed)
    made.dispose()
    return returns, closed, won
