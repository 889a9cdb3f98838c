"""Books kept from recorded differences, judged by the best prices that the venue sent beside them."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scripts.proof.record import Recorder
from tracedesk.exchange.book.book import Level
from tracedesk.exchange.book.recording import frames, payload
from tracedesk.exchange.book.sync import Depth, Sync, levels
from tracedesk.exchange.units import units
from tracedesk.primitives.time import ManualClock

OURS = sorted((Path(__file__).parent.parent / "recordings").glob("*.gz"))
OUTSIDE = ("btcusdt", "ethusdt")
SNAPSHOT_LEVELS = 1_000
CALM = 25
"""Events at the end of a recording that meet no new fault; no break is longer."""

Touch = tuple[Level | None, Level | None]
Snapshot = tuple[int, list[Level], list[Level]]


@dataclass(slots=True)
class Recording:
    """The two streams of a recording: the differences with their snapshots, and the touches by update id."""

    streamed: list[Depth | Snapshot] = field(default_factory=list["Depth | Snapshot"])
    ids: list[int] = field(default_factory=list[int])
    touches: list[Touch] = field(default_factory=list[Touch])

    def touch(self, update_id: int) -> Touch | None:
        """The best prices as of an update: those last sent up to it; None where none was."""
        sent = bisect_right(self.ids, update_id)
        return self.touches[sent - 1] if sent else None


@cache
def load(path: Path) -> Recording:
    recording = Recording()
    for _, frame in frames(path):
        said = payload(frame)
        if said.get("e") == "depthUpdate":
            recording.streamed.append(Depth.of(said))
        elif "lastUpdateId" in said:
            recording.streamed.append(
                (said["lastUpdateId"], [*levels(said["bids"])], [*levels(said["asks"])])
            )
        elif "A" in said and "e" not in said:
            recording.ids.append(said["u"])
            recording.touches.append((_level(said, "b", "B"), _level(said, "a", "A")))
    assert recording.ids == sorted(recording.ids)
    return recording


def _level(said: Mapping[str, Any], price: str, quantity: str) -> Level | None:
    """One side of a touch; an empty side is sent as zeros."""
    level = units(said[price]), units(said[quantity])
    return level if level[1] else None


def _shown(sync: Sync) -> Touch:
    return sync.book.best_bid(), sync.book.best_ask()


def _outside(folder: Path, name: str) -> Recording:
    """A recording of the real venue in the checkout that has them."""
    return load(sorted(folder.glob(f"{name}*.gz"))[0])


# --- what is checked


def check_the_whole_recording(recording: Recording) -> int:
    """Returns the number of points that were compared."""
    sync = Sync(ManualClock())
    sync.opened()
    compared = 0
    for sent in recording.streamed:
        if isinstance(sent, Depth):
            assert sync.offer(sent).happened in ("applied", "buffered", "stale")
        else:
            assert sync.snapshot(*sent, SNAPSHOT_LEVELS).happened in ("applied", "ignored")
        if sync.synced and isinstance(sent, Depth):
            assert sync.last_update_id is not None
            expected = recording.touch(sync.last_update_id)
            if expected is not None:
                assert _shown(sync) == expected, f"at update {sync.last_update_id}"
                compared += 1
    differences = sum(isinstance(sent, Depth) for sent in recording.streamed)
    assert compared >= differences * 0.98, f"only {compared} of {differences} could be compared"
    assert sync.resyncs == 0
    return compared


@dataclass(slots=True)
class Line:
    """A line to the venue that drops, repeats, reorders and breaks, and hands out snapshots of any age."""

    recording: Recording
    chance: random.Random
    faults: Counter[str] = field(default_factory=Counter[str])

    def events(self) -> Iterator[Depth | None]:
        """The differences as they arrive; None where the connection broke. The last come as they were sent:
        nobody can notice that an event is missing before the next has come."""
        held: Depth | None = None
        skip = 0
        differences = [sent for sent in self.recording.streamed if isinstance(sent, Depth)]
        for left, sent in zip(range(len(differences), 0, -1), differences, strict=True):
            self.venue.offer(sent)
            self._remember()
            skip -= skip > 0
            fate = 1.0 if left <= CALM else self.chance.random()
            if skip or (held is None and fate < 0.01):
                self.faults["dropped"] += 1
            elif held is None and fate < 0.03:
                self.faults["reordered"] += 1
                held = sent
                continue
            elif fate < 0.05:
                self.faults["repeated"] += 1
                yield from (sent, sent)
            elif fate < 0.055:
                self.faults["broken"] += 1
                skip = self.chance.randint(1, 20)
                yield None
            else:
                yield sent
            if held is not None:
                yield held
                held = None

    def snapshot(self) -> Snapshot:
        """What the venue would have said some time ago: mostly lately, at times long ago."""
        age = self.chance.choice((1, 1, 2, 5, len(self.past)))
        self.faults["stale snapshots"] += age > 5
        last, bids, asks = self.past[-min(age, len(self.past))]
        return (
            last,
            sorted(bids.items(), reverse=True)[:SNAPSHOT_LEVELS],
            sorted(asks.items())[:SNAPSHOT_LEVELS],
        )

    venue: Sync = field(init=False)
    past: deque[tuple[int, dict[int, int], dict[int, int]]] = field(init=False)

    def __post_init__(self) -> None:
        """The venue's own book is the recording without faults."""
        self.venue = Sync(ManualClock())
        self.venue.opened()
        self.past = deque(maxlen=40)
        first = next(sent for sent in self.recording.streamed if not isinstance(sent, Depth))
        self.venue.snapshot(*first, SNAPSHOT_LEVELS)
        self._remember()

    def _remember(self) -> None:
        assert self.venue.synced
        assert self.venue.last_update_id is not None
        book = self.venue.book
        self.past.append((self.venue.last_update_id, dict(book.bids), dict(book.asks)))


