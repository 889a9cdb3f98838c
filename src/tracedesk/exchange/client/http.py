"""One HTTP request, sent once, and how far it got when it failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from tracedesk.exchange.client.waiting import within
from tracedesk.primitives.time import Clock

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.client_middlewares import ClientHandlerType

_FORM: Final = "application/x-www-form-urlencoded"
AGENT: Final = "tracedesk"
LARGEST: Final = 64 * 2**20
"""Bytes of an answer, unpacked; the longest known, all symbols of the venue, has about a quarter."""


class NotSent(Exception):
    """No connection was made, so the venue knows nothing of the request."""


class NoAnswer(Exception):
    """A connection was there, and the request may have reached the venue."""


class _TooLarge(Exception):
    """The answer is larger than any that makes sense."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class _Progress:
    """How far a request got."""

    connected: bool = False


class Http:
    """The HTTP session of one client; it neither repeats, redirects nor remembers cookies."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session, opened at its first use, for sockets too."""
        if self._session is None:
            self._session = _open()
        return self._session

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: str | None, timeout: float
    ) -> Answer:
        """Send once; raises `NotSent` or `NoAnswer`, whose texts hold nothing of the request.

        `url` and `body` are percent-encoded already and go out as they are.
        """
        import aiohttp

        progress = _Progress()
        try:
            work = self._exchange(method, url, dict(headers), body, progress)
            return await within(self._clock, timeout, work)
        # The library's texts may hold the address with its signature, so only the kind of fault is told.
        except (TimeoutError, aiohttp.ClientError, OSError, _TooLarge) as fault:
            reason = _reason(fault)
            raise (NoAnswer(reason) if progress.connected else NotSent(reason)) from None

    async def _exchange(
        self, method: str, url: str, headers: dict[str, str], body: str | None, progress: _Progress
    ) -> Answer:
        from yarl import URL

        if body is not None:
            headers["Content-Type"] = _FORM
        async with self.session.request(
            method,
            URL(url, encoded=True),
            headers=headers,
            data=body.encode("ascii") if body is not None else None,
            allow_redirects=False,
            middlewares=(_once,),
            trace_request_ctx=progress,
        ) as response:
            return Answer(response.status, dict(response.headers), await _body(response))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """The whole answer, unpacked piece by piece so that a small one cannot become a huge one."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > LARGEST:
            response.close()
            raise _TooLarge
    return bytes(body)


async def _once(request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a DELETE or PUT by itself when its connection is cut."""
    import aiohttp

    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
        raise ConnectionAbortedError("the connection was cut") from None


def _open() -> aiohttp.ClientSession:
    import aiohttp

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(_connected)
    trace.on_connection_reuseconn.append(_connected)
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": AGENT},
        trace_configs=[trace],
        auto_decompress=True,
    )


async def _connected(session: aiohttp.ClientSession, context: SimpleNamespace, params: Any) -> None:
    progress = context.trace_request_ctx
    if isinstance(progress, _Progress):
        progress.connected = True


def _reason(fault: BaseException) -> str:
    import aiohttp

    if isinstance(fault, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    if isinstance(fault, aiohttp.ClientSSLError | aiohttp.ClientConnectorCertificateError):
        return "its certificate was not accepted"
    if isinstance(fault, aiohttp.ClientConnectorError):
        return f"no connection ({fault.os_error.strerror or type(fault.os_error).__name__})"
    if isinstance(fault, TimeoutError):
        return "no answer in time"
    if isinstance(fault, _TooLarge):
        return f"the answer is larger than {LARGEST // 2**20} MiB"
    if isinstance(fault, ConnectionError | aiohttp.ClientConnectionError):
        return "the connection was cut"
    return f"the answer broke off ({type(fault).__name__})"
