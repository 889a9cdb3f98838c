"""The one table of handshake-era HTTP sessions: who is admitted, who idles, who is gone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tracedesk.primitives.ids import bare, uuid4
from tracedesk.primitives.supervision import Supervised
from tracedesk.primitives.time import Clock
from tracedesk.wire.auth import Identity
from tracedesk.wire.kernel import Kernel
from tracedesk.wire.outlet import Outlet
from tracedesk.wire.peer import Peer


@dataclass(slots=True, eq=False)
class Session:
    """One admitted client and the times that decide its life."""

    id: str
    peer: Peer
    outlet: Outlet
    identity: Identity
    created_ns: int
    last_activity_ns: int
    remote: str
    agent: str | None
    deadline: float = math.inf
    active: int = 0
    calls: int = 0
    """Tool calls in flight."""
    last_call: float = 0.0
    """The time of its last tool call, or of its beginning."""
    streaming: bool = False
    deprecated: bool = False
    """Whether its answers travel on the stream that opened it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def key(self) -> str:
        return bare(self.id)

    @property
    def has_token(self) -> bool:
        return self.identity.credential is not None


class SessionTable:
    """At most `limit` sessions; one with no request in flight for `idle` seconds is gone."""

    def __init__(
        self,
        kernel: Kernel,
        clock: Clock,
        *,
        limit: int,
        idle: float,
        on_end: Callable[[str], None] = lambda scope: None,
    ) -> None:
        self.limit = limit
        self.idle = idle
        self._kernel = kernel
        self._clock = clock
        self._on_end = on_end
        self._sessions: dict[str, Session] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def admit(self, identity: Identity, remote: str, agent: str | None) -> Session | None:
        """A new session, or None when the table is full of sessions that the caller may not replace."""
        self.sweep()
        if len(self._sessions) >= self.limit and not (identity.credential and self._make_room()):
            return None
        identifier = uuid4()
        outlet = Outlet()
        peer = self._kernel.open_peer(outlet.offer, identifier)
        now = self._clock.now_ns()
        who = replace(identity, scope=f"session:{identifier}")
        session = Session(identifier, peer, outlet, who, now, now, remote, agent)
        session.last_call = self._clock.monotonic()
        self._sessions[session.key] = session
        self._rest(session)
        return session

    def _make_room(self) -> bool:
        """End the session without a token whose last tool call is oldest, unless it has one in flight."""
        resting = [s for s in self._sessions.values() if not s.has_token and not s.calls]
        if not resting:
            return False
        self.end(min(resting, key=lambda session: session.last_call))
        return True

    def called(self, session: Session, task: asyncio.Task[Any]) -> None:
        """Note a tool call; neither a ping nor an open stream keeps a place from the holder of a token."""
        session.calls += 1
        session.last_call = self._clock.monotonic()
        task.add_done_callback(partial(self._call_ended, session))

    def _call_ended(self, session: Session, task: asyncio.Task[Any]) -> None:
        session.calls -= 1
        session.last_call = self._clock.monotonic()

    def find(self, identifier: str, identity: Identity) -> Session | None:
        """The live session of that id, if the same credential opened it, or the same kind of user."""
        self.sweep()
        try:
            session = self._sessions.get(bare(identifier))
        except ValueError:
            return None
        if session is None or _caller(session.identity) != _caller(identity):
            return None
        return session

    @contextmanager
    def busy(self, session: Session) -> Generator[None]:
        """Keep a session alive while one of its requests is in flight."""
        session.active += 1
        session.deadline = math.inf
        session.last_activity_ns = self._clock.now_ns()
        try:
            yield
        finally:
            session.active -= 1
            session.last_activity_ns = self._clock.now_ns()
            self._rest(session)

    def _rest(self, session: Session) -> None:
        if session.active == 0:
            session.deadline = self._clock.monotonic() + self.idle

    def sweep(self) -> None:
        """End every session whose deadline has passed."""
        now = self._clock.monotonic()
        for session in [s for s in self._sessions.values() if s.deadline <= now]:
            self.end(session)

    def end(self, session: Session) -> None:
        """Forget a session at once, wipe its credentials, and unwind it."""
        if self._sessions.pop(session.key, None) is None:
            return
        self._on_end(session.identity.scope)
        session.outlet.close()
        session.ended.set()
        task = asyncio.get_running_loop().create_task(self._kernel.close_peer(session.peer))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def retry_after(self) -> int:
        """Seconds until a place may be free: the nearest deadline, at most the idle time."""
        now = self._clock.monotonic()
        nearest = min((s.deadline for s in self._sessions.values()), default=now)
        wait = self.idle if math.isinf(nearest) else nearest - now
        return max(1, math.ceil(wait))

    async def keep_swept(self, pause: float = 1.0) -> None:
        """Sweep for ever, so that an idle session's credentials do not outlive it unseen."""
        sweeping = Supervised("session sweep")
        while True:
            await asyncio.sleep(pause)
            with sweeping.round():
                self.sweep()

    async def close(self) -> None:
        for session in tuple(self._sessions.values()):
            self.end(session)
        if self._closing:
            await asyncio.wait(self._closing, timeout=2.0)


def _caller(identity: Identity) -> tuple[str | None, frozenset[str]]:
    """Identity that is the same in all requests of one caller, in every session."""
    return identity.credential, identity.granted
