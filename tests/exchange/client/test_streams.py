"""Streams: what is subscribed, what happens when a line ends, and what cannot be read."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from tests.exchange.client.scripted import Ear, Peer, depth, run, soon, trade
from tests.exchange.client.streaming import DEPTH, TRADES, live, streaming
from tracedesk.exchange.client.line import SILENCE, Line
from tracedesk.exchange.client.streams import Frame, Gap, Streams

# --- subscribing ------------------------------------------------------------------------------------


def test_a_subscription_is_live_once_confirmed_and_brings_frames_as_received() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            ear = Ear()
            streams.subscribe(TRADES, ear)
            peer = await given.venue.peer()
            assert peer.path == "/stream"
            message = await peer.next()
            assert (message["method"], message["params"]) == ("SUBSCRIBE", [TRADES])
            assert ear.told.empty()
            await peer.say({"result": None, "id": message["id"]})
            assert await ear.next() == ("live", None)
            await peer.event(TRADES, trade(1))
            kind, frame = await ear.next()
            assert kind == "frame"
            assert (frame.stream, frame.data, frame.received_ns) == (TRADES, trade(1), given.clock.now_ns())
            assert orjson.loads(frame.raw) == {"stream": TRADES, "data": trade(1)}
            assert streams.status.connected

    run(main())


def test_what_comes_before_the_confirmation_is_kept_for_after_it() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            ear = Ear()
            streams.subscribe(TRADES, ear)
            peer = await given.venue.peer()
            message = await peer.next()
            await peer.event(TRADES, trade(1))
            await peer.say({"result": None, "id": message["id"]})
            assert await ear.next() == ("live", None)
            assert await ear.data() == trade(1)

    run(main())


def test_two_who_hear_one_stream_are_one_subscription_and_the_last_one_ends_it() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            one, two, other = Ear(), Ear(), Ear()
            first, second = streams.subscribe(TRADES, one), streams.subscribe(TRADES, two)
            streams.subscribe(DEPTH, other)
            peer = await live(given, one, two, other)
            third = streams.subscribe(TRADES, late := Ear())
            assert await late.next() == ("live", None)
            first.close()
            third.close()
            await peer.event(TRADES, trade(1))
            assert await two.data() == trade(1)
            second.close()
            message = await peer.next()
            assert (message["method"], message["params"]) == ("UNSUBSCRIBE", [TRADES])
            assert peer.heard.empty()
            assert one.told.empty()
            assert late.told.empty()

    run(main())


def test_the_connection_ends_with_the_last_stream_and_begins_with_the_next() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            held = streams.subscribe(TRADES, ear := Ear())
            peer = await live(given, ear)
            held.close()
            await soon(peer.closed.wait())
            assert not streams.status.connected
            streams.subscribe(TRADES, again := Ear())
            await live(given, again)
            assert ear.told.empty()

    run(main())


def test_a_stream_subscribed_while_the_connection_is_being_closed_is_heard_on_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        dropped, drop = asyncio.Event(), Streams.drop

        def closing(streams: Streams, line: Line) -> None:
            drop(streams, line)
            dropped.set()

        monkeypatch.setattr(Streams, "drop", closing)
        async with streaming() as (given, streams):
            held = streams.subscribe(TRADES, ear := Ear())
            await live(given, ear)
            held.close()
            await soon(dropped.wait())
            streams.subscribe(TRADES, again := Ear())
            await live(given, again)

    run(main())


def test_a_refused_stream_is_told_to_who_asked_and_to_nobody_else() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, good := Ear())
            peer = await live(given, good)
            streams.subscribe("nonsense", bad := Ear())
            message = await peer.next()
            await peer.say({"code": 2, "msg": "Invalid request", "id": message["id"]})
            kind, reason = await bad.next()
            assert kind == "lost"
            assert "Invalid request" in reason
            await peer.event(TRADES, trade(1))
            assert await good.data() == trade(1)

    run(main())


async def _refuse(peer: Peer) -> list[str]:
    """Refuse the next change of subscriptions; returns its names."""
    message = await peer.next()
    await peer.say({"code": 2, "msg": "Invalid request", "id": message["id"]})
    return message["params"]


def test_one_refused_name_does_not_keep_the_others_of_its_message_from_being_subscribed() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            good, bad = [Ear() for _ in range(4)], Ear()
            for number, ear in enumerate(good[:2]):
                streams.subscribe(f"s{number}@trade", ear)
            streams.subscribe("nonsense", bad)
            for number, ear in enumerate(good[2:], 2):
                streams.subscribe(f"s{number}@trade", ear)
            peer = await given.venue.peer()
            assert await _refuse(peer) == ["s0@trade", "s1@trade", "nonsense", "s2@trade", "s3@trade"]
            assert await peer.accept() == ["s0@trade", "s1@trade"]
            assert await _refuse(peer) == ["nonsense", "s2@trade", "s3@trade"]
            assert await _refuse(peer) == ["nonsense"]
            await given.clock.pass_sleep(0.5, 1.0)  # no more than four messages in a second
            assert await peer.accept() == ["s2@trade", "s3@trade"]
            assert [(await ear.next())[0] for ear in (*good, bad)] == ["live"] * 4 + ["lost"]

    run(main())


def test_a_refused_stream_is_asked_for_again_ever_more_slowly_until_it_is_accepted() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, good := Ear())
            peer = await live(given, good)
            streams.subscribe(DEPTH, late := Ear())
            told = asyncio.Event()
            streams.listen(told.set)
            for bound in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0):
                assert await _refuse(peer) == [DEPTH]
                await soon(told.wait())
                told.clear()
                await given.clock.pass_sleep(bound / 2, bound)
            assert await peer.accept() == [DEPTH]
            assert [(await late.next())[0] for _ in range(2)] == ["lost", "live"]
            await peer.event(DEPTH, depth(1, 2))
            assert await late.data() == depth(1, 2)
            assert (good.told.empty(), late.told.empty()) == (True, True)

    run(main())


def test_what_one_connection_was_refused_is_asked_for_on_the_next() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            peer = await given.venue.peer()
            assert await _refuse(peer) == [TRADES]
            kind, reason = await ear.next()
            assert (kind, "Invalid request" in reason) == ("lost", True)
            assert "Invalid request" in (streams.status.last_error or "")
            peer.cut()
            assert (await ear.next())[0] == "lost"
            await given.clock.pass_sleep(0.25, 0.5)
            again = await given.venue.peer()
            assert await again.accept() == [TRADES]
            assert (await ear.next())[0] == "live"
            await again.event(TRADES, trade(1))
            assert await ear.data() == trade(1)

    run(main())


def test_a_refused_end_of_a_subscription_is_told_and_survived() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            held = streams.subscribe(TRADES, gone := Ear())
            streams.subscribe(DEPTH, ear := Ear())
            peer = await live(given, gone, ear)
            held.close()
            assert await _refuse(peer) == [TRADES]
            streams.subscribe("ethusdt@trade", late := Ear())
            assert await peer.accept() == ["ethusdt@trade"]
            assert await late.next() == ("live", None)
            assert "refused to end" in (streams.status.last_error or "")

    run(main())


def test_streams_of_many_symbols_are_refused_before_anything_is_sent() -> None:
    async def main() -> None:
        async with streaming() as (_, streams):
            with pytest.raises(ValueError, match="subscribe to each symbol's own"):
                streams.subscribe("!miniTicker@arr", Ear())
            assert streams.status.streams == 0

    run(main())


def test_changes_of_subscriptions_never_exceed_five_messages_a_second() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe("s0@trade", ear := Ear())
            peer = await live(given, ear)
            arrived: list[float] = [given.clock.monotonic()]
            for number in range(1, 40):
                streams.subscribe(f"s{number}@trade", Ear())
                message = asyncio.ensure_future(peer.next())
                while not message.done():
                    napping = asyncio.ensure_future(given.clock.asleep(0.001, 1.0))
                    await asyncio.wait({message, napping}, return_when=asyncio.FIRST_COMPLETED)
                    if not message.done():
                        given.clock.advance(napping.result())
                    napping.cancel()
                arrived.append(given.clock.monotonic())
                await peer.say({"result": None, "id": message.result()["id"]})
            assert all(later - earlier >= 1.0 for earlier, later in zip(arrived, arrived[5:], strict=False))

    run(main())


def test_subscriptions_made_together_go_out_together() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            names = [f"s{number}@trade" for number in range(80)]
            for name in names:
                streams.subscribe(name, Ear())
            peer = await given.venue.peer()
            assert await peer.accept() == names

    run(main())


# --- reconnecting -----------------------------------------------------------------------------------


def test_after_a_cut_the_loss_is_told_and_everything_is_subscribed_again() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            one, two = Ear(), Ear()
            streams.subscribe(TRADES, one)
            streams.subscribe(DEPTH, two)
            peer = await live(given, one, two)
            peer.cut()
            assert (await one.next())[0] == (await two.next())[0] == "lost"
            assert not streams.status.connected
            assert streams.status.last_error
            await given.clock.pass_sleep(0.25, 0.5)
            again = await given.venue.peer()
            assert sorted(await again.accept()) == sorted([TRADES, DEPTH])
            assert (await one.next())[0] == (await two.next())[0] == "live"
            await again.event(TRADES, trade(9))
            assert await one.data() == trade(9)
            assert streams.status.reconnects == 1

    run(main())


def test_pauses_between_attempts_grow_vary_and_stay_bounded() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            pauses: list[float] = []
            for _ in range(12):
                peer = await given.venue.peer()
                peer.cut()
                assert (await ear.next())[0] == "lost"
                pauses.append(await given.clock.pass_sleep(0.2, 31.0))
            bounds = [min(30.0, 0.5 * 2**failures) for failures in range(12)]
            assert all(bound / 2 <= pause <= bound for pause, bound in zip(pauses, bounds, strict=True))
            assert len({round(pause / bound, 6) for pause, bound in zip(pauses, bounds, strict=True)}) == 12

    run(main())


def test_a_line_that_is_cut_as_soon_as_it_is_up_does_not_shorten_the_pauses() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            for bound in (0.5, 1.0, 2.0):
                peer = await live(given, ear)
                peer.cut()
                assert (await ear.next())[0] == "lost"
                await given.clock.pass_sleep(bound / 2, bound)
            peer = await live(given, ear)
            given.clock.advance(60.0)
            peer.cut()
            assert (await ear.next())[0] == "lost"
            await given.clock.pass_sleep(0.25, 0.5)

    run(main())


def test_a_silent_line_is_given_up() -> None:
    async def main() -> None:
        async with streaming(silence=SILENCE) as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            await live(given, ear)
            await given.clock.pass_sleep(SILENCE, SILENCE)
            kind, reason = await ear.next()
            assert kind == "lost"
            assert "nothing was heard for 90 s" in reason

    run(main())


def test_a_ping_is_answered_with_its_own_payload_and_is_a_sign_of_life() -> None:
    async def main() -> None:
        async with streaming(silence=SILENCE) as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            peer = await live(given, ear)
            for number in range(4):
                given.clock.advance(SILENCE - 1)
                await peer.socket.ping(f"{number}".encode())
                assert await soon(peer.pongs.get()) == f"{number}".encode()
            await peer.event(TRADES, trade(1))
            assert await ear.data() == trade(1)

    run(main())


def test_a_subscription_that_is_never_confirmed_ends_the_line() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            peer = await given.venue.peer()
            await peer.next()
            await given.clock.pass_sleep(5.0, 12.0)
            kind, reason = await ear.next()
            assert (kind, reason) == ("lost", "the venue did not answer in time")
            await given.clock.pass_sleep(0.25, 0.5)
            await live(given, ear)

    run(main())


def test_a_venue_that_cannot_be_reached_is_told_and_tried_again() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams._url = "ws://127.0.0.1:9/stream"  # pyright: ignore[reportPrivateUsage]
            streams.subscribe(TRADES, ear := Ear())
            for bound in (0.5, 1.0):
                kind, reason = await ear.next()
                assert kind == "lost"
                assert "no connection" in reason
                await given.clock.pass_sleep(bound / 2, bound)

    run(main())


# --- what cannot be read ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame", ["{torn", "[1, 2]", '"text"', "{}", '{"stream": "x", "data": 7}', "null", ""]
)
def test_a_malformed_frame_is_told_and_survived(frame: str) -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            peer = await live(given, ear)
            told = asyncio.Event()
            streams.listen(told.set)
            await peer.socket.send_str(frame)
            await soon(told.wait())
            assert (streams.status.malformed, streams.status.connected) == (1, True)
            assert streams.status.last_error
            await peer.event(TRADES, trade(1))
            assert await ear.data() == trade(1)

    run(main())


def test_binary_frames_that_are_no_text_are_told_and_survived() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            peer = await live(given, ear)
            await peer.socket.send_bytes(b"\x00\xff")
            await peer.event(TRADES, trade(1))
            assert await ear.data() == trade(1)
            assert streams.status.malformed == 1

    run(main())


def test_an_event_that_its_reader_cannot_read_is_told_and_survived() -> None:
    class Picky(Ear):
        def frame(self, frame: Frame) -> None:
            if frame.data["t"] == 1:
                raise ValueError("no such trade")
            super().frame(frame)

    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Picky())
            peer = await live(given, ear)
            await peer.event(TRADES, trade(1))
            await peer.event(TRADES, trade(2))
            assert await ear.data() == trade(2)
            assert streams.status.last_error == f"{TRADES}: no such trade"

    run(main())


def test_a_reader_that_fails_inside_has_missed_the_event_and_spares_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Ear):
        def frame(self, frame: Frame) -> None:
            if frame.data["t"] == 1:
                raise OverflowError
            super().frame(frame)

    async def main() -> None:
        async with streaming() as (given, streams):
            broken, other = Broken(), Ear()
            streams.subscribe(TRADES, broken)
            streams.subscribe(TRADES, other)
            peer = await live(given, broken, other)
            await peer.event(TRADES, trade(1))
            assert await other.data() == trade(1)
            assert [(await broken.next())[0] for _ in range(2)] == ["lost", "live"]
            await peer.event(TRADES, trade(2))
            assert (await broken.data(), await other.data()) == (trade(2), trade(2))
            assert "failed (OverflowError)" in (streams.status.last_error or "")

    run(main())
    assert "a reader of btcusdt@trade failed" in caplog.text


def test_a_listener_that_fails_inside_does_not_end_the_streams(caplog: pytest.LogCaptureFixture) -> None:
    class Fragile(Ear):
        failed = False

        def live(self) -> None:
            if not self.failed:
                self.failed = True
                raise OverflowError
            super().live()

    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Fragile())
            peer = await given.venue.peer()
            await peer.accept()
            kind, reason = await ear.next()
            assert kind == "lost"
            assert "failed inside" in reason
            await soon(peer.closed.wait())
            await given.clock.pass_sleep(4.0, 8.0)
            await live(given, ear)

    run(main())
    assert "a connection's owner failed" in caplog.text


# --- an iterator ------------------------------------------------------------------------------------


def test_frames_can_be_iterated_and_gaps_are_among_them() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            frames = streams.frames(TRADES)
            first = asyncio.ensure_future(anext(frames))
            peer = await given.venue.peer()
            await peer.accept()
            await peer.event(TRADES, trade(1))
            item = await soon(asyncio.wait_for(first, None))
            assert isinstance(item, Frame)
            assert item.data == trade(1)
            peer.cut()
            gap = await soon(anext(frames))
            assert isinstance(gap, Gap)
            await frames.aclose()
            assert streams.status.streams == 0

    run(main())
