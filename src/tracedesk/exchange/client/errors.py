"""How a call to a venue can end badly: refused for certain, not sent at all, or nobody knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.foreign import block, quoted

_LONGEST: Final = 300
"""Characters of a venue's message that are passed on."""

_CREDENTIALS: Final = "check that the profile holds the right key and secret, and that the key may do this"
_LATER: Final = "the venue is not serving now; try again in a minute"
_REMEDIES: Final[Mapping[int, tuple[str, str]]] = {
    -1001: ("VENUE_UNAVAILABLE", _LATER),
    -1008: ("VENUE_UNAVAILABLE", _LATER),
    -1016: ("VENUE_UNAVAILABLE", _LATER),
    -1021: ("VENUE_UNAVAILABLE", "this machine's clock and the venue's differ; set it by NTP"),
    -1121: ("INVALID_SYMBOL", "symbol: use one that get_exchange_info lists"),
    -1002: ("CREDENTIALS_REQUIRED", _CREDENTIALS),
    -1022: ("CREDENTIALS_REQUIRED", _CREDENTIALS),
    -2014: ("CREDENTIALS_REQUIRED", _CREDENTIALS),
    -2015: ("CREDENTIALS_REQUIRED", _CREDENTIALS),
    -2011: ("INVALID_PARAMETER", "order_id: the order is not open; look at it with get_order"),
    -2013: ("INVALID_PARAMETER", "order_id: use an id of this account's orders on this symbol"),
}
_FILTER: Final = "Filter failure: "
_NO_FUNDS: Final = "insufficient balance"


class ClientError(ToolError):
    """Anything that keeps the client from giving an answer."""


class VenueError(ClientError):
    """The venue refused: nothing was done, except where `data` says that half of a cancel-replace was."""

    def __init__(
        self, venue_code: int, venue_message: str, status: int, data: Mapping[str, Any] | None = None
    ) -> None:
        self.venue_code = venue_code
        self.venue_message = venue_message[:_LONGEST]
        self.status = status
        self.data = dict(data) if data is not None else None
        code, remedy, details = _told(venue_code, self.venue_message)
        details |= {"venueCode": venue_code, "venueMessage": self.venue_message, "httpStatus": status}
        message = f"The venue refused ({venue_code}): {block(self.venue_message)}. Remedy: {remedy}."
        super().__init__(code, message, details)


def _told(venue_code: int, message: str) -> tuple[str, str, dict[str, Any]]:
    """The tool's code, the remedy and further details of a refusal."""
    if message.startswith(_FILTER):
        name = (message.removeprefix(_FILTER).split() or [""])[0].rstrip(".")
        remedy = (
            f"price or quantity: keep to the symbol's {quoted(name)} filter, which get_exchange_info shows"
        )
        return "FILTER_FAILURE", remedy, {"filter": name}
    if venue_code == -2010 and _NO_FUNDS in message:
        return "INSUFFICIENT_BALANCE", "quantity: lower it to what get_account shows as free", {}
    if venue_code in _REMEDIES:
        code, remedy = _REMEDIES[venue_code]
        return code, remedy, {}
    return "INVALID_PARAMETER", "change the parameter that the message names", {}


class RateLimited(ClientError):
    """Not done, because a limit is used up; `sent` tells whether the venue said so or we foresaw it."""

    def __init__(
        self,
        message: str,
        retry_after: float,
        *,
        sent: bool,
        banned: bool = False,
        venue_code: int | None = None,
    ) -> None:
        self.retry_after = retry_after
        self.sent = sent
        self.banned = banned
        self.venue_code = venue_code
        seconds = max(1, round(retry_after))
        details: dict[str, Any] = {"retryAfterSeconds": seconds, "banned": banned, "sent": sent}
        if venue_code is not None:
            details["venueCode"] = venue_code
        # Only a refusal that came from the venue is in its words.
        told = f"The venue says {block(message[:_LONGEST])}." if sent else message
        super().__init__("RATE_LIMITED", f"{told} Nothing was done. Try again in {seconds} s.", details)


class OutcomeUnknown(ClientError):
    """A request that changes something was sent and no answer tells whether it was carried out."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        message = f"The venue may or may not have carried this out: {reason}. Query it; do not send it again."
        super().__init__("OUTCOME_UNKNOWN", message, {"reason": reason})


class Unreachable(ClientError):
    """Certainly not carried out: never sent, or a read whose repetitions failed too."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        message = (
            f"The venue cannot be reached: {reason}. Check the network and provider_status, then try again."
        )
        super().__init__("VENUE_UNAVAILABLE", message, {"reason": reason})


class CredentialsRequired(ClientError):
    """A signed call by a session that has no key."""

    def __init__(self, what: str) -> None:
        message = f"{what} needs credentials. Choose a profile with the connect tool."
        super().__init__("CREDENTIALS_REQUIRED", message)
