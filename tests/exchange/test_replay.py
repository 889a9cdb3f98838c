"""Replay: what was recorded is published again, and users trade against it without moving it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from tracedesk.errors import ToolError
from tracedesk.exchange.book.recording import frames
from tracedesk.exchange.book.sync import Depth, Sync
from tracedesk.exchange.local.clock import Warp
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.local.replay import Replay
from tracedesk.exchange.local.stage import Stage, build, read_recordings
from tracedesk.exchange.units import units
from tracedesk.exchange.venue.orders import NewOrder
from tracedesk.primitives.time import SECOND, ManualClock, parse

FOLDER: Final = Path(__file__).parent / "recordings"
OWN: Final = (FOLDER / "btcusdt_local.gz", FOLDER / "ethusdt_local.gz")
NOW: Final = 1_800_000_000 * SECOND
CHANNELS: Final = ("depth@100ms", "bookTicker", "trade")


def recordings() -> Iterator[Any]:
    yield pytest.param(OWN[0], id=OWN[0].name)
    yield pytest.param(OWN[1], id=OWN[1].name, marks=pytest.mark.judge)


def staged(*paths: Path, **options: Any) -> Stage:
    plan = Plan(replay=tuple(map(str, paths)), **options)
    return build(plan, Warp(ManualClock(NOW)))


def heard(stage: Stage, symbol: str) -> list[tuple[str, Any]]:
    said: list[tuple[str, Any]] = []
    for channel in CHANNELS:
        name = f"{symbol.lower()}@{channel}"
        stage.markets.subscribe(name, lambda m: said.append((m.stream, json.loads(m.body()))))
    return said


def play(stage: Stage, seconds: float) -> None:
    start = stage.clock.now_ns()
    stage.trading.simulate(stage.clock, start + int(seconds * SECOND))


def recorded(path: Path, since: int) -> list[tuple[str, Any]]:
    """The frames of a file that are new to its snapshot."""
    rows = [(f["stream"], f["data"]) for _, f in frames(path) if "stream" in f]
    first = next(i for i, (s, d) in enumerate(rows) if "depth" in s and d["u"] > since)
    return [
        row
        for index, row in enumerate(rows)
        if (index >= first if row[0].endswith("trade") else row[1]["u"] > since)
    ]


def shape(rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(stream, {k: v for k, v in data.items() if k not in ("E", "T")}) for stream, data in rows]


def by_stream(rows: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    return {name: [data for stream, data in rows if stream == name] for name in dict(rows)}


@pytest.mark.parametrize("path", list(recordings()))
def test_every_recorded_event_is_published_again_with_its_own_times(path: Path) -> None:
    check_published_again(path)


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["btcusdt", "ethusdt"])
def test_every_event_of_the_venues_recording_is_published_again_with_its_own_times(
    name: str, checkout: Callable[[str], Path]
) -> None:
    check_published_again(sorted(checkout("binance_spot").glob(f"{name}*.gz"))[0])


def check_published_again(path: Path) -> None:
    stage = staged(path, as_recorded=True)
    [file] = read_recordings([path])
    said = heard(stage, file.symbol)
    play(stage, file.seconds + 2)
    expected = recorded(path, file.snapshot.last_id)
    assert len(expected) > 5_000
    assert by_stream(said) == by_stream(_sorted(expected))
    assert shape(said) == shape(_sorted(expected))


def _sorted(rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Levels from the touch outwards, which is how the local exchange always writes them."""
    for stream, data in rows:
        if "depth" in stream:
            data["b"] = sorted(data["b"], key=_price, reverse=True)
            data["a"] = sorted(data["a"], key=_price)
    return rows


def _price(level: list[str]) -> int:
    return units(level[0])


def test_times_are_moved_to_now_unless_told_otherwise() -> None:
    stage = staged(OWN[0])
    said = heard(stage, "BTCUSDT")
    play(stage, 10)
    times = [data["E"] for _, data in said if "E" in data]
    now = stage.clock.now_ns() // 1_000_000
    assert now - 10_000 <= min(times)
    assert max(times) <= now


