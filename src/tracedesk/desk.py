"""The composition root: opens the home, builds the chosen toolsets, closes them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tracedesk
from tracedesk.calls import CallBook, CallLog
from tracedesk.config import Settings
from tracedesk.contract import ListKind, Source, Toolset
from tracedesk.home import Home
from tracedesk.hooks import Requester
from tracedesk.openings import Openings
from tracedesk.payloads import Payloads
from tracedesk.primitives import supervision
from tracedesk.primitives.redaction import Secrets, redact_text
from tracedesk.primitives.time import Clock, SystemClock, format
from tracedesk.registry import Registry
from tracedesk.rollback import Witnesses
from tracedesk.shared import SharedStore
from tracedesk.storage import StorageHealth
from tracedesk.toolsets import TOOLSETS, built, load
from tracedesk.vault import Vault
from tracedesk.wire.admission import Load
from tracedesk.wire.auth import OWNER
from tracedesk.wire.consent import Spent
from tracedesk.wire.dispatch import Dispatch
from tracedesk.wire.encode import Limits
from tracedesk.wire.kernel import Kernel
from tracedesk.wire.sealing import HomeCodec

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Desk:
    """An open desk: its registry, its kernel, and what every call may ask of it."""

    settings: Settings
    clock: Clock
    secrets: Secrets
    vault: Vault
    calls: CallLog
    witnesses: Witnesses
    book: CallBook
    payloads: Payloads
    shared: SharedStore
    registry: Registry
    started_ns: int
    states: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the toolsets have opened, by name."""
    unable: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Toolsets that cannot run, and a temporary folder without room, as problems of `health` by name."""
    storage: StorageHealth = field(init=False)
    openings: Openings = field(init=False)
    dispatch: Dispatch = field(init=False)
    kernel: Kernel = field(init=False)

    def __post_init__(self) -> None:
        self.states |= {toolset.name: None for toolset in self.registry.toolsets if toolset.open is None}
        self.states["desk"] = self
        self.storage = StorageHealth(self.settings.home, self.clock)
        self.openings = Openings(self._contexts(), self.states, self.secrets)
        self.dispatch = Dispatch(
            self.registry,
            self,
            self.calls,
            states=self.states,
            opened=self.openings.state,
            limits=Limits(self.settings.max_bytes, self.settings.max_tokens),
            load=Load(),
            secrets=self.secrets,
            check_output=self.settings.check_output,
            storage=self.storage,
        )
        self.kernel = Kernel(self.dispatch, Spent(self.shared), HomeCodec(Home(self.home).run))

    def _contexts(self) -> dict[str, AbstractAsyncContextManager[Any]]:
        """What each toolset opens, not entered yet; settings that cannot be used are refused here."""
        opening = ((toolset.name, toolset.open) for toolset in self.registry.toolsets)
        return {name: open(self) for name, open in opening if open is not None}

    @property
    def home(self) -> Path:
        return self.settings.home

    # --- what calls may ask

    async def resolve(
        self, ref: str, scope: str, principal: str | None, subject: str | None = None
    ) -> Source | None:
        """The source behind a reference: a call of this home, or an item that a toolset declares."""
        own = await self.book.resolve(ref)
        if own is not None:
            return own if _may_see(own, scope, principal) else None
        requester = Requester(scope, subject)
        for toolset in self.registry.toolsets:
            if toolset.resolver is not None:
                state = await self.openings.state(toolset.name)
                found = await toolset.resolver(ref, state, requester)
                if found is not None:
                    return found if _may_see(found, scope, principal) else None
        return await self.book.forgotten(ref)

    def credential(self, scope: str, name: str) -> str | None:
        return self.vault.get(scope, name)

    async def notify_resource(self, uri: str) -> None:
        await self.kernel.notify_resource(uri)

    async def notify_lists(self, kind: ListKind) -> None:
        await self.kernel.notify_lists(kind)

    # --- what transports tell

    def end_scope(self, scope: str) -> None:
        """A session is over: its credentials are wiped, and every open toolset that cares is told."""
        self.vault.wipe(scope)
        self.shared.ended(scope)
        for toolset in self.registry.toolsets:
            if toolset.hooks.ended is not None and toolset.name in self.states:
                try:
                    toolset.hooks.ended(scope, self.states[toolset.name])
                except Exception:
                    # Text, not exc_info: a kept record would keep the frames, and with them their secrets.
                    trace = redact_text(traceback.format_exc(), self.secrets)
                    log.error("toolset %s failed to end a session\n%s", toolset.name, trace)

    # --- what people and the desk toolset ask

    def status(self) -> dict[str, Any]:
        return {
            "version": tracedesk.__version__,
            "readOnly": self.settings.read_only,
            "startedAt": format(self.started_ns),
            "now": format(self.clock.now_ns()),
            "toolsets": [self._toolset(t) for t in self.registry.toolsets],
            "notBuilt": [name for name in TOOLSETS if name not in built()],
            "calls": {
                "total": self.calls.total,
                "errors": self.calls.errors,
                "inFlight": self.dispatch.in_flight,
                "unwritten": self.calls.unwritten,
            },
            "health": self.health(),
            "limits": {"maxBytes": self.settings.max_bytes, "maxTokens": self.settings.max_tokens},
        }

    def _toolset(self, toolset: Toolset[Any]) -> dict[str, Any]:
        served = [name for name in toolset.tools if name in self.registry.tools]
        return {
            "name": toolset.name,
            "summary": toolset.summary,
            "startWith": toolset.guide,
            "tools": served,
        }

    def figures(self) -> dict[str, Any]:
        """The counts and settings that `/health` shows to anyone."""
        uptime = (self.clock.now_ns() - self.started_ns) // 1_000_000_000
        return {
            **self.health(),
            "version": tracedesk.__version__,
            "uptimeSeconds": uptime,
            "calls": self.calls.total,
            "errors": self.calls.errors,
            **({"settings": self.registry.facts} if self.registry.facts else {}),
        }

    def health(self) -> dict[str, Any]:
        """The desk's status, with each problem that keeps it from serving as it should and its remedy."""
        problems = [*self.storage.problems(), *self.unable.values(), *_failures()]  # the cause first
        return {"status": "degraded" if problems else "ok", "problems": problems}


