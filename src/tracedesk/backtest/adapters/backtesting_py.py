"""Records a run of backtesting.py (0.6): its bars, indicators, orders, executions, positions and equity.

The engine has no public hook. Methods of its broker are replaced for one run by ones that record what happens
and do what the engine always did; the names they rest on are private, so each version has to be tested.

`optimize()` tries its parameters in other processes or threads, where nothing is recorded. It ends with a run
of the parameters that it chose, and that run is recorded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, SupportsIndex

from tracedesk.backtest.adapters.backtesting_events import BrokerRecording
from tracedesk.backtest.adapters.draft import Draft
from tracedesk.backtest.adapters.guard import Guard, Unrecordable, guarded
from tracedesk.backtest.adapters.hooks import Watched, hook, unhook
from tracedesk.backtest.adapters.tape import Sink


def record(backtest: Any, recorder: Sink, *, symbol: str) -> None:
    """Record the next `run()` or `optimize()` of a `Backtest`, under a symbol that the engine lacks."""
    Guard(recorder).attempt(lambda: _begin(backtest, recorder, symbol))


def _begin(backtest: Any, recorder: Sink, symbol: str) -> None:
    runs = _Runs(recorder, symbol, _times(backtest._data.index))
    hook(backtest, run=runs.run, optimize=runs.optimize)


def _times(index: Any) -> list[int]:
    if not hasattr(index, "as_unit"):
        raise Unrecordable("the data has no dates to record; give it a DatetimeIndex")
    return index.as_unit("ns").asi8.tolist()


@dataclass(slots=True, eq=False)
class _Runs:
    """The runs of one recorded `Backtest` object: one, or those of an optimisation in this process."""

    recorder: Sink
    symbol: str
    times: list[int]
    draft: Draft | None = None
    """The latest run of an optimisation: only its last is recorded."""

    def run(self, backtest: Any, own: Callable[..., Any], /, *given: Any, **params: Any) -> Any:
        if self.draft is not None:
            self.draft = Draft()
            watch = self._watch(self.draft)
            watch.recording.chosen(params)
        else:
            unhook(backtest)
            watch = self._watch(self.recorder)
        with watch.recorded(backtest):
            return own(*given, **params)

    def optimize(self, backtest: Any, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        self.draft = Draft()
        try:
            return own(*given, **named)
        finally:
            unhook(backtest)
            self.draft.play(Guard(self.recorder))

    def _watch(self, sink: Sink) -> _Watch:
        return _Watch(BrokerRecording(Guard(sink), self.symbol, self.times))


class _Orders(list[Any]):
    """The broker's queue. The engine puts orders in and takes them out here, and nowhere else."""

    def __init__(self, orders: list[Any], recording: BrokerRecording) -> None:
        super().__init__(orders)
        self._recording = recording

    def __contains__(self, order: object) -> bool:
        # The first thing the engine does with an order that it is about to process.
        found = super().__contains__(order)
        if found:
            self._recording.takes_up(order)
        return found

    def insert(self, index: SupportsIndex, order: Any, /) -> None:
        super().insert(index, order)
        self._recording.placed(order)

    def remove(self, order: Any, /) -> None:
        super().remove(order)
        self._recording.left(order)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Copy and pickle the plain list that it is to the engine."""
        return list, (), None, iter(self)


@dataclass(slots=True, eq=False)
class _Watch:
    """Replaced methods of the broker and the strategy that the engine makes for one run."""

    recording: BrokerRecording

    @property
    def guard(self) -> Guard:
        return self.recording.guard

    # --- the run --------------------------------------------------------------------------------

    @contextmanager
    def recorded(self, backtest: Any) -> Generator[None]:
        """Watch the broker and the strategy that the engine makes; afterwards they are as they would be."""
        self.begin(backtest)
        try:
            yield
        finally:
            self.guard.leave()

    @guarded
    def begin(self, backtest: Any) -> None:
        """Replace what the engine makes its broker and its strategy with; it makes the broker first."""
        broker, strategy = backtest._broker, backtest._strategy
        if self.guard.claim():
            self._replace(backtest, "_broker", _then(broker, self.attach))
            self._replace(backtest, "_strategy", _then(strategy, self.watch))

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until the end of the run."""
        had, before = name in vars(owner), getattr(owner, name)
        self.guard.at_end(lambda: setattr(owner, name, before) if had else delattr(owner, name))
        setattr(owner, name, value)

    @guarded
    def attach(self, broker: Any) -> None:
        """Watch what the broker does with its orders and trades."""
        self.recording.broker = broker
        orders = broker.orders = _Orders(broker.orders, self.recording)
        self.guard.at_end(lambda: setattr(broker, "orders", list(orders)))
        self._replace(broker, "_commission", Watched(broker._commission, self._commission))
        hook(
            broker,
            next=self._next,
            new_order=self._new_order,
            _process_orders=self._process,
            _open_trade=self._open_trade,
            _reduce_trade=self._reduce_trade,
            _close_trade=self._close_trade,
        )
        self.guard.at_end(lambda: unhook(broker))

    @guarded
    def watch(self, strategy: Any) -> None:
        """Keep the strategy, and the arguments that it declares its indicators with."""
        self.recording.started(strategy)
        self._replace(strategy, "I", Watched(strategy.I, self._declare))

    def _declare(self, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        made = own(*given, **named)
        self.recording.declared(made, given, named)
        return made

    # --- what the broker does: the engine's own function, and what is recorded before or after it -----

    def _next(self, broker: Any, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        self.recording.bar_opens()
        try:
            return own(*given, **named)
        finally:
            self.recording.bar_closes()

    def _new_order(self, broker: Any, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        self.recording.replacing = getattr(broker, "_exclusive_orders", False) and named.get("trade") is None
        try:
            return own(*given, **named)
        finally:
            self.recording.replacing = False

    def _process(self, broker: Any, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        self.recording.processing += 1
        try:
            return own(*given, **named)
        finally:
            self.recording.processing -= 1
            self.recording.current = None

    def _open_trade(self, broker: Any, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        self.recording.opens(*given, **named)
        result = own(*given, **named)
        self.recording.settled()
        return result

    def _reduce_trade(self, broker: Any, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        self.recording.reduces(*given, **named)
        result = own(*given, **named)
        self.recording.resized(*given, **named)
        return result

    def _close_trade(self, broker: Any, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        self.recording.closes(*given, **named)
        result = own(*given, **named)
        self.recording.closed()
        return result

    def _commission(self, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        """The commission's function, which may be a user's: its calls are watched, and none is added."""
        charge = own(*given, **named)
        self.recording.charged(charge)
        return charge


def _then(make: Callable[..., Any], act: Callable[[Any], None]) -> Callable[..., Any]:
    """A factory that gives what it made to a function as well."""

    def made(*given: Any, **named: Any) -> Any:
        one = make(*given, **named)
        act(one)
        return one

    return made


def version() -> str:
    """The engine's version, as a run's `engine` names it."""
    return f"backtesting.py {importlib.import_module('backtesting').__version__}"
