"""One inbound request: the SDK's dispatch context and the handler's channel in one object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, cast

import anyio

from tracedesk.calls.attempt import is_name
from tracedesk.contract import InputRequired
from tracedesk.errors import ClientCannot, ToolError
from tracedesk.primitives import json
from tracedesk.wire.auth import Identity
from tracedesk.wire.consent import Consent
from tracedesk.wire.sdk import (
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
    CallOptions,
    Connection,
    MCPError,
    NoBackChannelError,
    ServerMessageMetadata,
    TransportContext,
    allowed_log_levels,
    types,
)
from tracedesk.wire.validate import compile_schema

Emit = Callable[[bytes], Awaitable[None]]
RequestId = int | str

_CAPABILITY: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
_ACTIONS: Final = ("accept", "decline", "cancel")


class Asker(Protocol):
    """A client that can be sent requests: one side of a handshake-era peer."""

    async def request(self, method: str, params: Mapping[str, Any] | None, emit: Emit) -> dict[str, Any]: ...


class Exchange:
    """What a request carries in, and how its handler reaches the client."""

    def __init__(
        self,
        request_id: RequestId | None,
        params: Mapping[str, Any] | None,
        connection: Connection,
        emit: Emit,
        identity: Identity,
        *,
        transport: TransportContext,
        asker: Asker | None = None,
        asks: Emit | None = None,
    ) -> None:
        self.request_id = request_id
        self.connection = connection
        self.identity = identity
        self.transport = transport
        self.denied: Any = None
        self._emit = emit
        self._asker = asker
        self._asks = asks or emit
        meta = params.get("_meta") if params else None
        self.meta: Mapping[str, Any] = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
        self.answer: dict[str, Any] | None = None
        """What the desk has answered, where the SDK has only to seal it."""
        self._consent: Consent | None = None
        self._cancel: anyio.Event | None = None

    @property
    def version(self) -> str:
        return self.connection.protocol_version

    @property
    def is_modern(self) -> bool:
        return self.version in MODERN_PROTOCOL_VERSIONS

    @property
    def attempt(self) -> str | None:
        """The attempt that the client says this call belongs to; what cannot be a name is as if not sent."""
        for key in ("tracedesk/attempt", "traceparent"):
            named = self.meta.get(key)
            if named is not None and is_name(named):
                return named
        return None

    @property
    def consent(self) -> Consent:
        """What the user has been asked, and has answered; most calls ask nothing."""
        if self._consent is None:
            self._consent = Consent()
        return self._consent

    @consent.setter
    def consent(self, given: Consent) -> None:
        self._consent = given

    @property
    def has_answers(self) -> bool:
        return self._consent is not None and bool(self._consent.answers)

    # --- the SDK's dispatch context

    @property
    def message_metadata(self) -> ServerMessageMetadata:
        return ServerMessageMetadata(request_context=self)

    @property
    def can_send_request(self) -> bool:
        return self._asker is not None

    @property
    def cancel_requested(self) -> anyio.Event:
        if self._cancel is None:
            self._cancel = anyio.Event()
        return self._cancel

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if self._asker is None:
            raise NoBackChannelError(method)
        return await self._asker.request(method, params, self._asks)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._emit(notification(method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        token = self.meta.get("progressToken")
        if not isinstance(token, (str, int)) or isinstance(token, bool):
            return
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)

    # --- the handler's channel

    @property
    def capabilities(self) -> Mapping[str, Any]:
        declared = self.connection.client_capabilities
        return {} if declared is None else declared.model_dump(by_alias=True, exclude_none=True)

    async def log(self, level: str, data: Any) -> None:
        if level in self._log_levels():
            await self.notify("notifications/message", {"level": level, "data": data})

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        for request in requests.values():
            self._require(request)
        if not self.is_modern:
            return {key: await self._ask_now(request) for key, request in requests.items()}
        found = {key: self.consent.answer(key, request) for key, request in requests.items()}
        missing = {k: r for k, r in requests.items() if not _answers(r, found[k])}
        if missing:
            raise InputRequired(missing)
        return found

    async def _ask_now(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        method: str = request["method"]
        try:
            answer = await self.send_raw_request(method, request.get("params"))
        except MCPError as refused:
            raise _refused(method, refused.message) from None
        if not _answers(request, answer):
            raise _refused(method, "the result is not an answer to what was asked")
        return answer

    def _log_levels(self) -> frozenset[Any]:
        """The levels this client takes: as each request says, or since its last `logging/setLevel`."""
        chosen = self.connection.state.get(types.LOG_LEVEL_META_KEY)
        if chosen is None:
            return allowed_log_levels(self.version, self.meta)
        return allowed_log_levels(LATEST_MODERN_VERSION, {types.LOG_LEVEL_META_KEY: chosen})

    def _require(self, request: Mapping[str, Any]) -> None:
        capability = _CAPABILITY[request["method"]]
        declared = self.capabilities.get(capability)
        if declared is None or (self._asker is None and not self.is_modern):
            raise ClientCannot(capability)
        params: Mapping[str, Any] = request.get("params") or {}
        mode = params.get("mode")
        if mode == "url" and "url" not in declared:
            raise ClientCannot("elicitation.url")
        if mode == "form" and declared and "form" not in declared:
            raise ClientCannot("elicitation.form")


def _answers(request: Mapping[str, Any], answer: Any) -> bool:
    """Whether `answer` is a result of `request`: of its method's shape and, for a form, of its schema."""
    if not isinstance(answer, dict):
        return False
    body = cast("dict[str, Any]", answer)
    method = request["method"]
    if method == "elicitation/create":
        return body.get("action") in _ACTIONS and _fills(request.get("params") or {}, body)
    if method == "sampling/createMessage":
        return isinstance(body.get("content"), (dict, list))
    return isinstance(body.get("roots"), list)


def _fills(params: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    content = answer.get("content")
    if answer["action"] != "accept" or params.get("mode") == "url":
        return content is None or isinstance(content, dict)
    return isinstance(content, dict) and compile_schema(params.get("requestedSchema", {})).is_valid(content)


def _refused(method: str, why: str) -> ToolError:
    message = f"The client did not answer {method}: {why}. Have its user allow the question, then retry."
    return ToolError("CLIENT_REFUSED", message, {"method": method})


def notification(method: str, params: Mapping[str, Any] | None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return json.dumps(message)


def request(request_id: RequestId, method: str, params: Mapping[str, Any] | None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if params is not None:
        message["params"] = params
    return json.dumps(message)


def result(request_id: RequestId, body: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": body})


def error(request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": body})
