"""Asking the user before an order goes out."""

from __future__ import annotations

from typing import Any, Final

from tracedesk.contract import Call, Form
from tracedesk.exchange.orders.previews import Preview, Previews, invalid
from tracedesk.exchange.settings import Exchange
from tracedesk.exchange.units import decimal

_SCHEMA: Final = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Send this order", "default": False}},
    "required": ["confirm"],
}


def is_needed(settings: Exchange) -> bool:
    """Live orders are confirmed by a person, unless the operator has consented in the settings."""
    return settings.confirm == "always" or (settings.confirm == "live" and settings.mode == "live")


async def confirm(settings: Exchange, previews: Previews, preview: Preview, call: Call[Any]) -> None:
    """Ask, and return if the user agrees; a client that cannot be asked gets an error.

    It comes before anything is done, because the call may be run again from its start with the answer.
    """
    if preview.confirmed or not is_needed(settings):
        return
    await previews.hold(preview)
    form = Form(_question(settings, preview), _SCHEMA)
    answer = await call.elicit(form, key=f"confirm-{preview.client_order_id}")
    if answer.action != "accept" or answer.content.get("confirm") is not True:
        await previews.burn(preview)
        raise invalid("declined", "the user did not confirm the order, and nothing was sent.")
    await previews.confirm(preview)


def _question(settings: Exchange, preview: Preview) -> str:
    ticket = preview.ticket
    terms = [f"{ticket.side} {decimal(ticket.quantity)} {ticket.symbol}", ticket.order_type]
    if ticket.price is not None:
        terms.append(f"at {decimal(ticket.price)}")
    if ticket.stop_price is not None:
        terms.append(f"stop {decimal(ticket.stop_price)}")
    if ticket.time_in_force is not None:
        terms.append(ticket.time_in_force)
    where = f"Mode {settings.mode.upper()}, account {preview.account}"
    return f"Send this order? {where}: {' '.join(terms)}. {preview.summary}"
