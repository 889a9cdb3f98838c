"""Records a run of backtrader (1.9): its bars, indicators, orders, executions, positions and value.

An analyzer hears everything. Orders are heard of one bar after they were placed, so an order is told with the
time of its making, before the bar on which it was heard of.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.backtest.adapters.tape import Account, Fill, Holding, Sink, Tape, Ticket
from tracedesk.backtest.adapters.values import Plain, direction, instant, number, quantity, scalars, size

MARGIN: Final = "Insufficient margin"
REJECTED: Final = "Rejected by the broker"
ORPHANED: Final = "Its parent order was refused"

_COLUMNS: Final = ("open", "high", "low", "close", "volume")


def record(cerebro: Any, recorder: Sink) -> None:
    """Record the next `run()` of a `Cerebro` with one strategy."""
    cerebro.addanalyzer(_analyzer(), tape=Tape(recorder), _name="tracedesk")


def version() -> str:
    """The engine's version, as a run's `engine` names it."""
    return f"backtrader {importlib.import_module('backtrader').__version__}"


def _analyzer() -> Any:
    """The analyzer's class; it is made late, because its base is the engine's."""
    engine: Any = importlib.import_module("backtrader")

    class Recording(engine.Analyzer):
        params = (("tape", None),)

        def start(self) -> None:
            if len(self.strategy.cerebro.strats) > 1:
                raise ValueError("a run records one strategy; run the others in a Cerebro of their own")
            self.teller = _Teller(engine, self.p.tape, self.strategy)

        def notify_order(self, order: Any) -> None:
            self.teller.heard(order)

        def notify_cashvalue(self, cash: Any, value: Any) -> None:
            self.teller.valued(cash, value)

        def next(self) -> None:
            self.teller.bar_closed()

        def stop(self) -> None:
            self.teller.ended()

    return Recording


@dataclass(slots=True)
class _Feed:
    """One data feed: its symbol, the bars told of it, and the position in it."""

    data: Any
    symbol: str
    bars: int = 0
    units: Plain = 0
    price: Plain | None = 0
    realized: float = 0.0

    def took(self, bit: Any) -> None:
        """Move the position by an execution.

        The engine's own size after it is not taken: it counts units that could not be paid for.
        """
        self.units += quantity(bit.size) or 0
        self.price = number(bit.pprice) if self.units else 0
        self.realized += bit.pnl - bit.comm


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of an indicator."""

    feed: _Feed
    name: str
    parameters: Mapping[str, Any]
    line: Any


