"""One JSON-RPC message from a client, told apart by its shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from tracedesk.primitives import json
from tracedesk.wire.exchange import RequestId

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
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


def read(data: bytes | bytearray | memoryview) -> Inbound:
    """Parse one message, or raise `Malformed`."""
    try:
        body = json.loads(data)
    except ValueError as error:
        raise Malformed(PARSE_ERROR, f"Parse error: {error}") from None
    if not isinstance(body, dict):
        raise Malformed(
            INVALID_REQUEST, "Send one JSON-RPC message as an object; batches are not part of MCP"
        )
    return _classify(cast("dict[str, Any]", body))


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
