"""The open exchange toolset: its venue, accounts, markets and orders, and whose they are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tracedesk.contract import Call
from tracedesk.errors import ToolError
from tracedesk.exchange import depth, shapes
from tracedesk.exchange.accounts import Account, Accounts
from tracedesk.exchange.caller import Caller
from tracedesk.exchange.connections import Connections
from tracedesk.exchange.credentials.keys import Keys
from tracedesk.exchange.credentials.page import Pages
from tracedesk.exchange.credentials.profiles import Profiles
from tracedesk.exchange.leases import WARM, Leases
from tracedesk.exchange.link import Link, Site
from tracedesk.exchange.memo import Memo
from tracedesk.exchange.settings import NAME, Exchange
from tracedesk.exchange.units import units
from tracedesk.exchange.watches import Watches
from tracedesk.jobs import in_thread
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.supervision import Supervised, persist
from tracedesk.primitives.time import Clock

if TYPE_CHECKING:
    from tracedesk.exchange.feeds.market import Market
    from tracedesk.exchange.orders.desk import OrderDesk
    from tracedesk.exchange.orders.party import Party, View

log = logging.getLogger(__name__)
T = TypeVar("T")
_PARTING: Final = 5.0
"""Seconds that what was begun gets to end when the desk closes."""
_SWEEP: Final = 1.0
"""Seconds between looks at what has expired."""
_DEEP: Final = 5_000
"""Levels of a book that an order's cost is walked over."""
_FRESH: Final = 2.0
"""Seconds for which a costly figure is not made again."""
_KEPT: Final = 60.0
"""Seconds for which it is told to who cannot wait for a new one."""
_THREADS: Final = 2
"""Computations that run at once."""


