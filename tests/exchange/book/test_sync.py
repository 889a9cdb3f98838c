from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tracedesk.exchange.book.sync import ASK, BID, EVERY_PRICE, Change, Depth, MalformedEvent, Sync
from tracedesk.primitives.time import ManualClock

Levels = tuple[tuple[int, int], ...]


def event(first: int, last: int, bids: Levels = (), asks: Levels = (), ns: int = 0) -> Depth:
    return Depth(first, last, bids, asks, ns)


def in_step(last: int = 10, bids: Levels = ((99, 1),), asks: Levels = ((101, 1),), limit: int = 100) -> Sync:
    sync = Sync(ManualClock())
    sync.opened()
    assert sync.snapshot(last, bids, asks, limit).happened == "applied"
    assert sync.synced
    return sync


# --- the wire


def test_an_event_is_read_into_units_and_nanoseconds() -> None:
    raw = {"e": "depthUpdate", "E": 1723161255208, "U": 5, "u": 7, "b": [["61737.63", "0.5"]], "a": []}
    assert Depth.of(raw) == Depth(5, 7, ((6173763000000, 50000000),), (), 1723161255208000000)


def test_an_event_in_microseconds_is_the_same_moment() -> None:
    raw: dict[str, object] = {"E": 1723161255208123, "U": 5, "u": 7, "b": [], "a": []}
    assert Depth.of(raw).event_ns == 1723161255208123000


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"E": 1, "U": 5, "u": 4, "b": [], "a": []},
        {"E": 1, "U": "5", "u": 7, "b": [], "a": []},
        {"E": 1, "U": 5, "u": 7, "b": [["1", "2", "3"]], "a": []},
        {"E": 1, "U": 5, "u": 7, "b": [["one", "2"]], "a": []},
        {"E": 1, "U": 5, "u": 7, "b": [["-1", "2"]], "a": []},
        {"E": 1, "U": 5, "u": 7, "b": [], "a": [["0.00000000", "2"]]},
        {"E": 1, "U": 5, "u": 7, "b": [[1.5, 2.5]], "a": []},
        {"E": 1, "U": 5, "u": 7, "b": None, "a": []},
        {"E": True, "U": 5, "u": 7, "b": [], "a": []},
    ],
)
def test_a_malformed_event_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(MalformedEvent, match="depthUpdate"):
        Depth.of(raw)


# --- beginning


def test_before_the_stream_is_open_a_snapshot_is_not_wanted() -> None:
    sync = Sync(ManualClock())
    assert not sync.wants_snapshot
    assert sync.snapshot(10, ((99, 1),), ()).happened == "ignored"
    sync.opened()
    assert sync.wants_snapshot


def test_the_first_event_may_begin_right_after_the_snapshot() -> None:
    sync = in_step(last=10)
    assert sync.offer(event(11, 12, bids=((100, 3),))).happened == "applied"
    assert (sync.book.best_bid(), sync.last_update_id) == ((100, 3), 12)


def test_kept_events_that_the_snapshot_holds_already_are_left_out() -> None:
    sync = Sync(ManualClock())
    assert sync.offer(event(5, 7, bids=((90, 1),))).happened == "buffered"
    assert sync.offer(event(8, 12, bids=((91, 2),), ns=3)).happened == "buffered"
    step = sync.snapshot(10, ((90, 9),), ((101, 1),), 100)
    assert step.changes == (Change(3, 12, BID, 91, 0, 2),)
    assert (sync.book.bids, sync.last_update_id) == ({90: 9, 91: 2}, 12)


def test_a_snapshot_older_than_the_kept_events_is_stale_and_the_events_stay() -> None:
    sync = Sync(ManualClock())
    sync.offer(event(15, 20, bids=((99, 1),)))
    assert sync.snapshot(13, ((98, 1),), ((101, 1),)).happened == "stale"
    assert sync.wants_snapshot
    assert sync.snapshot(14, ((98, 1),), ((101, 1),)).happened == "applied"
    assert (sync.book.bids, sync.last_update_id) == ({98: 1, 99: 1}, 20)


def test_a_snapshot_that_nobody_wants_is_ignored() -> None:
    sync = in_step()
    assert sync.snapshot(50, ((1, 1),), ((2, 1),)).happened == "ignored"
    assert sync.last_update_id == 10


# --- going on


def test_an_event_tells_the_levels_that_it_changed_before_and_after() -> None:
    sync = in_step(bids=((99, 1), (98, 2)))
    step = sync.offer(event(11, 15, ((99, 0), (98, 2)), ((101, 4),), ns=77))
    assert step.changes == (Change(77, 15, BID, 99, 1, 0), Change(77, 15, ASK, 101, 1, 4))


def test_a_repeated_event_is_stale_and_changes_nothing() -> None:
    sync = in_step()
    first = event(11, 12, bids=((99, 5),))
    sync.offer(first)
    sync.offer(event(13, 13, bids=((99, 7),)))
    assert sync.offer(first).happened == "stale"
    assert sync.book.bids == {99: 7}