def _failures() -> list[dict[str, Any]]:
    """The background work that has failed and not recovered, by name."""
    remedy = "It begins again by itself. The desk's log has the cause; `tracedesk doctor` looks for it."
    failed = supervision.reasons().items()
    return [{"what": f"{name}: {reason}.", "remedy": remedy} for name, reason in failed]


def _may_see(source: Source, scope: str, principal: str | None) -> bool:
    """What names a principal is shown to that token, to the owner's, and to a client on stdio."""
    body: Any = source.body
    if scope.startswith("stdio:") or not isinstance(body, Mapping) or "principal" not in body:
        return True
    return principal is not None and principal in (body["principal"], OWNER)


def _withheld(toolsets: Iterable[Toolset[Any]], settings: Settings) -> dict[str, str]:
    """What the toolsets do not serve under their settings, with what would make them."""
    found: dict[str, str] = {}
    for toolset in toolsets:
        if toolset.withhold is not None:
            names = toolset.withhold(settings.tables.get(toolset.name, {}))
            found |= names if isinstance(names, Mapping) else dict.fromkeys(names, "")
    return found


def _facts(toolsets: Iterable[Toolset[Any]], settings: Settings) -> dict[str, Mapping[str, str]]:
    """What the toolsets tell everybody of their settings."""
    telling = ((toolset.name, toolset.hooks.facts) for toolset in toolsets)
    return {name: facts(settings.tables.get(name, {})) for name, facts in telling if facts is not None}


@asynccontextmanager
async def open_desk(
    settings: Settings,
    *,
    clock: Clock | None = None,
    extra: Iterable[Toolset[Any]] = (),
    lazily: bool = False,
) -> AsyncGenerator[Desk]:
    """Open a desk with the settings' toolsets, and `extra` ones beside them.

    Lazily, a toolset is opened when it is first needed; `Desk.openings` then opens the rest.
    """
    clock = clock or SystemClock()
    home = Home.open(settings.home)
    secrets = Secrets()
    toolsets = [*load(settings.toolsets or built()), *extra]
    payloads = Payloads(home.payloads)
    witnesses = Witnesses.of(home.path)
    calls = CallLog(home.trace, clock, secrets, payloads, witnesses.trace)
    book = CallBook(calls, payloads)
    shared = SharedStore(home.run, clock)
    async with AsyncExitStack() as stack:
        stack.callback(shared.close)
        stack.callback(book.close)
        stack.callback(calls.stop)
        desk = Desk(
            settings=settings,
            clock=clock,
            secrets=secrets,
            vault=Vault(secrets),
            calls=calls,
            witnesses=witnesses,
            book=book,
            payloads=payloads,
            shared=shared,
            registry=Registry(
                toolsets,
                read_only=settings.read_only,
                withheld=_withheld(toolsets, settings),
                facts=_facts(toolsets, settings),
            ),
            started_ns=clock.now_ns(),
        )
        stack.push_async_callback(desk.openings.close)
        if not lazily:
            await desk.openings.all()
        stack.push_async_callback(desk.kernel.close)
        yield desk
