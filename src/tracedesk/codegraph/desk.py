"""The atlas: the projects of one home, their graphs, and what was tried on them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tracedesk.calls.log import prepare
from tracedesk.codegraph import beside, refusals
from tracedesk.codegraph.etg import marks, schema
from tracedesk.codegraph.etg.lane import Lane
from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.etg.model import STREAM_KIND
from tracedesk.codegraph.graph.index import Cancelled, NothingAccepted, NothingExtracted
from tracedesk.codegraph.graph.limits import Limits
from tracedesk.codegraph.graph.locks import ProjectBusy
from tracedesk.codegraph.graph.readers import Readers
from tracedesk.codegraph.graph.scan import project_root
from tracedesk.codegraph.graph.schema import GraphError
from tracedesk.codegraph.graph.store import Project, Store, project_at
from tracedesk.codegraph.graph.update import NotIndexed
from tracedesk.codegraph.refs import key_of
from tracedesk.codegraph.semantics import Semantics
from tracedesk.codegraph.settings import Codegraph
from tracedesk.codegraph.world import GraphWorld
from tracedesk.errors import ToolError
from tracedesk.home import Home
from tracedesk.jobs import Job, JobCancelled, JobTable, Listener, in_thread
from tracedesk.journal import JournalBusy, JournalError, Reader
from tracedesk.journal.pool import ReadPool
from tracedesk.journal.sqlite import BusyError, Connection, InterruptError, SQLiteError
from tracedesk.payloads import Payloads
from tracedesk.primitives.paths import Jail, PathRefused
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.supervision import persist
from tracedesk.primitives.time import Clock, SystemClock
from tracedesk.storage import is_of_disk

if TYPE_CHECKING:
    from tracedesk.calls import CallLog
    from tracedesk.codegraph.capture.desk import Capture

log = logging.getLogger(__name__)

T = TypeVar("T")
READERS: Final = 4
MOST_WORKERS: Final = 4
CATCHING_SECONDS: Final = 0.25
"""How long a reader waits for what the desk has recorded meanwhile."""
EVENTS_SECONDS: Final = 2.0
"""How long a reader waits for events that were logged and are not in the tables yet."""
QUIET_SECONDS: Final = 1.0
"""For so long nobody logs before what was logged at once is taken in; who reads has it done before."""
_NAMED: Final = 20

Heads = dict[int, int]
"""Of streams, the last seq."""

_OTHERS_WRITE: Final = (
    "The newest events are missing here: another process keeps the trace from being written. Ask again."
)
_ONLY_READS: Final = (
    "The newest events are missing here: this desk only reads, and the one that logged them has yet to take "
    "them in."
)


class Atlas:
    """What the codegraph tools share: the way to graphs and traces, in threads, within the allowed roots."""

    def __init__(
        self,
        home: Home,
        settings: Codegraph,
        *,
        clock: Clock,
        secrets: Secrets,
        payloads: Payloads,
        calls: CallLog | None = None,
        read_only: bool = False,
        max_bytes: int = 1 << 20,
    ) -> None:
        self.home = home
        self.settings = settings
        self.clock = clock
        self.secrets = secrets
        self.calls = calls
        self.read_only = read_only
        self.max_bytes = max_bytes
        self.store = Store(home.graph)
        self.world = GraphWorld(self.store, settings.folders())
        self.etg = Etg(
            home.trace,
            clock,
            secrets,
            payloads,
            self.world,
            opened=prepare,
            left=self._left,
            witness=None if calls is None else calls.witness,
        )
        self.logging = Lane("log events")
        self.semantics = Semantics(home.path, self.store, home.trace, fills=not read_only)
        self.jobs = JobTable(clock=clock)
        self.capture: Capture | None = None
        self._jail: Jail | None = None
        self._graphs: Readers | None = None
        self._traces: ReadPool | None = None
        self._catching: asyncio.Future[bool] | None = None
        self._following: asyncio.Future[None] | None = None
        self._left_at = 0.0

    @classmethod
    def of(cls, home: Home, roots: Sequence[Path] = ()) -> Atlas:
        """The atlas of a command: its user names the roots."""
        settings = Codegraph(roots=tuple(str(root.absolute()) for root in roots))
        return cls(home, settings, clock=SystemClock(), secrets=Secrets(), payloads=Payloads(home.payloads))

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Open while the body runs; what still works then is cancelled."""
        self._graphs = Readers(self.store, READERS)
        self._traces = ReadPool(self.home.trace, READERS)
        try:
            async with self._captured():
                yield
        finally:
            if self._following is not None:
                self._following.cancel()
            await self.jobs.close()
            await in_thread(self.semantics.close)
            self._graphs.close()
            self._traces.close()
            await in_thread(self.logging.close)
            self.world.close()
            await in_thread(self.etg.close)
            self.store.close()

    @asynccontextmanager
    async def _captured(self) -> AsyncGenerator[None]:
        """What arrives without being asked for is taken in by desks that serve and may write."""
        if self.calls is None or self.read_only:
            yield
            return
        from tracedesk.codegraph.capture.desk import capturing
        from tracedesk.codegraph.capturing import needs

        async with capturing(self.home, self.etg, self.secrets, self.clock, needs(self)) as capture:
            self.capture = capture
            try:
                yield
            finally:
                self.capture = None

    # --- which project

    @property
    def jail(self) -> Jail:
        """The allowed roots, looked up when first needed: a root may appear after the desk."""
        if self._jail is None:
            folders = self.settings.folders()
            if not folders:
                raise refusals.no_root()
            try:
                self._jail = Jail(folders)
            except PathRefused as refused:
                roots = [str(folder) for folder in folders]
                raise ToolError(
                    "ROOT_NOT_ALLOWED", f"codegraph.roots: {refused}.", {"roots": roots}
                ) from None
        return self._jail

    def root(self, given: str) -> str:
        """The real path of a project that a call names, when it lies in an allowed root."""
        try:
            return project_root(self.jail, given)
        except PathRefused as refused:
            raise refusals.root_not_allowed(refused, self.jail.roots) from None

    def indexed(self) -> list[str]:
        """The roots of the projects that have a graph and are allowed."""
        return self.world.roots()

    def chosen(self, given: str | None) -> str:
        """The project that a call means: the one it names, else the only one there is."""
        if given is not None:
            return self.root(given)
        known = self.indexed()
        if len(known) != 1:
            raise refusals.project_unnamed(known)
        return known[0]

    def by_key(self, key: str) -> str | None:
        """The indexed project that a reference names."""
        return next((root for root in self.indexed() if key_of(root) == key), None)

    # --- reading

    async def graph(self, root: str, work: Callable[[Connection, Project], T]) -> T:
        """`work` on one state of a project's graph, in a thread; the call's deadline interrupts it."""
        assert self._graphs is not None

        def read(connection: Connection) -> T:
            project = project_at(connection, root)
            if project is None:
                raise refusals.project_not_indexed(root, self.indexed())
            return work(connection, project)

        with as_tool_errors(root):
            return await self._graphs.run(read)

    async def traced(self, work: Callable[[Reader], T]) -> T:
        """`work` on the trace, for who has caught up."""
        assert self._traces is not None
        with as_tool_errors():
            return await self._traces.run(work)

    async def caught_up(self, patience: float = EVENTS_SECONDS) -> tuple[str, ...]:
        """Take in what was logged, and fold what the desk has recorded as far as that is quickly done.

        Both write, and reading does not wait long for other writers: calls that are not folded come next
        time, and of events that are not taken in within `patience` the returned warnings tell.
        """
        wanted = await self._left_over()
        if wanted is None:
            await self._catch_up(None)
            return ()
        if self.read_only:
            return (_ONLY_READS,) if wanted else ()
        is_done = await self._catch_up(patience if wanted else CATCHING_SECONDS)
        if is_done and not await self._have(wanted):
            await self._catch_up(patience)  # the first one had begun before the last event
        return () if await self._have(wanted) else (_OTHERS_WRITE,)

    async def _catch_up(self, seconds: float | None) -> bool:
        """Catch up, in at most so long; without a bound it must succeed."""
        if self._catching is None or self._catching.done():
            self._catching = asyncio.ensure_future(in_thread(self.etg.catch_up))
        await asyncio.wait({self._catching}, timeout=seconds)
        if self._catching.done() and (problem := self._catching.exception()) is not None:
            if seconds is None:
                with as_tool_errors():
                    raise problem
            log.info("the trace was not brought up to date: %s", problem)
        return self._catching.done()

    async def _left_over(self) -> Heads | None:
        """The ends of the streams with events to take in; None when the tables are not there."""
        if not self.home.trace.exists():
            return None
        return await self.traced(_left_over)

    async def _have(self, wanted: Heads) -> bool:
        """Whether the tables go as far as that."""
        if not wanted:
            return True
        left = await self.traced(lambda reader: marks.behind(reader.connection, STREAM_KIND))
        return all(mark.seq >= wanted.get(mark.stream, 0) for mark in left)

    # --- following

    def _left(self) -> None:
        """An event was logged that is to be taken in later: when nobody has logged for a moment."""
        self._left_at = self.clock.monotonic()
        if self._following is None or self._following.done():
            self._following = asyncio.ensure_future(persist("trace following", self._follow))

    async def _follow(self) -> None:
        caught = None
        while caught != self._left_at:
            last = self._left_at
            await self.clock.sleep_until(last + QUIET_SECONDS)
            if last == self._left_at:
                await self._catch_up(EVENTS_SECONDS)
                caught = last

    # --- writing

    async def job(self, kind: str, root: str, listener: Listener, work: Callable[[Job[Any]], T]) -> T:
        """Long work on a project in a thread of its own, told to `listener`, ended with it."""

        def run(job: Job[Any]) -> T:
            with as_tool_errors(root):
                return work(job)

        try:
            return await self.jobs.start_thread(kind, run).report_to(listener)
        except JobCancelled:
            raise refusals.index_cancelled(root) from None

    @property
    def limits(self) -> Limits:
        chosen = self.settings
        return Limits(
            file_bytes=chosen.max_file_bytes,
            line_chars=chosen.max_line,
            files=chosen.max_files,
            parse_seconds=chosen.parse_seconds,
        )

    @property
    def workers(self) -> int:
        return self.settings.workers or min(MOST_WORKERS, len(beside.cores(everywhere=not self.serves)))

    @property
    def serves(self) -> bool:
        """Whether this is a desk's, and not a command's."""
        return self.calls is not None