def test_the_published_book_equals_the_recorded_touch_all_along() -> None:
    stage = staged(OWN[1])
    market = stage.markets.of("ETHUSDT")
    compared = 0
    touches: dict[int, Any] = {}
    stage.markets.subscribe("ethusdt@bookTicker", lambda m: touches.update({m.data()["u"]: m.data()}))

    def compare(message: Any) -> None:
        nonlocal compared
        touch = touches.get(message.data()["u"])
        if touch is not None:
            compared += 1
            bid, ask = market.depth_feed.book.best_bid(), market.depth_feed.book.best_ask()
            assert bid == (units(touch["b"]), units(touch["B"]))
            assert ask == (units(touch["a"]), units(touch["A"]))

    stage.markets.subscribe("ethusdt@depth@100ms", compare)
    play(stage, 100)
    assert compared > 100


def test_twice_the_speed_takes_half_the_time() -> None:
    slow, fast = staged(OWN[0]), staged(OWN[0], speed=2.0)
    one, two = heard(slow, "BTCUSDT"), heard(fast, "BTCUSDT")
    play(slow, 20)
    play(fast, 10)
    assert shape(one) == shape(two)


def test_with_recorded_times_the_clock_runs_at_the_speed() -> None:
    clock = ManualClock(NOW)
    stage = build(Plan(replay=(str(OWN[0]),), as_recorded=True, speed=4.0), Warp(clock))
    said = heard(stage, "BTCUSDT")
    begun = stage.clock.now_ns()
    for _ in range(200):
        clock.advance(0.02)
        stage.trading.step(stage.clock.now_ns())
    assert stage.clock.now_ns() - begun == 16 * SECOND
    times = [data["E"] for _, data in said if "E" in data]
    assert 15 <= (max(times) - min(times)) / 1000 <= 16


def test_orders_carry_the_time_of_the_recording_where_that_is_kept() -> None:
    stage = staged(OWN[0], as_recorded=True)
    [file] = read_recordings(OWN[:1])
    first, last = file.first_ns + file.skew_ns, file.last_ns + file.skew_ns
    stage.venue.open_account("me", {"USDT": units("1000000")})
    for seconds in (5, 20):
        play(stage, seconds)
        done = stage.venue.place("me", NewOrder("BTCUSDT", "BUY", "MARKET", quantity=units("0.01")))
        now = stage.clock.now_ns()
        assert first < now < last
        assert (done.order.created_ns, done.order.updated_ns, done.fills[0].ns) == (now, now, now)
    resting = NewOrder(
        "BTCUSDT", "BUY", "LIMIT", quantity=units("0.0001"), price=units("50000"), time_in_force="GTC"
    )
    placed = stage.venue.place("me", resting).order
    assert placed.created_ns == stage.clock.now_ns()
    play(stage, 1)
    cancelled = stage.venue.cancel("me", "BTCUSDT", order_id=placed.id).order
    assert placed.created_ns < cancelled.updated_ns == stage.clock.now_ns() < last


# --- without a snapshot ----------------------------------------------------------------------------


def without_snapshot(path: Path, target: Path) -> Path:
    with gzip.open(path, "rb") as source, gzip.open(target, "wb") as out:
        out.writelines(line for line in source if b"lastUpdateId" not in line)
    return target


def test_without_a_snapshot_a_replay_begins_with_the_first_bid_and_ask_and_says_when(tmp_path: Path) -> None:
    path = without_snapshot(OWN[0], tmp_path / "btcusdt.gz")
    check_begins_two_sided(path, OWN[0])


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["btcusdt", "ethusdt"])
def test_the_venues_recordings_without_a_snapshot_are_played_from_their_first_bid_and_ask(
    name: str, checkout: Callable[[str], Path]
) -> None:
    folder = checkout("hftbacktest") / "examples" / "spot"
    check_begins_two_sided(folder / f"{name}_20240809.gz", None)