class Provider:
    """What the tools, resources and prompts work with."""

    def __init__(self, desk: Any, settings: Exchange) -> None:
        self.settings = settings
        self.room = depth.room(desk.settings.max_tokens, desk.settings.max_bytes)
        """The bytes that an answer may have."""
        self.clock: Clock = desk.clock
        self._secrets: Secrets = desk.secrets
        self.link = Link(desk.settings.home, settings, desk.clock)
        profiles = Profiles(settings, desk.settings.home, desk.secrets)
        self.accounts = Accounts(settings, self.link, profiles, desk.vault)
        self.leases = Leases(self.link, desk.clock, lambda holders: self.watches.lose(holders))
        self.connections = Connections(
            desk.clock,
            limit=desk.settings.max_sessions,
            idle=desk.settings.idle_seconds,
            on_end=self._forget,
        )
        self.pages = Pages(desk.clock, self._bring)
        self.watches = Watches(self)
        self.orders = self._order_desk(desk)
        self._rounds: list[asyncio.Task[None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._computing = asyncio.Semaphore(_THREADS)
        self.costly = Memo(desk.clock, fresh=_FRESH, kept=_KEPT)
        self._heard: dict[str, tuple[Account, Callable[[], None]]] = {}
        self.reports: dict[Any, Any] = {}
        self._supervised: dict[str, Supervised] = {}
        self._loads_figures = False

    @property
    def mode(self) -> str:
        return self.settings.mode

    # --- life

    async def open(self) -> None:
        await self.orders.start()
        self._rounds = [asyncio.create_task(self._sweep()), asyncio.create_task(self._renew())]
        if self.settings.warm:
            self._rounds.append(asyncio.create_task(persist("exchange warming", self._warm)))

    async def close(self) -> None:
        await _cancelled(self._rounds)
        await self.costly.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_PARTING)
        await self.orders.stop()
        await self.pages.close()
        self.watches.close()
        await self.link.close()
        await _cancelled(self._tasks)

    def ended(self, scope: str) -> None:
        """A session is over: nothing of it is kept."""
        self.connections.end_all(scope)
        self._forget(scope)

    def choose(self, caller: Caller, profile: str) -> None:
        """Let a scope use a profile of the operator's from now on."""
        self.accounts.choose(caller, profile)
        self._moved(caller.scope, ())

    def _bring(self, scope: str, keys: Keys) -> None:
        """Let a scope use keys that a person entered from now on."""
        self._moved(scope, self.accounts.bring(scope, keys))

    def _moved(self, scope: str, left: Iterable[Account]) -> None:
        """A scope uses another account, or none: what was followed for it is let go."""
        for account in left:
            self._unheard(account)
        self.leases.leave_accounts(scope)
        self.watches.move(scope)

    def _forget(self, scope: str) -> None:
        self._moved(scope, self.accounts.end(scope))
        self.leases.end(scope)
        self.orders.ended(scope)
        self._spawn(self.pages.drop(scope))

    async def _sweep(self) -> None:
        """Let nothing that has expired live on unseen."""
        while True:
            await asyncio.sleep(_SWEEP)
            with self._going_on("sweep"):
                self.connections.sweep()
                self.leases.sweep()
                await self.pages.sweep()
                await self.orders.confirmations.sweep()

    async def _renew(self) -> None:
        """Keep subscriptions alive through a venue that went and came back."""
        while True:
            await asyncio.sleep(_SWEEP)
            with self._going_on("renewal of subscriptions"):
                await self.watches.renew()

    @contextlib.contextmanager
    def _going_on(self, round_: str) -> Generator[None]:
        """A round that failed is told in the log, and the next one comes all the same."""
        with self._supervised.setdefault(round_, Supervised(f"exchange {round_}")).round():
            yield

    async def _warm(self) -> None:
        for symbol in self.settings.symbols:
            try:
                await self.leases.acquire(await self.link.site(), symbol, WARM)
            except ToolError as problem:
                log.warning("%s is not followed from the start: %s", symbol, problem.message)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- callers

    @asynccontextmanager
    async def caller(self, call: Call[Any], args: Mapping[str, Any] | None = None) -> AsyncGenerator[Caller]:
        """The caller of a call; a connection that it names stays alive meanwhile."""
        self.noted(call)
        identifier = (args or {}).get("connection_id")
        if identifier is None:
            yield Caller.of(call)
            return
        connection = self.connections.find(identifier, call.scope)
        with self.connections.busy(connection):
            if call.principal is not None:
                self.leases.trust(connection.scope)
            yield Caller.of(call, connection.scope)

    def has_brought_keys(self, scope: str, arguments: Mapping[str, Any]) -> bool:
        """True when a caller brought keys of its own, by its scope or by the named connection."""
        identifier = arguments.get("connection_id")
        if identifier is None:
            return self.accounts.has_brought(scope)
        try:
            return self.accounts.has_brought(self.connections.find(str(identifier), scope).scope)
        except ToolError:
            return False

    def noted(self, call: Call[Any]) -> str:
        """The scope of a call; one whose caller is known shows that somebody is there."""
        if Caller.of(call).is_known:
            self.orders.alive()
            self.leases.trust(call.scope)
        return call.scope

    # --- the venue

    async def site(self) -> Site:
        self._load_figures()
        return await self.link.site()

    async def market(self, symbol: str, scope: str) -> Market:
        self._load_figures()
        return await self.leases.market(symbol, scope)

    def _load_figures(self) -> None:
        """Import what figures are computed with, once, while the venue is asked: the first prompt is on time.

        Not before the first use: a desk that nobody asks of the exchange needs none of it.
        """
        if not self._loads_figures:
            from tracedesk.exchange import flows

            self._loads_figures = True
            self._spawn(in_thread(flows.load))

    async def compute(self, work: Callable[[], T]) -> T:
        """Run a computation beside the streams; few at once, so that the streams keep up."""
        async with self._computing:
            return await in_thread(work)

    def now_ns(self) -> int:
        """Now on the venue's clock, as far as its offset is known."""
        site = self.link.current
        return self.clock.now_ns() if site is None else site.client.time.now_ns()

    # --- orders

    async def account(self, caller: Caller) -> Account:
        return await self.accounts.of(caller)

    async def party(self, caller: Caller) -> Party:
        """The caller as the order desk knows it; of a new account, what was left open is settled first."""
        account = await self.accounts.of(caller)
        if self._heard.get(account.name, (None,))[0] is not account:
            await self._hear(account)
            await self._adopt()
            await self.orders.reconcile()
        return self._party(account, caller.scope, caller.subject)

    async def _adopt(self) -> None:
        """What the operator's accounts sent under their names counts also where a key has another name.

        Accounts of the local exchange are no secret of the operator's, and are known when they are used.
        """
        for name in self.accounts.names if self.accounts.is_private else ():
            with contextlib.suppress(ToolError):  # one without keys sends nothing either
                await self.orders.adopt((await self.accounts.profile(name)).identity)

    async def _hear(self, account: Account) -> None:
        """Let the order desk hear what the account's own stream reports."""
        before = self._heard.get(account.name)
        if before is not None:
            self._unheard(before[0])
        feed = await account.site.feeds.account(account.credentials, _listener(account))
        stop = feed.on_report(lambda report: self._spawn(self.orders.observe(account.identity, report)))
        self._heard[account.name] = (account, stop)

    async def open_accounts(self) -> None:
        """Open every account of the operator's, so that what rests there can be cancelled and asked about.

        Raises the first `ToolError` when all have been tried.
        """
        if self.link.is_asleep:
            return  # a local exchange that does not run has nothing that could trade
        problems = list[ToolError]()
        for name in dict.fromkeys((*self.accounts.names, *await self._left_open())):
            try:
                await self.accounts.profile(name)
            except ToolError as problem:
                problems.append(problem)
        if problems:
            raise problems[0]

    async def _left_open(self) -> set[str]:
        """Profiles of the local exchange, where any can be chosen, whose orders may rest."""
        from tracedesk.exchange.orders.sweeping import noted

        if self.accounts.is_private:
            return set()
        ledger = self.orders.ledger
        known = await noted(lambda: [*ledger.open(), *ledger.unresolved()]) or []
        named = (order.account.partition("/") for order in known if order.mode == self.mode)
        used = {account.profile for account in self.accounts.opened if account.profile is not None}
        # Keys that somebody brought are named longer than a profile can be.
        return used | {name for _, _, name in named if NAME.fullmatch(name)}

    def _unheard(self, account: Account) -> None:
        """An account whose keys are gone is listened to no longer."""
        heard = self._heard.pop(account.name, None)
        if heard is not None:
            heard[1]()
            account.site.feeds.release_account(account.credentials, _listener(account))

    def _party(self, account: Account, scope: str, subject: str | None = None) -> Party:
        from tracedesk.exchange.orders.party import Party

        return Party(
            scope,
            account.name,
            account.profile,
            account.rest,
            self._look(scope),
            account.identity.marks,
            account.place,
            subject,
        )

    def _parties(self) -> Iterable[Party]:
        return [self._party(account, "desk") for account in self.accounts.opened]

    def _look(self, scope: str) -> Callable[[str], Any]:
        async def look(symbol: str) -> View:
            from tracedesk.exchange.orders.party import View

            market = await self.market(symbol, scope)
            bids, asks = market.sync.book.top(_DEEP)
            status = market.status()
            told = await (await self.site()).client.public.avg_price(market.symbol)
            with shapes.readable("average price"):
                average = units(told["price"])
            # A market without a trade has no average, which the venue writes as 0.
            return View(market.instrument, bids, asks, status.synced, status.age_ms or 0, average or None)

        return look

    def _order_desk(self, desk: Any) -> OrderDesk:
        from tracedesk.exchange.orders.desk import OrderDesk

        return OrderDesk(
            desk.settings.home,
            self.settings,
            desk.clock,
            desk.calls,
            self._parties,
            gather=self.open_accounts,
            run=self.link.run,
            secrets=desk.secrets,
            shared=desk.shared,
        )


def _listener(account: Account) -> str:
    """Who follows an account for the order desk; one account may be followed under two names."""
    return f"orders {account.name}"


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    every = tuple(tasks)
    for task in every:
        task.cancel()
    await asyncio.gather(*every, return_exceptions=True)
