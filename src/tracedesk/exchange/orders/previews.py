"""Previews: one-time tokens, each bound to a caller, an account, exact parameters and a short time."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Final

from tracedesk.contract import USER_SECONDS
from tracedesk.errors import ToolError
from tracedesk.exchange.orders.party import Party
from tracedesk.exchange.orders.ticket import Ticket
from tracedesk.primitives.time import Clock

MOST: Final = 10_000
"""Previews that are remembered at once; the oldest go first."""


def client_order_id(scope: str, token: str) -> str:
    """The id that an order has at the venue: the same for the same preview, in every process, for ever."""
    return "td-" + hashlib.sha256(f"{scope}\0{token}".encode()).hexdigest()[:32]


def invalid(reason: str, message: str, **details: object) -> ToolError:
    """PREVIEW_INVALID with its remedy."""
    text = f"preview_token: {message} Call preview_order again and place what it returns."
    return ToolError("PREVIEW_INVALID", text, {"reason": reason, **details})


def _unknown() -> ToolError:
    return invalid("unknown", "it is not a preview of this session, or it was placed or declined already.")


@dataclass(slots=True)
class Preview:
    """What was shown, and until when it may be placed."""

    token: str
    scope: str
    account: str
    ticket: Ticket
    call: str | None
    """The reference of the call that made it."""
    until: float
    """On the monotonic clock."""
    summary: str = ""
    """What it was estimated to be worth, for the one who confirms it."""
    held: bool = False
    """Whether a user was asked about it."""
    confirmed: bool = False

    @property
    def client_order_id(self) -> str:
        return client_order_id(self.scope, self.token)


@dataclass(slots=True)
class Previews:
    """The previews of one desk that can still be placed."""

    clock: Clock
    seconds: float
    _known: dict[str, Preview] = field(default_factory=dict[str, Preview])

    def __len__(self) -> int:
        return len(self._known)

    def make(self, party: Party, ticket: Ticket, call: str | None, summary: str = "") -> Preview:
        self._forget_old()
        token = "pv_" + secrets.token_urlsafe(18)
        until = self.clock.monotonic() + self.seconds
        self._known[token] = Preview(token, party.scope, party.account, ticket, call, until, summary)
        return self._known[token]

    def find(self, party: Party, token: str, ticket: Ticket) -> Preview:
        """The preview to place; raises PREVIEW_INVALID for anything that is not exactly it."""
        known = self._known.get(token)
        # A foreign token is answered as one that never was: it tells nothing of other callers.
        if known is None or known.scope != party.scope:
            raise _unknown()
        if self.clock.monotonic() > known.until:
            raise invalid("expired", f"it is older than {self.seconds:g} seconds.")
        if known.account != party.account:
            raise invalid("account", f"it was made for the account {known.account}.", field="connection_id")
        field = known.ticket.difference(ticket)
        if field is not None:
            raise invalid("differs", f"{field} differs from what was previewed.", field=field)
        return known

    def check(self, preview: Preview) -> None:
        """Refuse what was placed, declined or dropped since it was found."""
        if self._known.get(preview.token) is not preview:
            raise _unknown()

    def hold(self, preview: Preview) -> None:
        """Give the user time to answer, once: the order is judged anew when they have."""
        if not preview.held:
            preview.held = True
            preview.until = self.clock.monotonic() + USER_SECONDS

    def burn(self, preview: Preview) -> None:
        """It can never be placed again."""
        self._known.pop(preview.token, None)

    def forget(self, scope: str) -> None:
        """Drop the previews of a caller that has gone."""
        self._known = {token: each for token, each in self._known.items() if each.scope != scope}

    def _forget_old(self) -> None:
        now = self.clock.monotonic()
        # Those that ran out a while ago stay a little, to be told from those that never were.
        kept = {token: each for token, each in self._known.items() if now - each.until < USER_SECONDS}
        self._known = dict(list(kept.items())[-MOST + 1 :])
