"""Who asks: the scope that owns what is session-bound, and what it may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracedesk.contract import Call


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller of one call."""

    scope: str
    """The session, principal, connection or process that keys, choices and previews belong to."""
    is_known: bool
    """Whether a token was shown, or the caller is the process that started this desk."""
    label: str
    """The scope as it may be shown."""
    subject: str | None = None
    """The principal that previews belong to; see `Call.subject`."""
    may_read: bool = True
    """True when the operator's accounts may be shown, as `Call.may_read`."""

    @classmethod
    def of(cls, call: Call[Any], scope: str | None = None) -> Caller:
        known = _is_known(call.scope, call.principal)
        label = call.label if scope is None else "connection"
        return cls(scope or call.scope, known, label, call.subject, call.may_read)

    @classmethod
    def of_scope(cls, scope: str, principal: str | None, *, may_read: bool = True) -> Caller:
        """The caller that subscribed."""
        return cls(scope, _is_known(scope, principal), "subscriber", may_read=may_read)


def _is_known(scope: str, principal: str | None) -> bool:
    return principal is not None or scope.startswith("stdio")
