"""The stream server: raw and combined streams, subscribed to by URL or by message."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

import orjson
from aiohttp import web

from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.market import Message, UnknownStream
from tracedesk.exchange.local.sockets import Socket

if TYPE_CHECKING:
    from tracedesk.exchange.local.exchange import LocalExchange

MOST_STREAMS: Final = 1024
SHUTDOWN: Final = "!serverShutdown"
METHODS: Final = ("SUBSCRIBE", "UNSUBSCRIBE", "LIST_SUBSCRIPTIONS", "SET_PROPERTY", "GET_PROPERTY")
_NAME: Final = re.compile(r"[\w!@.+:\-]{1,128}")
_ID: Final = re.compile(r"[A-Za-z0-9\-_]{1,36}")
_DIFFERENCES: Final = re.compile(r".+@depth(@(100|1000)ms)?")
_BROKEN: Final = b'{"e":"'


class Invalid(Exception):
    """A message that the stream server refuses, with its own small codes."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class StreamSocket(Socket):
    """A connection to the stream server and the streams it listens to."""

    per_second = 5

    def __init__(
        self, exchange: LocalExchange, request: web.Request, names: list[str], *, combined: bool
    ) -> None:
        super().__init__(exchange, request)
        self._first = names
        self._combined = combined
        self._streams: dict[str, Callable[[], None]] = {}
        self._held: bytes | None = None

    async def opened(self) -> None:
        for name in self._first:
            self._subscribe(name)

    def closed(self) -> None:
        for cancel in self._streams.values():
            cancel()
        self._streams.clear()

    def farewell(self) -> object:
        event = {"e": "serverShutdown", "E": self.exchange.now_ms()}
        return {"stream": SHUTDOWN, "data": event} if self._combined else event

    # --- out ------------------------------------------------------------------------------------

    def _take_message(self, message: Message) -> None:
        """Send what a stream published, unless a fault has other plans for it."""
        frame = self._frame(message)
        if self.exchange.faults.strike("malformed", message.stream):
            frame = _BROKEN + frame[: len(frame) // 2]
        for each in self._after_faults(message.stream, frame):
            self.send(each)

    def _frame(self, message: Message) -> bytes:
        body = message.body(self.unit)
        if not self._combined:
            return body
        return b'{"stream":' + orjson.dumps(message.stream) + b',"data":' + body + b"}"

    def _after_faults(self, stream: str, frame: bytes) -> list[bytes]:
        """The frames that go out for this one: none, itself, twice itself, or itself before an older one."""
        if not _DIFFERENCES.fullmatch(stream):
            return [frame]
        strike = self.exchange.faults.strike
        if strike("drop_event", stream):
            return []
        if self._held is None and strike("reorder_event", stream):
            self._held = frame
            return []
        frames = [frame, frame] if strike("duplicate_event", stream) else [frame]
        if self._held is not None:
            frames.append(self._held)
            self._held = None
        return frames

    # --- in -------------------------------------------------------------------------------------

    async def heard(self, text: str) -> None:
        request_id: int | str | None = None
        try:
            document = _document(text)
            request_id = _request_id(document)
            self.send_json({"result": self._act(document), "id": request_id})
        except Invalid as wrong:
            self.send_json({"code": wrong.code, "msg": wrong.message, "id": request_id})

    def _act(self, document: dict[str, Any]) -> object:
        method = _method(document)
        params = document.get("params", [])
        if not isinstance(params, list):
            raise Invalid(2, "Invalid request: params must be an array")
        given = cast("list[Any]", params)
        match method:
            case "SUBSCRIBE":
                return self._subscribe_all(_names(given))
            case "UNSUBSCRIBE":
                return self._unsubscribe_all(_names(given))
            case "LIST_SUBSCRIPTIONS":
                return list(self._streams)
            case "SET_PROPERTY":
                return self._set(given)
            case _:
                return self._get(given)

    def _subscribe_all(self, names: list[str]) -> None:
        if len({*self._streams, *names}) > MOST_STREAMS:
            raise Invalid(2, f"Invalid request: too many streams, at most {MOST_STREAMS}")
        for name in names:
            self._subscribe(name)

    def _unsubscribe_all(self, names: list[str]) -> None:
        for name in names:
            cancel = self._streams.pop(name, None)
            if cancel is not None:
                cancel()

    def _subscribe(self, name: str) -> None:
        """Listen to a stream; like the real one, the server takes a name that nothing is published under."""
        if name in self._streams:
            return
        try:
            self._streams[name] = self.exchange.market.subscribe(name, self._take_message)
        except UnknownStream:
            self._streams[name] = _nothing

    def _set(self, given: list[Any]) -> None:
        _known_property(given)
        if len(given) > 2:
            raise Invalid(2, "Invalid request: too many parameters")
        if len(given) < 2 or not isinstance(given[1], bool):
            raise Invalid(1, "Invalid value type: expected Boolean")
        self._combined = given[1]

    def _get(self, given: list[Any]) -> bool:
        _known_property(given)
        if len(given) > 1:
            raise Invalid(2, "Invalid request: too many parameters")
        return self._combined


def _nothing() -> None:
    """Cancel what was never begun."""


def _document(text: str) -> dict[str, Any]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(
            3, f"Invalid JSON: expected value at line {error.lineno} column {error.colno}"
        ) from None
    if not isinstance(document, dict):
        raise Invalid(2, "Invalid request: missing field `method` at line 1 column 1")
    return cast("dict[str, Any]", document)


def _request_id(document: dict[str, Any]) -> int | str | None:
    found = document.get("id", False)
    whole = isinstance(found, int) and not isinstance(found, bool) and -(2**63) <= found < 2**63
    if found is None or whole or (isinstance(found, str) and _ID.fullmatch(found)):
        return found
    raise Invalid(2, "Invalid request: request ID must be an unsigned integer")


def _method(document: dict[str, Any]) -> str:
    if "method" not in document:
        raise Invalid(2, "Invalid request: missing field `method` at line 1 column 1")
    method = document["method"]
    if method not in METHODS:
        expected = ", ".join(f"`{each}`" for each in METHODS)
        raise Invalid(
            2, f"Invalid request: unknown variant `{method}`, expected one of {expected} at line 1 column 1"
        )
    return method


def _names(given: list[Any]) -> list[str]:
    if not all(isinstance(each, str) and _NAME.fullmatch(each) for each in given):
        raise Invalid(2, "Invalid request: a stream's name must be a string like btcusdt@depth")
    return given


def _known_property(given: list[Any]) -> None:
    if not given or not isinstance(given[0], str):
        raise Invalid(2, "Invalid request: property name must be a string")
    if given[0] != "combined":
        raise Invalid(0, "Unknown property")


# --- routes -------------------------------------------------------------------------------------


def _split(listed: str) -> list[str]:
    names = [unquote(name) for name in listed.split("/") if name]
    if len(names) > MOST_STREAMS or not all(_NAME.fullmatch(name) for name in names):
        raise Refused(-1130, "Data sent for parameter 'streams' is not valid.")
    return names


def raw(exchange: LocalExchange, request: web.Request) -> StreamSocket:
    """A connection to `/ws` or `/ws/<name>`."""
    return StreamSocket(exchange, request, _split(request.match_info.get("names", "")), combined=False)


def combined(exchange: LocalExchange, request: web.Request) -> StreamSocket:
    """A connection to `/stream?streams=<name>/<name>`."""
    return StreamSocket(exchange, request, _split(request.query.get("streams", "")), combined=True)
