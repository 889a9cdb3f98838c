"""An HTTP request as the app sees it, and the answers it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qs

from tracedesk.primitives import json
from tracedesk.wire.quota import Connection

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

CALLER_UID: Final = "caller_uid"
"""The key of the connection's user in the state of its requests."""
MAX_BODY: Final = 4 << 20
BODY_SECONDS: Final = 10.0
CONNECTION_KEY: Final = "tracedesk.connection"
TARGET_KEY: Final = "tracedesk.target"
BUSY_SECONDS: Final = 1
"""Seconds after which a caller without a token may find room again."""


class Refused(Exception):
    """An HTTP refusal: a status and what to do about it."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.response = Response.of({"error": {"message": message}}, status, headers)


def too_large(most: int) -> Refused:
    """The refusal of a body with more bytes than may be sent."""
    return Refused(413, f"The body may have at most {most} bytes")


def no_room(things: str) -> Refused:
    """The refusal of a caller without a token while others like it hold all they may."""
    message = f"Callers without a token hold too many {things}; send a token, or try again"
    return Refused(503, message, {"Retry-After": str(BUSY_SECONDS)})


class Request:
    """One request; its headers are read once, its body up to a limit and a deadline."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.connection: Connection | None = scope.get(CONNECTION_KEY)
        self.target: bytes = scope.get(TARGET_KEY, b"/")
        """The target as it was sent, before anything was taken from it."""
        self.has_room: Callable[[int], bool] = _always
        """`(bytes of the body so far) -> False` when there is no room for them."""
        self._scope = scope
        self._receive = receive

    @cached_property
    def headers(self) -> dict[str, str]:
        return {name.decode("latin-1"): _value(value) for name, value in self._scope["headers"]}

    @property
    def has_repeated_headers(self) -> bool:
        return len(self.headers) != len(self._scope["headers"])

    def header_lines(self) -> list[tuple[str, str]]:
        """Every header line, duplicates included."""
        if not self.has_repeated_headers:
            return list(self.headers.items())
        return [(name.decode("latin-1"), _value(value)) for name, value in self._scope["headers"]]

    @property
    def remote(self) -> str:
        client = self._scope.get("client")
        return client[0] if client else "unknown"

    @property
    def caller_uid(self) -> int | None:
        """The user of the connection's other end, where the kernel reports one."""
        return self._scope.get("state", {}).get(CALLER_UID)

    def query(self, name: str) -> str | None:
        values = parse_qs(self._scope.get("query_string", b"").decode("latin-1")).get(name)
        return values[0] if values else None

    def accepts(self, kind: str) -> bool:
        """Whether the client takes `kind`; one that says nothing takes anything."""
        accept = self.headers.get("accept", "*/*")
        family = kind.split("/")[0]
        offered = (part.split(";")[0].strip() for part in accept.split(","))
        return any(part in ("*/*", f"{family}/*", kind) for part in offered)

    async def body(self, most: int = MAX_BODY) -> bytes:
        """The whole body, or a refusal when it is too large or too slow."""
        declared = self.headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > most:
            raise too_large(most)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await self._read(most)
        except TimeoutError:
            raise Refused(408, f"The body did not arrive within {BODY_SECONDS:.0f} seconds") from None

    async def _read(self, most: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client left while sending")
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > most:
                raise too_large(most)
            if not self.has_room(size):
                raise no_room("bodies")
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def left(self) -> None:
        """Return when the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _always(size: int) -> bool:
    return True


def _value(raw: bytes) -> str:
    """A field's value without the blanks around it, which are not part of it (RFC 9110, section 5.5)."""
    return raw.decode("latin-1").strip(" \t")


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        return cls(status, json.dumps(value), headers=headers or {})

    async def send(self, send: Send, *, head_only: bool = False) -> None:
        lines: list[tuple[bytes, bytes]] = []
        if self.status != 204:
            lines.append((b"content-length", str(len(self.body)).encode()))
        if self.body:
            lines.append((b"content-type", self.content_type.encode()))
        lines += [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": lines})
        await send({"type": "http.response.body", "body": b"" if head_only else self.body})


_EVENT_STREAM: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
PING: Final = b": ping\r\n\r\n"


def event(data: bytes, name: str = "message") -> bytes:
    """One server-sent event."""
    return b"event: " + name.encode() + b"\r\ndata: " + data + b"\r\n\r\n"


async def start_events(send: Send, headers: Mapping[str, str] | None = None) -> None:
    extra = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in (headers or {}).items()]
    await send({"type": "http.response.start", "status": 200, "headers": _EVENT_STREAM + extra})


async def send_events(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def end_events(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": False})
