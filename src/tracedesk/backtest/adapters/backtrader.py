"""Records a run of backtrader (1.9): its bars, indicators, orders, executions, positions and value.

An analyzer in each strategy receives the engine's notices. The engine reports an order one bar after it was
placed, so an order is recorded with the time of its making, before the bar on which it was reported.

Several strategies in one engine share its broker, so they are one run: their orders and indicators have a
`StrategyId`. An optimisation is many runs with no one account, and none of them is recorded.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.backtest.adapters.guard import Guard, guarded
from tracedesk.backtest.adapters.hooks import drop, hook, unhook
from tracedesk.backtest.adapters.tape import Account, Fill, Holding, Sink, Tape, Ticket
from tracedesk.backtest.adapters.values import Plain, direction, instant, number, quantity, scalars, size

MARGIN: Final = "Insufficient margin"
REJECTED: Final = "Rejected by the broker"
ORPHANED: Final = "Its parent order was refused"

_COLUMNS: Final = ("open", "high", "low", "close", "volume")
_UNRECORDED: Final = ("datetime", "openinterest")
_NAME: Final = "_tracedesk"
_MANY: Final = "an optimisation is many runs; record the one that you choose in a Cerebro of its own"


def record(cerebro: Any, recorder: Sink) -> None:
    """Record the next `run()` of a `Cerebro`."""
    guard = Guard(recorder)
    guard.attempt(lambda: hook(cerebro, run=_Recording(guard).run))


def version() -> str:
    """The engine's version, as a run's `engine` names it."""
    return f"backtrader {importlib.import_module('backtrader').__version__}"


def _analyzer(engine: Any) -> Any:
    """The analyzer's class; it is made late, because its base is the engine's."""

    class Recording(engine.Analyzer):
        params = (("recording", None),)

        def start(self) -> None:
            self.p.recording.joined(self)

        def notify_order(self, order: Any) -> None:
            self.p.recording.reported(self.strategy, order)

        def notify_cashvalue(self, cash: Any, value: Any) -> None:
            self.p.recording.valued(self.strategy, cash, value)

        def next(self) -> None:
            self.p.recording.bar_closed(self.strategy)

        def stop(self) -> None:
            self.p.recording.ended(self.strategy)

    return Recording


@dataclass(slots=True)
class _Feed:
    """One data feed: its symbol, its lines, the bars recorded of it, and the position in it."""

    data: Any
    symbol: str
    lines: list[tuple[str, Any]]
    frame: Mapping[str, Any] | None = None
    """Timeframe of a feed that shares its name with another."""
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

    def close(self) -> Any:
        """The latest close; None for a feed without one, such as bid and ask."""
        return next((line[0] for name, line in self.lines if name == "close"), None)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of an indicator."""

    feed: _Feed
    name: str
    parameters: Mapping[str, Any]
    line: Any


@dataclass(slots=True)
class _Strategy:
    """One strategy of the engine, and the indicator lines that it declared."""

    strategy: Any
    name: str | None = None
    """Its name among several."""
    lines: list[_Line] | None = None

    @property
    def more(self) -> dict[str, Any]:
        return {} if self.name is None else {"StrategyId": self.name}


