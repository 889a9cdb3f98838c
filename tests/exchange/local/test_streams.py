"""The stream server over real sockets: raw and combined streams, control messages, life and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import pytest

from tests.exchange.local.support import START, Bench, Wire, bench, connected, eventually
from tests.support import BOUND
from tracedesk.exchange.local.limits import Limits, Rule
from tracedesk.exchange.local.sockets import QUEUE, Socket
from tracedesk.primitives.time import MILLISECOND, Clock

Body = Callable[[Bench], Coroutine[Any, Any, None]]
DEPTH = "btcusdt@depth@100ms"


def run(body: Body, limits: Callable[[Clock], Limits] | None = None) -> None:
    async def main() -> None:
        async with asyncio.timeout(2 * BOUND), bench(limits=limits) as on:
            await body(on)

    asyncio.run(main())


async def _order(on: Bench, price: str = "49000.00") -> None:
    """Change the book once, and publish it."""
    assert (await on.limit(price, "0.1")).status == 200
    on.advance(0.1)


# --- streams ------------------------------------------------------------------------------------


def test_a_raw_stream_is_the_bare_payload_and_a_combined_one_names_its_stream() -> None:
    async def body(on: Bench) -> None:
        async with (
            connected(on, f"/ws/{DEPTH}") as raw,
            connected(on, f"/stream?streams={DEPTH}") as combined,
        ):
            await _order(on)
            payload = await raw.read()
            assert (payload["e"], payload["b"]) == ("depthUpdate", [["49000.00000000", "0.10000000"]])
            assert await combined.read() == {"stream": DEPTH, "data": payload}

    run(body)


def test_several_streams_come_over_one_connection() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/stream?streams=btcusdt@trade/btcusdt@aggTrade/btcusdt@bookTicker") as wire:
            await on.limit("50001.00", "0.1")
            on.advance(0.1)
            seen = {(await wire.read())["stream"] for _ in range(3)}
            assert seen == {"btcusdt@trade", "btcusdt@aggTrade", "btcusdt@bookTicker"}

    run(body)


def test_times_of_a_stream_can_be_microseconds() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, f"/stream?streams={DEPTH}&timeUnit=MICROSECOND") as wire:
            await _order(on)
            assert (await wire.read())["data"]["E"] == START // 1000 + 100_000

    run(body)


def test_a_sequence_of_differences_has_no_gap() -> None:
    async def body(on: Bench) -> None:
        snapshot = (await on.get("depth", symbol="BTCUSDT")).body["lastUpdateId"]
        async with connected(on, f"/ws/{DEPTH}") as wire:
            last = snapshot
            for price in ("49000.00", "49001.00", "49002.00"):
                await _order(on, price)
                event = await wire.read()
                assert event["U"] == last + 1
                last = event["u"]

    run(body)


# --- control ------------------------------------------------------------------------------------


def test_streams_are_subscribed_listed_and_left_by_message() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws") as wire:
            names = [DEPTH, "btcusdt@trade"]
            assert await wire.say({"method": "SUBSCRIBE", "params": names, "id": 1}) == {
                "result": None,
                "id": 1,
            }
            assert await wire.say({"method": "LIST_SUBSCRIPTIONS", "id": "a-1"}) == {
                "result": names,
                "id": "a-1",
            }
            left = await wire.say({"method": "UNSUBSCRIBE", "params": [DEPTH], "id": None})
            assert left == {"result": None, "id": None}
            await on.limit("50001.00", "0.1")
            on.advance(0.1)
            assert (await wire.read())["e"] == "trade"

    run(body)


def test_a_name_that_nothing_is_published_under_is_accepted_as_the_venue_does() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws/nope@trade") as wire:
            assert await wire.say({"method": "LIST_SUBSCRIPTIONS", "id": 1}) == {
                "result": ["nope@trade"],
                "id": 1,
            }

    run(body)


def test_payloads_can_be_wrapped_or_bare_on_any_connection() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, f"/ws/{DEPTH}") as wire:
            assert (await wire.say({"method": "GET_PROPERTY", "params": ["combined"], "id": 1}))[
                "result"
            ] is False
            await wire.say({"method": "SET_PROPERTY", "params": ["combined", True], "id": 2})
            await _order(on)
            assert (await wire.read())["stream"] == DEPTH

    run(body)


@pytest.mark.parametrize(
    ("said", "code", "text"),
    [
        ("{", 3, "Invalid JSON: expected value at line 1 column 2"),
        ('{"id":1}', 2, "Invalid request: missing field `method`"),
        ("[" * 100_000 + "]" * 100_000, 3, "Invalid JSON: expected value"),
        ('{"method":"\\ud800","id":1}', 3, "Invalid JSON: expected value"),
        (f'{{"method":"SUBSCRIBE","id":{"9" * 5_000}}}', 3, "Invalid JSON: expected value"),
        ('{"method":"SUBSCRIBE","params":[]}', 2, "Invalid request: request ID must be an unsigned integer"),
        (
            '{"method":"SUBSCRIBE","params":[],"id":1.5}',
            2,
            "Invalid request: request ID must be an unsigned integer",
        ),
        (
            '{"method":"WISH","id":1}',
            2,
            "Invalid request: unknown variant `WISH`, expected one of `SUBSCRIBE`",
        ),
        (
            '{"method":"SUBSCRIBE","params":[1],"id":1}',
            2,
            "Invalid request: a stream's name must be a string",
        ),
        (
            '{"method":"SET_PROPERTY","params":["combined","yes"],"id":1}',
            1,
            "Invalid value type: expected Boolean",
        ),
        ('{"method":"SET_PROPERTY","params":["colour",true],"id":1}', 0, "Unknown property"),
        (
            '{"method":"GET_PROPERTY","params":[],"id":1}',
            2,
            "Invalid request: property name must be a string",
        ),
        (
            '{"method":"GET_PROPERTY","params":["combined",1],"id":1}',
            2,
            "Invalid request: too many parameters",
        ),
    ],
)
def test_wrong_messages_get_the_stream_servers_small_codes(said: str, code: int, text: str) -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws") as wire:
            answer = await wire.say(said)
            assert answer["code"] == code
            assert answer["msg"].startswith(text)
            assert (await wire.say({"method": "LIST_SUBSCRIPTIONS", "id": 2}))["result"] == []

    run(body)


def test_no_connection_listens_to_more_than_1024_streams() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws") as wire:
            names = [f"s{number}@trade" for number in range(1024)]
            assert (await wire.say({"method": "SUBSCRIBE", "params": names, "id": 1}))["result"] is None
            assert (await wire.say({"method": "SUBSCRIBE", "params": [DEPTH], "id": 2}))["code"] == 2

    run(body)


# --- limits and life ----------------------------------------------------------------------------


def test_the_sixth_message_within_a_second_ends_the_connection() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws") as wire:
            for number in range(5):
                await wire.say({"method": "LIST_SUBSCRIPTIONS", "id": number})
            await wire.socket.send_json({"method": "LIST_SUBSCRIPTIONS", "id": 6})
            ended = await wire.ends()
            assert ended.data == aiohttp.WSCloseCode.POLICY_VIOLATION
        async with connected(on, "/ws") as wire:
            for number in range(12):
                await wire.say({"method": "LIST_SUBSCRIPTIONS", "id": number})
                on.advance(0.25)

    run(body)


def test_pings_are_answered_with_their_payload_and_count_as_messages() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws", autoping=False) as wire:
            await wire.socket.ping(b"hello")
            pong = await wire.socket.receive(5)
            assert (pong.type, pong.data) == (aiohttp.WSMsgType.PONG, b"hello")
            for _ in range(5):
                await wire.socket.ping()
            assert (await wire.ends()).data == aiohttp.WSCloseCode.POLICY_VIOLATION

    run(body)


async def _beat(on: Bench, wire: Wire, *, answering: bool) -> None:
    """Let twenty seconds pass, and read the server's ping."""
    on.advance(20)
    message = await wire.socket.receive(5)
    while message.type is not aiohttp.WSMsgType.PING:
        message = await wire.socket.receive(5)
    assert message.data == str(on.stamp()).encode()
    if answering:
        await wire.socket.pong(message.data)


