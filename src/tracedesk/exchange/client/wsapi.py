"""The account's own events over the WebSocket API, subscribed by signature."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol, cast

import orjson

from tracedesk.exchange.client.calling import RECV_WINDOW
from tracedesk.exchange.client.errors import ClientError, VenueError
from tracedesk.exchange.client.http import Http
from tracedesk.exchange.client.keeper import LIFE, Keeper
from tracedesk.exchange.client.line import SILENCE, CannotOpen, Line
from tracedesk.exchange.client.rest import Rest
from tracedesk.exchange.client.signing import Credentials, Value, signed_params
from tracedesk.primitives.time import MILLISECOND, SECOND, Clock

log = logging.getLogger(__name__)

_SUBSCRIBE: Final = "userDataStream.subscribe.signature"
_BAD_TIMESTAMP: Final = -1021
_ENDED: Final = "eventStreamTerminated"
_SHUTDOWN: Final = "serverShutdown"


class UserSink(Protocol):
    """Who hears the account's events. A `ValueError` from `event` says that it cannot be read."""

    def event(self, data: dict[str, Any], received_ns: int) -> None: ...

    def live(self) -> None:
        """Subscribed; what happened before must be asked for."""
        ...

    def lost(self, reason: str) -> None:
        """Events may be missed from now on."""
        ...

    def refused(self, refusal: VenueError) -> None:
        """The venue does not accept the credentials; nothing more comes."""
        ...


@dataclass(frozen=True, slots=True)
class UserStatus:
    """How the connection is doing."""

    connected: bool
    since_ns: int | None
    reconnects: int
    rollovers: int
    malformed: int
    last_error: str | None


class UserData:
    """One account's events, from `start` to `close`."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        sink: UserSink,
        *,
        http: Http,
        rest: Rest,
        clock: Clock,
        random: Random,
        life: float = LIFE,
        silence: float = SILENCE,
    ) -> None:
        self._url = url
        self._credentials = credentials
        self._sink = sink
        self._http = http
        self._rest = rest
        self._clock = clock
        self._silence = silence
        hold = rest.limits
        self._keeper = Keeper(self, self._connect, clock, random, life=life, hold=lambda: hold.closed_seconds)
        self._primary: Line | None = None
        self._since_ns: int | None = None
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = 0
        self._malformed = 0
        self._last_error: str | None = None
        self._ending: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._keeper.start()

    async def close(self) -> None:
        await self._keeper.stop()
        self._primary = None
        if self._ending is not None:
            await self._ending

    @property
    def status(self) -> UserStatus:
        keeper = self._keeper
        return UserStatus(
            connected=self._primary is not None,
            since_ns=self._since_ns,
            reconnects=keeper.reconnects,
            rollovers=keeper.rollovers,
            malformed=self._malformed,
            last_error=self._last_error,
        )

    # --- what the keeper asks

    async def prepare(self, line: Line) -> None:
        """Subscribe, with the venue's time measured anew where it refuses ours."""
        try:
            await self._subscribe(line)
        except VenueError as refusal:
            if refusal.code == "CREDENTIALS_REQUIRED":
                self._refused(refusal)
            raise CannotOpen(refusal.message) from None
        except ClientError as fault:
            raise CannotOpen(fault.message) from None

    def begin(self, line: Line) -> None:
        self._primary = line
        self._since_ns = self._clock.now_ns()
        self._sink.live()

    async def joined(self, old: Line, new: Line) -> None:
        """At once: what was missed or came twice is found by asking, which `live` begins."""

    def switch(self, old: Line, new: Line) -> None:
        self.begin(new)

    def drop(self, line: Line) -> None:
        """Nothing is kept of a line."""

    def lost(self, reason: str) -> None:
        self._primary = self._since_ns = None
        self._last_error = reason
        self._sink.lost(reason)

    # --- asking

    async def _connect(self) -> Line:
        return await Line.open(self._http, self._url, self._clock, self._hear, self._silence)

    async def _subscribe(self, line: Line) -> None:
        await self._rest.know_time()
        measured = self._rest.time.measured_ns
        try:
            await self._signed(line, _SUBSCRIBE)
        except VenueError as refusal:
            if refusal.venue_code != _BAD_TIMESTAMP:
                raise
            await self._rest.measure(measured)
            await self._signed(line, _SUBSCRIBE)

    async def _signed(self, line: Line, method: str) -> dict[str, Any]:
        stamp: dict[str, Value] = {"timestamp": self._rest.time.now_ms(), "recvWindow": RECV_WINDOW}
        return await self._ask(line, method, signed_params(self._credentials, stamp))

    async def _ask(self, line: Line, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._ids += 1
        id = self._ids
        self._asked[id] = asyncio.get_running_loop().create_future()
        try:
            await line.say({"id": id, "method": method, "params": params})
            return self._result(await line.reply(self._asked[id]))
        finally:
            self._asked.pop(id).cancel()

    def _result(self, answer: dict[str, Any]) -> dict[str, Any]:
        status, error = answer.get("status"), answer.get("error")
        if status == 200 and isinstance(answer.get("result"), dict):
            return answer["result"]
        told = cast(dict[str, Any], error if isinstance(error, dict) else {})
        code, message = told.get("code"), str(told.get("msg", "no reason given"))
        if status in (418, 429):
            self._limited(told.get("data"), banned=status == 418)
        raise VenueError(
            code if isinstance(code, int) else 0, message, status if isinstance(status, int) else 0
        )

    def _limited(self, data: object, *, banned: bool) -> None:
        until = cast(dict[str, Any], data if isinstance(data, dict) else {}).get("retryAfter")
        left = (until * MILLISECOND - self._rest.time.now_ns()) / SECOND if isinstance(until, int) else None
        self._rest.limits.refused(max(0.0, left) if left is not None else None, banned=banned)

    def _refused(self, refusal: VenueError) -> None:
        """Stop for good: asking again with the same key would only be refused again."""
        self._last_error = refusal.message
        self._sink.refused(refusal)
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._keeper.stop())

    # --- what is heard

    def _hear(self, line: Line, raw: bytes) -> None:
        try:
            document: Any = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return self._unreadable("a frame is not JSON")
        body = cast(dict[str, Any], document if isinstance(document, dict) else {})
        event = body.get("event")
        if isinstance(event, dict):
            self._event(line, cast(dict[str, Any], event))
        elif (asked := self._asked.get(cast(int, body.get("id")))) is not None and not asked.done():
            asked.set_result(body)
        else:
            self._unreadable("a frame is neither an event nor an answer")
        return None

    def _event(self, line: Line, event: dict[str, Any]) -> None:
        kind = event.get("e")
        if kind == _SHUTDOWN:
            self._last_error = "the venue is shutting this connection down"
            self._keeper.renew()
        elif kind == _ENDED:
            line.cut("the venue ended the subscription")
        else:
            try:
                self._sink.event(event, self._clock.now_ns())
            except ValueError as fault:
                self._unreadable(f"{kind}: {fault}")
            except Exception as fault:
                log.exception("a reader of %s failed", kind)
                self._unreadable(f"{kind}: its reader failed ({type(fault).__name__})")
                self._sink.live()

    def _unreadable(self, reason: str) -> None:
        self._malformed += 1
        self._last_error = reason[:200]