@dataclass(slots=True, eq=False)
class _Recording:
    """One run of the engine, recorded from the notices of its strategies."""

    guard: Guard
    tape: Tape = field(init=False)
    _engine: Any = None
    _cerebro: Any = None
    _broker: Any = None
    _feeds: dict[int, _Feed] = field(default_factory=dict[int, _Feed])
    """By the identity of their data."""
    _strategies: dict[int, _Strategy] = field(default_factory=dict[int, _Strategy])
    _names: Counter[Any] = field(default_factory=Counter[Any])
    """How often a name was given to a feed, a strategy or an indicator's line."""
    _start: float = 0.0
    _cash: float = 0.0
    """The cash before the present bar's orders were looked at."""
    _seq: int | None = None
    _days: float = -1.0
    _ns: int = 0

    def __post_init__(self) -> None:
        self.tape = self.guard.tape

    # --- the run --------------------------------------------------------------------------------

    def run(self, cerebro: Any, own: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        """Run the engine with an analyzer that only this run has."""
        unhook(cerebro)
        self.begin(cerebro)
        try:
            return own(*given, **named)
        finally:
            self.guard.leave()

    @guarded
    def begin(self, cerebro: Any) -> None:
        if cerebro._dooptimize:
            self.guard.leave_run_out(_MANY)
        elif self.guard.claim():
            self._engine = importlib.import_module("backtrader")
            self._cerebro = cerebro
            entry = (_analyzer(self._engine), (), {"recording": self, "_name": _NAME})
            cerebro.analyzers.append(entry)
            self.guard.at_end(lambda: drop(cerebro.analyzers, entry))

    @guarded
    def joined(self, analyzer: Any) -> None:
        """Take note of a strategy that starts; the first one's feeds and broker are those of all."""
        strategy = analyzer.strategy
        self._hide(analyzer, strategy.analyzers)
        if not self._strategies:
            self._broker = strategy.broker
            self._cash = self._broker.getcash()
            self._start = getattr(self._broker, "startingcash", self._cash)
            self._add_feeds(strategy.datas)
        several = len(self._cerebro.runningstrats) > 1
        name = self._distinct(type(strategy).__name__) if several else None
        self._strategies[id(strategy)] = _Strategy(strategy, name)

    def _hide(self, analyzer: Any, analyzers: Any) -> None:
        """Leave the user's analyzers alone in what the engine returns, and in what it prints by name."""
        self.guard.at_end(lambda: drop(analyzers._items, analyzer))
        analyzers._names.remove(_NAME)
        delattr(analyzers, _NAME)

    def _distinct(self, name: str, *others: str) -> str:
        """A name, numbered from its second use on; `others` are what else distinguishes its bearer."""
        self._names[name, others] += 1
        count = self._names[name, others]
        return name if count == 1 else f"{name}#{count}"

    def _add_feeds(self, datas: list[Any]) -> None:
        named = [str(data._name or f"data{index}") for index, data in enumerate(datas)]
        for name, data in zip(named, datas, strict=True):
            frame = self._frame(data) if named.count(name) > 1 else None
            self._feeds[id(data)] = _Feed(data, self._distinct(name, "feed"), _columns(data), frame)

    def _frame(self, data: Any) -> dict[str, Any]:
        name = self._engine.TimeFrame.getname(data._timeframe, 1)
        return {"TimeFrame": name, "Compression": data._compression}

    # --- bars -----------------------------------------------------------------------------------

    def _bars(self) -> None:
        """Record the bars that are new since the latest one."""
        for feed in self._feeds.values():
            if len(feed.data) > feed.bars:
                feed.bars = len(feed.data)
                figures = {name.title(): number(line[0]) for name, line in feed.lines}
                if "Volume" in figures:
                    figures["Volume"] = quantity(figures["Volume"])
                time = self._moment(feed.data.datetime[0])
                self._seq = self.tape.bar(time, feed.symbol, figures, feed.frame)

    def _moment(self, days: float) -> int:
        """The engine's days as an instant; most calls of a bar are about its own."""
        if days != self._days:
            self._days, self._ns = days, instant(self._engine.num2date(days))
        return self._ns

    def _time(self, strategy: Any) -> int:
        return self._moment(strategy.datetime[0])

    @guarded
    def bar_closed(self, strategy: Any) -> None:
        self._bars()
        watched = self._strategies[id(strategy)]
        if watched.lines is None:
            watched.lines = list(self._lines(watched))
        for line in list(watched.lines):
            try:
                value = number(line.line[0]) if len(line.line) else None
            except Exception as fault:
                self.guard.leave_out(line.name, fault)
                watched.lines.remove(line)
                continue
            data = line.feed.data
            time = self._moment(data.datetime[0]) if len(data) else self._time(strategy)
            self.tape.indicator(time, line.feed.symbol, line.name, value, line.parameters, watched.more)

    def _lines(self, watched: _Strategy) -> Iterator[_Line]:
        """Every indicator's lines; those of one name, feed and parameters are numbered."""
        for indicator in watched.strategy.getindicators():
            try:
                feed = self._feed_of(indicator)
                parameters = _parameters(indicator)
                lines = _named_lines(indicator)
            except Exception as fault:
                self.guard.leave_out(type(indicator).__name__, fault)
                continue
            for name, line in lines:
                yield _Line(feed, self._distinct(name, feed.symbol, repr(parameters)), parameters, line)

    def _feed_of(self, indicator: Any) -> _Feed:
        """The feed that an indicator is of: directly, or through the indicators it was made from."""
        source, seen = indicator, set[int]()
        while id(source) not in self._feeds:
            seen.add(id(source))
            owner = getattr(source, "_owner", None)
            if id(owner) in self._feeds:
                return self._feeds[id(owner)]
            source = getattr(source, "_clock", None)
            if source is None or id(source) in seen:
                return next(iter(self._feeds.values()))
        return self._feeds[id(source)]

    # --- orders ---------------------------------------------------------------------------------

    @guarded
    def reported(self, strategy: Any, order: Any) -> None:
        self._order(strategy, order)

    def _order(self, strategy: Any, order: Any) -> None:
        """Record what an order's notice adds to what was recorded of it."""
        id_ = str(order.ref)
        if not self.tape.knows(id_):
            self._placed(id_, order, self._strategies[id(strategy)].more)
        status = order.getstatusname()
        if status in ("Submitted", "Accepted"):
            return
        self._bars()
        for bit in order.executed.iterpending():
            self._executed(id_, order, bit)
        if status in ("Margin", "Rejected"):
            self._refused(self._time(strategy), id_, order, status)
        elif status in ("Canceled", "Expired"):
            self._cancelled(self._time(strategy), id_, order, status)

    def _placed(self, id_: str, order: Any, more: Mapping[str, Any]) -> None:
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
            {"ValidUntil": self._until(order.valid), "ParentOrderId": _ref(order.parent), **more},
        )
        parent = str(order.parent.ref) if order.parent is not None else None
        cause = self.tape.seq_of(parent) if parent is not None and self.tape.knows(parent) else None
        self.tape.placed(self._moment(created.dt), ticket, cause)

    def _until(self, valid: Any) -> str | None:
        return f"{self._engine.num2date(valid).isoformat()}Z" if valid else None

    def _refused(self, time: int, id_: str, order: Any, status: str) -> None:
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
        self.tape.rejected(time, id_, reason, message, figures)

    def _cancelled(self, time: int, id_: str, order: Any, status: str) -> None:
        figures = {"RemainingQuantity": size(order.executed.remsize)}
        linked = order.parent is not None or order.p.oco is not None
        reason = "Expired" if status == "Expired" else "Cancelled with its bracket" if linked else "Cancelled"
        self.tape.cancelled(time, id_, reason, figures)

    def _feed(self, order: Any) -> _Feed:
        return self._feeds[id(order.data)]

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

    def _unrealized(self, feed: _Feed) -> float | None:
        """The open profit at the latest close; None where the feed has no close."""
        if not feed.units:
            return 0.0
        close = feed.close()
        if close is None:
            return None
        return self._broker.getcommissioninfo(feed.data).profitandloss(feed.units, feed.price, close)

    # --- the account ----------------------------------------------------------------------------

    @guarded
    def valued(self, strategy: Any, cash: float, value: float) -> None:
        """Record what the positions and the account are worth at the bar's close."""
        self._bars()
        time = self._time(strategy)
        for feed in self._feeds.values():
            if feed.units and len(feed.data):
                self.tape.marked(time, self._holding(feed))
        profits = [self._unrealized(feed) for feed in self._feeds.values()]
        known_profits = [profit for profit in profits if profit is not None]
        unrealized = sum(known_profits) if len(known_profits) == len(profits) else None
        total = value - self._start
        realized = None if unrealized is None else total - unrealized
        figures = (value, cash, total, realized, unrealized)
        self.tape.account(time, Account(*map(number, figures)), "Bar", self._seq)
        self._cash = cash

    @guarded
    def ended(self, strategy: Any) -> None:
        """Record the last bar's orders, whose notices a backtest's broker leaves in its queue."""
        for order in list(getattr(self._broker, "notifs", ())):
            if order is not None and order.owner is strategy:
                self._order(strategy, order)


def _columns(data: Any) -> list[tuple[str, Any]]:
    """The lines of a feed that are recorded: of prices and volume those it has, and its own."""
    has = data.getlinealiases()
    own = [name for name in has if name not in (*_COLUMNS, *_UNRECORDED)]
    return [(name, getattr(data, name)) for name in (*(name for name in _COLUMNS if name in has), *own)]


def _parameters(indicator: Any) -> dict[str, Any]:
    """An indicator's parameters; a line's operation is named as Python names it."""
    operation: Any = getattr(indicator, "operation", None)
    made = {} if operation is None else {"operation": getattr(operation, "__name__", None)}
    return scalars({**indicator.params._getkwargs(), **made})


def _named_lines(indicator: Any) -> list[tuple[str, Any]]:
    name = type(indicator).__name__
    if not hasattr(indicator, "size"):  # an operation on lines, or a coupler, is a line itself
        return [(name, indicator)]
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
