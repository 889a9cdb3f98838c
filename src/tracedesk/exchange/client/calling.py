"""One call to the venue from admission to answer, and what may be tried again.

A read may be repeated. A request that changes something is sent once: where the answer does not say
what became of it, `OutcomeUnknown` does. The single exception is a refused time stamp, since the venue
refuses it before anything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

import orjson

from tracedesk.exchange.client.clock import Sample, ServerTime
from tracedesk.exchange.client.errors import (
    ClientError,
    CredentialsRequired,
    OutcomeUnknown,
    RateLimited,
    Unreachable,
    VenueError,
)
from tracedesk.exchange.client.http import Answer, Http, NoAnswer, NotSent
from tracedesk.exchange.client.limits import Limits
from tracedesk.exchange.client.signing import Credentials, Value, encoded, signed_query
from tracedesk.foreign import block
from tracedesk.primitives.time import MINUTE, Clock

RECV_WINDOW: Final = 5_000
ATTEMPTS: Final = 3
"""Times that a read is sent at most."""
SAMPLES: Final = 5
"""Answers of the venue's clock that one measurement takes."""

_PAUSE: Final = 0.25
"""Seconds before the first repetition, about; each later one doubles it."""
_FRESH: Final = 30 * MINUTE
"""How long a measured clock offset is taken for true."""
_BAD_TIMESTAMP: Final = -1021
_TOO_MANY_ORDERS: Final = -1015
_UNCLEAR: Final = frozenset({-1000, -1001, -1006, -1007})
"""Refusals that do not say whether the request was carried out."""
_BUSY: Final = -1008
_ESSENTIAL: Final = frozenset((("GET", "openOrders"), ("GET", "order"), ("GET", "time")))


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the venue."""

    method: str
    path: str
    params: Mapping[str, Value]
    weight: int
    signed: bool = False
    effect: bool = False
    """Whether it changes something."""
    orders: int = 0
    """New orders that it counts as."""
    rows: bool = False
    """Whether the answer is a list."""

    @property
    def is_essential(self) -> bool:
        """True when it cancels orders or lists those to cancel: weight is kept back for such requests."""
        return self.method == "DELETE" or (self.method, self.path) in _ESSENTIAL


class _Unclear(Exception):
    """An answer that does not tell the outcome."""


class Caller:
    """Sends requests for one account, or for nobody."""

    def __init__(
        self,
        base: str,
        credentials: Credentials | None,
        *,
        http: Http,
        clock: Clock,
        time: ServerTime,
        limits: Limits,
        random: Random,
        timeout: float,
        patience: float,
    ) -> None:
        self.credentials = credentials
        self.time = time
        self.limits = limits
        self._base = base.rstrip("/")
        self._http = http
        self._clock = clock
        self._random = random
        self._timeout = timeout
        self._patience = patience
        self._measuring = asyncio.Lock()

    async def call(self, request: Request) -> Any:
        """The venue's answer; raises a `ClientError` that says what is certain."""
        if request.signed and self.credentials is None:
            raise CredentialsRequired(f"{request.method} {request.path}")
        return await (self._once(request) if request.effect else self._repeated(request))

    # --- how often

    async def _once(self, request: Request) -> Any:
        try:
            return await self._timed(request)
        except (NoAnswer, _Unclear) as fault:
            raise OutcomeUnknown(str(fault)) from None
        except NotSent as fault:
            raise Unreachable(str(fault)) from None

    async def _repeated(self, request: Request) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._timed(request)
            except (NotSent, NoAnswer, _Unclear) as fault:
                if attempt == ATTEMPTS:
                    raise Unreachable(f"{fault}, {ATTEMPTS} times") from None
                await self._pause(attempt)
            except RateLimited as limited:
                # Admission now waits as long as the venue said, or refuses where that is too long.
                if not limited.sent or limited.banned or attempt == ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _pause(self, attempt: int) -> None:
        seconds = _PAUSE * 2 ** (attempt - 1) * self._random.uniform(0.5, 1.0)
        await self._clock.sleep_until(self._clock.monotonic() + seconds)

    async def _timed(self, request: Request) -> Any:
        """Send with a good time stamp: a refused one was not looked at further, so it may be sent again."""
        if not request.signed:
            return await self._attempt(request)
        await self.know_time()
        used = self.time.measured_ns
        try:
            return await self._attempt(request)
        except VenueError as refusal:
            if refusal.venue_code != _BAD_TIMESTAMP:
                raise
        await self.measure(used)
        return await self._attempt(request)

    async def know_time(self) -> None:
        """Find the clock offset, unless it is known from not long ago."""
        measured = self.time.measured_ns
        if measured is None or abs(self._clock.now_ns() - measured) > _FRESH:
            await self.measure(measured)

    async def measure(self, known: int | None) -> None:
        """Find the clock offset, unless another caller has since the measurement `known`."""
        async with self._measuring:
            if self.time.measured_ns != known:
                return
            self.time.measured([await self._sample() for _ in range(SAMPLES)])

    async def _sample(self) -> Sample:
        asked = self._clock.now_ns()
        try:
            answer = await self._repeated(Request("GET", "time", {}, 1))
            return Sample(asked, self._clock.now_ns(), int(answer["serverTime"]))
        except (KeyError, TypeError, ValueError):
            raise Unreachable("its clock gave no time") from None

    # --- one attempt

    async def _attempt(self, request: Request) -> Any:
        account = self.credentials.fingerprint if self.credentials is not None else None
        # An order that waits would be placed at a moment nobody chose.
        patience = 0.0 if request.effect else self._patience
        held = await self.limits.admit(
            request.weight,
            orders=request.orders,
            account=account,
            patience=patience,
            essential=request.is_essential,
        )
        try:
            answer = await self._send(request)
        except NotSent:
            held.settle(sent=False)
            raise
        except BaseException:
            held.settle(sent=True)
            raise
        self.limits.answered(held, answer.headers, account)
        return self._read_answer(request, answer, account)

    async def _send(self, request: Request) -> Answer:
        headers: dict[str, str] = {}
        query = encoded(request.params)
        if request.signed and self.credentials is not None:
            headers["X-MBX-APIKEY"] = self.credentials.api_key
            stamped = {"recvWindow": RECV_WINDOW, **request.params, "timestamp": self.time.now_ms()}
            query = signed_query(self.credentials, stamped)
        url, body = f"{self._base}/api/v3/{request.path}", None
        if request.method in ("POST", "PUT"):
            body = query
        elif query:
            url = f"{url}?{query}"
        return await self._http.send(request.method, url, headers=headers, body=body, timeout=self._timeout)

    # --- what the answer means

    def _read_answer(self, request: Request, answer: Answer, account: str | None) -> Any:
        document = _parsed(answer.body)
        if 200 <= answer.status < 300:
            if not isinstance(document, list if request.rows else dict):
                raise _Unclear("the answer cannot be read")
            return cast(Any, document)
        code, message, data = _refusal(document, answer.status)
        if answer.status in (418, 429):
            limited = self._limited(answer, code, message, account)
            # Half of a cancel-replace may have been done before the limit was met.
            raise VenueError(code, message, answer.status, data) if _is_half_done(data) else limited
        if _tells_nothing(answer.status, code) or _UNCLEAR & _codes(code, data):
            told = f", {code}: {block(message)}" if code else ""
            raise _Unclear(f"HTTP {answer.status}{told}")
        raise VenueError(code, message, answer.status, data)

    def _limited(self, answer: Answer, code: int, message: str, account: str | None) -> ClientError:
        banned = answer.status == 418
        # Too many orders closes the account for orders, not this address for everything.
        only = account if code == _TOO_MANY_ORDERS else None
        seconds = self.limits.refused(_retry_after(answer.headers), banned=banned, account=only)
        return RateLimited(message, seconds, sent=True, banned=banned, venue_code=code)


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _refusal(document: Any, status: int) -> tuple[int, str, dict[str, Any] | None]:
    """Code, text and data of a refusal, whatever its body looks like."""
    if not isinstance(document, dict):
        text = "The venue's firewall blocked the request." if status == 403 else f"HTTP status {status}."
        return 0, text, None
    body = cast(dict[str, Any], document)
    code, data = body.get("code"), body.get("data")
    told = cast(dict[str, Any], data) if isinstance(data, dict) else None
    return code if isinstance(code, int) else 0, str(body.get("msg", "")), told


def _tells_nothing(status: int, code: int) -> bool:
    """Whether such a refusal may also come after the venue has acted.

    Only a code of the venue's own refuses for certain, or its firewall, which lets nothing through.
    """
    return status >= 500 or status < 400 or status == 408 or code == _BUSY or (code == 0 and status != 403)


def _codes(code: int, data: Mapping[str, Any] | None) -> set[int]:
    """The codes of a refusal and of the two halves of a cancel-replace."""
    halves = [cast(dict[str, Any], each) for each in (data or {}).values() if isinstance(each, dict)]
    found = [half.get("code") for half in halves]
    return {code, *(each for each in found if isinstance(each, int))}


def _is_half_done(data: Mapping[str, Any] | None) -> bool:
    return "SUCCESS" in ((data or {}).get("cancelResult"), (data or {}).get("newOrderResult"))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    return float(value) if value.isdigit() else None
