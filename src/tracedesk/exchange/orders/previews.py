"""Previews: one-time tokens, each bound to a holder, an account, exact parameters and a short time.

Every desk of the home finds them, by the id that their order will have at the venue: a token itself is
written nowhere.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tracedesk.contract import USER_SECONDS
from tracedesk.errors import ToolError
from tracedesk.exchange.orders.party import Party
from tracedesk.exchange.orders.ticket import Ticket
from tracedesk.exchange.orders.trouble import before_sending
from tracedesk.primitives import json
from tracedesk.primitives.time import Clock
from tracedesk.shared import SharedStore

_KIND: Final = "preview"


def client_order_id(holder: str, token: str) -> str:
    """The id that an order has at the venue: the same for the same preview, in every process, for ever."""
    return "td-" + hashlib.sha256(f"{holder}\0{token}".encode()).hexdigest()[:32]


def invalid(reason: str, message: str, **details: object) -> ToolError:
    """PREVIEW_INVALID with its remedy."""
    text = f"preview_token: {message} Call preview_order again and place what it returns."
    return ToolError("PREVIEW_INVALID", text, {"reason": reason, **details})


def _unknown() -> ToolError:
    return invalid("unknown", "it is not a preview of this session, or it was placed or declined already.")


@dataclass(slots=True)
class Preview:
    """What was shown, and until when it may be placed."""

    client_order_id: str
    holder: str
    account: str
    ticket: Ticket
    call: str | None
    """The reference of the call that made it."""
    until: float
    """On the monotonic clock."""
    seconds: float
    """Seconds for which it was made."""
    summary: str = ""
    """What it was estimated to be worth, for the one who confirms it."""
    held: bool = False
    """Whether a user was asked about it."""
    confirmed: bool = False

    def packed(self) -> bytes:
        return json.dumps({name: value for name, value in asdict(self).items() if name not in _KEYS})

    @classmethod
    def unpacked(cls, holder: str, id: str, body: bytes) -> Preview:
        facts: dict[str, Any] = json.loads(body)
        ticket = Ticket(**facts.pop("ticket"))
        until, seconds = float(facts.pop("until")), float(facts.pop("seconds"))
        return cls(id, holder, ticket=ticket, until=until, seconds=seconds, **facts)


_KEYS: Final = ("client_order_id", "holder")


@dataclass(slots=True)
class Previews:
    """The previews of a home that can still be placed."""

    clock: Clock
    seconds: float
    shared: SharedStore
    home: Path

    async def make(
        self, party: Party, ticket: Ticket, call: str | None, summary: str = ""
    ) -> tuple[str, Preview]:
        """Store a preview; its token places exactly it."""
        token = "pv_" + secrets.token_urlsafe(18)
        until = self.clock.monotonic() + self.seconds
        id = client_order_id(party.holder, token)
        made = Preview(id, party.holder, party.account, ticket, call, until, self.seconds, summary)
        await self._run(lambda: self.shared.put(made.holder, _KIND, id, made.packed(), self._kept(made)))
        return token, made

    async def find(self, party: Party, token: str, ticket: Ticket) -> Preview:
        """The preview to place; raises PREVIEW_INVALID for anything that is not exactly it."""
        id = client_order_id(party.holder, token)
        body = await self._run(lambda: self.shared.get(party.holder, _KIND, id))
        # A foreign token is answered as one that never was: it tells nothing of other callers.
        if body is None:
            raise _unknown()
        known = Preview.unpacked(party.holder, id, body)
        if self.clock.monotonic() > known.until:
            raise invalid("expired", f"it is older than {known.seconds:g} seconds.")
        if known.account != party.account:
            raise invalid("account", f"it was made for the account {known.account}.", field="connection_id")
        field = known.ticket.difference(ticket)
        if field is not None:
            raise invalid("differs", f"{field} differs from what was previewed.", field=field)
        return known

    def check(self, preview: Preview) -> None:
        """Refuse what was placed, declined or dropped since it was found, by any desk. In any thread."""
        if self.shared.get(preview.holder, _KIND, preview.client_order_id) is None:
            raise _unknown()

    async def hold(self, preview: Preview) -> None:
        """Give the user time to answer, once: the order is judged anew when they have."""
        if not preview.held:
            preview.held = True
            preview.until = self.clock.monotonic() + USER_SECONDS
            await self._save(preview)

    async def confirm(self, preview: Preview) -> None:
        """Note that the user agreed; refuse what was placed or declined meanwhile."""
        preview.confirmed = True
        await self._save(preview)

    async def burn(self, preview: Preview) -> None:
        """It can never be placed again."""
        await self._run(lambda: self.shared.remove(preview.holder, _KIND, preview.client_order_id))

    def forget(self, scope: str) -> None:
        """Drop the previews of a scope that has ended; those of a subject stay until they expire."""
        self.shared.ended(scope)

    async def _save(self, preview: Preview) -> None:
        holder, id, body = preview.holder, preview.client_order_id, preview.packed()
        if not await self._run(lambda: self.shared.replace(holder, _KIND, id, body, self._kept(preview))):
            raise _unknown()

    def _kept(self, preview: Preview) -> float:
        """Those that ran out stay a little, to be distinguished from those that never were."""
        return preview.until - self.clock.monotonic() + USER_SECONDS

    async def _run(self, work: Callable[[], Any]) -> Any:
        with before_sending(self.home):
            return await self.shared.run(lambda _: work())