def test_an_event_that_overlaps_the_book_is_applied() -> None:
    sync = in_step(last=10)
    assert sync.offer(event(8, 14, bids=((99, 6),))).happened == "applied"
    assert sync.last_update_id == 14


def test_a_missed_update_asks_for_a_snapshot_and_the_next_one_resyncs() -> None:
    sync = in_step(last=10)
    assert sync.offer(event(12, 13, bids=((99, 9),))).happened == "gap"
    assert (sync.synced, sync.wants_snapshot, sync.resyncs) == (False, True, 0)
    assert sync.snapshot(11, ((97, 1),), ((101, 1),)).happened == "applied"
    assert (sync.synced, sync.resyncs, sync.book.bids) == (True, 1, {97: 1, 99: 9})


def test_an_event_that_arrives_late_fills_the_hole_it_left() -> None:
    sync = in_step(last=10)
    sync.offer(event(13, 14, bids=((99, 3),)))
    step = sync.offer(event(11, 12, bids=((99, 2),)))
    assert (step.happened, sync.synced, sync.resyncs) == ("applied", True, 0)
    assert (sync.book.bids, sync.last_update_id) == ({99: 3}, 14)


def test_a_second_hole_behind_a_snapshot_wants_another_snapshot() -> None:
    sync = Sync(ManualClock())
    sync.offer(event(5, 6))
    sync.offer(event(9, 9, bids=((99, 1),)))
    assert sync.snapshot(5, ((98, 1),), ((101, 1),)).happened == "gap"
    assert sync.snapshot(7, ((98, 1),), ((101, 1),)).happened == "stale"
    assert sync.snapshot(8, ((98, 1),), ((101, 1),)).happened == "applied"
    assert sync.last_update_id == 9


def test_a_crossed_book_begins_again_and_keeps_the_event_that_crossed_it() -> None:
    sync = in_step(last=10)
    crossing = event(11, 12, bids=((102, 1),))
    assert sync.offer(crossing).happened == "crossed"
    assert (sync.synced, sync.wants_snapshot) == (False, True)
    assert sync.snapshot(10, ((99, 1),), ((103, 1),), 100).happened == "applied"
    assert sync.book.best_bid() == (102, 1)


def test_a_lost_connection_takes_no_snapshot_until_the_stream_is_open_again() -> None:
    sync = in_step(last=10)
    sync.lost()
    assert not sync.synced
    assert sync.snapshot(20, ((99, 1),), ((101, 1),)).happened == "ignored"
    sync.opened()
    assert sync.snapshot(20, ((99, 1),), ((101, 1),)).happened == "applied"
    assert sync.resyncs == 1


# --- how far the book is trusted


def test_a_snapshot_that_was_cut_vouches_only_for_its_own_prices() -> None:
    sync = in_step(bids=((99, 1), (95, 1)), asks=((101, 1), (102, 1)), limit=2)
    assert sync.trusted == (95, 102)
    assert sync.trusts(96)
    assert not sync.trusts(94)
    assert not sync.trusts(103)


def test_a_snapshot_with_fewer_levels_than_asked_for_vouches_for_every_price() -> None:
    sync = in_step(limit=2)
    assert sync.trusted == (0, EVERY_PRICE)


def test_a_touch_outside_the_trusted_prices_wants_a_snapshot_but_stays_in_step() -> None:
    sync = in_step(last=10, bids=((99, 1), (95, 1)), limit=2)
    sync.offer(event(11, 13, bids=((99, 0), (95, 0), (90, 1))))
    assert (sync.synced, sync.touch_trusted, sync.wants_snapshot) == (True, False, True)
    step = sync.snapshot(12, ((94, 2), (90, 7)), ((101, 1),), 2)
    assert (step.happened, step.changes) == ("applied", ())
    assert (sync.book.best_bid(), sync.book.bids[90]) == ((94, 2), 1)
    assert (sync.last_update_id, sync.resyncs, sync.wants_snapshot) == (13, 0, False)


def test_a_refreshing_snapshot_older_than_what_is_remembered_is_stale() -> None:
    sync = in_step(last=10, bids=((99, 1),), limit=1)
    sync.offer(event(11, 13, bids=((99, 0), (90, 1))))
    assert sync.snapshot(9, ((94, 2),), ((101, 1),), 2).happened == "stale"
    assert sync.book.bids == {90: 1}


def test_the_age_counts_from_the_last_event_on_the_monotonic_clock() -> None:
    clock = ManualClock()
    sync = Sync(clock)
    assert sync.age_ms() is None
    sync.opened()
    sync.snapshot(10, ((99, 1),), ((101, 1),))
    clock.advance(1.5)
    assert sync.age_ms() == 1500
    sync.offer(event(11, 11))
    assert sync.age_ms() == 0


# --- any order of faults


