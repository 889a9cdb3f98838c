"""Events of one run of backtesting.py, from what its broker is about to do and what came of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.backtest.adapters.guard import Guard, guarded
from tracedesk.backtest.adapters.tape import Account, Fill, Holding, Tape, Ticket
from tracedesk.backtest.adapters.values import Plain, direction, number, quantity, scalars, size

MARGIN: Final = "Insufficient margin"

_COLUMNS: Final = ("Open", "High", "Low", "Close", "Volume")


@dataclass(slots=True)
class _Open:
    """An order in the queue, and how much of it was executed."""

    id: str
    wanted: Plain | None
    """Units to execute; None while a fraction of the equity has not been turned into units."""
    asked: Plain | None
    """The units it was placed for; a bracket's shrink with its trade."""
    filled: Plain = 0


@dataclass(slots=True)
class _Indicator:
    """One line of an indicator, and the values it has on every bar."""

    name: str
    parameters: Mapping[str, Any]
    values: Any


@dataclass(slots=True, eq=False)
class BrokerRecording:
    """Events of one run, recorded as the broker acts."""

    guard: Guard
    tape: Tape = field(init=False)
    symbol: str
    times: list[int]
    broker: Any = None
    current: Any = None
    """The order that the engine is processing."""
    processing: int = 0
    replacing: bool = False
    _strategy: Any = None
    _cash: Any = None
    _bars: int = 0
    _closed: int = 0
    _count: int = 0
    _seq: int | None = None
    """The latest event that something may follow from: the bar, or an execution on it."""
    _execution: int | None = None
    _fill: tuple[Any, Any, Any, int] | None = None
    _filled_at: int = 0
    _whole: Any = 0
    """The size of a trade before its reduction."""
    _charge: Any = 0
    _leaving: _Open | None = None
    _broke: bool = False
    _orders: dict[Any, _Open] = field(default_factory=dict[Any, _Open])
    _calls: dict[int, Mapping[str, Any]] = field(default_factory=dict[int, Mapping[str, Any]])
    _indicators: list[_Indicator] | None = None

    def __post_init__(self) -> None:
        self.tape = self.guard.tape

    @guarded
    def started(self, strategy: Any) -> None:
        self._strategy, self._cash = strategy, self.broker._cash

    @guarded
    def chosen(self, params: Mapping[str, Any]) -> None:
        """Record the parameters that an optimisation gave to its run."""
        self.tape.setting(self.times[0], "Parameters", scalars(params), "Chosen by optimize()")

    @guarded
    def declared(self, made: Any, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Keep the parameters of an indicator: its function comes first, or by its name."""
        own = dict(named)
        func, *args = given or (own.pop("func"),)
        self._calls[id(made)] = _parameters(func, tuple(args), own)

    # --- bars -----------------------------------------------------------------------------------

    @guarded
    def bar_opens(self) -> None:
        """Record the bars up to the present one; those before the first are the indicators' warm-up."""
        data = self.broker._data
        last = len(data)
        for index in range(self._bars, last - 1):
            self._bar(index, [data[name][index] for name in _COLUMNS])
        if self._bars < last:
            self._bar(last - 1, [data._current_value(name) for name in _COLUMNS])
            self._bars, self._execution = last, None

    def _bar(self, index: int, figures: list[Any]) -> None:
        *prices, volume = figures
        known_figures = (*map(number, prices), quantity(volume))
        self._seq = self.tape.bar(
            self.times[index], self.symbol, dict(zip(_COLUMNS, known_figures, strict=True))
        )

    @guarded
    def bar_closes(self) -> None:
        """Record the indicators, the position and the account at the bar's close."""
        if self._closed < self._bars:  # the engine may run its last bar twice, to close what is open
            self._closed = self._bars
            for line in self._lines():
                value = line.values[self._now]
                self.tape.indicator(self._time, self.symbol, line.name, value, line.parameters)
        self._mark()
        self._account("Bar")

    def _lines(self) -> list[_Indicator]:
        if self._indicators is None:
            found = [line for one in self._strategy._indicators for line in self._read(one)]
            self._indicators = _distinct(found)
        return self._indicators

    def _read(self, indicator: Any) -> list[_Indicator]:
        """The lines of one indicator with their values on every bar."""
        try:
            lines = self._named(indicator)
            for line in lines:
                line.values = [number(value) for value in line.values.tolist()]
                line.values[len(self.times) - 1]  # fails where it is shorter than the data
        except Exception as fault:
            self.guard.leave_out(str(getattr(indicator, "name", "")), fault)
            return []
        return lines

    def _named(self, indicator: Any) -> list[_Indicator]:
        parameters = self._calls.get(id(indicator), {})
        if indicator.ndim == 1:
            return [_Indicator(str(indicator.name), parameters, indicator)]
        names: list[str] = indicator.name
        if isinstance(indicator.name, str):
            names = [f"{indicator.name}[{row}]" for row in range(len(indicator))]
        return [_Indicator(name, parameters, row) for name, row in zip(names, indicator, strict=True)]

    @property
    def _now(self) -> int:
        return self._bars - 1

    @property
    def _time(self) -> int:
        return self.times[max(self._now, 0)]

    # --- orders ---------------------------------------------------------------------------------

    @guarded
    def placed(self, order: Any) -> None:
        self._count += 1
        relative = abs(order.size) < 1
        units = None if relative else size(order.size)
        self._orders[order] = _Open(str(self._count), units, units)
        ticket = Ticket(
            str(self._count),
            self.symbol,
            direction(order.size),
            size(order.size),
            kind_of(order),
            number(order.limit),
            number(order.stop),
            None if order.tag is None else str(order.tag),
            {
                "QuantityUnit": "Fraction of equity" if relative else None,
                "StopLoss": number(order.sl),
                "TakeProfit": number(order.tp),
            },
        )
        # Brackets are placed while their parent's execution is being recorded, and follow from it.
        self.tape.placed(self._time, ticket, self._execution if self.processing else None)

    @guarded
    def takes_up(self, order: Any) -> None:
        if self.processing:
            self.current = order

    @guarded
    def left(self, order: Any) -> None:
        """An order left the queue: filled, refused, or cancelled for one of four reasons."""
        known = self._orders[order]
        if order is not self.current:
            self._cancelled(known, self._why_cancelled(order))
        elif order.parent_trade:
            if not known.filled:
                self._cancelled(known, "Its trade was closed already")
            elif self._fill is not None:
                self._leaving = known  # its execution comes first
            else:
                self._end_rest(known)
        elif known.wanted is None or known.filled < known.wanted:
            self._refused(order, known)

    def _end_rest(self, known: _Open) -> None:
        """End what is left of an order whose trade was smaller, by now, than the order once was."""
        if known.asked is not None and known.filled < known.asked:
            known.wanted = known.asked
            self._cancelled(known, "The rest of its trade was closed already")

    def _why_cancelled(self, order: Any) -> str:
        if self.processing or self._broke:
            return "Its trade was closed"
        return "Replaced by an exclusive order" if self.replacing else "Cancelled by the strategy"

    def _cancelled(self, known: _Open, reason: str) -> None:
        rest = None if known.wanted is None else known.wanted - known.filled
        self.tape.cancelled(self._time, known.id, reason, {"RemainingQuantity": rest})

    def _refused(self, order: Any, known: _Open) -> None:
        equity, available = float(self.broker.equity), float(self.broker.margin_available)
        price = number(order.limit or order.stop or self.broker._data.Open[-1])
        rest = "a fraction of the equity" if known.wanted is None else f"{known.wanted - known.filled}"
        message = (
            f"{rest} at about {price} is more than the margin available, {available:.2f}, "
            f"with a leverage of {float(self.broker._leverage):g}; equity was {equity:.2f}"
        )
        figures = {
            "RequestedPrice": price,
            "FilledQuantity": known.filled or None,
            "MarginAvailable": available,
            "Equity": equity,
        }
        self.tape.rejected(self._time, known.id, MARGIN, message, figures)

    # --- executions -----------------------------------------------------------------------------

    @guarded
    def charged(self, charge: Any) -> None:
        self._charge = charge
        if self._fill is not None:
            self._executed(*self._fill)

    @guarded
    def opens(self, price: Any, units: Any, sl: Any, tp: Any, index: int, tag: Any) -> None:
        """A trade is about to open; its execution is recorded when the engine asks for the commission."""
        known = self._orders[self.current]
        known.filled += size(units) or 0
        if known.wanted is None:
            known.wanted = known.filled
        self._fill, self._filled_at = (units, price, None, index), self.times[index]

    @guarded
    def closes(self, trade: Any, price: Any, index: int) -> None:
        """The whole of a trade is about to close, or the part that a reduction split off."""
        if self.current is None:
            self._liquidated(trade)
        else:
            self._count_units(price)
        self._orders[self.current].filled += size(trade.size) or 0
        profit = trade.size * (price - trade.entry_price)
        self._fill, self._filled_at = (-trade.size, price, profit, index), self.times[index]

    def _executed(self, units: Any, price: Any, profit: Any, index: int) -> None:
        self._fill = None
        fill = Fill(size(units), direction(units), number(price), number(self._charge), number(profit))
        self._execution = self.tape.executed(self.times[index], self._orders[self.current].id, fill)
        if self._leaving is not None:
            self._end_rest(self._leaving)
            self._leaving = None

    def _count_units(self, price: float) -> None:
        """Turn a fraction of the equity into units as the engine does, before a first close changes them."""
        order, broker = self.current, self.broker
        known = self._orders[order]
        if known.wanted is None and not order.parent_trade:
            each = broker._adjusted_price(order.size, price) + self._charge / abs(order.size)
            known.wanted = int((broker.margin_available * broker._leverage * abs(order.size)) // each)

    def _liquidated(self, trade: Any) -> None:
        """The account is worth nothing: the engine closes its trades by itself, with no order."""
        if not self._broke:
            equity = number(self.broker.equity)
            self._seq = self.tape.risk(self._time, "OutOfMoney", 0, equity, "Liquidate", self._seq)
            self._broke = True
        self._count += 1
        units = size(trade.size)
        self.current = object()
        self._orders[self.current] = _Open(str(self._count), units, units)
        ticket = Ticket(str(self._count), self.symbol, direction(-trade.size), units, "Liquidation")
        self.tape.placed(self._time, ticket, self._seq)

    @guarded
    def settled(self) -> None:
        """Record the position after an execution."""
        self._settle(None)

    @guarded
    def closed(self) -> None:
        """Record the position after an execution that ended a trade, with the trade's profit."""
        self._settle(number(self.broker.closed_trades[-1].pl))

    def _settle(self, trade: Plain | None) -> None:
        assert self._execution is not None
        self.tape.position(self._filled_at, self._holding(), self._execution, trade)
        if self._broke:
            self.current = None

    @guarded
    def reduces(self, trade: Any, price: Any, units: Any, index: int) -> None:
        self._whole = trade.size

    @guarded
    def resized(self, trade: Any, price: Any, units: Any, index: int) -> None:
        """A trade that was reduced takes its stop-loss and take-profit orders with it."""
        if trade.size == self._whole or trade.exit_price is not None:
            return
        for order in (trade._sl_order, trade._tp_order):
            if order is not None and order in self._orders:
                known = self._orders[order]
                before, known.wanted = known.wanted, size(trade.size)
                self.tape.order_changed(
                    self.times[index], known.id, before, known.wanted, "Its trade was reduced"
                )

    # --- the account ----------------------------------------------------------------------------

    def _holding(self) -> Holding:
        broker = self.broker
        units = broker._position_size
        average = number(broker._position_initial_value / abs(units)) if units else 0
        # Realised is what the cash account says, so that the two parts always make up the equity.
        realized = number(broker._cash - self._cash)
        return Holding(
            self.symbol, quantity(units), average, number(broker._position_unrealized_pl), realized
        )

    def _mark(self) -> None:
        if self.broker.trades:
            self.tape.marked(self._time, self._holding())

    def _account(self, reason: str) -> None:
        broker = self.broker
        equity, cash, open_ = broker.equity, broker._cash, broker._position_unrealized_pl
        figures = (equity, cash, equity - self._cash, cash - self._cash, open_)
        self.tape.account(self._time, Account(*map(number, figures)), reason, self._seq)


def kind_of(order: Any) -> str:
    if order.parent_trade:
        return "StopLoss" if order.stop else "TakeProfit" if order.limit else "Close"
    if order.stop:
        return "StopLimit" if order.limit else "Stop"
    return "Limit" if order.limit else "Market"


def _distinct(lines: list[_Indicator]) -> list[_Indicator]:
    """Give lines of one name and the same parameters numbers, so that each has a series of its own."""
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        key = (line.name, repr(line.parameters))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 1:
            line.name = f"{line.name}#{seen[key]}"
    return lines


_OPTIONS: Final = ("name", "plot", "overlay", "color", "scatter")


def _parameters(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The single values that an indicator was declared with, by the names of its function's parameters."""
    own = {name: value for name, value in kwargs.items() if name not in _OPTIONS}
    try:
        bound = inspect.signature(func).bind(*args, **own).arguments
    except (TypeError, ValueError):
        bound = {f"arg{index}": value for index, value in enumerate(args)} | own
    return scalars(bound)
