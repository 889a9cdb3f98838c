"""One exception for everything a tool can refuse, and the families that render it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Envelope = dict[str, Any]


class ToolError(Exception):
    """A refusal with a code of its family, a message naming field and remedy, and details."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details) if details is not None else None
        self.meta: Mapping[str, Any] | None = None
        """Facts about the refusal, for `_meta`, such as that it is a replay."""


class ClientCannot(ToolError):
    """The client did not declare the capability that a question to its user needs."""

    def __init__(self, capability: str) -> None:
        whole, _, part = capability.partition(".")
        self.capabilities: dict[str, dict[str, Any]] = {whole: {part: {}} if part else {}}
        message = f"This needs a client with the capability {capability!r}. Use one that declares it."
        super().__init__("CLIENT_UNSUPPORTED", message, {"requiredCapabilities": self.capabilities})


class UnknownTool(LookupError):
    """No tool of that name is on this desk; the remedy says how it would be, where it could."""

    def __init__(self, name: str, remedy: str = "") -> None:
        super().__init__(name[:80])
        self.name = name[:80]
        self.remedy = remedy

    @property
    def envelope(self) -> Envelope:
        """The fuzz contract's envelope, which every door uses for this case."""
        remedy = self.remedy or "Call tools/list for the names this desk serves."
        message = f"Tool {self.name!r} not found. {remedy}"
        return FUZZ.render(ToolError("TOOL_NOT_FOUND", message, {"tool": self.name}))


class NotPermitted(PermissionError):
    """The caller's token does not carry the scope that the tool declares."""

    def __init__(self, scope: str, *, authenticated: bool) -> None:
        super().__init__(scope)
        self.scope = scope
        self.authenticated = authenticated

    @property
    def remedy(self) -> str:
        if self.authenticated:
            return f"This token lacks the scope {self.scope!r}; use one that carries it."
        remedy = f"This tool needs a bearer token with the scope {self.scope!r}; send it in Authorization."
        return f"{remedy} Without one, only the desk's own user reads." if self.scope == "read" else remedy


@dataclass(frozen=True, slots=True)
class Family:
    """The codes and the envelope that one group of contracts shares."""

    name: str
    invalid: str
    timeout: str
    overload: str
    too_large: str
    internal: str = "INTERNAL_ERROR"
    storage: str = "DATABASE_ERROR"
    """The code where the home's disk cannot be written or read."""
    outcome_unknown: str | None = None
    success_flag: bool = False
    source_refs: bool = False
    null_details: bool = False

    def render(self, error: ToolError, arguments: Mapping[str, Any] | None = None) -> Envelope:
        """The family's envelope of `error`; `arguments` supply the trading family's references."""
        body: Envelope = {"code": error.code, "message": error.message}
        if error.details is not None or self.null_details:
            body["details"] = error.details
        envelope: Envelope = {"success": False, "error": body} if self.success_flag else {"error": body}
        if self.source_refs:
            reference = (arguments or {}).get("tool_call_id")
            envelope["source_refs"] = [reference] if isinstance(reference, str) else []
        return envelope

    def timed_out(self, tool: str, seconds: float, *, sent: bool) -> ToolError:
        """The deadline error; a trade already sent has an unknown outcome, not a failed one."""
        details = {"tool": tool, "deadlineMs": round(seconds * 1000)}
        if sent and self.outcome_unknown is not None:
            message = (
                f"Tool {tool} passed its deadline after the order was sent. Send the same call again to "
                "learn its outcome."
            )
            return ToolError(self.outcome_unknown, message, details)
        message = f"Tool {tool} exceeded {round(seconds * 1000)}ms. Ask for less, or retry later."
        return ToolError(self.timeout, message, details)

    def overloaded(self, tool: str, limit: int) -> ToolError:
        message = f"Too many calls in flight (limit {limit}). Wait for answers, then retry {tool}."
        return ToolError(self.overload, message, {"tool": tool, "reason": "overloaded", "limit": limit})

    def broken(self, correlation: str) -> ToolError:
        message = f"{correlation}: the tool failed inside. Report this id; the desk's log has the cause."
        return ToolError(self.internal, message, {"correlationId": correlation})


STANDARD: Final = Family(
    "standard",
    invalid="INVALID_PARAMETER",
    timeout="QUERY_TIMEOUT",
    overload="RATE_LIMITED",
    too_large="RESULT_TOO_LARGE",
    null_details=True,
)
FUZZ: Final = Family(
    "fuzz",
    invalid="INVALID_INPUT",
    timeout="EXECUTION_TIMEOUT",
    overload="EXECUTION_TIMEOUT",
    too_large="INVALID_INPUT",
    storage="INTERNAL_ERROR",
    success_flag=True,
)
TRADING: Final = Family(
    "trading",
    invalid="INVALID_INPUT",
    timeout="NETWORK_ERROR",
    overload="RATE_LIMITED",
    too_large="INVALID_INPUT",
    outcome_unknown="OUTCOME_UNKNOWN",
    source_refs=True,
)


_STATUSES: Final[Mapping[str, int]] = {
    "INVALID_PARAMETER": 400,
    "INVALID_INPUT": 400,
    "INVALID_TIME_RANGE": 400,
    "INVALID_JSON_PATH": 400,
    "CREDENTIALS_REQUIRED": 401,
    "EXECUTION_DISABLED": 403,
    "ROOT_NOT_ALLOWED": 403,
    "RUN_NOT_FOUND": 404,
    "EVENT_NOT_FOUND": 404,
    "TOOL_NOT_FOUND": 404,
    "SOURCE_NOT_FOUND": 404,
    "INVALID_SYMBOL": 404,
    "PROJECT_NOT_INDEXED": 404,
    "NOT_IN_GRAPH": 404,
    "ATTEMPT_NOT_FOUND": 404,
    "QUERY_TIMEOUT": 408,
    "INDEX_BUSY": 409,
    "INDEX_CANCELLED": 409,
    "RESULT_TOO_LARGE": 413,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
    "DATABASE_ERROR": 500,
    "NETWORK_ERROR": 502,
    "VENUE_UNAVAILABLE": 503,
    "EXECUTION_TIMEOUT": 504,
    "OUTCOME_UNKNOWN": 504,
}


def http_status(code: str) -> int:
    """The plain-HTTP status of an error code; a business refusal without its own is 422."""
    return _STATUSES.get(code, 422)
