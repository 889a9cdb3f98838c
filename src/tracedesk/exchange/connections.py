"""Handles for callers without a session: minted by `connect`, bound to who asked, gone when idle."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from tracedesk.errors import ToolError
from tracedesk.primitives.ids import bare, uuid4
from tracedesk.primitives.time import Clock


@dataclass(slots=True, eq=False)
class Connection:
    """One handle and the times that decide its life."""

    id: str
    owner: str
    """The scope it was minted for; nobody else can use it."""
    created_ns: int
    last_activity_ns: int
    deadline: float = math.inf
    kept: float = -math.inf
    """Until when it lives in any case."""
    active: int = 0

    @property
    def scope(self) -> str:
        return f"connection:{self.id}"


class Connections:
    """At most `limit` handles; one that no call uses for `idle` seconds is gone."""

    def __init__(self, clock: Clock, *, limit: int, idle: float, on_end: Callable[[str], None]) -> None:
        self.limit = limit
        self.idle = idle
        self._clock = clock
        self._on_end = on_end
        self._by_id: dict[str, Connection] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def mint(self, owner: str) -> Connection:
        """A new handle; raises `ToolError` when there are too many live ones."""
        self.sweep()
        if len(self._by_id) >= self.limit:
            wait = self._retry_after()
            raise ToolError(
                "RATE_LIMITED",
                f"All {self.limit} connections are in use. Call connect again in {wait} seconds, or end one.",
                {"limit": self.limit, "retryAfterSeconds": wait},
            )
        now = self._clock.now_ns()
        made = Connection(uuid4(), owner, now, now, self._clock.monotonic() + self.idle)
        self._by_id[bare(made.id)] = made
        return made

    def find(self, identifier: str, owner: str) -> Connection:
        """The live handle of that id, if the same scope asked for it."""
        self.sweep()
        try:
            found = self._by_id.get(bare(identifier))
        except ValueError:
            found = None
        if found is None or found.owner != owner:
            raise ToolError(
                "INVALID_PARAMETER",
                "connection_id is unknown here or has expired. Call connect for a new one.",
                {"field": "connection_id", "idleSeconds": self.idle},
            )
        return found

    @contextmanager
    def busy(self, connection: Connection) -> Generator[None]:
        """Keep a handle alive while a call uses it."""
        connection.active += 1
        connection.deadline = math.inf
        connection.last_activity_ns = self._clock.now_ns()
        try:
            yield
        finally:
            connection.active -= 1
            connection.last_activity_ns = self._clock.now_ns()
            if not connection.active:
                connection.deadline = max(connection.kept, self._clock.monotonic() + self.idle)

    def keep(self, connection: Connection, seconds: float) -> None:
        """Give a handle longer than usual, while a person is asked; 0 seconds when nobody is any more."""
        connection.kept = self._clock.monotonic() + seconds
        if not connection.active:
            connection.deadline = max(connection.kept, self._clock.monotonic() + self.idle)

    def end(self, connection: Connection) -> None:
        if self._by_id.pop(bare(connection.id), None) is not None:
            self._on_end(connection.scope)

    def end_all(self, owner: str) -> None:
        """End the handles of a scope that has itself ended."""
        for connection in [c for c in self._by_id.values() if c.owner == owner]:
            self.end(connection)

    def sweep(self) -> None:
        """End every handle whose deadline has passed."""
        now = self._clock.monotonic()
        for connection in [c for c in self._by_id.values() if c.deadline <= now]:
            self.end(connection)

    def _retry_after(self) -> int:
        now = self._clock.monotonic()
        nearest = min((c.deadline for c in self._by_id.values()), default=now)
        return max(1, math.ceil(self.idle if math.isinf(nearest) else nearest - now))
