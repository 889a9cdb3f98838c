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
import logging
import os
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from time import sleep
from types import TracebackType
from typing import Any, Final
from weakref import WeakSet

from tracedesk.backtest import runs
from tracedesk.backtest.bodies import Moment, encode, nanoseconds, parsed, plain
from tracedesk.backtest.claims import Claimable
from tracedesk.backtest.frame import event_type, given, parent_seq
from tracedesk.backtest.ids import event_id, run_id_of
from tracedesk.backtest.model import Category, EventType, Severity
from tracedesk.backtest.projection import Given
from tracedesk.backtest.scribe import Sized, scribe
from tracedesk.backtest.validation import Fault, Profile
from tracedesk.catalog import CatalogError
from tracedesk.home import Home
from tracedesk.journal import JournalBusy, JournalError, Status
from tracedesk.journal.sqlite import SQLiteError
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.time import EARLIEST, LATEST, Clock, SystemClock

BATCH: Final = 4_096
"""Events that make a batch worth writing: a zone of them."""
SECONDS: Final = 0.25
"""How long an event waits for others at most."""
MOST_AT_ONCE: Final = 32_768
"""Events in one transaction when more are waiting."""
MOST_WAITING: Final = 32_768
"""Events in memory that are no rows yet; at this many, `emit` waits for the disk."""
TURN: Final = 256
"""Events after which a thread that emits yields to the writer, which needs the interpreter now and then."""
_NAP: Final = 0.00002
_BUSY_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 1.0
"""How long the writer sleeps at most: whoever emitted may have been interrupted before he woke it."""
_LONGEST_TRACEBACK: Final = 16_384
_FORKED: Final = "a recorder stays in the process that made it; make one after the fork"

log = logging.getLogger(__name__)


class RecordingError(RuntimeError):
    """The run can take no more events, with why."""


