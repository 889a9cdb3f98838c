"""Recording a run: events go in as they happen, and are on the disk in batches soon after.

    with Recorder(None, "sma cross", engine="mine") as run:
        bar = run.market_data(time, "AAPL", {"Close": Decimal("175.50")})
        order = run.order_placed(time, "o-1", "AAPL", "Buy", 100, parent=bar)

`emit` returns an event's seq at once, while its batch still waits; the seq is final and serves as a parent.
An event is durable when `flush` returns, when the run is closed, or when `durable` has reached its seq.
Nothing is ever dropped: when the disk cannot keep up, `emit` waits.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast

from tracedesk.backtest import runs
from tracedesk.backtest.bodies import Moment, encode, nanoseconds, parsed, plain
from tracedesk.backtest.ids import event_id, guid_bytes, run_id_of
from tracedesk.backtest.model import CATEGORIES, SEVERITIES, TYPES, Category, EventType, Severity
from tracedesk.backtest.projection import Batch, Draft, Given, has_given, write_given
from tracedesk.backtest.validation import Fault, Profile
from tracedesk.home import Home
from tracedesk.journal import Entry, JournalBusy, Status
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives import json
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.time import EARLIEST, LATEST, Clock, SystemClock

BATCH: Final = 1_000
"""Events that make a batch worth writing."""
SECONDS: Final = 0.25
"""How long an event waits for others at most."""
MOST_AT_ONCE: Final = 4_096
"""Events in one transaction when more are waiting."""
MOST_WAITING: Final = 16_384
"""Events in memory; at this many, `emit` waits for the disk."""
_BUSY_SECONDS: Final = 60.0
_LONGEST_TRACEBACK: Final = 16_384
_NAMES: Final = {kind: kind.name for kind in EventType}


class RecordingError(RuntimeError):
    """The run can take no more events, with why."""


class Recorder:
    """One run being recorded. Threads may share it; another process may read the run meanwhile."""

    def __init__(
        self,
        home: Home | Path | str | None = None,
        name: str = "",
        *,
        engine: str = "",
        config: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        fast: bool = False,
        clock: Clock | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        parent_run: str | None = None,
        profile: Profile = "",
        batch: int = BATCH,
        seconds: float = SECONDS,
    ) -> None:
        """Begin a run in a home: the given one, or the default one.

        `start` and `end` bound the simulated time; events outside are kept and marked. With `fast`, the
        tables that queries use are built when the run is closed, and until then its events are scanned.
        """
        self._home = runs.open_home(home)
        runs.settle(self._home)
        self.run_id: Final = run_id_of(run_id) if run_id else uuid7()
        plan = runs.Plan(
            name=name or self.run_id,
            engine=engine,
            config=plain(config or {}),
            start_ns=None if start is None else nanoseconds(start),
            end_ns=None if end is None else nanoseconds(end),
            parent_run=run_id_of(parent_run) if parent_run else None,
            profile=profile,
            fast=fast,
        )
        self._journal, self._stream = runs.create(self._home, self.run_id, plan, clock or SystemClock())
        self._projector = None if fast else runs.projector(self._stream)
        self._batch, self._seconds = batch, seconds
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._drafts: list[Draft] = []
        self._bodies: list[bytes] = []
        self._next = 1
        self._durable = 0
        self._wanted = 0
        self._is_closing = False
        self._is_closed = False
        self._failure: BaseException | None = None
        self._pid = os.getpid()
        self._writer = threading.Thread(target=self._write, name=f"recorder {self.run_id}", daemon=True)
        self._writer.start()
        atexit.register(self._abandon)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            self.close()
            return
        lines = "".join(traceback.format_exception(kind, problem, trace))
        self._close("crashed", {"error": _told(problem), "traceback": lines[-_LONGEST_TRACEBACK:]})

    @property
    def durable(self) -> int:
        """The seq up to which everything is on the disk."""
        with self._changed:
            return self._durable

    @property
    def path(self) -> Path:
        """The run's file."""
        return self._journal.path

    def event_id(self, seq: int) -> str:
        """The id under which queries return an event that brought none of its own."""
        return event_id(self.run_id, seq)

    # --- events

    def emit(
        self,
        type: EventType | str,
        time: Moment,
        properties: Mapping[str, Any] | bytes,
        *,
        parent: int | None = None,
        severity: Severity | str | None = None,
        category: Category | str | None = None,
        guid: str | None = None,
        faults: list[Fault] | None = None,
    ) -> int:
        """Record an event and return its seq; see the module for when it is durable.

        Properties given as bytes are JSON text; text that is not is kept as `_raw` and marked as an error.
        `guid` is an id that the event brings, `faults` what an importer found wrong with it.
        """
        kind = type if isinstance(type, EventType) else _type(type)
        row = plain(properties) if not isinstance(properties, bytes) else parsed(properties)
        body = encode(row)
        given = None
        if severity is not None or category is not None or guid is not None or faults:
            given = _given(severity, category, guid, faults)
        time_ns = nanoseconds(time)
        if not EARLIEST <= time_ns <= LATEST:
            raise ValueError(
                f"time: {time_ns} is outside 64-bit nanoseconds; give UTC nanoseconds since 1970"
            )
        return self._put((kind, time_ns, row, parent, len(body), given), body)

    def _put(self, draft: Draft, body: bytes) -> int:
        parent = draft[3]
        drafts = self._drafts
        with self._lock:
            if self._failure is not None or self._is_closed or len(drafts) >= MOST_WAITING:
                self._wait_for_room()
            seq = self._next
            if parent is not None and not 0 < parent < seq:
                raise ValueError(f"parent: {parent} is not an earlier event's seq; the next is {seq}")
            self._next = seq + 1
            drafts.append(draft)
            self._bodies.append(body)
            waiting = len(drafts)
            if waiting == 1 or waiting == self._batch:
                self._changed.notify_all()
            return seq

    def _wait_for_room(self) -> None:
        self._own_process()
        while len(self._drafts) >= MOST_WAITING and self._failure is None:
            self._changed.wait()
        self._check()

    def market_data(
        self,
        time: Moment,
        symbol: str,
        data: Mapping[str, Any],
        *,
        data_type: str = "Candle",
        parent: int | None = None,
        **more: Any,
    ) -> int:
        """Record a candle, tick or book that the strategy saw."""
        row = {"SecuritySymbol": symbol, "DataType": data_type, "Data": data, **more}
        return self.emit(EventType.MarketDataEvent, time, row, parent=parent)

    def indicator(
        self,
        time: Moment,
        name: str,
        value: Any,
        *,
        symbol: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        parent: int | None = None,
        **more: Any,
    ) -> int:
        """Record an indicator's value."""
        row = _some(IndicatorName=name, SecuritySymbol=symbol, Value=value, Parameters=parameters)
        return self.emit(EventType.IndicatorCalculation, time, {**row, **more}, parent=parent)

    def order_placed(
        self,
        time: Moment,
        order_id: Any,
        symbol: str,
        direction: str,
        quantity: Any,
        *,
        price: Any = None,
        order_type: str | None = None,
        parent: int | None = None,
        **more: Any,
    ) -> int:
        """Record that the strategy placed an order, or amended the open one of that id."""
        row = _some(OrderId=order_id, SecuritySymbol=symbol, Direction=direction, Quantity=quantity)
        row |= _some(Price=price, OrderType=order_type)
        return self.emit(EventType.OrderPlaced, time, {**row, **more}, parent=parent)

    def order_cancelled(
        self,
        time: Moment,
        order_id: Any,
        *,
        symbol: str | None = None,
        reason: str | None = None,
        parent: int | None = None,
        **more: Any,
    ) -> int:
        """Record that an order ended unfilled; an expired one too, with that as the reason."""
        row = _some(OrderId=order_id, SecuritySymbol=symbol, Reason=reason)
        return self.emit(EventType.OrderCancelled, time, {**row, **more}, parent=parent)

    def order_rejected(
        self,
        time: Moment,
        order_id: Any,
        reason: str,
        *,
        symbol: str | None = None,
        quantity: Any = None,
        price: Any = None,
        parent: int | None = None,
        **more: Any,
    ) -> int:
        """Record that an order was refused, and why."""
        row = _some(OrderId=order_id, SecuritySymbol=symbol, RejectionReason=reason)
        row |= _some(RequestedQuantity=quantity, RequestedPrice=price)
        return self.emit(EventType.OrderRejection, time, {**row, **more}, parent=parent)

    def trade(
        self,
        time: Moment,
        order_id: Any,
        symbol: str,
        direction: str,
        quantity: Any,
        price: Any,
        *,
        commission: Any = None,
        slippage: Any = None,
        parent: int | None = None,
        **more: Any,
    ) -> int:
        """Record a fill, whole or partial."""
        row = _some(OrderId=order_id, SecuritySymbol=symbol, Direction=direction, Quantity=quantity)
        row |= _some(Price=price, Commission=commission, Slippage=slippage)
        return self.emit(EventType.TradeExecution, time, {**row, **more}, parent=parent)

    def position(
        self,
        time: Moment,
        symbol: str,
        quantity: Any,
        average_price: Any = None,
        *,
        unrealized: Any = None,
        realized: Any = None,
        position_id: Any = None,
        parent: int | None = None,
        **more: Any,
    ) -> int:
        """Record what a position is now; a quantity of 0 closes it."""
        row = _some(PositionId=position_id, SecuritySymbol=symbol, Quantity=quantity)
        row |= _some(AveragePrice=average_price, UnrealizedPnL=unrealized, RealizedPnL=realized)
        return self.emit(EventType.PositionUpdate, time, {**row, **more}, parent=parent)

    def state_change(
        self,
        time: Moment,
        state_type: str,
        before: Any = None,
        after: Any = None,
        *,
        reason: str | None = None,
        parent: int | None = None,
        **more: Any,
    ) -> int:
        """Record a change of state: Position, PnL, Indicator, Order or the strategy's own."""
        row = _some(StateType=state_type, StateBefore=before, StateAfter=after, ChangeReason=reason)
        return self.emit(EventType.StateChange, time, {**row, **more}, parent=parent)

    def risk(
        self,
        time: Moment,
        risk_type: str,
        *,
        threshold: Any = None,
        current: Any = None,
        action: str | None = None,
        symbol: str | None = None,
        parent: int | None = None,
        **more: Any,
    ) -> int:
        """Record that a risk rule spoke."""
        row = _some(RiskType=risk_type, SecuritySymbol=symbol, Threshold=threshold)
        row |= _some(CurrentValue=current, Action=action)
        return self.emit(EventType.RiskEvent, time, {**row, **more}, parent=parent)

    # --- the end

    def flush(self) -> int:
        """Wait until everything emitted so far is on the disk; returns the last seq."""
        self._own_process()
        with self._changed:
            self._check()
            last = self._next - 1
            self._want(last)
            while self._durable < last and self._failure is None:
                self._changed.wait()
            self._check()
            return last

    def close(self, status: Status = "ended", **extra: Any) -> None:
        """End the run: everything is on the disk, sealed, and in the tables. Closing again does nothing."""
        self._close(status, extra)

    def _close(self, status: Status, extra: Mapping[str, Any]) -> None:
        self._own_process()
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = self._is_closing = True
            self._changed.notify_all()
        atexit.unregister(self._abandon)
        self._writer.join()
        try:
            self._seal(status, extra)
        finally:
            self._journal.close()
        runs.register(self._home, self.run_id)
        if self._failure is not None and status == "ended":
            raise RecordingError(f"the run was sealed as crashed: {self._failure}") from self._failure

    def _seal(self, status: Status, extra: Mapping[str, Any]) -> None:
        if self._failure is not None:
            lost = self._next - 1 - self._durable
            extra = {**extra, "recordingError": _told(self._failure), "notRecorded": lost}
            status = "crashed"
        runs.seal(self._journal, self._stream, status, extra)
        if self._projector is None:
            runs.index(self._journal, self._stream)

    def _abandon(self) -> None:
        """The interpreter ends and nobody has closed the run."""
        if os.getpid() == self._pid:
            self._close("crashed", {"reason": "the recorder was never closed"})

    # --- the writer's thread

    def _write(self) -> None:
        try:
            while (work := self._taken()) is not None:
                drafts, bodies = work
                self._append(drafts, bodies)
                with self._changed:
                    self._durable += len(drafts)
                    self._changed.notify_all()
        except BaseException as problem:
            with self._changed:
                self._failure = problem
                self._changed.notify_all()

    def _taken(self) -> tuple[list[Draft], list[bytes]] | None:
        """The next batch, once it is full, old, or asked for; None when there will be none."""
        with self._changed:
            while not self._drafts:
                if self._is_closing:
                    return None
                self._changed.wait()
            due = time.monotonic() + self._seconds
            while not self._is_due() and (left := due - time.monotonic()) > 0:
                self._changed.wait(left)
            drafts, bodies = self._drafts[:MOST_AT_ONCE], self._bodies[:MOST_AT_ONCE]
            del self._drafts[:MOST_AT_ONCE], self._bodies[:MOST_AT_ONCE]
            self._changed.notify_all()
            return drafts, bodies

    def _is_due(self) -> bool:
        return self._is_closing or len(self._drafts) >= self._batch or self._wanted > self._durable

    def _append(self, drafts: list[Draft], bodies: list[bytes]) -> None:
        batch = Batch.of(drafts)
        names = map(_NAMES.__getitem__, batch.types)
        entries = cast("list[Entry]", list(zip(names, batch.times, bodies, batch.parents, strict=True)))

        def beside(connection: Connection, first: int) -> None:
            if has_given(batch):
                write_given(connection, self._stream, first, batch.given)
            if self._projector is not None:
                self._projector.write(connection, first, batch)

        until = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                # Nothing has been done when the file is busy, so trying again does nothing twice.
                self._journal.append(self.run_id, entries, expect=self._durable + 1, beside=beside)
                return
            except JournalBusy:
                if time.monotonic() > until:
                    raise

    def _want(self, seq: int) -> None:
        self._wanted = max(self._wanted, seq)
        self._changed.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            told = f"the run can take no more events: {_told(self._failure)}"
            raise RecordingError(told) from self._failure
        if self._is_closed:
            raise RecordingError("the run is closed; begin another one")

    def _own_process(self) -> None:
        if os.getpid() != self._pid:
            raise RecordingError("a recorder stays in the process that made it; make one after the fork")


def _type(given: EventType | str) -> EventType:
    found = TYPES.get(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError(f"type: {given!r} is no event type; use one of {', '.join(TYPES)}")
    return found


def _told(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"


def _some(**given: Any) -> dict[str, Any]:
    """The properties that were given."""
    return {name: value for name, value in given.items() if value is not None}


def _given(
    severity: Severity | str | None,
    category: Category | str | None,
    guid: str | None,
    faults: list[Fault] | None,
) -> Given:
    return Given(
        _numbered("severity", SEVERITIES, severity),
        _numbered("category", CATEGORIES, category),
        None if guid is None else guid_bytes(guid),
        json.dumps(faults) if faults else None,
    )


def _numbered(field: str, names: Mapping[str, int], given: int | str | None) -> int | None:
    if given is None or not isinstance(given, str):
        return None if given is None else int(given)
    found = names.get(given)
    if found is None:
        raise ValueError(f"{field}: {given!r} is not known; use one of {', '.join(names)}")
    return int(found)
