"""The trader: one desk's hold on the ledger, the providers and the ids of calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tracedesk.config import BadSetting, load
from tracedesk.contract import Arguments, Call, Link, Linked
from tracedesk.errors import ToolError
from tracedesk.journal.sqlite import SQLiteError
from tracedesk.primitives import json
from tracedesk.primitives.redaction import is_plain, redact
from tracedesk.primitives.supervision import persist
from tracedesk.primitives.time import format
from tracedesk.trading import params
from tracedesk.trading.ledger import CallRow, Ledger, LedgerBusy, LedgerReader, Reading
from tracedesk.trading.memory import SIMULATION, Memory, Told, check, packed, unpacked
from tracedesk.trading.replay import Range, next_open, range_of
from tracedesk.trading.settings import Trading, changed_ns, read
from tracedesk.trading.sources.build import make
from tracedesk.trading.sources.gate import Gate
from tracedesk.trading.sources.stats import Tally

if TYPE_CHECKING:
    from tracedesk.desk import Desk
    from tracedesk.trading.broker import Broker

log = logging.getLogger(__name__)
T = TypeVar("T")
_MOST_LINKS: Final = 8
_SHARED_S: Final = 86_400.0
"""Time for which other desks of the home find a simulation; its own desk may find it for longer."""

REPLAYED: Final = "tracedesk/replayed"
ORIGINAL_AT: Final = "tracedesk/originalAt"


@dataclass(slots=True)
class Request:
    """One call with its id, its account and the market's time, and what its answer comes to rest on."""

    tool: str
    id: str
    account: str
    args: Arguments
    call: Call[Any]
    params: bytes
    params_sha256: str
    now_ns: int
    refs: dict[str, None] = field(default_factory=dict[str, None])
    links: dict[str, Link] = field(default_factory=dict[str, Link])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What a later call of the session may hold this answer to."""

    @property
    def by(self) -> str:
        """This call's own reference."""
        return f"tracedesk://calls/{self.call.id}"

    @property
    def source_refs(self) -> list[str]:
        return [self.id, *self.refs]

    def used(self, got: Any, relation: str = "used") -> None:
        """Note a fact of a provider: its payload, and the call that fetched it when it was not this one."""
        self.call.cite(relation, got.ref)
        self.links.setdefault(got.ref, Link(got.ref, f"{got.provider} payload"))
        if got.by != self.by:
            self.refs.setdefault(got.by)
            self.call.cite("cached_from", got.by)

    def linked(self) -> tuple[Link, ...]:
        own = Link(self.by, f"call {self.id}")
        return (own, *tuple(self.links.values())[: _MOST_LINKS - 1])


class Already(Exception):
    """Another desk has answered the id in the meantime."""

    def __init__(self, call: CallRow) -> None:
        super().__init__(call.tool_call_id)
        self.call = call


Read = Callable[["Trader", Request], Awaitable[dict[str, Any]]]
Write = Callable[["Trader", Request], Awaitable[bytes]]