def check_through_faults(recording: Recording, seed: int) -> Counter[str]:
    line = Line(recording, random.Random(seed))
    sync = Sync(ManualClock())
    compared = seen = waited = 0
    for arrived in line.events():
        if arrived is None:
            sync.lost()
            sync.opened()
        else:
            sync.offer(arrived)
        waited = waited + 1 if sync.wants_snapshot else 0
        if waited > 3:  # an answer to a request takes a few events' time
            sync.snapshot(*line.snapshot(), SNAPSHOT_LEVELS)
        seen += 1
        if sync.synced and sync.touch_trusted:
            assert sync.last_update_id is not None
            expected = recording.touch(sync.last_update_id)
            if expected is not None:
                assert _shown(sync) == expected, f"seed {seed}, at update {sync.last_update_id}"
                compared += 1
    while sync.wants_snapshot:
        sync.snapshot(*line.snapshot(), SNAPSHOT_LEVELS)
    assert _shown(sync) == _shown(line.venue)
    assert compared >= seen * 0.5, f"only {compared} of {seen} could be compared"
    line.faults["resyncs"] = sync.resyncs
    return line.faults


EVERY_FAULT = {"dropped", "reordered", "repeated", "broken", "stale snapshots", "resyncs"}

# --- our own recordings


def test_there_is_a_recording_of_the_local_exchange() -> None:
    assert OURS


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_the_book_of_a_local_recording_is_the_touch_it_was_recorded_with(path: Path) -> None:
    check_the_whole_recording(load(path))


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_the_book_of_a_local_recording_comes_through_every_fault(path: Path) -> None:
    faults = sum((check_through_faults(load(path), seed) for seed in range(5)), Counter[str]())
    assert set(+faults) == EVERY_FAULT


# --- the venue's own


@pytest.mark.prove
@pytest.mark.parametrize("name", OUTSIDE)
def test_the_book_of_a_real_market_is_its_touch_at_every_point(
    name: str, checkout: Callable[[str], Path], prove: Recorder
) -> None:
    folder = checkout("binance_spot")
    compared = check_the_whole_recording(_outside(folder, name))
    # A point at which the book differs has failed the check.
    prove.record(
        f"exchange-recorded-{name}",
        1.0,
        seeds=(),
        checkouts={"binance_spot": folder},
        details={"points": compared},
    )


@pytest.mark.prove
@pytest.mark.parametrize("name", OUTSIDE)
def test_the_book_of_a_real_market_comes_through_every_fault(
    name: str, checkout: Callable[[str], Path]
) -> None:
    recording = _outside(checkout("binance_spot"), name)
    faults = sum((check_through_faults(recording, seed) for seed in range(3)), Counter[str]())
    assert set(+faults) == EVERY_FAULT
