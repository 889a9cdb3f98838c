"""Documents of other protocols: posted to an address that a toolset declares, answered by its function."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import Counter
from typing import Final

from tracedesk.contract import Intake, Posted
from tracedesk.errors import STANDARD, NotPermitted, ToolError, http_status
from tracedesk.wire.auth import Identity
from tracedesk.wire.dispatch import Dispatch
from tracedesk.wire.guard import Guard
from tracedesk.wire.request import Refused, Request, Response, too_large

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 16
"""Documents at once, each counted until its work has ended."""
MOST_OF_ONE: Final = 8
"""Documents at once of one caller, so that no caller shuts another one out."""
SECONDS: Final = 10.0
_GZIP: Final = 16 + zlib.MAX_WBITS
_MOST_MEMBERS: Final = 16


class Intakes:
    """The addresses that the served toolsets declare."""

    def __init__(self, dispatch: Dispatch, guard: Guard) -> None:
        self._dispatch = dispatch
        self._guard = guard
        self._running: Counter[str] = Counter()
        self._works: set[asyncio.Future[Response]] = set()
        """Held here, for a loop keeps no task alive by itself."""

    def has(self, path: str) -> bool:
        return path in self._dispatch.registry.intakes

    def at(self, request: Request) -> Intake | None:
        """The intake that a request is posted to."""
        return self._dispatch.registry.intakes.get(request.path) if request.method == "POST" else None

    async def take(self, request: Request, identity: Identity, intake: Intake) -> Response:
        """Hand the document to the toolset, under its scope, its size and a deadline."""
        if intake.scope not in identity.granted:
            refused = NotPermitted(intake.scope, authenticated=identity.principal is not None)
            status, headers = self._guard.denial(refused)
            raise Refused(status, refused.remedy, headers)
        self._begin(identity.scope)
        try:
            body = _unpacked(await request.body(intake.largest), request, intake.largest)
        except BaseException:
            self._finish(identity.scope)
            raise
        posted = Posted(body, identity.principal)
        work = asyncio.ensure_future(self._taken(intake, posted, identity.scope))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        return await _answer(work)

    def _begin(self, scope: str) -> None:
        """Count a document of that caller, or refuse it while as many as may be are taken in."""
        running, own = self._running.total(), self._running[scope]
        if running >= MOST_AT_ONCE or own >= MOST_OF_ONE:
            taken = f"{own} documents of this caller" if own >= MOST_OF_ONE else f"{running} documents"
            raise Refused(503, f"{taken} are being taken in; send it again", {"Retry-After": "1"})
        self._running[scope] += 1

    def _finish(self, scope: str) -> None:
        self._running[scope] -= 1
        if not self._running[scope]:
            del self._running[scope]

    async def _taken(self, intake: Intake, posted: Posted, scope: str) -> Response:
        """The toolset's answer. Its work may go on after the sender was told to come again."""
        try:
            receipt = await intake.take(posted, await self._dispatch.state(intake.toolset))
        except ToolError as error:
            return Response.of(STANDARD.render(error), http_status(error.code))
        finally:
            self._finish(scope)
        return Response.of(receipt.body, receipt.status)


async def _answer(work: asyncio.Future[Response]) -> Response:
    """What the work ends with, if it does in time; it is never broken off, for its thread would go on."""
    done, _ = await asyncio.wait((work,), timeout=SECONDS)
    if not done:
        work.add_done_callback(_tell_late)
        raise Refused(503, f"It took longer than {SECONDS:.0f} seconds", {"Retry-After": "10"})
    return work.result()


def _tell_late(work: asyncio.Future[Response]) -> None:
    """A failure that no sender hears of is at least in the desk's log."""
    if not work.cancelled() and (fault := work.exception()) is not None:
        log.error("a document was not taken in", exc_info=fault)


def _unpacked(body: bytes, request: Request, largest: int) -> bytes:
    """The document itself; one that grows beyond its limit is refused before it does."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return body
    if encoding != "gzip":
        raise Refused(415, f"Send the body as it is or with gzip, not with {encoding[:40]!r}")
    whole = b""
    for _ in range(_MOST_MEMBERS):
        unpack = zlib.decompressobj(_GZIP)
        try:
            whole += unpack.decompress(body, largest + 1 - len(whole))
        except zlib.error as fault:
            raise Refused(400, f"The body is not gzip: {fault}") from None
        if len(whole) > largest:
            raise too_large(largest)
        if not unpack.eof:
            raise Refused(400, "The body is not gzip: it ends too early")
        body = unpack.unused_data
        if not body:
            return whole
    raise Refused(400, f"The body has more than {_MOST_MEMBERS} gzip members; pack it as one")
