"""The account's own events: subscribed by signature, again after a cut, and not at all with a bad key."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.exchange.client.scripted import Bench, Ear, Peer, bench, run, soon
from tests.exchange.client.test_signing import KEY, SECRET
from tracedesk.exchange.client.keeper import LIFE
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.wsapi import UserData

METHOD: Final = "userDataStream.subscribe.signature"
EVENT: Final[dict[str, Any]] = {"e": "outboundAccountPosition", "E": 1, "u": 1, "B": []}


def _payload(params: dict[str, Any]) -> bytes:
    return "&".join(f"{name}={params[name]}" for name in sorted(params) if name != "signature").encode()


@asynccontextmanager
async def hearing(
    credentials: Credentials | None = None,
) -> AsyncGenerator[tuple[Bench, UserData, Ear], None]:
    async with bench() as given:
        ear = Ear()
        data = UserData(
            given.client.endpoints.ws_api,
            credentials or Credentials.of(KEY, SECRET),
            ear,
            http=given.client._http,  # pyright: ignore[reportPrivateUsage]
            rest=given.client.public,
            clock=given.clock,
            random=given.client.random,
            silence=10 * LIFE,
        )
        data.start()
        try:
            yield given, data, ear
        finally:
            await data.close()


async def _accepted(given: Bench) -> tuple[Peer, dict[str, Any]]:
    """The venue's end of a line, whose subscription it has confirmed, and what was asked."""
    peer = await given.venue.peer()
    message = await peer.next()
    assert message["method"] == METHOD
    await peer.say({"id": message["id"], "status": 200, "result": {"subscriptionId": 0}, "rateLimits": []})
    return peer, message["params"]


def _ed25519() -> tuple[Credentials, Callable[[bytes, str], None]]:
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def verify(payload: bytes, signature: str) -> None:
        private.public_key().verify(base64.b64decode(signature), payload)

    return Credentials.of(KEY, pem), verify


def _hmac() -> tuple[Credentials, Callable[[bytes, str], None]]:
    def verify(payload: bytes, signature: str) -> None:
        assert hmac.new(SECRET.encode(), payload, hashlib.sha256).hexdigest() == signature

    return Credentials.of(KEY, SECRET), verify


@pytest.mark.parametrize("keys", [_hmac, _ed25519])
def test_the_subscription_is_signed_with_either_kind_of_key(
    keys: Callable[[], tuple[Credentials, Callable[[bytes, str], None]]],
) -> None:
    async def main() -> None:
        credentials, verify = keys()
        async with hearing(credentials) as (given, data, ear):
            peer, params = await _accepted(given)
            assert peer.path == "/ws-api/v3"
            assert params["apiKey"] == KEY
            assert params["timestamp"] == given.clock.now_ns() // 1_000_000
            verify(_payload(params), params["signature"])
            assert await ear.next() == ("live", None)
            await peer.say({"subscriptionId": 0, "event": EVENT})
            assert await ear.next() == ("event", EVENT)
            assert data.status.connected

    run(main())


def test_after_a_cut_it_is_subscribed_again_with_a_new_signature() -> None:
    async def main() -> None:
        async with hearing() as (given, data, ear):
            peer, first = await _accepted(given)
            await ear.next()
            given.clock.advance(1.0)
            peer.cut()
            assert (await ear.next())[0] == "lost"
            await given.clock.pass_sleep(0.25, 0.5)
            _, second = await _accepted(given)
            assert await ear.next() == ("live", None)
            assert second["timestamp"] > first["timestamp"]
            assert second["signature"] != first["signature"]
            assert data.status.reconnects == 1

    run(main())


def test_a_refused_time_stamp_is_measured_again_on_the_same_line() -> None:
    async def main() -> None:
        async with hearing() as (given, _, ear):
            peer = await given.venue.peer()
            message = await peer.next()
            given.venue.skew_ms = 10_000
            error = {"code": -1021, "msg": "Timestamp for this request is outside of the recvWindow."}
            await peer.say({"id": message["id"], "status": 400, "error": error})
            again = await peer.next()
            assert again["params"]["timestamp"] == given.clock.now_ns() // 1_000_000 + 10_000
            await peer.say({"id": again["id"], "status": 200, "result": {"subscriptionId": 0}})
            assert await ear.next() == ("live", None)

    run(main())


def test_credentials_that_the_venue_refuses_are_told_and_not_tried_again() -> None:
    async def main() -> None:
        async with hearing() as (given, data, ear):
            peer = await given.venue.peer()
            message = await peer.next()
            error = {"code": -2015, "msg": "Invalid API-key, IP, or permissions for action."}
            await peer.say({"id": message["id"], "status": 401, "error": error})
            kind, refusal = await ear.next()
            assert kind == "refused"
            assert refusal.code == "CREDENTIALS_REQUIRED"
            await soon(peer.closed.wait())
            given.clock.advance(3600.0)
            await asyncio.wait({data._ending})  # pyright: ignore[reportPrivateUsage, reportArgumentType]
            assert given.venue.peers.empty()

    run(main())


def test_a_ban_holds_the_next_attempt_until_it_is_over() -> None:
    async def main() -> None:
        async with hearing() as (given, _, ear):
            peer = await given.venue.peer()
            message = await peer.next()
            until = given.clock.now_ns() // 1_000_000 + 120_000
            error = {"code": -1003, "msg": "Way too much.", "data": {"serverTime": 0, "retryAfter": until}}
            await peer.say({"id": message["id"], "status": 418, "error": error})
            assert (await ear.next())[0] == "lost"
            assert await given.clock.asleep(100.0, 121.0) == pytest.approx(120.0, abs=0.01)

    run(main())


def test_a_subscription_that_the_venue_ends_is_made_again() -> None:
    async def main() -> None:
        async with hearing() as (given, _, ear):
            peer, _ = await _accepted(given)
            await ear.next()
            await peer.say({"subscriptionId": 0, "event": {"e": "eventStreamTerminated", "E": 1}})
            kind, reason = await ear.next()
            assert (kind, reason) == ("lost", "the venue ended the subscription")
            await given.clock.pass_sleep(0.25, 0.5)
            await _accepted(given)
            assert await ear.next() == ("live", None)

    run(main())


@pytest.mark.parametrize("announced", [True, False])
def test_a_new_line_is_subscribed_before_the_old_one_is_left(announced: bool) -> None:
    async def main() -> None:
        async with hearing() as (given, data, ear):
            old, _ = await _accepted(given)
            await ear.next()
            if announced:
                await old.say({"event": {"e": "serverShutdown", "E": 1}})
            else:
                await given.clock.asleep(LIFE - 1, LIFE)
                given.clock.advance(LIFE)
            new = await given.venue.peer()
            message = await new.next()
            await old.say({"subscriptionId": 0, "event": EVENT})
            assert await ear.next() == ("event", EVENT)
            assert not old.closed.is_set()
            await new.say({"id": message["id"], "status": 200, "result": {"subscriptionId": 0}})
            assert await ear.next() == ("live", None)
            await soon(old.closed.wait())
            assert data.status.rollovers == 1

    run(main())


@pytest.mark.parametrize("frame", ["{torn", "[]", "{}", '{"id": 99, "status": 200}', '{"event": 7}'])
def test_a_malformed_frame_is_counted_and_survived(frame: str) -> None:
    async def main() -> None:
        async with hearing() as (given, data, ear):
            peer, _ = await _accepted(given)
            await ear.next()
            await peer.socket.send_str(frame)
            await peer.say({"subscriptionId": 0, "event": EVENT})
            assert await ear.next() == ("event", EVENT)
            assert data.status.malformed == 1

    run(main())
