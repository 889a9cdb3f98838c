"""The addresses of capture on the desk's HTTP app: OTLP traces, and hooks that post."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Posted, Receipt, Take, Toolset
from tracedesk.errors import ToolError

if TYPE_CHECKING:
    from tracedesk.codegraph.capture.desk import Capture

TRACES: Final = "/v1/traces"
HOOKS: Final = "/hooks/"
CLIENTS: Final = ("qwen-code", "claude-code")
LARGEST: Final = 1 << 20


def open_doors(toolset: Toolset[Any], capture_of: Callable[[Any], Capture]) -> None:
    """Declare the addresses; `capture_of` finds capture in the toolset's state."""

    @toolset.intake(
        TRACES,
        scope="write",
        largest=LARGEST,
        remedy="set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json on the sender; protobuf is not read here",
    )
    async def take_traces(posted: Posted, state: Any) -> Receipt:
        from tracedesk.codegraph.capture.otlp import NotOtlp

        try:
            return Receipt(await capture_of(state).traces(posted.body))
        except NotOtlp as fault:
            raise ToolError("INVALID_PARAMETER", f"The trace export was not read: {fault}.") from None

    for client in CLIENTS:
        register = toolset.intake(
            HOOKS + client, scope="write", largest=LARGEST, remedy="a hook's input is a JSON object"
        )
        register(_hook(client, capture_of))
    assert take_traces


def _hook(client: str, capture_of: Callable[[Any], Capture]) -> Take:
    async def take_hook(posted: Posted, state: Any) -> Receipt:
        from tracedesk.codegraph.capture.inbox import InboxFull, Malformed, said

        try:
            text = await capture_of(state).hook(client, said(posted.body))
        except Malformed as fault:
            raise ToolError("INVALID_PARAMETER", f"The hook was not taken: {fault}.") from None
        except InboxFull as fault:
            raise ToolError("RATE_LIMITED", f"The hook was not taken: {fault}.") from None
        if text is None:
            return Receipt({})
        told = {"hookEventName": "UserPromptSubmit", "additionalContext": text}
        return Receipt({"hookSpecificOutput": told})

    return take_hook
