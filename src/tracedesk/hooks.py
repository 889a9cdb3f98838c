"""What a toolset may want to know of its clients: who follows a resource, who left, what they brought."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tracedesk.declared import DeclarationError

_HEADER: Final = re.compile(r"[a-z0-9-]+")


SUBJECT: Final = "subject:"
"""Prefix of a holder's key that is a subject, not a scope."""


def holder_of(scope: str, subject: str | None) -> str:
    """The key of what a caller stores for later calls: its subject where it has one, else its scope."""
    return scope if subject is None else f"{SUBJECT}{subject}"


@dataclass(frozen=True, slots=True)
class Requester:
    """The caller who follows a reference."""

    scope: str
    subject: str | None = None

    @property
    def holder(self) -> str:
        """The key of what the caller has stored; see `Call.holder`."""
        return holder_of(self.scope, self.subject)


class Watcher(Protocol):
    """One client's subscription to one resource."""

    @property
    def scope(self) -> str:
        """Whose it is, as `Call.scope`."""
        ...

    @property
    def principal(self) -> str | None: ...

    @property
    def may_read(self) -> bool:
        """As `Call.may_read`."""
        ...

    @property
    def uri(self) -> str:
        """The canonical URI of the resource."""
        ...

    async def notify(self) -> None:
        """Tell this client, and no other, that the resource changed."""
        ...


Ended = Callable[[str, Any], None]
"""`(scope, the toolset's state)`: a session is over, and its credentials are wiped."""

Watched = Callable[[str, Mapping[str, str], Any, Watcher, bool], Awaitable[None]]
"""`(canonical URI, what its template found, the toolset's state, watcher, whether it begins)`.

A `ToolError` at the beginning refuses the subscription. The end comes once for each beginning that was
not refused, with the same watcher, also when the client is just gone.
"""

Canonical = Callable[[str], str | None]
"""The one form of a URI of this toolset's scheme, None for another's; a `ToolError` says what is wrong."""

AcceptsHeaders = Callable[[Mapping[str, Any]], bool]
"""`(the toolset's table of tracedesk.toml) -> whether handshakes may carry its credentials`."""

Brought = Callable[[str, Mapping[str, Any], Any], bool]
"""`(the caller's scope, the arguments, the toolset's state) -> whether it brought credentials of its own`.

The arguments have not been validated.
"""

Facts = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""`(the toolset's table of tracedesk.toml) -> what everybody is told of it`, such as the mode it runs in.

It stands in the instructions that clients read first, and in `/health`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The hooks of one toolset."""

    ended: Ended | None = None
    watched: Watched | None = None
    canonical: Canonical | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers of a handshake, in lower case, with the names in the vault under which their values go."""
    accepts_headers: AcceptsHeaders | None = None
    facts: Facts | None = None
    brought: Brought | None = None

    def __post_init__(self) -> None:
        if any(not _HEADER.fullmatch(name) for name in self.headers):
            raise DeclarationError(f"headers {sorted(self.headers)} are not names in lower case")
        if bool(self.headers) != (self.accepts_headers is not None):
            raise DeclarationError("headers and accepts_headers belong together")