def test_the_server_pings_every_20_seconds_and_cuts_who_is_silent_for_a_minute() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws", autoping=False) as wire:
            await eventually(lambda: len(on.exchange.sockets) == 1)
            for _ in range(2):
                await _beat(on, wire, answering=False)
            on.advance(20)
            assert (await wire.ends()).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
            await eventually(lambda: not on.exchange.sockets)

    run(body)


def test_a_connection_lives_for_24_hours() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws", autoping=False) as wire:
            await eventually(lambda: len(on.exchange.sockets) == 1)
            for _ in range(24 * 180 - 1):
                await _beat(on, wire, answering=True)
            on.advance(20)
            assert (await wire.ends()).data == aiohttp.WSCloseCode.OK

    run(body)


def test_a_client_that_does_not_keep_up_is_cut() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws") as wire:
            await eventually(lambda: len(on.exchange.sockets) == 1)
            socket = next(iter(on.exchange.sockets))
            assert isinstance(socket, Socket)
            for _ in range(QUEUE + 1):
                socket.send(b"{}")
            await eventually(lambda: not on.exchange.sockets)
            assert (await wire.ends()).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)

    run(body)


def test_a_shutdown_is_announced_and_then_done() -> None:
    async def body(on: Bench) -> None:
        async with (
            connected(on, "/ws") as raw,
            connected(on, "/stream") as combined,
            connected(on, "/ws-api/v3") as api,
        ):
            await eventually(lambda: len(on.exchange.sockets) == 3)
            await on.exchange.shut_down()
            event = {"e": "serverShutdown", "E": START // MILLISECOND}
            assert await raw.read() == event
            assert await combined.read() == {"stream": "!serverShutdown", "data": event}
            assert await api.read() == {"event": event}
            for wire in (raw, combined, api):
                assert (await wire.ends()).data == aiohttp.WSCloseCode.GOING_AWAY

    run(body)


def test_too_many_connection_attempts_are_refused() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws"), connected(on, "/ws"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await on.http.ws_connect(f"{on.address.streams}/ws")
            assert refused.value.status == 429

    run(body, lambda clock: Limits(clock, connections=Rule("CONNECTIONS", "MINUTE", 5, 2)))


def test_a_client_that_leaves_leaves_nothing_behind() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, f"/ws/{DEPTH}"):
            await eventually(lambda: len(on.exchange.sockets) == 1)
        await eventually(lambda: not on.exchange.sockets)
        await _order(on)

    run(body)


