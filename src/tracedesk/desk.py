"""The composition root: opens the home, builds the chosen toolsets, closes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tracedesk
from tracedesk.calls import CallBook, CallLog
from tracedesk.config import Settings
from tracedesk.contract import ListKind, Source, Toolset
from tracedesk.home import Home
from tracedesk.payloads import Payloads
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import Clock, SystemClock, format
from tracedesk.registry import Registry
from tracedesk.toolsets import TOOLSETS, built, load
from tracedesk.vault import Vault
from tracedesk.wire.auth import OWNER
from tracedesk.wire.dispatch import Dispatch, Load
from tracedesk.wire.encode import Limits
from tracedesk.wire.kernel import Kernel


@dataclass(slots=True)
class Desk:
    """An open desk: its registry, its kernel, and what every call may ask of it."""

    settings: Settings
    clock: Clock
    secrets: Secrets
    vault: Vault
    calls: CallLog
    book: CallBook
    payloads: Payloads
    registry: Registry
    started_ns: int
    states: dict[str, Any] = field(default_factory=dict[str, Any])
    dispatch: Dispatch = field(init=False)
    kernel: Kernel = field(init=False)

    def __post_init__(self) -> None:
        self.dispatch = Dispatch(
            self.registry,
            self,
            self.calls,
            states=self.states,
            limits=Limits(self.settings.max_bytes, self.settings.max_tokens),
            load=Load(),
            secrets=self.secrets,
            check_output=self.settings.check_output,
        )
        self.kernel = Kernel(self.dispatch)

    @property
    def home(self) -> Path:
        return self.settings.home

    # --- what calls may ask

    async def resolve(self, ref: str, scope: str, principal: str | None) -> Source | None:
        """What a reference points at: a call of this desk, or whatever a toolset declares."""
        own = await self.book.resolve(ref)
        if own is not None:
            return own if _may_see(own, scope, principal) else None
        for toolset in self.registry.toolsets:
            if toolset.resolver is not None:
                found = await toolset.resolver(ref, self.states.get(toolset.name), scope)
                if found is not None:
                    return found
        return None

    def credential(self, scope: str, name: str) -> str | None:
        return self.vault.get(scope, name)

    async def notify_resource(self, uri: str) -> None:
        await self.kernel.notify_resource(uri)

    async def notify_lists(self, kind: ListKind) -> None:
        await self.kernel.notify_lists(kind)

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
        """The counts that `/health` shows to anyone."""
        uptime = (self.clock.now_ns() - self.started_ns) // 1_000_000_000
        return {
            "status": "ok",
            "version": tracedesk.__version__,
            "uptimeSeconds": uptime,
            "calls": self.calls.total,
            "errors": self.calls.errors,
        }


def _may_see(source: Source, scope: str, principal: str | None) -> bool:
    """A call made with a token is shown to that token, to the owner's, and to a client on stdio."""
    if source.kind != "call" or "principal" not in source.body:
        return True
    return principal in (source.body["principal"], OWNER) or scope.startswith("stdio:")


def _withheld(toolsets: Iterable[Toolset[Any]], settings: Settings) -> set[str]:
    """The tools that a toolset does not serve under its settings."""
    tables = settings.tables
    return {name for t in toolsets if t.withhold is not None for name in t.withhold(tables.get(t.name, {}))}


@asynccontextmanager
async def open_desk(
    settings: Settings, *, clock: Clock | None = None, extra: Iterable[Toolset[Any]] = ()
) -> AsyncGenerator[Desk]:
    """Open a desk with the settings' toolsets, and `extra` ones beside them."""
    clock = clock or SystemClock()
    home = Home.open(settings.home)
    secrets = Secrets()
    toolsets = [*load(settings.toolsets or built()), *extra]
    payloads = Payloads(home.payloads)
    calls = CallLog(home.trace, clock, secrets, payloads)
    desk = Desk(
        settings=settings,
        clock=clock,
        secrets=secrets,
        vault=Vault(secrets),
        calls=calls,
        book=CallBook(calls, payloads),
        payloads=payloads,
        registry=Registry(toolsets, read_only=settings.read_only, withheld=_withheld(toolsets, settings)),
        started_ns=clock.now_ns(),
    )
    desk.states["desk"] = desk
    async with AsyncExitStack() as stack:
        stack.callback(desk.book.close)
        stack.callback(calls.stop)
        for toolset in toolsets:
            if toolset.open is not None:
                desk.states[toolset.name] = await stack.enter_async_context(toolset.open(desk))
        yield desk
