"""An account while the orders of a batch are at a broker: what was traded so far, and what still fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from tracedesk.errors import ToolError
from tracedesk.trading import book
from tracedesk.trading.broker import Heard
from tracedesk.trading.draft import Market
from tracedesk.trading.model import Order
from tracedesk.trading.settings import Trading
from tracedesk.trading.simulation import Standing, judged

BREAKS_A_LIMIT: Final = "RISK_LIMIT_EXCEEDED"


@dataclass(frozen=True, slots=True)
class WholeFills(Market):
    """The market as a broker's order is judged on: nothing keeps a broker from filling all of it."""

    @staticmethod
    def of(market: Market) -> WholeFills:
        return WholeFills(**{known.name: getattr(market, known.name) for known in fields(market)})

    def average_volume(self, symbol: str) -> int | None:
        return None


@dataclass(slots=True)
class Outlook:
    """The account so far, and the market that the batch was judged on."""

    account: Standing
    market: Market
    settings: Trading

    def take(self, heard: Heard) -> None:
        """Go on from what the broker says was traded."""
        fill = heard.fill
        if fill is not None:
            portfolio = book.after(self.account.portfolio, (fill,), book.for_fill(fill))
            self.account = replace(self.account, portfolio=portfolio)

    def objection(self, orders: Sequence[Order]) -> str | None:
        """Why the first of the orders that are left must not be sent; None when it may be.

        It may be when all that are left are allowed together, as the batch was, or when it is by itself.
        """
        if self._breaks(orders) is None:
            return None
        return self._breaks(orders[:1])

    def _breaks(self, orders: Sequence[Order]) -> str | None:
        try:
            found = judged(self.account, tuple(orders), self.market, self.settings)
        except ToolError as refused:
            return refused.code
        return BREAKS_A_LIMIT if found.judgement.violations else None