class Wire(RuleBasedStateMachine):
    """A venue whose books are plain dictionaries; the line to it drops, repeats, reorders and breaks."""

    limit = 1_000

    @initialize()
    def begin(self) -> None:
        self.sync = Sync(ManualClock())
        self.bids: dict[int, int] = {}
        self.asks: dict[int, int] = {}
        self.id = 100
        self.sent = 100
        self.past = {100: (dict(self.bids), dict(self.asks))}
        self.pending: dict[tuple[int, int], int] = {}
        self.delayed: list[Depth] = []
        self.delivered: list[Depth] = []
        self.snapshots: list[tuple[int, Levels, Levels]] = []
        self.sync.opened()

    @rule(price=st.integers(1, 40), quantity=st.integers(0, 3))
    def venue_changes_a_level(self, price: int, quantity: int) -> None:
        side, levels = (BID, self.bids) if price <= 20 else (ASK, self.asks)
        if quantity:
            levels[price] = quantity
        else:
            levels.pop(price, None)
        self.id += 1
        self.pending[side, price] = quantity
        self.past[self.id] = (dict(self.bids), dict(self.asks))

    def _flush(self) -> Depth:
        bids = tuple((p, q) for (side, p), q in self.pending.items() if side == BID)
        asks = tuple((p, q) for (side, p), q in self.pending.items() if side == ASK)
        flushed = Depth(self.sent + 1, self.id, bids, asks, self.id)
        self.sent = self.id
        self.pending.clear()
        return flushed

    @precondition(lambda self: self.id > self.sent)
    @rule(fate=st.sampled_from(["delivered", "delivered", "delivered", "dropped", "delayed", "twice"]))
    def venue_sends_an_event(self, fate: str) -> None:
        flushed = self._flush()
        if fate == "delayed":
            self.delayed.append(flushed)
        elif fate != "dropped":
            for _ in range(2 if fate == "twice" else 1):
                self.sync.offer(flushed)
            self.delivered.append(flushed)

    @precondition(lambda self: self.delayed)
    @rule(data=st.data())
    def a_delayed_event_arrives(self, data: st.DataObject) -> None:
        late = self.delayed.pop(data.draw(st.integers(0, len(self.delayed) - 1)))
        self.sync.offer(late)

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def an_old_event_is_repeated(self, data: st.DataObject) -> None:
        self.sync.offer(data.draw(st.sampled_from(self.delivered)))

    def _taken(self) -> tuple[int, Levels, Levels]:
        bids = tuple(sorted(self.bids.items(), reverse=True))[: self.limit]
        asks = tuple(sorted(self.asks.items()))[: self.limit]
        return self.id, bids, asks

    @rule()
    def a_snapshot_is_taken(self) -> None:
        self.snapshots.append(self._taken())

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def a_snapshot_arrives(self, data: st.DataObject) -> None:
        taken = self.snapshots.pop(data.draw(st.integers(0, len(self.snapshots) - 1)))
        self.sync.snapshot(*taken, self.limit)

    @rule()
    def the_connection_breaks_and_is_opened_again(self) -> None:
        self.sync.lost()
        assert not self.sync.synced
        self.delayed.clear()
        self.delivered.clear()
        self.sent = self.id
        self.pending.clear()
        self.sync.opened()

    @invariant()
    def a_book_in_step_is_the_venue_s(self) -> None:
        if self.sync.synced:
            self._compare()

    def _compare(self) -> None:
        assert self.sync.last_update_id is not None
        for shown, held in zip(
            (self.sync.book.bids, self.sync.book.asks), self.past[self.sync.last_update_id], strict=True
        ):
            low, high = self.sync.trusted
            assert {p: q for p, q in shown.items() if low <= p <= high} == {
                p: q for p, q in held.items() if low <= p <= high
            }
            assert shown.items() <= held.items()

    def teardown(self) -> None:
        """Once the line behaves, a fresh snapshot is all it takes."""
        if not hasattr(self, "sync"):
            return
        self.venue_changes_a_level(1, 1)
        self.sync.offer(self._flush())
        if self.sync.wants_snapshot:
            assert self.sync.snapshot(*self._taken(), self.limit).happened == "applied"
        assert self.sync.synced
        assert self.sync.last_update_id == self.id
        self._compare()


class ShortWire(Wire):
    """The same with snapshots of three levels a side, so that the touch leaves them now and then."""

    limit = 3

    @invariant()
    def a_trusted_touch_is_the_venue_s(self) -> None:
        if self.sync.synced and self.sync.touch_trusted:
            assert self.sync.last_update_id is not None
            bids, asks = self.past[self.sync.last_update_id]
            assert self.sync.book.best_bid() == (max(bids.items()) if bids else None)
            assert self.sync.book.best_ask() == (min(asks.items()) if asks else None)


TestAnyOrderOfFaults = Wire.TestCase
TestAnyOrderOfFaults.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestAnyOrderOfFaultsWithShortSnapshots = ShortWire.TestCase
TestAnyOrderOfFaultsWithShortSnapshots.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None
)