class Recorder(Claimable):
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
        super().__init__()
        if batch < 1:
            raise ValueError(f"batch: {batch} events make no batch; give 1 or more")
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
        self._plan, self._clock = plan, clock or SystemClock()
        self._journal, self._stream = runs.create(self._home, self.run_id, plan, self._clock)
        self._scribe = scribe(self._journal, self._stream, full=batch, most=MOST_WAITING)
        self._quick = self._scribe.quick
        self._batch, self._seconds = batch, seconds
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._durable = 0
        self._wanted = 0
        self._held = 0
        self._is_storing = False
        self._is_closing = False
        self._is_written = False
        self._is_sealed = False
        self._is_closed = False
        self._closing = threading.RLock()
        self._failure: BaseException | None = None
        self._pid = os.getpid()
        self._writer = threading.Thread(target=self._write, name=f"recorder {self.run_id}", daemon=True)
        self._writer.start()
        _alive.add(self)
        atexit.register(self._abandon)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            self._leave()
            return
        lines = "".join(traceback.format_exception(kind, problem, trace))
        try:
            self._close("crashed", {"error": _told(problem), "traceback": lines[-_LONGEST_TRACEBACK:]})
        except RecordingError as second:
            # What ended the run says more than that its end could not be written.
            problem.add_note(str(second))

    def _leave(self) -> None:
        """Close the run. An engine that ran in it keeps its result, whatever becomes of the record."""
        try:
            self.close()
        except RecordingError as problem:
            if not self.is_claimed:
                raise
            log.error("%s", problem)

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
        `guid` is an id that the event brings; of two that bring the same, the later one has a validation
        error instead. `faults` is what an importer found wrong with the event.
        """
        if severity is None and category is None and guid is None and not faults:
            seq = self._quick(type, time, properties, parent)
            if seq > 0:
                return seq
            if seq < 0:
                return self._tell_writer(-seq)
        return self._emit(type, time, properties, parent, given(severity, category, guid, faults))

    def _tell_writer(self, seq: int) -> int:
        with self._changed:
            self._changed.notify_all()
        return seq

    def _emit(
        self,
        type: EventType | str,
        time: Moment,
        properties: Mapping[str, Any] | bytes,
        parent: int | None,
        given: Given | None,
    ) -> int:
        """Record what is not the common event, or comes at a moment when the writer has to be waited for."""
        kind = type if isinstance(type, EventType) else event_type(type)
        row = plain(properties) if not isinstance(properties, bytes) else parsed(properties)
        body = encode(row)
        time_ns = nanoseconds(time)
        if not EARLIEST <= time_ns <= LATEST:
            raise ValueError(
                f"time: {time_ns} is outside 64-bit nanoseconds; give UTC nanoseconds since 1970"
            )
        if parent is not None and parent.__class__ is not int:
            parent = parent_seq(parent)
        with self._lock:
            if self._failure is not None or self._is_closing or self._is_full():
                self._wait_for_room()
            seq = self._scribe.push(kind, time_ns, row, body, parent, given)
            if seq < 0:
                self._changed.notify_all()
        seq = abs(seq)
        if self._is_storing and not seq % TURN:
            sleep(_NAP)
        return seq

    def _is_full(self) -> bool:
        return self._scribe.waiting + self._held >= MOST_WAITING

    def _wait_for_room(self) -> None:
        self._own_process()
        while self._is_full() and self._failure is None:
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
        row = {"IndicatorName": name, "SecuritySymbol": symbol, "Value": value, "Parameters": parameters}
        return self._tell(EventType.IndicatorCalculation, time, parent, row, more)

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
        row = {"OrderId": order_id, "SecuritySymbol": symbol, "Direction": direction, "Quantity": quantity}
        row |= {"Price": price, "OrderType": order_type}
        return self._tell(EventType.OrderPlaced, time, parent, row, more)

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
        row = {"OrderId": order_id, "SecuritySymbol": symbol, "Reason": reason}
        return self._tell(EventType.OrderCancelled, time, parent, row, more)

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
        row = {"OrderId": order_id, "SecuritySymbol": symbol, "RejectionReason": reason}
        row |= {"RequestedQuantity": quantity, "RequestedPrice": price}
        return self._tell(EventType.OrderRejection, time, parent, row, more)

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
        row = {"OrderId": order_id, "SecuritySymbol": symbol, "Direction": direction, "Quantity": quantity}
        row |= {"Price": price, "Commission": commission, "Slippage": slippage}
        return self._tell(EventType.TradeExecution, time, parent, row, more)

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
        """Record what a position is now; a quantity of 0 closes it.

        Positions of one symbol that are held side by side need their ids in every update of the symbol.
        """
        row = {"PositionId": position_id, "SecuritySymbol": symbol, "Quantity": quantity}
        row |= {"AveragePrice": average_price, "UnrealizedPnL": unrealized, "RealizedPnL": realized}
        return self._tell(EventType.PositionUpdate, time, parent, row, more)

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
        row = {"StateType": state_type, "StateBefore": before, "StateAfter": after, "ChangeReason": reason}
        return self._tell(EventType.StateChange, time, parent, row, more)

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
        row = {"RiskType": risk_type, "SecuritySymbol": symbol, "Threshold": threshold}
        row |= {"CurrentValue": current, "Action": action}
        return self._tell(EventType.RiskEvent, time, parent, row, more)

    def _tell(
        self, kind: EventType, time: Moment, parent: int | None, row: dict[str, Any], more: dict[str, Any]
    ) -> int:
        """Record the properties that were given, and the caller's own."""
        given = {name: value for name, value in row.items() if value is not None}
        return self.emit(kind, time, {**given, **more}, parent=parent)

    # --- the engine

    def another(self, label: str, config: Mapping[str, Any]) -> Recorder:
        """Begin a run beside this one: in the same home, of the same engine, with this run as its parent."""
        plan = self._plan
        return Recorder(
            self._home,
            f"{plan.name} {label}",
            engine=plan.engine,
            config={**plan.config, **config},
            fast=plan.fast,
            clock=self._clock,
            start=plan.start_ns,
            end=plan.end_ns,
            parent_run=self.run_id,
            profile=plan.profile,
            batch=self._batch,
            seconds=self._seconds,
        )

    # --- the end

    def flush(self) -> int:
        """Wait until everything emitted so far is on the disk; returns the last seq."""
        self._own_process()
        with self._changed:
            self._check()
            last = self._scribe.next - 1
            self._want(last)
            while self._durable < last and self._failure is None:
                self._changed.wait()
            self._check()
            return last

    def close(self, status: Status = "ended", **extra: Any) -> None:
        """End the run: everything is on the disk, sealed, and in the tables. Closing again does nothing.

        One that failed or was interrupted may be tried again.
        """
        self._close(status, extra)

    def _close(self, status: Status, extra: Mapping[str, Any]) -> None:
        self._own_process()
        with self._closing:
            if self._is_closed:
                return
            with self._changed:
                self._is_closing = True
                self._scribe.stop()
                self._changed.notify_all()
                # Not by joining the thread: an interrupt makes Python believe that it has ended.
                while not self._is_written:
                    self._changed.wait()
            self._end(status, extra)
        if self._failure is not None and status == "ended":
            told = f"the run was sealed as crashed: {_told(self._failure)}; {self._kept()}"
            raise RecordingError(told) from self._failure

    def _end(self, status: Status, extra: Mapping[str, Any]) -> None:
        """Everything but waiting. What it is interrupted in, is done when the run is closed again."""
        try:
            if not self._is_sealed:
                self._seal(status, extra)
                self._is_sealed = True
            self._scribe.close()
            self._journal.close()
            runs.register(self._home, self.run_id)
            self._is_closed = True
        except (SQLiteError, JournalError, CatalogError, OSError) as problem:
            atexit.unregister(self._abandon)  # the caller knows now
            cause = self._failure or problem
            told = (
                f"the run could not be sealed: {_told(cause)}; {self._kept()}. See to the disk of {self.path}"
            )
            raise RecordingError(f"{told} and close it again") from cause
        atexit.unregister(self._abandon)

    def _seal(self, status: Status, extra: Mapping[str, Any]) -> None:
        if self._failure is not None:
            lost = self._scribe.next - 1 - self._durable
            extra = {**extra, "recordingError": _told(self._failure), "notRecorded": lost}
            status = "crashed"
        elif self.incomplete is not None:
            extra, status = {"recordingError": self.incomplete, **extra}, "crashed"
        runs.seal(self._journal, self._stream, status, extra)
        if self._stream.meta.get("fast"):
            runs.index(self._journal, self._stream)

    def _kept(self) -> str:
        return f"{self._durable} of its {self._scribe.next - 1} events are on the disk"

    def _abandon(self) -> None:
        """The interpreter ends and nobody has closed the run."""
        if os.getpid() == self._pid:
            self._close("crashed", {"reason": "the recorder was never closed"})

    # --- the writer's thread

    def _write(self) -> None:
        try:
            while (taken := self._taken()) is not None:
                self._append(taken)
                with self._changed:
                    self._is_storing = False
                    self._durable += taken.count
                    self._changed.notify_all()
        except BaseException as problem:
            with self._changed:
                self._failure = problem
                self._is_storing = False
                self._scribe.stop()
                self._changed.notify_all()
        finally:
            with self._changed:
                self._is_written = True
                self._changed.notify_all()

    def _taken(self) -> Sized | None:
        """The next batch, once it is full, old, or asked for; None when there will be none."""
        with self._changed:
            while not self._scribe.waiting:
                if self._is_closing:
                    return None
                self._changed.wait(_IDLE_SECONDS)
            due = time.monotonic() + self._seconds
            while not self._is_due() and (left := due - time.monotonic()) > 0:
                self._changed.wait(left)
            taken: Sized = self._scribe.take(MOST_AT_ONCE)
            self._held = taken.count
            return taken

    def _make_room(self) -> None:
        """What was taken has become rows: the engine may go on while SQLite works without the interpreter."""
        with self._changed:
            self._held = 0
            self._is_storing = True
            self._changed.notify_all()

    def _is_due(self) -> bool:
        return self._is_closing or self._scribe.waiting >= self._batch or self._wanted > self._durable

    def _append(self, taken: Sized) -> None:
        until = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                # Nothing has been done when the file is busy, so trying again does nothing twice.
                self._scribe.write(taken, self._durable + 1, self._make_room)
                return
            except JournalBusy:
                if time.monotonic() > until:
                    raise

    def _want(self, seq: int) -> None:
        self._wanted = max(self._wanted, seq)
        self._changed.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            told = f"the run can take no more events: {_told(self._failure)}; {self._kept()}"
            raise RecordingError(told) from self._failure
        if self._is_closing:
            raise RecordingError("the run is closed; begin another one")

    def _own_process(self) -> None:
        if os.getpid() != self._pid:
            raise RecordingError(_FORKED)

    def leave(self) -> None:
        """This is a fork of the process that records: nobody writes here what it is given."""
        self._failure = RecordingError(_FORKED)
        self._scribe.stop()
        # A thread of the other process may have held the lock.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)


def _told(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"


_alive: Final[WeakSet[Recorder]] = WeakSet()
"""The recorders of this process."""


def _forked() -> None:
    for recorder in _alive:
        recorder.leave()


os.register_at_fork(after_in_child=_forked)
