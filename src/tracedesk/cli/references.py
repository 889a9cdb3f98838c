"""References followed in the files of a home, without serving it: nothing is started, sent or settled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tracedesk.calls import CallBook, CallLog
from tracedesk.calls.attempt import attempt_ref
from tracedesk.contract import Source
from tracedesk.desk_tools import Resolve
from tracedesk.home import Home
from tracedesk.hooks import Requester, holder_of
from tracedesk.jobs import in_thread
from tracedesk.payloads import Payloads
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import SystemClock
from tracedesk.wire.auth import OWNER

if TYPE_CHECKING:
    from tracedesk.codegraph.desk import Atlas

_USER: Final = Requester("command", OWNER)


@asynccontextmanager
async def following(home: Home) -> AsyncGenerator[Resolve]:
    """A resolver like the desk's: its user owns the home and sees all of it."""
    async with AsyncExitStack() as stack:
        log = CallLog(home.trace, SystemClock(), Secrets(), Payloads(home.payloads))
        stack.callback(log.stop)
        book = CallBook(log, Payloads(home.payloads))
        stack.callback(book.close)
        yield _Followed(home, book, stack).resolve


class _Followed:
    """The sources of a home by reference, each toolset's store opened when it is first asked."""

    def __init__(self, home: Home, book: CallBook, stack: AsyncExitStack) -> None:
        self._home = home
        self._book = book
        self._stack = stack
        self._atlas: Atlas | None = None

    async def resolve(self, ref: str) -> Source | None:
        """The source behind a reference, a bare id, or the name of an attempt."""
        for find in (
            self._book.resolve,
            self._backtest,
            self._fuzz,
            self._exchange,
            self._trading,
            self._codegraph,
            self._book.forgotten,
        ):
            found = await find(ref)
            if found is not None:
                return found
        return None

    async def _backtest(self, ref: str) -> Source | None:
        from tracedesk.backtest.desk import Shelf
        from tracedesk.backtest.tools import resolve

        shelf = Shelf(self._home)
        try:
            return await resolve(ref, shelf, _USER)
        finally:
            await shelf.close()

    async def _fuzz(self, ref: str) -> Source | None:
        from tracedesk.fuzz.desk import Campaigns
        from tracedesk.fuzz.settings import Fuzz
        from tracedesk.fuzz.tools import resolve

        return await resolve(ref, Campaigns(self._home, Fuzz()), _USER)

    async def _exchange(self, ref: str) -> Source | None:
        from tracedesk.exchange.orders.ledger import resolve

        return await in_thread(lambda: resolve(self._home.trace, ref))

    async def _trading(self, ref: str) -> Source | None:
        from tracedesk.trading.ledger import Ledger
        from tracedesk.trading.provenance import read_under, stored

        if not self._home.ledger.exists():
            return None

        def look() -> tuple[Source | None, tuple[str, ...]]:
            with Ledger.read_only(self._home.ledger) as reader, reader.at_once() as now:
                accounts = tuple(now.accounts())
                return stored(now, ref, accounts), accounts

        found, accounts = await in_thread(look)
        if found is not None or ref.startswith("tracedesk://"):
            return found
        return await self._book.named(read_under(ref, holder_of("", OWNER), accounts))

    async def _codegraph(self, ref: str) -> Source | None:
        from tracedesk.codegraph import sources

        atlas = await self._opened_atlas()
        return await sources.resolve(ref, atlas) or await sources.resolve(attempt_ref(ref), atlas)

    async def _opened_atlas(self) -> Atlas:
        from tracedesk.codegraph.desk import Atlas

        if self._atlas is None:
            self._atlas = Atlas.of(self._home, (Path("/"),))
            await self._stack.enter_async_context(self._atlas.opened())
        return self._atlas
