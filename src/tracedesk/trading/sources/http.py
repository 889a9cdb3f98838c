"""A service of one's own as a provider: JSON over HTTP, named in the settings by its address.

The desk asks with GET; `at` is the clock, and nothing after it may be told. Each answer is an object whose
`symbols` has a member for each symbol that the service knows something of; `unknown` lists those that it says
do not exist. A symbol in neither is one it has nothing for.

    /quotes?symbols=A,B&at=T           {price, as_of, previous_close?, volume?, bid?, ask?}
    /daily?symbols=A,B&count=N&at=T    {sessions: [date…], adjusted_close: […], volume: […]}, oldest first
    /history?symbols=A&period=P&interval=I&at=T
                                     [[start, open, high, low, close, volume, adjusted_close]…], oldest first
    /news?symbols=A,B&since=S&at=T     [{headline, published, summary?, source?}…]
    /fundamentals?symbols=A,B&at=T     {as_of, period_end?, currency?, <metric>…, missing?: {<metric>: why}}

Prices have six decimal places at most, adjusted ones any number. Status 200 has an answer; 404 with
`{"unknown": […]}` denies symbols. 429 is RATE_LIMITED, with the seconds of `Retry-After`. A status from 500
on, a refused or broken connection and silence are NETWORK_ERROR. Any other status, and a body that is not as
above, is DATA_UNAVAILABLE. Redirections are not followed.
"""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from email.utils import parsedate_to_datetime
from time import monotonic
from time import time as wall
from typing import Any, Final, TypeVar
from urllib.parse import quote as escaped
from urllib.parse import urlencode, urlsplit

from tracedesk.errors import ToolError
from tracedesk.foreign import quoted
from tracedesk.market import calendar, eastern
from tracedesk.payloads import LARGEST
from tracedesk.primitives import json
from tracedesk.primitives.time import format
from tracedesk.trading.sources import periods, shapes
from tracedesk.trading.sources.seam import (
    Adjust,
    Fetch,
    History,
    Quote,
    Ratios,
    Series,
    Story,
    invalid_symbol,
    network_error,
    rate_limited,
)

T = TypeVar("T")

LONGEST_BODY: Final = 16 * LARGEST
"""Bytes read of an answer; one past a payload's size is asked for again in parts."""
TIMEOUT_S: Final = 5.0
MOST_STORIES: Final = 200

_PIECE: Final = 65_536
_DEFAULT_WAIT_S: Final = 60.0


class BadAddress(ValueError):
    """An address that no service can be asked at."""


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    retry_after: str | None
    body: bytes