def check_begins_two_sided(path: Path, whole: Path | None) -> None:
    """The book begins at the first recorded touch, and each touch afterwards is the recorded one."""
    touch_ns = next(ns for ns, frame in frames(path) if "B" in frame.get("data", frame))
    stage = staged(path, as_recorded=True)
    [file] = read_recordings([path])
    assert file.snapshot.ns <= touch_ns
    [begun] = stage.status()["books"]
    assert begun["from"] == "first moment with a bid and an ask"
    assert parse(begun["at"]).ns == file.snapshot.ns + file.skew_ns
    market = stage.markets.of(file.symbol)
    bid, ask = market.depth_feed.book.best_bid(), market.depth_feed.book.best_ask()
    assert bid is not None
    assert ask is not None
    assert bid < ask
    compared, touches = _touches_compared(stage, file.symbol)
    play(stage, file.seconds + 1)
    assert compared[0] > 100
    assert touches
    if whole is not None:
        same = staged(whole, as_recorded=True)
        play(same, file.seconds + 1)
        ends = (each.markets.of(file.symbol).depth_feed.book for each in (stage, same))
        first, second = ((book.best_bid(), book.best_ask()) for book in ends)
        assert first == second


def _touches_compared(stage: Stage, symbol: str) -> tuple[list[int], dict[int, Any]]:
    """Count the depth events after which the book's best levels are those of the touch with their id."""
    touches: dict[int, Any] = {}
    compared = [0]
    name, market = symbol.lower(), stage.markets.of(symbol)
    stage.markets.subscribe(f"{name}@bookTicker", lambda m: touches.update({m.data()["u"]: m.data()}))

    def compare(message: Any) -> None:
        touch = touches.get(message.data()["u"])
        if touch is not None:
            compared[0] += 1
            best = market.depth_feed.book.best_bid(), market.depth_feed.book.best_ask()
            assert best[0] == (units(touch["b"]), units(touch["B"]))
            assert best[1] == (units(touch["a"]), units(touch["A"]))

    stage.markets.subscribe(f"{name}@depth@100ms", compare)
    return compared, touches


def test_a_replay_stands_still_at_its_end_and_says_so() -> None:
    stage = staged(OWN[0], speed=50.0)
    play(stage, 9)
    said = heard(stage, "BTCUSDT")
    play(stage, 5)
    assert said == []
    assert stage.status()["ended"] is True
    assert stage.status()["rounds"] == 1


def test_a_loop_goes_on_with_growing_ids_and_a_true_book(tmp_path: Path) -> None:
    path = _cut(OWN[0], tmp_path / "short.gz", 400)
    stage = staged(path, loop=True)
    said = heard(stage, "BTCUSDT")
    follower = following(stage)
    play(stage, 60)
    assert isinstance(stage.source, Replay)
    assert stage.source.rounds >= 2
    depth = [data for stream, data in said if "depth" in stream]
    assert all(late["U"] == early["u"] + 1 for early, late in pairwise(depth))
    trades = [data["t"] for stream, data in said if stream.endswith("trade")]
    assert all(late == early + 1 for early, late in pairwise(trades))
    times = [data["E"] for _, data in said if "E" in data]
    assert max(times) <= stage.clock.now_ns() // 1_000_000
    published = stage.markets.of("BTCUSDT").depth_feed.book
    assert (follower.book.bids, follower.book.asks) == (published.bids, published.asks)
    assert (follower.synced, follower.resyncs) == (True, 0)


