"""One venue seen from here: what all callers share, and the ways to talk to it."""

from __future__ import annotations

from random import Random
from typing import Final

from tracedesk.exchange.client.clock import ServerTime
from tracedesk.exchange.client.http import Http
from tracedesk.exchange.client.limits import Limits
from tracedesk.exchange.client.rest import Rest
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.streams import Streams
from tracedesk.exchange.client.venue import Endpoints
from tracedesk.exchange.client.wsapi import UserData, UserSink
from tracedesk.primitives.time import Clock, SystemClock

TIMEOUT: Final = 15.0
"""Seconds for one request; the venue itself gives up after ten."""
PATIENCE: Final = 5.0
"""Seconds that a read waits for room under a limit before it is refused."""


class Client:
    """The HTTP session, limits and clock offset of a venue, with REST, streams and user data over them."""

    def __init__(
        self,
        endpoints: Endpoints,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
    ) -> None:
        self.endpoints = endpoints
        self.clock = clock or SystemClock()
        self.random = random or Random()
        self.time = ServerTime(self.clock)
        self.limits = Limits(self.clock, self.time)
        self._http = Http(self.clock)
        self._rest: dict[str | None, Rest] = {}
        self._timeout = timeout
        self._patience = patience
        self._streams: Streams | None = None

    @property
    def public(self) -> Rest:
        """REST without a key."""
        return self._of(None)

    def signed(self, credentials: Credentials) -> Rest:
        """REST with a key; the same one for the same credentials."""
        return self._of(credentials)

    def _of(self, credentials: Credentials | None) -> Rest:
        key = credentials.fingerprint if credentials is not None else None
        if key not in self._rest:
            self._rest[key] = Rest(
                self.endpoints.rest,
                credentials,
                http=self._http,
                clock=self.clock,
                time=self.time,
                limits=self.limits,
                random=self.random,
                timeout=self._timeout,
                patience=self._patience,
            )
        return self._rest[key]

    @property
    def streams(self) -> Streams:
        """The market streams, connected once something is subscribed."""
        if self._streams is None:
            self._streams = Streams(self.endpoints.streams, self._http, clock=self.clock, random=self.random)
        return self._streams

    def user_data(self, credentials: Credentials, sink: UserSink) -> UserData:
        """The account's own events; begins with `start()`."""
        return UserData(
            self.endpoints.ws_api,
            credentials,
            sink,
            http=self._http,
            rest=self.public,
            clock=self.clock,
            random=self.random,
        )

    def forget(self, credentials: Credentials) -> None:
        """Let go of a key."""
        self._rest.pop(credentials.fingerprint, None)
        self.limits.forget(credentials.fingerprint)

    async def close(self) -> None:
        if self._streams is not None:
            await self._streams.close()
        self._rest.clear()
        await self._http.close()
