"""Orders of unknown outcome: asked about under their own id, believed with care, never sent again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.client.errors import (
    ClientError,
    CredentialsRequired,
    OutcomeUnknown,
    RateLimited,
    Unreachable,
    VenueError,
)
from tracedesk.exchange.orders.ledger import Order
from tracedesk.exchange.orders.party import Party
from tracedesk.exchange.orders.report import NEVER_ARRIVED, REFUSED, Implausible, State, heard
from tracedesk.foreign import block, closed

log = logging.getLogger(__name__)

NO_SUCH_ORDER: Final = -2013
_AMBIGUOUS: Final = (0, -1000, -1001, -1006, -1007)
"""Refusals by which the venue does not say that nothing was done; 0 is none of its own words at all."""
_DUPLICATE: Final = "duplicate"
_LONGEST: Final = 300
_OTHER_KEY: Final = (
    "it was sent with another key of this name, and that this key's account does not have it proves nothing"
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of an order after its venue was spoken to."""

    state: State | None
    """None when nothing is known."""
    told: Any = None
    """The venue's own words."""
    problem: str | None = None
    """Why nothing is known, or why it was refused."""
    refusal: ToolError | None = None


async def send(party: Party, order: Order, params: dict[str, str]) -> Heard:
    """Send an order, once."""
    try:
        told = await party.venue.new_order(
            **params, newClientOrderId=order.client_order_id, newOrderRespType="FULL"
        )
    except VenueError as refusal:
        if _is_ambiguous(refusal):
            return Heard(None, problem=_said(refusal))
        return _refused(refusal)
    except (Unreachable, RateLimited, CredentialsRequired) as refusal:
        return _refused(refusal)
    except OutcomeUnknown as silence:
        return Heard(None, problem=silence.reason)
    except Exception as fault:
        # The bytes may have gone out: no fault of ours makes that undone.
        log.warning("order %s: its answer was lost (%s)", order.client_order_id, type(fault).__name__)
        return Heard(None, problem=f"the answer was lost ({type(fault).__name__})")
    return _believed(order, told)


def _is_ambiguous(refusal: VenueError) -> bool:
    # A venue that has the id already took the order before, though we sent it once: the network repeated it.
    repeated = refusal.venue_code == -2010 and _DUPLICATE in refusal.venue_message.lower()
    return refusal.venue_code in _AMBIGUOUS or repeated


def _refused(refusal: ClientError) -> Heard:
    return Heard(State(REFUSED), problem=closed(refusal.message[:_LONGEST]), refusal=refusal)


def _said(refusal: VenueError) -> str:
    return f"the venue said {refusal.venue_code}: {block(refusal.venue_message)}"


def _believed(order: Order, told: Any) -> Heard:
    try:
        return Heard(heard(told, order.symbol, order.client_order_id, order.quantity), told)
    except Implausible as problem:
        return Heard(None, told, f"the answer cannot be true: {problem}"[:_LONGEST])


async def ask(party: Party, order: Order, arrives_s: float, *, is_own: bool = True) -> Heard:
    """Ask what became of an order; while it could still arrive, that there is none is not believed.

    Nor is it where the order may be another account's, which had the name before: it is not `is_own`.
    """
    try:
        told = await party.venue.order(order.symbol, origClientOrderId=order.client_order_id)
    except VenueError as refusal:
        if refusal.venue_code != NO_SUCH_ORDER:
            return Heard(None, problem=_said(refusal))
        return await _absent(party, order, arrives_s) if is_own else Heard(None, problem=_OTHER_KEY)
    except ClientError as silence:
        return Heard(None, problem=closed(silence.message[:_LONGEST]))
    return _believed(order, told)


async def _absent(party: Party, order: Order, arrives_s: float) -> Heard:
    """The venue's own clock decides, because it refuses what was signed too long ago by that clock."""
    try:
        now_ms = await party.venue.server_time()
    except ClientError as silence:
        return Heard(None, problem=closed(silence.message[:_LONGEST]))
    left_s = arrives_s - (now_ms - order.venue_ms) / 1000
    if left_s > 0:
        problem = f"the venue does not have it; it may still arrive for {left_s:.0f} s"
        return Heard(None, problem=problem)
    return Heard(State(NEVER_ARRIVED), problem="the venue does not have it, and it can no longer arrive")
