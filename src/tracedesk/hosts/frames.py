"""What travels between a host and its clients: length-prefixed exact JSON, in five kinds of message."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.primitives import json

MAX_FRAME: Final = 16 << 20
"""Bytes of JSON in one frame."""

_HEAD: Final = struct.Struct(">I")
_MOST_ID: Final = 2**53
_MOST_SECONDS: Final = 10**9
_MOST: Final = 10**300
"""Beyond these a number would not survive as a float."""


class BadFrame(ValueError):
    """Bytes that are no frame, or a frame that is no message; the connection cannot go on."""


class FrameTooLarge(ValueError):
    """A message that does not fit in one frame."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a message of {size} bytes is too large; the limit is {limit}")
        self.size = size


# --- messages ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """Client to host: run a method."""

    id: int
    method: str
    params: Mapping[str, Any]
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Client to host: the answer to this request is no longer wanted."""

    id: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Host to client: how far a request has come."""

    id: int
    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """Host to client: a request's answer."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Fault:
    """Host to client: a request's refusal, or without an id the reason why the connection ends."""

    id: int | None
    code: str
    message: str
    details: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, id: int | None, error: ToolError) -> Fault:
        return cls(id, error.code, error.message, error.details)

    @property
    def error(self) -> ToolError:
        return ToolError(self.code, self.message, self.details)


Message = Request | Cancel | Progress | Result | Fault


def _plain(message: Message) -> dict[str, Any]:
    match message:
        case Request(id, method, params, timeout):
            return {"id": id, "method": method, "params": params, "timeout": timeout}
        case Cancel(id):
            return {"cancel": id}
        case Progress(id, done, total, text):
            return {"id": id, "progress": {"done": done, "total": total, "message": text}}
        case Result(id, value):
            return {"id": id, "result": value}
        case Fault(id, code, text, details):
            return {"id": id, "error": {"code": code, "message": text, "details": details}}


def parse(payload: bytes | bytearray | memoryview) -> Message:
    """The message in a frame; anything else is a `BadFrame`."""
    try:
        value = json.loads(payload)
    except ValueError as fault:
        raise BadFrame(f"the frame is not strict JSON: {fault}") from None
    message = _message(value)
    if message is None:
        raise BadFrame("the frame is JSON, but no message of this protocol")
    return message


def _message(value: Any) -> Message | None:
    match value:
        case {"cancel": id, **rest} if _is_id(id) and not rest:
            return Cancel(id)
        case {"id": id, "method": str(method), "params": params, "timeout": timeout} if _is_id(id):
            is_time = timeout is None or (_is_number(timeout, _MOST_SECONDS) and timeout > 0)
            return Request(id, method, params, _float(timeout)) if is_time and _is_object(params) else None
        case {"id": id, "progress": {"done": done, "total": total, "message": None | str() as text}}:
            whole = _is_id(id) and _is_number(done) and (total is None or _is_number(total))
            return Progress(id, _float(done) or 0, _float(total), text) if whole else None
        case {"id": id, "result": result} if _is_id(id):
            return Result(id, result)
        case {"id": id, "error": {"code": str(code), "message": str(text), "details": details}}:
            whole = (id is None or _is_id(id)) and (details is None or _is_object(details))
            return Fault(id, code, text, details) if whole else None
        case _:
            return None


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_ID


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_number(value: Any, most: int = _MOST) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool) and abs(value) < most


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, Decimal) else value


# --- frames ------------------------------------------------------------------------------------


def encode(message: Message, limit: int = MAX_FRAME) -> bytes:
    """A message as one frame."""
    payload = json.dumps(_plain(message))
    if len(payload) > limit:
        raise FrameTooLarge(len(payload), limit)
    return _HEAD.pack(len(payload)) + payload


class Decoder:
    """Cuts a stream of bytes, however it arrives, into the payloads of its frames."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """The payloads completed by `data`; raises `BadFrame` at a length that no frame may have."""
        self._rest += data
        start = 0
        try:
            while (end := self._end(start)) is not None:
                payload = bytes(memoryview(self._rest)[start + _HEAD.size : end])
                start = end
                yield payload
        finally:
            del self._rest[:start]

    def _end(self, start: int) -> int | None:
        """Where the frame that begins at `start` ends, once all of it is here."""
        if len(self._rest) < start + _HEAD.size:
            return None
        (size,) = _HEAD.unpack_from(self._rest, start)
        if not 0 < size <= self._limit:
            raise BadFrame(f"a frame of {size} bytes is outside 1 to {self._limit}")
        end = start + _HEAD.size + size
        return end if len(self._rest) >= end else None