class Trader:
    """What the trading tools share. Stores are synchronous: one thread writes, one reads."""

    def __init__(
        self, desk: Desk, settings: Trading, broker: Broker | None = None, *, as_of_ns: int | None = None
    ) -> None:
        """`as_of_ns` tells which file the settings are of, by `changed_ns`; without it, the one there is."""
        self.desk = desk
        self.settings = settings
        self.broker = broker
        self.memory = Memory()
        self._tallies: dict[str, Tally] = {}
        self._settings_ns = changed_ns(desk.home) if as_of_ns is None else as_of_ns
        providers = make(settings.providers, desk.home, self.is_live)
        self.gate = Gate(providers, settings.providers, desk.payloads, desk.clock, system_clock=self.is_live)
        self._reconciling: asyncio.Task[Any] | None = None
        self._ledger: Ledger | None = None
        self._reader: LedgerReader | None = None
        self._writing = ThreadPoolExecutor(1, "ledger-writer")
        self._reading = ThreadPoolExecutor(1, "ledger-reader")

    # --- life

    async def open(self) -> None:
        """Open the ledger: a new one gets its clock and the default account's cash."""
        from tracedesk.trading.opening import open_ledger

        path = self.desk.home / "ledger.db"
        self._ledger = await self._in(
            self._writing,
            lambda: open_ledger(path, self.settings, self.desk.clock, witness=self.desk.witnesses.ledger),
        )
        self._reader = await self._in(self._reading, lambda: Ledger.read_only(path))
        if self.broker is not None:
            from tracedesk.trading import outbox

            self._reconciling = asyncio.create_task(
                persist("order reconciliation", lambda: outbox.reconcile(self))
            )

    async def close(self) -> None:
        if self._reconciling is not None:
            self._reconciling.cancel()
            await asyncio.wait([self._reconciling])
        if self._ledger is not None:
            await self._in(self._writing, self._ledger.close)
        if self._reader is not None:
            await self._in(self._reading, self._reader.close)
        self._writing.shutdown()
        self._reading.shutdown()

    @property
    def is_live(self) -> bool:
        """Whether the market's clock is the system's."""
        return self.settings.clock == "system"

    # --- the stores

    async def ledger(self, work: Callable[[Reading], T]) -> T:
        """Read the ledger in its reading thread, all of it as of one moment."""
        reader = self._reader
        assert reader is not None

        def read() -> T:
            with reader.at_once() as now:
                return work(now)

        return await self._in(self._reading, read)

    async def commit(self, work: Callable[[Ledger], T]) -> T:
        """Run `work` in the writing thread; it opens its own transaction."""
        writer = self._ledger
        assert writer is not None
        try:
            # Shielded: a client that goes away must not leave the thread's work without its answer recorded.
            return await asyncio.shield(self._in(self._writing, lambda: work(writer)))
        except LedgerBusy as busy:
            details = {"retryable": True, "retry_after_s": 5}
            raise ToolError("RATE_LIMITED", f"Nothing was done: {busy}.", details) from None

    @staticmethod
    async def _in(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    async def now_ns(self) -> int:
        """Where the market's clock stands."""
        if self.is_live:
            return self.desk.clock.now_ns()
        at = await self.ledger(lambda ledger: ledger.clock_ns())
        assert at is not None
        return at

    def replay(self) -> Range:
        """Return the range of the replay, as the data stand now."""
        return range_of(self.settings, self.desk.home)

    def next_open(self, now_ns: int) -> int | None:
        """Return when the exchange opens next; None when the replay or the calendar ends before."""
        return next_open(now_ns) if self.is_live else self.replay().next_open(now_ns)

    # --- the way of a call

    async def read(self, tool: str, args: Arguments, call: Call[Any], make: Read) -> Linked:
        """Answer a reading call: its id repeats its answer within the caller's session."""
        return await self._counted(tool, self._read(tool, args, call, make))

    async def _read(self, tool: str, args: Arguments, call: Call[Any], make: Read) -> Linked:
        request = await self._request(tool, args, call)

        async def tell() -> Told:
            await self._check_unwritten(request)
            body = await make(self, request)
            body["source_refs"] = request.source_refs
            at = self.desk.clock.now_ns()
            document = json.dumps(body)
            told = Told(tool, request.params_sha256, document, call.id, at, request.linked(), request.facts)
            await self._share(told, request)
            return told

        key = (request.account, call.scope, request.id)
        told, again = await self.memory.once(key, tool, request.params_sha256, tell)
        if again:
            call.cite("replays", f"tracedesk://calls/{told.call}")
        return Linked(json.Raw(told.body), told.links, _meta(told.at_ns) if again else {})

    async def _share(self, told: Told, request: Request) -> None:
        """Let every desk of the home find the answer by its id: a simulation at once, others as recorded."""
        if request.call.subject is not None and request.call.record is not None:
            request.call.record.alias = (request.call.holder, request.account, request.id)
        if told.tool != SIMULATION:
            return
        holder, name, body = request.call.holder, _shared_name(request.account, request.id), packed(told)
        try:
            await self.desk.shared.run(lambda shared: shared.put(holder, SIMULATION, name, body, _SHARED_S))
        except (SQLiteError, OSError) as problem:
            log.warning("only this desk can execute the simulation %s: %s", told.call, problem)

    async def simulation(self, request: Request, id: str) -> Told | None:
        """The simulation of that id: of the caller's session, else of its subject on any desk."""
        told = self.memory.find((request.account, request.call.scope, id))
        if told is not None:
            return told if told.tool == SIMULATION else None
        holder, name = request.call.holder, _shared_name(request.account, id)
        body = await self.desk.shared.run(lambda shared: shared.get(holder, SIMULATION, name))
        return None if body is None else unpacked(body)

    async def _check_unwritten(self, request: Request) -> None:
        """Refuse to read under the id of a change: that id is taken for ever."""
        known = await self.ledger(lambda ledger: ledger.call(request.account, request.id))
        if known is not None:
            check(known.tool, known.params_sha256, request.tool, request.params_sha256, request.id)

    async def write(self, tool: str, args: Arguments, call: Call[Any], make: Write) -> Linked:
        """Answer a changing call: its id repeats its answer for ever, and the change is made once."""
        return await self._counted(tool, self._alone(tool, args, call, make))

    async def _alone(self, tool: str, args: Arguments, call: Call[Any], make: Write) -> Linked:
        request = await self._request(tool, args, call)
        # Alone among the changes of any session, and among the reads of its own.
        everywhere, here = (request.account, "", request.id), (request.account, call.scope, request.id)
        return await self.memory.alone(
            everywhere, lambda: self.memory.alone(here, lambda: self._write(request, make))
        )

    async def _write(self, request: Request, make: Write) -> Linked:
        known = await self.ledger(lambda ledger: ledger.call(request.account, request.id))
        if known is not None:
            return self.repeat(known, request)
        told = self.memory.find((request.account, request.call.scope, request.id))
        if told is not None:
            check(told.tool, told.params, request.tool, request.params_sha256, request.id)
        try:
            body = await make(self, request)
        except Already as done:
            return self.repeat(done.call, request)
        request.call.recorded = True
        return Linked(json.Raw(body), request.linked())

    def repeat(self, known: CallRow, request: Request) -> Linked:
        """The stored answer of an id, or the refusal it got; a different request is a conflict."""
        check(known.tool, known.params_sha256, request.tool, request.params_sha256, request.id)
        request.call.recorded = True
        request.call.cite("replays", f"tracedesk://trading/ledger/{known.entry}")
        if known.code is not None:
            refused = json.loads(known.response)
            refusal = ToolError(known.code, refused["message"], refused.get("details"))
            refusal.meta = _meta(known.at_ns)
            raise refusal
        links = (Link(f"tracedesk://trading/ledger/{known.entry}", f"ledger entry {known.entry}"),)
        return Linked(json.Raw(known.response), links, _meta(known.at_ns))

    async def _request(self, tool: str, args: Arguments, call: Call[Any]) -> Request:
        id = params.call_id(args["tool_call_id"])
        account = self.account(args.get("user_id"))
        canonical = params.canonical(tool, args)
        kept = canonical
        if not is_plain(canonical, self.desk.secrets):
            kept = json.dumps(self.redacted(json.loads(canonical)))
        self._heed_settings()
        return Request(tool, id, account, args, call, kept, params.digest(kept), await self.now_ns())

    def _heed_settings(self) -> None:
        """Take the trading state and the limits as the file has them now: a stop must not wait for a restart.

        What cannot be read halts trading until it can.
        """
        changed = changed_ns(self.desk.home)
        if changed == self._settings_ns:
            return
        self._settings_ns = changed
        try:
            now = read(load({"home": self.desk.home}).tables.get("trading", {}))
            self.settings = replace(self.settings, state=now.state, limits=now.limits)
        except BadSetting as fault:
            log.error("trading is halted until the settings can be read: %s", fault)
            self.settings = replace(self.settings, state="HALTED")

    @property
    def accounts(self) -> tuple[str, ...]:
        """Every account a call may name."""
        return tuple(dict.fromkeys((self.settings.account, *self.settings.accounts)))

    def redacted(self, value: T) -> T:
        """The value without the secrets that this desk knows or recognises."""
        return redact(value, self.desk.secrets)

    def account(self, user: str | None) -> str:
        """The account a call speaks of: the default one, or one that the settings allow."""
        if user is None or user == self.settings.account:
            return self.settings.account
        if user not in self.settings.accounts:
            message = (
                f"user_id {user[:80]!r} is not an account of this desk. Leave it out for the default "
                "account, or let the desk's owner add it to [trading] accounts."
            )
            raise ToolError("INVALID_INPUT", message, {"path": ["user_id"], "retryable": False})
        return user

    async def _counted(self, tool: str, work: Awaitable[T]) -> T:
        tally = self._tallies.setdefault(tool, Tally(self.desk.clock))
        began = self.desk.clock.monotonic()
        try:
            answer = await work
            tally.succeeded()
            return answer
        except Exception as failed:
            tally.failed(failed.code if isinstance(failed, ToolError) else "INTERNAL_ERROR")
            raise
        finally:
            tally.asked(self.desk.clock.monotonic() - began)

    # --- what people ask

    def stats(self) -> dict[str, Any]:
        """Counts and latencies since this desk was opened."""
        tools = {tool: _of_a_tool(tally) for tool, tally in sorted(self._tallies.items())}
        return {"tools": tools, "providers": self.gate.stats()}


def _shared_name(account: str, id: str) -> str:
    return json.dumps([account, id]).decode()


def _of_a_tool(tally: Tally) -> dict[str, Any]:
    return {name: value for name, value in tally.row().items() if name != "cache"}


def _meta(at_ns: int) -> Mapping[str, Any]:
    return {REPLAYED: True, ORIGINAL_AT: format(at_ns)}
