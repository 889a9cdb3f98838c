"""Judging an order on its market and its account as they are now; a preview and a placing judge alike."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.client.errors import Unreachable
from tracedesk.exchange.orders import caps, filters
from tracedesk.exchange.orders.estimate import Account, Estimate
from tracedesk.exchange.orders.filters import Standing
from tracedesk.exchange.orders.identity import number_of
from tracedesk.exchange.orders.party import Party, View
from tracedesk.exchange.orders.ticket import Ticket
from tracedesk.exchange.settings import Exchange

OLDEST_MS: Final = 10_000
"""A book that has not been heard of for longer is no ground for an order."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An order that may be sent."""

    estimate: Estimate
    filters: list[str]
    """The filters that were judged here; the venue judges all."""
    open_orders: int
    number: int | None = None
    """What the venue calls the account, where it says so."""

    @property
    def ticket(self) -> Ticket:
        return self.estimate.ticket

    def document(self) -> dict[str, Any]:
        account = self.estimate.account
        found = {**self.estimate.document(), "filters_passed": self.filters, "open_orders": self.open_orders}
        if account.can_withdraw:
            found["warning"] = "This key may withdraw. Use one that may only trade."
        return found


async def judge(settings: Exchange, party: Party, ticket: Ticket) -> Judged:
    """Hold the order to allow-list, filters, caps and balance; raises what it fails first."""
    caps.check_symbol(settings, ticket.symbol)
    view = await party.look(ticket.symbol)
    _check_view(view)
    told, resting = await asyncio.gather(party.venue.account(), party.venue.open_orders())
    try:
        account = Account.of(told, ticket.side)
        standing = Standing(resting, account.balance(view.instrument.base).total)
        passed = filters.check(ticket, view, standing)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise Unreachable(f"its answer cannot be read ({type(problem).__name__})") from problem
    estimate = Estimate.of(ticket, view, account)
    caps.check_order(settings.caps, estimate, len(resting))
    estimate.check_balance()
    return Judged(estimate, passed, len(resting), number_of(told))


def _check_view(view: View) -> None:
    """An order is judged on a book that is whole and of now, or not at all."""
    if view.synced and view.age_ms <= OLDEST_MS and view.mid2 is not None:
        return
    state = f"{view.age_ms} ms old" if view.synced else "not in step with the venue"
    message = (
        f"symbol: the book of {view.instrument.symbol} is "
        f"{state if view.mid2 is not None else 'empty on a side'}, "
        "so the order cannot be judged. Nothing was sent; try again in a few seconds."
    )
    raise ToolError(
        "VENUE_UNAVAILABLE", message, {"symbol": view.instrument.symbol, "bookAgeMs": view.age_ms}
    )
