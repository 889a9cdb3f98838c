"""Streams of the scripted venue, for tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

from tests.exchange.client.scripted import Bench, Ear, Peer, bench
from tracedesk.exchange.client.keeper import LIFE
from tracedesk.exchange.client.streams import Streams

TRADES: Final = "btcusdt@trade"
DEPTH: Final = "btcusdt@depth@100ms"


@asynccontextmanager
async def streaming(**settings: Any) -> AsyncGenerator[tuple[Bench, Streams], None]:
    async with bench() as given:
        http = given.client._http  # pyright: ignore[reportPrivateUsage]
        base = given.client.endpoints.streams
        # Nobody pings here, and a test that waits 23 hours would be taken for a dead line.
        silence = settings.pop("silence", 10 * LIFE)
        streams = Streams(base, http, clock=given.clock, random=Random(7), silence=silence, **settings)
        try:
            yield given, streams
        finally:
            await streams.close()


async def live(given: Bench, *ears: Ear) -> Peer:
    """The venue's end of a line that has just been subscribed."""
    peer = await given.venue.peer()
    await peer.accept()
    for ear in ears:
        assert (await ear.next())[0] == "live"
    return peer