def _left_over(reader: Reader) -> Heads | None:
    if not schema.exists(reader.connection):
        return None
    return {mark.stream: mark.last for mark in marks.behind(reader.connection, STREAM_KIND)}


@contextmanager
def as_tool_errors(root: str = "") -> Generator[None]:
    """What graphs and traces can fail with, under the toolset's codes."""
    try:
        yield
    except InterruptError:
        message = "The reading was interrupted at its deadline. Ask for less, or retry later."
        raise ToolError("QUERY_TIMEOUT", message, {"projectRoot": root}) from None
    except ProjectBusy as busy:
        raise refusals.index_busy(root, None if busy.holder is None else busy.holder.pid) from None
    except Cancelled as cancelled:
        raise JobCancelled(str(cancelled)) from None
    except PathRefused as refused:
        raise ToolError("ROOT_NOT_ALLOWED", f"project_root: {refused}.", {"reason": refused.reason}) from None
    except NotIndexed as problem:
        raise ToolError("PROJECT_NOT_INDEXED", f"project_root: {problem}.", {"projectRoot": root}) from None
    except NothingAccepted as problem:
        skipped = [skip.document() for skip in problem.skipped[:_NAMED]]
        raise refusals.invalid("files", f"{problem}.", skipped=skipped) from None
    except NothingExtracted as problem:
        raise ToolError("NOTHING_PARSED", f"files: {problem}.", {"languages": problem.languages}) from None
    except (BusyError, JournalBusy) as problem:
        message = "Another process is writing to the graph or the trace. Try again in a moment."
        raise ToolError("DATABASE_ERROR", message, {"kind": type(problem).__name__}) from None
    except (SQLiteError, JournalError, GraphError, OSError) as problem:
        if isinstance(problem, OSError) and not is_of_disk(problem):
            raise
        message = f"The graph or the trace cannot be used: {problem}. Run `tracedesk doctor`."
        raise ToolError("DATABASE_ERROR", message, {"kind": type(problem).__name__}) from None
