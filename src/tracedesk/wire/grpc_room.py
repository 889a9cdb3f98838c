"""Room for gRPC's calls and streams, and the faults that they are answered with."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from typing import Any, Final

from tracedesk.errors import http_status
from tracedesk.primitives import json
from tracedesk.wire.auth import Identity
from tracedesk.wire.guard import Guard
from tracedesk.wire.request import Refused

# gRPC's own hooks around fork would warn into the log of every host that the desk starts.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc as _grpc  # pyright: ignore[reportMissingTypeStubs]

grpc: Final[Any] = _grpc

SERVICE: Final = "tracedesk.provider.v1.Provider"
ERROR_TRAILER: Final = "tracedesk-error-bin"
MAX_STREAMS: Final = 256
"""Streams that are held open at once; calls that end by themselves are bounded where they run."""
STRANGERS_STREAMS: Final = 64
"""Of these, how many may be of callers without a token."""
STRANGERS_CALLS: Final = 128
"""Calls of theirs whose answers have not been taken yet."""
STRANGERS_UNSENT: Final = 16 << 20
"""Bytes of these answers."""
_CODES: Final[Mapping[int, Any]] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.ABORTED,
    413: grpc.StatusCode.OUT_OF_RANGE,
    422: grpc.StatusCode.FAILED_PRECONDITION,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_LONGEST_TRAILER: Final = 3_000
"""Bytes of a message or envelope in the trailers, which clients bound at 8 KiB in all."""


class Fault(Exception):
    """Refusal of a call: a status, a message and the desk's envelope."""

    def __init__(self, status: Any, message: str, envelope: Mapping[str, Any] | bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.envelope = envelope if isinstance(envelope, bytes) else json.dumps(dict(envelope))

    @classmethod
    def of(cls, code: str, message: str, envelope: Mapping[str, Any] | bytes) -> Fault:
        """The fault of a tool's error."""
        if code == "OUTCOME_UNKNOWN":  # it must not look like what may be sent again
            return cls(grpc.StatusCode.UNKNOWN, message, envelope)
        return cls(_CODES[http_status(code)], message, envelope)


def bearer(guard: Guard, metadata: Any, uid: int | None = None) -> Identity:
    """The sender of a call with that metadata, over a connection of that user."""
    sent = [value for key, value in metadata or () if key == "authorization"]
    if len(sent) > 1:
        raise Fault(grpc.StatusCode.UNAUTHENTICATED, "Send authorization once")
    try:
        return guard.bearer(sent[0] if sent else None, uid)
    except Refused as refused:
        raise Fault(grpc.StatusCode.UNAUTHENTICATED, str(refused)) from None


def fail(context: Any, fault: Fault) -> None:
    context.set_code(fault.status)
    context.set_details(fault.message[:_LONGEST_TRAILER])
    if 0 < len(fault.envelope) <= _LONGEST_TRAILER:
        context.set_trailing_metadata(((ERROR_TRAILER, fault.envelope),))


_MALFORMED: Final = object()
"""Bytes that are no message of the method: gRPC itself would answer UNKNOWN, with Python's words."""


def _lenient(handler: Any) -> Any:
    """The method's handler, given `_MALFORMED` for bytes that cannot be read."""
    if handler is None or handler.request_deserializer is None:
        return handler

    def read(data: bytes) -> Any:
        try:
            return handler.request_deserializer(data)
        except Exception:
            return _MALFORMED

    changed = handler._replace(request_deserializer=read)
    if handler.request_streaming or handler.response_streaming:
        return changed

    async def serve(request: Any, context: Any) -> Any:
        if request is _MALFORMED:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _UNREADABLE)
        return await handler.unary_unary(request, context)

    return changed._replace(unary_unary=serve)


_UNREADABLE: Final = "The message is malformed. Build it from the service's description, see reflection."


def refuse_malformed(request: Any) -> None:
    if request is _MALFORMED:
        raise Fault(grpc.StatusCode.INVALID_ARGUMENT, _UNREADABLE)


async def _checked(requests: Any) -> AsyncGenerator[Any]:
    async for request in requests:
        refuse_malformed(request)
        yield request


def _no_room(things: str) -> Fault:
    message = f"Callers without a token hold too many {things}. Send a token, or try again."
    return Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, message)


class Room(grpc.aio.ServerInterceptor):
    """Room for streams, of whatever service, and for strangers' calls: a token holder's are never refused."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._held = 0
        self._strangers = 0
        self._calls = 0
        self._unsent = 0

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        handler = _lenient(await continuation(details))
        service, _, method = details.method.removeprefix("/").partition("/")
        if handler is None or not handler.response_streaming:
            return handler
        stranger = self._is_stranger(details.invocation_metadata)
        if service == SERVICE and method != "Stream":
            return (
                handler._replace(unary_stream=self._answering(handler.unary_stream)) if stranger else handler
            )
        kept = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.request_streaming:
            held = self._holding(handler.stream_stream, stranger)
            return grpc.stream_stream_rpc_method_handler(held, **kept)
        return grpc.unary_stream_rpc_method_handler(self._holding(handler.unary_stream, stranger), **kept)

    def _is_stranger(self, metadata: Any) -> bool:
        try:
            return bearer(self._guard, metadata).principal is None
        except Fault:
            return True

    def _holding(self, serve: Callable[[Any, Any], Any], stranger: bool) -> Callable[[Any, Any], Any]:
        """The handler, in its place or refused; it writes its answers, or it yields them."""

        async def hold(request: Any, context: Any) -> None:
            try:
                with self._place(stranger):
                    refuse_malformed(request)
                    answers = serve(_checked(request) if hasattr(request, "__aiter__") else request, context)
                    if not inspect.isasyncgen(answers):
                        await answers
                        return
                    async with contextlib.aclosing(answers):
                        async for answer in answers:
                            await context.write(answer)
            except Fault as fault:
                fail(context, fault)

        return hold

    def _answering(self, serve: Callable[[Any, Any], AsyncGenerator[Any]]) -> Callable[[Any, Any], Any]:
        """The handler of a stranger's call, in its place until the client has taken the answer."""

        async def answer(request: Any, context: Any) -> None:
            try:
                with self._call():
                    async with contextlib.aclosing(serve(request, context)) as answers:
                        async for message in answers:
                            with self._answer(message.ByteSize()):
                                await context.write(message)
            except Fault as fault:
                fail(context, fault)

        return answer

    @contextlib.contextmanager
    def _call(self) -> Generator[None]:
        if self._calls >= STRANGERS_CALLS:
            raise _no_room(f"calls (limit {STRANGERS_CALLS})")
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    @contextlib.contextmanager
    def _answer(self, size: int) -> Generator[None]:
        if self._unsent + size > STRANGERS_UNSENT:
            raise _no_room("answers that they have not taken")
        self._unsent += size
        try:
            yield
        finally:
            self._unsent -= size

    @contextlib.contextmanager
    def _place(self, stranger: bool) -> Generator[None]:
        if self._held >= MAX_STREAMS or (stranger and self._strangers >= STRANGERS_STREAMS):
            whose, limit = (
                ("callers without a token", STRANGERS_STREAMS) if stranger else ("callers", MAX_STREAMS)
            )
            message = f"Too many streams of {whose} are open (limit {limit}). End one, then try again."
            raise Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        self._held += 1
        self._strangers += stranger
        try:
            yield
        finally:
            self._held -= 1
            self._strangers -= stranger
