"""One JSON-RPC message from a client, told apart by its shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from tracedesk.primitives import json
from tracedesk.wire.documents import MESSAGE, Documents
from tracedesk.wire.exchange import RequestId
from tracedesk.wire.sdk import MODERN_PROTOCOL_VERSIONS

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
LONGEST_OTHER: Final = 262_144
"""Bytes of a request or notification without a call's arguments: the SDK reads it on the event loop."""
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"


class Malformed(ValueError):
    """Bytes that are no message; carries the JSON-RPC code, and the id if one could be read."""

    def __init__(self, code: int, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id


@dataclass(slots=True)
class Inbound:
    """A request (with an id), a notification (without), or the client's response."""

    kind: Literal["request", "notification", "response"]
    body: dict[str, Any]
    id: RequestId | None = None
    method: str = ""
    params: Mapping[str, Any] | None = None

    @property
    def meta(self) -> Mapping[str, Any]:
        """What was sent along with the parameters; empty where that is nothing, or no object."""
        meta = self.params.get("_meta") if self.params else None
        return cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}

    @property
    def claims_modern(self) -> bool:
        """Whether the request carries the stateless era's envelope."""
        return VERSION_KEY in self.meta


def read(data: bytes) -> Inbound:
    """Parse one short message, or raise `Malformed`."""
    try:
        body = json.read(data, MESSAGE)
    except ValueError as error:
        raise Malformed(PARSE_ERROR, f"Parse error: {error}") from None
    return _message(body, len(data))


async def read_long(data: bytes, documents: Documents, *, stranger: bool) -> Inbound:
    """Parse one message of any length beside the event loop, or raise `Malformed`."""
    try:
        body = await documents.read(data, MESSAGE, stranger=stranger)
    except ValueError as error:
        raise Malformed(PARSE_ERROR, f"Parse error: {error}") from None
    return _message(body, len(data))


def _message(body: Any, size: int) -> Inbound:
    if not isinstance(body, dict):
        raise Malformed(
            INVALID_REQUEST, "Send one JSON-RPC message as an object; batches are not part of MCP"
        )
    message = _classify(cast("dict[str, Any]", body))
    calls_tool = message.method == "tools/call"
    if size > LONGEST_OTHER and message.kind != "response" and not calls_tool:
        problem = f"A message with this method may have at most {LONGEST_OTHER} bytes; send less"
        raise Malformed(INVALID_PARAMS, problem, message.id)
    if size > LONGEST_OTHER and calls_tool and json.is_longer(_envelope(message), LONGEST_OTHER):
        problem = f"Beside its arguments a call may have at most {LONGEST_OTHER} bytes; send less"
        raise Malformed(INVALID_PARAMS, problem, message.id)
    why = json.cut_of(body)
    if why is not None and not (_is_cut_in_arguments(message) or _is_of_foreign_version(message)):
        raise Malformed(INVALID_PARAMS, f"The message {why}; flatten or split it", message.id)
    return message


def _envelope(message: Inbound) -> list[Any]:
    """Everything in a call's message but its arguments."""
    members = [value for name, value in message.body.items() if name != "params"]
    return members + [value for name, value in (message.params or {}).items() if name != "arguments"]


def _is_cut_in_arguments(message: Inbound) -> bool:
    """True when a tool is called with the part that passed a limit: its call is refused, and recorded."""
    return message.method == "tools/call" and bool(json.cut_of((message.params or {}).get("arguments")))


def _is_of_foreign_version(message: Inbound) -> bool:
    """True when the message is refused for its version, which says more than a limit."""
    version = message.meta.get(VERSION_KEY)
    return isinstance(version, str) and version not in MODERN_PROTOCOL_VERSIONS


def _classify(body: dict[str, Any]) -> Inbound:
    request_id = _id(body["id"]) if "id" in body else None
    if body.get("jsonrpc") != "2.0":
        raise Malformed(INVALID_REQUEST, 'jsonrpc must be "2.0"', request_id)
    if "method" not in body:
        if request_id is not None and ("result" in body or "error" in body):
            return Inbound("response", body, request_id)
        raise Malformed(
            INVALID_REQUEST, "A message needs a method, or an id with a result or error", request_id
        )
    method, params = body["method"], body.get("params")
    if not isinstance(method, str):
        raise Malformed(INVALID_REQUEST, "method must be a string", request_id)
    if params is not None and not isinstance(params, dict):
        raise Malformed(INVALID_REQUEST, "params must be an object", request_id)
    kind = "notification" if request_id is None else "request"
    return Inbound(kind, body, request_id, method, cast("dict[str, Any] | None", params))


def _id(value: Any) -> RequestId:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise Malformed(INVALID_REQUEST, "id must be a string or an integer")
    return value