def test_no_event_of_a_loop_is_dated_later_than_it_comes(tmp_path: Path) -> None:
    stage = staged(_cut(OWN[0], tmp_path / "short.gz", 400), loop=True)
    late: list[int] = []

    def hear(message: Any) -> None:
        late.append(stage.clock.now_ns() // 1_000_000 - message.data()["E"])

    stage.markets.subscribe("btcusdt@depth@100ms", hear)
    play(stage, 20)
    assert stage.status()["rounds"] >= 2
    assert min(late) >= 0


def following(stage: Stage) -> Sync:
    """A client that keeps the book of BTCUSDT from now on."""
    sync = Sync(ManualClock())
    sync.opened()
    stage.markets.subscribe("btcusdt@depth@100ms", lambda m: sync.offer(Depth.of(m.data())))
    book = stage.markets.of("BTCUSDT").depth(5000)
    bids, asks = ([(units(p), units(q)) for p, q in book[side]] for side in ("bids", "asks"))
    sync.snapshot(book["lastUpdateId"], bids, asks)
    return sync


def _cut(path: Path, target: Path, lines: int) -> Path:
    with gzip.open(path, "rb") as source, gzip.open(target, "wb") as out:
        for _, line in zip(range(lines), source, strict=False):
            out.write(line)
    return target


def test_a_users_order_fills_against_the_recorded_book_without_moving_it() -> None:
    touched, untouched = staged(OWN[0]), staged(OWN[0])
    one, two = heard(touched, "BTCUSDT"), heard(untouched, "BTCUSDT")
    play(touched, 5)
    play(untouched, 5)
    touched.venue.open_account("me", {"USDT": units("1000000"), "BTC": units("10")})
    ask = touched.markets.of("BTCUSDT").depth_feed.book.best_ask()
    assert ask is not None
    result = touched.venue.place("me", NewOrder("BTCUSDT", "BUY", "MARKET", quantity=units("0.01")))
    assert result.order.status == "FILLED"
    assert result.fills[0].price == ask[0]
    play(touched, 20)
    play(untouched, 20)
    assert one == two


def test_a_users_resting_order_fills_when_recorded_trades_reach_it() -> None:
    stage = staged(OWN[0])
    play(stage, 1)
    stage.venue.open_account("me", {"USDT": units("1000000")})
    bid = stage.markets.of("BTCUSDT").depth_feed.book.best_bid()
    assert bid is not None
    order = NewOrder("BTCUSDT", "BUY", "LIMIT", quantity=units("0.00010"), price=bid[0], time_in_force="GTC")
    placed = stage.venue.place("me", order).order
    play(stage, 120)
    assert stage.venue.order("me", "BTCUSDT", order_id=placed.id).status == "FILLED"


def test_two_markets_are_replayed_together() -> None:
    stage = staged(*OWN)
    btc, eth = heard(stage, "BTCUSDT"), heard(stage, "ETHUSDT")
    play(stage, 5)
    assert btc
    assert eth
    assert stage.markets.symbols == ("BTCUSDT", "ETHUSDT")


def test_what_is_no_recording_is_refused_with_its_name(tmp_path: Path) -> None:
    no_snapshot, not_json, twice = tmp_path / "a", tmp_path / "b", [OWN[0], OWN[0]]
    no_snapshot.write_text(
        '1 {"stream":"x@trade","data":{"e":"trade","E":1,"T":1,"t":1,"s":"X","p":"1","q":"1","m":true}}\n'
    )
    not_json.write_text("1 {\n")
    fetched = next(n for n, (_, frame) in enumerate(frames(OWN[0]), 1) if "lastUpdateId" in frame)
    ended = _cut(OWN[0], tmp_path / "short.gz", fetched)
    bent = tmp_path / "bent"
    bent.write_bytes(gzip.decompress(OWN[0].read_bytes()).replace(b'"q":"0.', b'"q":"O.', 1))
    strange = tmp_path / "c"
    strange.write_text('1 {"lastUpdateId":1,"bids":[["x"]],"asks":[]}\n')
    for paths, words in (
        ([no_snapshot], "a has no depth snapshot"),
        ([not_json], "b, line 1"),
        ([strange], "c holds a message"),
        ([bent], "bent holds a message"),
        ([ended], "short.gz has no depth after its snapshot"),
        ([tmp_path / "gone"], "gone cannot be read"),
        (twice, "two recordings are of BTCUSDT"),
    ):
        with pytest.raises(ToolError, match=words):
            read_recordings(paths)


def test_a_market_that_is_not_listed_cannot_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "other.gz"
    with gzip.open(OWN[0], "rb") as source, gzip.open(path, "wb") as out:
        for _, line in zip(range(300), source, strict=False):
            out.write(line.replace(b"BTCUSDT", b"DOGEUSDT"))
    with pytest.raises(ToolError, match="DOGEUSDT is not listed; there are BTCUSDT"):
        staged(path)
