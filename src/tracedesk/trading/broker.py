"""The seam to a broker: what one must offer, how it can fail, and what of its word is believed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, get_args

from tracedesk.foreign import quoted
from tracedesk.primitives.text import sanitize_terminal, strip_invisible
from tracedesk.trading.model import Fill, Order, OrderState
from tracedesk.trading.units import notional, price, quantity

log = logging.getLogger(__name__)

ReportStatus = Literal["filled", "partial", "rejected"]

REFUSED: Final = "REFUSED_BY_BROKER"
"""The broker did not take the order, and gave no reason of its own."""
NEVER_ARRIVED: Final = "NEVER_ARRIVED"
"""The broker says that it has no such order, long enough after the order was meant to be sent."""

_LONGEST: Final = 120
_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Report:
    """What a broker says became of an order; in ledger units, final for an immediate-or-cancel order."""

    client_id: str
    symbol: str
    status: ReportStatus
    quantity: int = 0
    """All that was traded."""
    price: int | None = None
    """The average price of it."""
    fees: int = 0
    reason: str | None = None
    raw: bytes = b""
    """The broker's own words, byte for byte."""


class BrokerSilent(Exception):
    """No answer came, or none that can be read: the order may or may not be there."""


class BrokerRefused(Exception):
    """The broker did not take the order, and says so."""


class Broker(Protocol):
    """A place that immediate-or-cancel orders are sent to. Both methods may raise `BrokerSilent`."""

    name: str
    answer_s: float
    """How long an answer is waited for."""
    arrives_s: float
    """How long after its intent an order that the broker does not know may still turn up there.

    It must cover a whole batch (`outbox.BATCH_S`) and whatever delays the broker's own lookups.
    """

    async def submit(self, order: Order) -> Report:
        """Send an order under its `client_id`; raises `BrokerRefused` when it is not taken.

        A broker that has the id already answers with what became of it, or is silent; it does not refuse.
        """
        ...

    async def lookup(self, client_id: str) -> Report | None:
        """What became of an order, or None when the broker says that it never came."""
        ...


# --- what is believed --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of an order after the broker was asked."""

    order: Order
    state: OrderState | None
    """None when nothing is known."""
    fill: Fill | None = None
    report: Report | None = None
    """What the broker said, believed or not."""
    problem: str | None = None
    """Why nothing is known."""

    @property
    def is_lie(self) -> bool:
        return self.state is None and self.report is not None


async def submit(broker: Broker, order: Order, seconds: float) -> Heard:
    """Send an order, once."""
    try:
        report = await _answer(broker.submit(order), seconds)
    except BrokerRefused as refused:
        return Heard(order, OrderState(order.id, "rejected", 0, _plain(str(refused)) or REFUSED))
    except BrokerSilent as silent:
        return Heard(order, None, problem=_plain(str(silent)))
    return believed(order, report)


async def lookup(broker: Broker, order: Order, seconds: float, *, may_arrive: bool) -> Heard:
    """Ask what became of an order; while it may still arrive, that it never came is not believed."""
    try:
        report = await _answer(broker.lookup(order.client_id), seconds)
    except (BrokerSilent, BrokerRefused) as silent:
        return Heard(order, None, problem=_plain(str(silent)))
    if report is not None:
        return believed(order, report)
    if may_arrive:
        return Heard(order, None, problem="the broker does not have it, and it may still arrive")
    return Heard(order, OrderState(order.id, "rejected", 0, NEVER_ARRIVED))


async def _answer(asked: Awaitable[Any], seconds: float) -> Any:
    """The broker's answer; whatever else ends the wait is silence, because the order may have gone out."""
    try:
        async with asyncio.timeout(seconds):
            return await asked
    except (BrokerSilent, BrokerRefused):
        raise
    except TimeoutError:
        raise BrokerSilent(f"no answer within {seconds:.3g} s") from None
    except Exception as fault:
        log.warning("the broker's answer was lost: %s", type(fault).__name__)
        raise BrokerSilent(f"the answer was lost ({type(fault).__name__})") from fault


def believed(order: Order, report: Report) -> Heard:
    """The report as a state and a fill of the order, if it can be true."""
    problem = implausible(order, report)
    if problem is not None:
        return Heard(order, None, report=report, problem=problem)
    if report.status == "rejected":
        return Heard(
            order, OrderState(order.id, "rejected", 0, _plain(report.reason or "") or REFUSED), None, report
        )
    assert report.price is not None
    trade, worth = order.trade, notional(report.quantity, report.price)
    fill = Fill(order.id, trade.symbol, trade.side, report.quantity, report.price, worth, report.fees)
    reason = _plain(report.reason or "") or None
    return Heard(order, OrderState(order.id, report.status, report.quantity, reason), fill, report)


def implausible(order: Order, report: Report) -> str | None:
    """Why the report cannot be true of the order, or None when it can."""
    if report.client_id != order.client_id:
        return f"it speaks of order {quoted(_plain(str(report.client_id)))}"
    if report.symbol != order.trade.symbol:
        return f"it speaks of {quoted(_plain(str(report.symbol)))}, and {order.trade.symbol} was ordered"
    if report.status not in get_args(ReportStatus):
        return f"{quoted(_plain(str(report.status)))} is no status of an immediate-or-cancel order"
    if not all(type(number) is int for number in (report.quantity, report.price or 0, report.fees)):
        return "its numbers are not whole"
    if report.status == "rejected":
        return "it is rejected, and says that something was traded or paid" if _moves(report) else None
    return _impossible_quantity(order, report) or _impossible_price(order, report)


def _moves(report: Report) -> bool:
    return bool(report.quantity or report.fees)


def _impossible_quantity(order: Order, report: Report) -> str | None:
    wanted, traded = order.trade.quantity, report.quantity
    if not 0 < traded <= wanted:
        return "it trades a quantity outside 0 to what was ordered"
    if (traded == wanted) != (report.status == "filled"):
        return f"it is {report.status} with {quantity(traded)} of {quantity(wanted)}"
    return None


def _impossible_price(order: Order, report: Report) -> str | None:
    trade, paid = order.trade, report.price
    if paid is None or paid <= 0:
        return "it trades at no positive price"
    if report.fees < 0:
        return "its fees are negative"
    if trade.type == "limit" and trade.price is not None and (paid - trade.price) * trade.sign > 0:
        return f"it trades at {price(paid)}, worse than the limit of {price(trade.price)}"
    if max(paid, notional(report.quantity, paid) + report.fees) > _MOST:
        return "its amounts are larger than any ledger's"
    return None


def _plain(text: str) -> str:
    """A stranger's words, short and without what cannot be seen or written."""
    seen = strip_invisible(sanitize_terminal(text.encode("utf-8", "replace").decode()))
    return " ".join(seen.split())[:_LONGEST]


def shown(report: Report) -> dict[str, Any]:
    """A report as an entry's body has it."""
    fields = ("client_id", "symbol", "status", "quantity", "price", "fees", "reason")
    said = {name: getattr(report, name) for name in fields}
    return {
        name: value if value is None or type(value) is int else _plain(str(value))
        for name, value in said.items()
    }