@dataclass(slots=True)
class _Teller:
    """What the strategy hears of, told to the tape."""

    engine: Any
    tape: Tape
    strategy: Any
    _feeds: list[_Feed] = field(init=False)
    _by_data: dict[int, _Feed] = field(init=False)
    _broker: Any = field(init=False)
    _start: float = field(init=False)
    _cash: float = field(init=False)
    """The cash before the present bar's orders were looked at."""
    _lines: list[_Line] | None = None
    _seq: int | None = None
    _days: float = -1.0
    _ns: int = 0

    def __post_init__(self) -> None:
        datas = self.strategy.datas
        self._feeds = [_Feed(data, str(data._name or f"data{index}")) for index, data in enumerate(datas)]
        self._by_data = {id(feed.data): feed for feed in self._feeds}
        self._broker = self.strategy.broker
        self._start, self._cash = self._broker.startingcash, self._broker.getcash()

    # --- bars -----------------------------------------------------------------------------------

    def _bars(self) -> None:
        """Tell the bars that are new since the last one told."""
        for feed in self._feeds:
            if len(feed.data) > feed.bars:
                feed.bars = len(feed.data)
                figures = {name.title(): number(getattr(feed.data, name)[0]) for name in _COLUMNS}
                figures["Volume"] = quantity(figures["Volume"])
                self._seq = self.tape.bar(self._moment(feed.data.datetime[0]), feed.symbol, figures)

    def _moment(self, days: float) -> int:
        """The engine's days as an instant; most calls of a bar are about its own."""
        if days != self._days:
            self._days, self._ns = days, instant(self.engine.num2date(days))
        return self._ns

    @property
    def _time(self) -> int:
        return self._moment(self.strategy.datetime[0])

    def bar_closed(self) -> None:
        self._bars()
        for line in self._indicators():
            value = number(line.line[0]) if len(line.line) else None
            time = self._moment(line.feed.data.datetime[0]) if len(line.feed.data) else self._time
            self.tape.indicator(time, line.feed.symbol, line.name, value, line.parameters)

    def _indicators(self) -> list[_Line]:
        if self._lines is None:
            self._lines = self._distinct()
        return self._lines

    def _distinct(self) -> list[_Line]:
        """Every indicator's lines; those of one name, feed and parameters are numbered."""
        lines: list[_Line] = []
        seen: dict[tuple[str, str, str], int] = {}
        for indicator in self.strategy.getindicators():
            feed = self._feed_of(indicator)
            parameters = scalars(indicator.params._getkwargs())
            for name, line in _named_lines(indicator):
                key = (name, feed.symbol, repr(parameters))
                seen[key] = seen.get(key, 0) + 1
                unique = name if seen[key] == 1 else f"{name}#{seen[key]}"
                lines.append(_Line(feed, unique, parameters, line))
        return lines

    def _feed_of(self, indicator: Any) -> _Feed:
        """The feed that an indicator is of: directly, or through the indicators it was made from."""
        source = indicator
        while id(source) not in self._by_data:
            owner = getattr(source, "_owner", None)
            if id(owner) in self._by_data:
                return self._by_data[id(owner)]
            clock = getattr(source, "_clock", None)
            if clock is None or clock is source:
                return self._feeds[0]
            source = clock
        return self._by_data[id(source)]

    # --- orders ---------------------------------------------------------------------------------

    def heard(self, order: Any) -> None:
        """Tell what an order's notification adds to what was told of it."""
        id_ = str(order.ref)
        if not self.tape.knows(id_):
            self._placed(id_, order)
        status = order.getstatusname()
        if status in ("Submitted", "Accepted"):
            return
        self._bars()
        for bit in order.executed.iterpending():
            self._executed(id_, order, bit)
        if status in ("Margin", "Rejected"):
            self._refused(id_, order, status)
        elif status in ("Canceled", "Expired"):
            self._cancelled(id_, order, status)

    def _placed(self, id_: str, order: Any) -> None:
        created, kind = order.created, order.getordername()
        stops = kind.startswith("Stop")
        limit = (
            created.pricelimit
            if kind.endswith("Limit") and stops
            else created.price
            if kind == "Limit"
            else None
        )
        ticket = Ticket(
            id_,
            self._feed(order).symbol,
            direction(created.size),
            size(created.size),
            kind,
            number(limit),
            number(created.price) if stops else None,
            _tag(order),
            {"ValidUntil": self._until(order.valid), "ParentOrderId": _ref(order.parent)},
        )
        parent = str(order.parent.ref) if order.parent is not None else None
        cause = self.tape.seq_of(parent) if parent is not None and self.tape.knows(parent) else None
        self.tape.placed(self._moment(created.dt), ticket, cause)

    def _until(self, valid: Any) -> str | None:
        return f"{self.engine.num2date(valid).isoformat()}Z" if valid else None

    def _refused(self, id_: str, order: Any, status: str) -> None:
        remaining = size(order.executed.remsize)
        price = number(order.created.price or order.created.pclose)
        figures = {"RequestedPrice": price, "FilledQuantity": size(order.executed.size) or None}
        if status == "Rejected":
            orphan = order.parent is not None
            reason, message = (ORPHANED if orphan else REJECTED), f"the broker's status is {status}"
        else:
            cash, now = self._cash, self._broker.getcash()
            cost = abs(order.executed.remsize) * (order.created.price or order.created.pclose)
            reason = MARGIN
            message = (
                f"{remaining} at about {price} is {cost:.2f}; cash was {cash:.2f} before this bar's orders, "
                f"{now:.2f} after them"
            )
            if cost <= cash:
                message += "; orders placed with it were counted first"
            figures |= {"OrderValue": number(cost), "CashBefore": number(cash), "CashAfter": number(now)}
        self.tape.rejected(self._time, id_, reason, message, figures)

    def _cancelled(self, id_: str, order: Any, status: str) -> None:
        figures = {"RemainingQuantity": size(order.executed.remsize)}
        linked = order.parent is not None or order.p.oco is not None
        reason = "Expired" if status == "Expired" else "Cancelled with its bracket" if linked else "Cancelled"
        self.tape.cancelled(self._time, id_, reason, figures)

    def _feed(self, order: Any) -> _Feed:
        return self._by_data[id(order.data)]

    # --- executions -----------------------------------------------------------------------------

    def _executed(self, id_: str, order: Any, bit: Any) -> None:
        feed = self._feed(order)
        feed.took(bit)
        fill = Fill(
            size(bit.size),
            direction(bit.size),
            number(bit.price),
            number(bit.comm),
            number(bit.pnl) if bit.closed else None,
        )
        time = self._moment(bit.dt)
        seq = self.tape.executed(time, id_, fill)
        self.tape.position(time, self._holding(feed), seq)

    def _holding(self, feed: _Feed) -> Holding:
        return Holding(
            feed.symbol, feed.units, feed.price, number(self._unrealized(feed)), number(feed.realized)
        )

    def _unrealized(self, feed: _Feed) -> float:
        if not feed.units:
            return 0.0
        terms = self._broker.getcommissioninfo(feed.data)
        return terms.profitandloss(feed.units, feed.price, feed.data.close[0])

    # --- the account ----------------------------------------------------------------------------

    def valued(self, cash: float, value: float) -> None:
        """Tell what the positions and the account are worth at the bar's close."""
        self._bars()
        for feed in self._feeds:
            if feed.units and len(feed.data):
                self.tape.marked(self._time, self._holding(feed))
        unrealized = sum(map(self._unrealized, self._feeds))
        total = value - self._start
        figures = (value, cash, total, total - unrealized, unrealized)
        self.tape.account(self._time, Account(*map(number, figures)), "Bar", self._seq)
        self._cash = cash

    def ended(self) -> None:
        """Tell the last bar's orders, whose notices the engine leaves in the broker's queue."""
        for order in list(self._broker.notifs):
            if order is not None and order.owner is self.strategy:
                self.heard(order)


def _named_lines(indicator: Any) -> list[tuple[str, Any]]:
    name = type(indicator).__name__
    aliases = [indicator.lines._getlinealias(index) for index in range(indicator.size())]
    lines = [indicator.lines[index] for index in range(indicator.size())]
    if len(lines) == 1:
        return [(name, lines[0])]
    return [(f"{name}.{alias}", line) for alias, line in zip(aliases, lines, strict=True)]


def _ref(order: Any) -> str | None:
    return None if order is None else str(order.ref)


def _tag(order: Any) -> str | None:
    """What the strategy wrote on the order when it placed it."""
    return ", ".join(f"{name}={value}" for name, value in scalars(dict(order.info)).items()) or None