# --- faults -------------------------------------------------------------------------------------


async def _heard(on: Bench, fault: dict[str, Any], number: int) -> list[int]:
    """How many levels each frame had, for books that change by one level, two, and so on."""
    async with connected(on, f"/ws/{DEPTH}") as wire:
        await eventually(lambda: len(on.exchange.sockets) == 1)
        on.exchange.faults.set({"on": "btcusdt@depth*", **fault})
        for event in range(1, 5):
            for level in range(event):
                await on.limit(f"4{event}00{level}.00", "0.1")
            on.advance(0.1)
        return [len((await wire.read())["b"]) for _ in range(number)]


@pytest.mark.parametrize(
    ("fault", "heard"),
    [
        ({"kind": "drop_event"}, [2, 3, 4]),
        ({"kind": "drop_event", "every": 2}, [1, 3, 4]),
        ({"kind": "duplicate_event", "times": 0, "every": 2}, [1, 2, 2, 3, 4, 4]),
        ({"kind": "reorder_event"}, [2, 1, 3, 4]),
    ],
)
def test_differences_are_dropped_doubled_or_swapped(fault: dict[str, Any], heard: list[int]) -> None:
    async def body(on: Bench) -> None:
        assert await _heard(on, fault, len(heard)) == heard

    run(body)


def test_a_malformed_frame_is_no_json_and_the_next_one_is() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, f"/ws/{DEPTH}") as wire:
            on.exchange.faults.set({"kind": "malformed", "on": DEPTH})
            await _order(on)
            with pytest.raises(ValueError, match="delimiter"):
                await wire.read()
            await _order(on, "49001.00")
            assert (await wire.read())["e"] == "depthUpdate"

    run(body)


def test_a_cut_ends_every_socket_without_a_word() -> None:
    async def body(on: Bench) -> None:
        async with connected(on, "/ws") as wire:
            await eventually(lambda: len(on.exchange.sockets) == 1)
            on.exchange.cut()
            assert (await wire.ends()).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)

    run(body)
