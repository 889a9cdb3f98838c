"""The venue goes and comes back: feeds say so meanwhile, and are right again afterwards."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.exchange.client.scripted import run
from tests.exchange.feeds.support import local
from tests.exchange.feeds.test_account import ORDER
from tests.exchange.local.support import START, build, eventually
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.venue import Endpoints
from tracedesk.exchange.feeds.feeds import Feeds
from tracedesk.exchange.local.app import serving
from tracedesk.exchange.units import units
from tracedesk.primitives.time import ManualClock


def test_feeds_outlive_a_venue_that_is_stopped_and_started_again() -> None:
    async def main() -> None:
        clock = ManualClock(START)
        exchange = build(clock)
        key = exchange.keys.issue("ann")

        async def until(holds: str) -> None:
            for _ in range(400):
                if (market.status().state, account.status().state) == tuple(holds.split()):
                    return
                clock.advance(0.1)
                exchange.market.pulse(clock.now_ns())
                await _work()
            raise AssertionError((market.status(), account.status()))

        async with AsyncExitStack() as first:
            address = await first.enter_async_context(serving(exchange))
            client = Client(Endpoints.sim(address.document()), clock=clock, random=Random(5))
            feeds = Feeds(client)
            market = await feeds.acquire("BTCUSDT", "h")
            account = await feeds.account(Credentials.of(key.api_key, key.material), "h")
            await until("synced live")
        await until("disconnected disconnected")
        assert not await market.ready(0.0)
        assert market.status().last_error
        assert account.status().last_error
        exchange.venue.flow_limit("BTCUSDT", "BUY", units("49999.5"), units("1"))
        async with serving(exchange, port=address.port):
            await until("synced live")
            assert market.sync.book.bids[units("49999.5")] == units("1")
            assert market.status().resyncs == 1
            await feeds.close()
            await client.close()

    run(main())


async def _work() -> None:
    """Let both ends do what they have to do now."""
    for _ in range(2):
        await asyncio.sleep(0.001)


def test_a_venue_that_announces_its_end_is_found_again() -> None:
    async def main() -> None:
        async with local() as given:
            market = await given.market()
            account = await given.feeds.account(given.credentials, "h")
            await eventually(lambda: account.status().state == "live")
            await given.exchange.shut_down()
            await given.until(
                lambda: not given.client.streams.status.connected or market.status().resyncs > 0
            )
            await given.until(lambda: market.sync.synced and account.status().state == "live")
            given.exchange.venue.flow_limit("BTCUSDT", "BUY", units("49991"), units("1"))
            await given.until(lambda: units("49991") in market.sync.book.bids)

    run(main())


def test_an_ed25519_key_trades_and_hears_its_account() -> None:
    async def main() -> None:
        async with local() as given:
            private = Ed25519PrivateKey.generate()
            public = (
                private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
            )
            key = given.exchange.keys.register("ann", public)
            pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
            credentials = Credentials.of(key.api_key, pem)
            account = await given.feeds.account(credentials, "h")
            await eventually(lambda: account.status().state == "live")
            placed = await given.client.signed(credentials).new_order(**ORDER, newClientOrderId="ed-1")
            await eventually(lambda: placed["orderId"] in account.open_orders)

    run(main())


def test_a_venue_whose_clock_is_ten_seconds_off_takes_orders() -> None:
    async def main() -> None:
        async with local() as given:
            given.exchange.faults.skew(10_000)
            account = await given.feeds.account(given.credentials, "h")
            await eventually(lambda: account.status().state == "live")
            given.exchange.faults.skew(-10_000)
            placed = await given.client.signed(given.credentials).new_order(**ORDER)
            await eventually(lambda: placed["orderId"] in account.open_orders)
            assert given.client.time.offset_ms == -10_000

    run(main())