class Http:
    """Asks one service; its name is its address."""

    local = False
    kinds = ("quotes", "history", "news", "fundamentals")

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Take the address that the paths are added to; raises `BadAddress`."""
        self._secure, self._host, self._port, self._path = _parts(url)
        self.name = url.rstrip("/")
        self._timeout_s = timeout_s

    async def quotes(self, symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        """The service's quotes."""
        return await self._fetch(
            "quotes", symbols, now_ns, {}, lambda symbol, value: shapes.quote(symbol, value, now_ns)
        )

    async def daily(self, symbols: Sequence[str], count: int, now_ns: int) -> Fetch[Series]:
        """The service's daily columns."""

        def read(_: str, value: Any) -> Series:
            found = shapes.series(value, now_ns)
            _check_closed(found.days, now_ns)
            if len(found.days) > count:
                raise shapes.BadShape(f"{len(found.days)} sessions came where {count} were asked for")
            return found

        return await self._fetch("daily", symbols, now_ns, {"count": str(count)}, read)

    async def history(
        self, symbol: str, period: str, interval: str, now_ns: int, adjust: Adjust | None = None
    ) -> Fetch[History]:
        """The service's bars, as it has adjusted them."""

        def read(_: str, value: Any) -> History:
            found = shapes.candles(value, now_ns)
            if interval not in periods.INTRADAY:
                _check_closed([eastern.to_day(candle.start_ns).toordinal() for candle in found[-1:]], now_ns)
            return History(found)

        asked = {"period": period, "interval": interval}
        return await self._fetch("history", [symbol], now_ns, asked, read)

    async def news(self, symbols: Sequence[str], since_ns: int, now_ns: int) -> Fetch[tuple[Story, ...]]:
        """The service's stories; those outside (since_ns, now_ns] are left out."""

        def read(symbol: str, value: Any) -> tuple[Story, ...]:
            stories = [shapes.story(symbol, row) for row in shapes.items(value, "the news")]
            inside = [story for story in stories if since_ns < story.published_ns <= now_ns]
            return tuple(sorted(inside, key=lambda story: -story.published_ns)[:MOST_STORIES])

        return await self._fetch("news", symbols, now_ns, {"since": format(since_ns)}, read)

    async def fundamentals(self, symbols: Sequence[str], now_ns: int) -> Fetch[Ratios]:
        """The service's ratios."""

        def read(symbol: str, value: Any) -> Ratios:
            found = shapes.ratios(symbol, value)
            if found.as_of_ns > now_ns:
                raise shapes.BadShape(f"as_of {format(found.as_of_ns)} lies after the clock")
            return found

        return await self._fetch("fundamentals", symbols, now_ns, {}, read)

    async def _fetch(
        self,
        kind: str,
        symbols: Sequence[str],
        now_ns: int,
        asked: dict[str, str],
        read: Callable[[str, Any], T],
    ) -> Fetch[T]:
        query = urlencode({"symbols": ",".join(symbols), **asked, "at": format(now_ns)}, safe=",:")
        reply = await asyncio.to_thread(self._get, f"{self._path}/{kind}?{query}")
        document = self._document(reply, symbols)
        denied = set(_names(document.get("unknown", []))) & set(symbols)
        failures = {symbol: invalid_symbol(symbol) for symbol in symbols if symbol in denied}
        if reply.status == 404 and not denied:
            raise self._unusable("answered 404: it does not have this kind of data", symbols)
        told = shapes.record(document.get("symbols", {}), "symbols")
        values: dict[str, T] = {}
        for symbol in symbols:
            if symbol in told and symbol not in denied:
                try:
                    values[symbol] = read(symbol, told[symbol])
                except ValueError as error:
                    failures[symbol] = self._unusable(f"told what cannot be used: {error}", [symbol])
        return Fetch(values, failures, reply.body)

    def _document(self, reply: _Reply, symbols: Sequence[str]) -> Any:
        if reply.status == 429:
            raise rate_limited(self.name, _seconds(reply.retry_after))
        if reply.status >= 500:
            raise network_error(self.name, f"status {reply.status}")
        if reply.status not in (200, 404):
            raise self._unusable(f"answered with status {reply.status}", symbols)
        try:
            document = shapes.record(json.loads(reply.body, levels=json.DEEPEST), "the answer")
            shapes.record(document.get("symbols", {}), "symbols")
            _names(document.get("unknown", []))
        except ValueError as error:
            problem = "answered 404" if reply.status == 404 else f"answered what is not its wire: {error}"
            raise self._unusable(problem, symbols) from None
        return document

    def _unusable(self, problem: str, symbols: Sequence[str]) -> ToolError:
        message = f"{self.name} {problem}. Check the service, or name another provider."
        details = {"provider": self.name, "symbols": list(symbols), "retryable": False}
        return ToolError("DATA_UNAVAILABLE", message, details)

    # --- in a thread -------------------------------------------------------------------------------

    def _get(self, target: str) -> _Reply:
        connect = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = connect(self._host, self._port, timeout=self._timeout_s)
        try:
            headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            body = self._body(response)
            return _Reply(response.status, response.headers.get("Retry-After"), body)
        except (OSError, http.client.HTTPException) as error:
            # A status line that cannot be read is in the service's own words.
            told = quoted(str(error)) if isinstance(error, http.client.HTTPException) else str(error)
            raise network_error(self.name, told or type(error).__name__) from None
        finally:
            connection.close()

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        """Read piece by piece, so that an answer that drips cannot hold the thread for ever."""
        deadline = monotonic() + self._timeout_s
        body = bytearray()
        while piece := response.read1(_PIECE):
            body += piece
            if len(body) > LONGEST_BODY:
                raise http.client.HTTPException(f"an answer of more than {LONGEST_BODY} bytes")
            if monotonic() > deadline:
                raise TimeoutError("the answer took too long")
        if response.length:
            raise http.client.IncompleteRead(bytes(body[:0]), response.length)
        return bytes(body)


def _parts(url: str) -> tuple[bool, str, int | None, str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"{url!r} is not an address ({error})") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadAddress(f"{url!r} is not an address such as http://127.0.0.1:8080/market")
    if parts.username is not None or parts.password is not None:
        raise BadAddress("an address must not carry a name or password: it is shown as the provider's name")
    return parts.scheme == "https", parts.hostname, port, escaped(parts.path.rstrip("/"), safe="/%")


def _check_closed(days: Sequence[int], now_ns: int) -> None:
    """Refuse a session that is still open at the clock: its bar would tell the future."""
    closed = calendar.closed_by(now_ns)
    if days and (closed is None or days[-1] > closed.toordinal()):
        raise shapes.BadShape(f"the session of {date.fromordinal(days[-1])} has not closed at the clock")


def _names(value: Any) -> list[str]:
    names = shapes.items(value, "unknown")
    if not all(isinstance(name, str) for name in names):
        raise shapes.BadShape("unknown must be an array of symbols")
    return list(names)


def _seconds(retry_after: str | None) -> float:
    """The wait that a service asks for, in seconds or as a date; a minute when it names none."""
    if retry_after is None:
        return _DEFAULT_WAIT_S
    if retry_after.strip().isdigit():
        return float(min(int(retry_after), 86_400))
    try:
        return max(0.0, round(parsedate_to_datetime(retry_after).timestamp() - wall(), 3))
    except ValueError:
        return _DEFAULT_WAIT_S
