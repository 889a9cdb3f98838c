"""Records a run of NautilusTrader (1.2xx): its bars, indicators, orders, executions, positions and accounts.

The engine's message bus carries all of it but the indicators, which are read after the strategies saw a bar.
Prices, quantities and money have the engine's own digits.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from types import TracebackType
from typing import Any, Final

from tracedesk.backtest.adapters.guard import Guard, Unrecordable, guarded
from tracedesk.backtest.adapters.hooks import Watched
from tracedesk.backtest.adapters.tape import Account, Fill, Holding, Sink, Tape, Ticket
from tracedesk.backtest.adapters.values import Number, Plain, number

_REGISTER: Final = "register_indicator_for_bars"
_FIRST: Final = 10
"""The priority of a handler that hears a bar before the strategies do; theirs is 0."""


class EngineStopped(RuntimeError):
    """The engine ended its run before its data did, and told nobody but its log."""


def record(engine: Any, recorder: Sink) -> Watch:
    """Record the next `run()` of a `BacktestEngine` whose strategies have been added.

    Used as a context manager around the run, it raises `EngineStopped` when the engine gave up half-way.
    """
    teller = _Teller(engine, Guard(recorder))
    teller.guard.attempt(teller.begin)
    return Watch(teller)


def version() -> str:
    """The engine's version, as a run's `engine` names it."""
    return f"nautilus_trader {importlib.import_module('nautilus_trader').__version__}"


class Watch:
    """The recorder's place on the engine's bus."""

    def __init__(self, teller: _Teller) -> None:
        self._teller = teller

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._teller.ended()
        self._teller.guard.leave()
        if error is None and _gave_up():
            raise EngineStopped(
                "the engine stopped before the end of its data, because an account could not pay; see its log"
            )


def _gave_up() -> bool:
    try:
        return bool(importlib.import_module("nautilus_trader.common.component").is_backtest_force_stop())
    except (ImportError, AttributeError):  # a version of the engine that does not report it
        return False


@dataclass(slots=True)
class _Series:
    """A registered indicator: its parameters, and the names of the figures it computes."""

    indicator: Any
    bar_type: str
    name: str
    parameters: Mapping[str, Any]
    figures: tuple[str, ...]

    def values(self) -> list[tuple[str, Plain | None]]:
        """The figures by their names, once the indicator has had enough bars."""
        if not self.indicator.initialized:
            return []
        names = [self.name] if len(self.figures) == 1 else [f"{self.name}.{each}" for each in self.figures]
        return [
            (name, number(getattr(self.indicator, figure)))
            for name, figure in zip(names, self.figures, strict=True)
        ]


@dataclass(slots=True)
class _Book:
    """What a position has realised: before it was last opened, and since."""

    closed: Decimal = Decimal(0)
    current: Decimal = Decimal(0)

    @property
    def realized(self) -> Decimal:
        return self.closed + self.current


@dataclass(slots=True, eq=False, repr=False)
class _Teller:
    """What passes over the bus, told to the tape.

    The bus hashes its handlers by their text, so this has the plain one of an object.
    """

    engine: Any
    guard: Guard
    tape: Tape = field(init=False)
    _series: list[_Series] = field(default_factory=list[_Series])
    _tickets: dict[str, Ticket] = field(default_factory=dict[str, Ticket])
    _books: dict[str, _Book] = field(default_factory=dict[str, _Book])
    """By position: a venue with hedging has several of one instrument side by side."""
    _fills: dict[str, int] = field(default_factory=dict[str, int])
    """The latest execution of each instrument."""
    _seen: set[str] = field(default_factory=set[str])
    _start: dict[str, Decimal] = field(default_factory=dict[str, Decimal])
    _cash: dict[str, Decimal] = field(default_factory=dict[str, Decimal])
    _closes: dict[str, Any] = field(default_factory=dict[str, Any])
    _late: set[str] = field(default_factory=set[str])
    _seq: int | None = None
    _last: int | None = None

    def __post_init__(self) -> None:
        self.tape = self.guard.tape

    def begin(self) -> None:
        """Watch the strategies' indicators and the engine's bus."""
        strategies = [*self.engine.trader.strategies(), *self.engine.trader.actors()]
        if not strategies:
            raise Unrecordable("the engine has no strategy to record; add its strategies first")
        if not self.guard.claim():
            return
        for strategy in strategies:
            self._watch(strategy)
        for topic, handler in self._handlers().items():
            self._subscribe(topic, handler, _FIRST if handler == self._bar else 0)

    def _subscribe(self, topic: str, handler: Callable[[Any], None], priority: int = 0) -> None:
        bus = self.engine.kernel.msgbus
        bus.subscribe(topic=topic, handler=handler, priority=priority)
        self.guard.at_end(partial(bus.unsubscribe, topic=topic, handler=handler))

    def _handlers(self) -> dict[str, Callable[[Any], None]]:
        return {
            "data.bars.*": self._bar,
            "events.order.*": self._order,
            "events.position.*": self._position,
            "events.account.*": self._balance,
        }

    @guarded
    def ended(self) -> None:
        """Record what the orders of the last bar did to the account."""
        if self._last is not None:
            self._account(self._last)

    # --- indicators -----------------------------------------------------------------------------

    def _watch(self, strategy: Any) -> None:
        """Watch which indicators the strategy registers for which bars."""
        setattr(strategy, _REGISTER, Watched(getattr(strategy, _REGISTER), self._register))
        self.guard.at_end(partial(delattr, strategy, _REGISTER))

    def _register(self, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        result = own(*given, **named)
        self.registered(*given, **named)
        return result

    @guarded
    def registered(self, bar_type: Any, indicator: Any) -> None:
        self._series.append(self._described(str(bar_type.standard()), indicator))

    def _described(self, bar_type: str, indicator: Any) -> _Series:
        """Before its first input an indicator's figures are 0.0, and its parameters are what they stay."""
        values = {name: _attribute(indicator, name) for name in dir(indicator) if not name.startswith("_")}
        figures = tuple(name for name, value in values.items() if type(value) is float and value == 0.0)
        fixed = {name: value for name, value in values.items() if type(value) in (int, float, str) and value}
        fixed.pop("name", None)
        return _Series(indicator, bar_type, str(indicator.name), fixed, figures)

    def _indicators(self, bar: Any) -> None:
        bar_type, symbol = str(bar.bar_type.standard()), str(bar.bar_type.instrument_id)
        for series in [each for each in self._series if each.bar_type == bar_type]:
            try:
                values = series.values()
            except Exception as fault:
                self.guard.leave_out(series.name, fault)
                self._series.remove(series)
                continue
            for name, value in values:
                self.tape.indicator(bar.ts_event, symbol, name, value, series.parameters)

    # --- bars -----------------------------------------------------------------------------------

    @guarded
    def _bar(self, bar: Any) -> None:
        symbol = str(bar.bar_type.instrument_id)
        names = ("open", "high", "low", "close", "volume")
        figures = {name.title(): Decimal(str(getattr(bar, name))) for name in names}
        self._seq = self.tape.bar(bar.ts_event, symbol, figures, {"BarType": str(bar.bar_type)})
        self._closes[symbol], self._last = bar.close, bar.ts_event
        topic = f"data.bars.{bar.bar_type}"
        if topic not in self._late:
            # Handlers of one priority are called in the order of their coming, and the strategies have come.
            # The bus knows this topic already: a pattern would come too late, its own name does not. What it
            # is sending just now goes to those who were there before.
            self._late.add(topic)
            self._subscribe(topic, self._bar_seen)

    @guarded
    def _bar_seen(self, bar: Any) -> None:
        """A bar that the strategies have acted on."""
        self._indicators(bar)
        symbol = str(bar.bar_type.instrument_id)
        for id_, position in self._open().items():
            if str(position.instrument_id) == symbol:
                self.tape.marked(bar.ts_event, self._holding(symbol, id_))
        self._account(bar.ts_event)

    # --- orders ---------------------------------------------------------------------------------

    @guarded
    def _order(self, event: Any) -> None:
        """Each event once: the bus may carry a fill twice."""
        told = _told(event)
        if told["event_id"] in self._seen:
            return
        self._seen.add(told["event_id"])
        tell = getattr(self, f"_{told['type']}", None)
        if tell is not None:
            tell(told["ts_event"], told["client_order_id"], told)

    def _OrderInitialized(self, time: int, order: str, told: Mapping[str, Any]) -> None:
        options: Mapping[str, Any] = told["options"] or {}
        parent = told["parent_order_id"]
        ticket = Ticket(
            order,
            told["instrument_id"],
            told["order_side"].title(),
            Decimal(told["quantity"]),
            _camel(told["order_type"]),
            _decimal(options.get("price")),
            _decimal(options.get("trigger_price")),
            ", ".join(map(str, told["tags"])) if told["tags"] else None,
            {
                "TimeInForce": told["time_in_force"],
                "StrategyId": told["strategy_id"],
                "ParentOrderId": parent,
            },
        )
        cause = self.tape.seq_of(parent) if parent and self.tape.knows(parent) else None
        self._tickets[order] = ticket
        self.tape.placed(time, ticket, cause)

    def _OrderFilled(self, time: int, order: str, told: Mapping[str, Any]) -> None:
        commission, currency = _money(told["commission"])
        more = {
            "Currency": currency,
            "LiquiditySide": told["liquidity_side"],
            "PositionId": told["position_id"],
        }
        side = told["order_side"].title()
        fill = Fill(Decimal(told["last_qty"]), side, Decimal(told["last_px"]), commission, None, more)
        self._fills[told["instrument_id"]] = self.tape.executed(time, order, fill)

    def _OrderDenied(self, time: int, order: str, told: Mapping[str, Any]) -> None:
        """The engine's reasons begin with a name and go on with figures."""
        reason = str(told["reason"])
        self.tape.rejected(time, order, reason.split(":", 1)[0], reason)

    _OrderRejected = _OrderDenied

    def _OrderCanceled(self, time: int, order: str, told: Mapping[str, Any]) -> None:
        self.tape.cancelled(time, order, "Cancelled")

    def _OrderExpired(self, time: int, order: str, told: Mapping[str, Any]) -> None:
        self.tape.cancelled(time, order, "Expired")

    def _OrderUpdated(self, time: int, order: str, told: Mapping[str, Any]) -> None:
        """An order with other terms is placed again: what the engine leaves out is as it was."""
        before = self._tickets[order]
        price, stop = _decimal(told["price"]), _decimal(told["trigger_price"])
        ticket = self._tickets[order] = replace(
            before,
            quantity=Decimal(told["quantity"]),
            price=before.price if price is None else price,
            stop=before.stop if stop is None else stop,
            more={**before.more, "ChangeReason": "Updated"},
        )
        self.tape.placed(time, ticket, self.tape.seq_of(order))

    def _OrderModifyRejected(self, time: int, order: str, told: Mapping[str, Any]) -> None:
        self.tape.order_changed(time, order, None, None, f"{told['type']}: {told['reason']}")

    _OrderCancelRejected = _OrderModifyRejected

    # --- positions and accounts -----------------------------------------------------------------

    @guarded
    def _position(self, event: Any) -> None:
        told = _told(event)
        if told["event_id"] in self._seen:
            return
        self._seen.add(told["event_id"])
        symbol, id_ = told["instrument_id"], told["position_id"]
        book = self._books.setdefault(id_, _Book())
        realized, _ = _money(told["realized_pnl"])
        book.current = realized or Decimal(0)
        if told["type"] == "PositionClosed":
            book.closed, book.current = book.realized, Decimal(0)
        if symbol in self._fills:
            time = told.get("ts_event") or told["ts_closed"]
            self.tape.position(time, self._holding(symbol, id_), self._fills[symbol])

    def _open(self) -> dict[str, Any]:
        """The open positions by their ids."""
        return {str(position.id): position for position in self.engine.cache.positions_open()}

    def _holding(self, symbol: str, id_: str) -> Holding:
        """A position of its own; a closed one is empty and has what it realised."""
        position, realized = self._open().get(id_), self._books.setdefault(id_, _Book()).realized
        if position is None:
            return Holding(symbol, Decimal(0), 0, Decimal(0), realized, id_)
        average = number(position.avg_px_open)
        return Holding(
            symbol, position.signed_decimal_qty(), average, self._unrealized(position), realized, id_
        )

    def _unrealized(self, position: Any) -> Decimal:
        """What an open position gained at the latest close."""
        close = self._closes.get(str(position.instrument_id))
        return Decimal(0) if close is None else position.unrealized_pnl(close).as_decimal()

    @guarded
    def _balance(self, event: Any) -> None:
        """An account's balances; the first of each account are what it began with."""
        told = _told(event)
        for balance in told["balances"]:
            key = f"{told['account_id']} {balance['currency']}"
            self._start.setdefault(key, Decimal(balance["total"]))
            self._cash[key] = Decimal(balance["total"])

    def _account(self, time: int) -> None:
        """Profit and loss in the one currency there is; sums over several would mean nothing."""
        if len({key.split()[-1] for key in self._cash}) != 1:
            return
        realized: Number = sum((book.realized for book in self._books.values()), Decimal(0))
        unrealized: Number = sum(map(self._unrealized, self._open().values()), Decimal(0))
        total = realized + unrealized
        start, cash = sum(self._start.values(), Decimal(0)), sum(self._cash.values(), Decimal(0))
        self.tape.account(time, Account(start + total, cash, total, realized, unrealized), "Bar", self._seq)


def _attribute(indicator: Any, name: str) -> Any:
    """An attribute, where it has a value before the first input."""
    try:
        return getattr(indicator, name)
    except Exception:  # an indicator's own property may need inputs, and fails as it likes
        return None


def _told(event: Any) -> dict[str, Any]:
    """An event's fields; the engine converts through the event's class."""
    return event.__class__.to_dict(event)


def _decimal(text: Any) -> Decimal | None:
    return None if text in (None, "None") else Decimal(str(text))


def _money(text: str | None) -> tuple[Decimal | None, str | None]:
    """An amount such as "-463.00 USD", whose digits may be grouped."""
    if not text:
        return None, None
    amount, currency = text.split()
    return Decimal(amount.replace("_", "").replace(",", "")), currency


def _camel(name: str) -> str:
    return "".join(part.title() for part in name.split("_"))
