"""Room for HTTP connections: callers without a token share one quota that never refuses a token."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tracedesk.wire.outlet import Outlet

State = Literal["waiting", "streaming", "calling"]

MOST_CONNECTIONS: Final = 2_000
MOST_ANONYMOUS: Final = 256
_BACKLOG: Final = 1_024
_ANONYMOUS_BYTES: Final = 16 << 20
_SMALL: Final = 64 << 10


class Connection(Protocol):
    """One open HTTP connection."""

    @property
    def state(self) -> State: ...

    @property
    def unsent(self) -> int: ...

    def make_room(self) -> None: ...

    def carry(self, outlet: Outlet | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Room:
    """Limits for all callers together, and for callers without a token."""

    connections: int = MOST_CONNECTIONS
    anonymous: int = MOST_ANONYMOUS
    """Connections that have sent a request without a token: idle, half-sent or streaming."""
    received: int = _ANONYMOUS_BYTES
    """Bytes of their large bodies that are being read or answered."""
    unsent: int = _ANONYMOUS_BYTES
    """Bytes of answers that they have not taken."""

    @classmethod
    def of_process(cls) -> Room:
        """As much as the process has descriptors for; half of those left are for files."""
        most = raised_descriptors()
        connections = max(8, min(MOST_CONNECTIONS, (most - _open_descriptors()) // 2))
        return cls(connections, min(MOST_ANONYMOUS, connections // 2))


def backlog(room: Room) -> int:
    """Connections the kernel may hand over at once: fewer than there is room for."""
    return max(8, min(_BACKLOG, room.connections // 2))


class Quota:
    """The open connections, and which of them is closed to make room for another one."""

    def __init__(self, room: Room | None = None) -> None:
        self.room = room or Room()
        # Each dict is in the order of the last activity, so that the oldest is found without a search.
        self._unknown: dict[Connection, None] = {}
        """Connections of which no request has been identified."""
        self._anonymous: dict[Connection, None] = {}
        self._with_token: dict[Connection, None] = {}
        self._received: dict[Connection, int] = {}
        self._stalled: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._unknown) + len(self._anonymous) + len(self._with_token)

    @property
    def anonymous(self) -> int:
        return len(self._anonymous)

    @property
    def unsent(self) -> int:
        """Bytes of answers that callers without a token have not taken."""
        return sum(connection.unsent for connection in self._stalled)

    # --- connections

    def opened(self, connection: Connection) -> None:
        """Take a connection in; when all places are taken, the one without a token idle longest goes."""
        self._unknown[connection] = None
        if len(self) > self.room.connections:
            self._close(self._least_needed() or connection)

    def _least_needed(self) -> Connection | None:
        """The oldest connection without a token; without a request too when they are many."""
        if len(self._unknown) > self.room.connections // 2:
            return _oldest(self._unknown)
        return _oldest(self._anonymous) or _oldest(self._unknown)

    def closed(self, connection: Connection) -> None:
        """Forget a connection and everything it held."""
        for places in (self._unknown, self._anonymous, self._with_token, self._stalled, self._received):
            places.pop(connection, None)

    def active(self, connection: Connection) -> None:
        """Note that a connection has begun or finished something."""
        for places in (self._unknown, self._anonymous):
            if connection in places:
                del places[connection]
                places[connection] = None

    def answered(self, connection: Connection) -> None:
        """Give back what a request held."""
        self._received.pop(connection, None)
        self.active(connection)

    def identified(self, connection: Connection, *, has_token: bool) -> bool:
        """Note who sends a request; False when there is no room for it."""
        places = self._with_token if has_token else self._anonymous
        if connection in places:
            return True
        if not has_token and len(self._anonymous) >= self.room.anonymous:
            oldest = _oldest(self._anonymous)
            if oldest is None:
                return False
            self._close(oldest)
        for others in (self._unknown, self._anonymous, self._with_token):
            others.pop(connection, None)
        places[connection] = None
        if has_token:
            self._stalled.pop(connection, None)
        return True

    # --- bytes

    def receive(self, connection: Connection, size: int) -> bool:
        """Note the size of a body so far; False when callers without a token hold too much."""
        if connection in self._with_token or size <= _SMALL:
            return True
        others = sum(held for holder, held in self._received.items() if holder is not connection)
        if others + size > self.room.received:
            return False
        self._received[connection] = size
        return True

    def stalled(self, connection: Connection) -> None:
        """Note that a client does not take its answers; those that hold most are closed first."""
        if connection in self._with_token:
            return
        self._stalled[connection] = None
        unsent = {holder: holder.unsent for holder in self._stalled}
        total = sum(unsent.values())
        for holder in sorted(unsent, key=unsent.__getitem__, reverse=True):
            if total <= self.room.unsent:
                return
            total -= unsent[holder]
            self._close(holder)

    def moving(self, connection: Connection) -> None:
        """Note that a client takes its answers again."""
        self._stalled.pop(connection, None)

    def _close(self, connection: Connection) -> None:
        self.closed(connection)
        connection.make_room()


def _oldest(places: Iterable[Connection]) -> Connection | None:
    """The connection to close first: one that waits for its client before one that streams to it."""
    streaming: Connection | None = None
    for connection in places:
        state = connection.state
        if state == "waiting":
            return connection
        if state == "streaming" and streaming is None:
            streaming = connection
    return streaming


def raised_descriptors() -> int:
    """The number of descriptors this process may have, raised towards what the system grants it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS + 512
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return wanted if soft == resource.RLIM_INFINITY else soft


def _open_descriptors() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder))
        except OSError:
            continue
    return 64
