"""The way of a request, alike for both interfaces: admitted, authorised, read, acted upon, charged."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tracedesk.exchange.local import errors, parameters
from tracedesk.exchange.local.auth import Key, Timing
from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.market import Unit
from tracedesk.exchange.local.methods import SIGNED, Call, Json, Method
from tracedesk.exchange.venue.orders import VenueRefused

if TYPE_CHECKING:
    from tracedesk.exchange.local.exchange import LocalExchange

_LOG: Final = logging.getLogger(__name__)
_REJECTED_KEY: Final = -2015


class Cut(Exception):
    """A fault: the connection is to be cut instead of answered."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it arrived."""

    address: str
    sent: Mapping[str, str]
    """Every parameter, by name."""
    api_key: str
    """Empty where none was sent."""
    payload: bytes | None
    """What the signature is to be of; `None` where nothing can have been signed."""
    unit: Unit = "ms"
    security: tuple[str, ...] = SIGNED
    """Parameters that belong to the key and its signature."""
    steering: tuple[str, ...] = ()
    """Parameters that belong to the interface the request came by."""
    session: Key | None = None
    """The key that an authenticated session stands for."""


ESSENTIAL: Final = frozenset(
    ("order.cancel", "openOrders.cancelAll", "openOrders.status", "order.status", "orderList.cancel")
)
"""Methods that weight is kept back for: to cancel orders, and to find those that are to be cancelled."""


async def answer(exchange: LocalExchange, method: Method, asked: Asked) -> tuple[Json, str]:
    """What the request gets and the account it was for, or `Refused`; `Cut` where a fault wants it so."""
    found = _proved(exchange, method, asked)
    account = found[0].account if isinstance(found, tuple) and found[0] is not None else ""
    who = exchange.limits.counted(asked.address, account)
    exchange.limits.admit(who, account if method.name in ESSENTIAL else "")
    charge = _Charge(exchange, method, who)
    try:
        await _before(exchange, method.name)
        if isinstance(found, Refused):
            raise found
        body = _acted(exchange, method, asked, charge, *found)
    except Refused:
        charge.failed()
        raise
    charge.succeeded()
    await _after(exchange, method.name)
    return body, account


def _proved(
    exchange: LocalExchange, method: Method, asked: Asked
) -> tuple[Key | None, Timing | None] | Refused:
    """Account of a request, found before the request is counted; a refusal is sent after the count."""
    try:
        return authorised(exchange, method, asked)
    except Refused as refused:
        return refused
    except VenueRefused as refused:
        return _refused(refused)


def _refused(refused: VenueRefused) -> Refused:
    return Refused(refused.code, refused.message, 401 if refused.code == _REJECTED_KEY else 400)


def _acted(
    exchange: LocalExchange,
    method: Method,
    asked: Asked,
    charge: _Charge,
    key: Key | None,
    timing: Timing | None,
) -> Json:
    try:
        apart = asked.steering + (asked.security if method.permission else ())
        values = parameters.read(method.parameters, asked.sent, apart)
        charge.weight = method.cost(values)
        if timing is not None:
            # The request may have waited since its time was checked.
            timing.check(exchange.now_ns())
        account = "" if key is None else key.account
        return method.act(Call(exchange, values, account, asked.unit))
    except Refused:
        raise
    except VenueRefused as refused:
        raise _refused(refused) from refused
    except Exception as error:
        _LOG.exception("%s could not be finished", method.name)
        raise errors.unknown() from error


class _Charge:
    """Weight of a request for its account, by the outcome."""

    def __init__(self, exchange: LocalExchange, method: Method, who: str | None) -> None:
        self._exchange = exchange
        self._method = method
        self._who = who
        # What depends on the parameters is not known before they are read.
        self.weight = method.weight if isinstance(method.weight, int) else 1

    def succeeded(self) -> None:
        self._exchange.limits.charge(self._who, 0 if self._method.free else self.weight)

    def failed(self) -> None:
        self._exchange.limits.charge(self._who, self.weight)


def authorised(exchange: LocalExchange, method: Method, asked: Asked) -> tuple[Key | None, Timing | None]:
    """The key of a request and the time it holds, both checked; nothing for what needs no key."""
    if method.permission is None:
        return None, None
    if asked.session is not None and not asked.api_key and "signature" not in asked.sent:
        key = exchange.keys.find(asked.session.api_key)
        timing = Timing.of(asked.sent)
        timing.check(exchange.now_ns())
    else:
        key, timing = signed(exchange, asked)
    if method.permission not in key.permissions:
        raise errors.rejected_key()
    return key, timing


def signed(exchange: LocalExchange, asked: Asked) -> tuple[Key, Timing]:
    """The key that signed a request in time."""
    key = exchange.keys.find(asked.api_key)
    timing = Timing.of(asked.sent)
    signature = asked.sent.get("signature", "")
    if not signature:
        raise errors.missing("signature")
    timing.check(exchange.now_ns())
    if asked.payload is None or not key.verifies(asked.payload, signature):
        raise errors.bad_signature()
    return key, timing


# --- faults -------------------------------------------------------------------------------------


async def _before(exchange: LocalExchange, name: str) -> None:
    faults = exchange.faults
    if faults.strike("drop_before", name):
        raise Cut
    if fault := faults.strike("error_before", name):
        raise _broken(fault.status)
    if faults.strike("timeout_before", name):
        raise errors.timed_out()
    _limited(exchange, name)
    if fault := faults.strike("delay_before", name):
        await exchange.sleep(fault.seconds)


def _limited(exchange: LocalExchange, name: str) -> None:
    if fault := exchange.faults.strike("limit", name):
        raise errors.too_much_weight(6_000, "1 MINUTE", max(1, round(fault.seconds)))
    if fault := exchange.faults.strike("ban", name):
        seconds = max(1, round(fault.seconds))
        raise errors.banned(exchange.now_ms() + 1_000 * seconds, seconds)


async def _after(exchange: LocalExchange, name: str) -> None:
    faults = exchange.faults
    if fault := faults.strike("delay_after", name):
        await exchange.sleep(fault.seconds)
    if faults.strike("drop_after", name):
        raise Cut
    if fault := faults.strike("error_after", name):
        raise _broken(fault.status)
    if faults.strike("timeout_after", name):
        raise errors.timed_out()


def _broken(status: int) -> Refused:
    known = errors.disconnected()
    return Refused(known.code, known.message, status)
