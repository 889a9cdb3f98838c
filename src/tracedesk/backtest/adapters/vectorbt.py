"""Records a finished run of vectorbt (1.x): its bars, indicators, requests, executions, rejections and value.

The engine keeps a log of every request when it is asked to (`log=True`). The portfolio is only read.

Columns that share their cash are one account, every other column is an account of its own, and each account
is one run. The first goes to the recorder that is given, each other one to a recorder of its own beside it.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final

from tracedesk.backtest.adapters.guard import Guard, Unrecordable
from tracedesk.backtest.adapters.tape import Account, Branching, Fill, Holding, Sink, Tape, Ticket
from tracedesk.backtest.adapters.values import Plain, exact, figure, number, scalars, size

_ZERO: Final = Decimal(0)
_FILLED: Final = 0
_IGNORED: Final = 1
_CLOSED: Final = 1
_SHORT_ONLY: Final = 1
_TARGETS: Final = 3
"""The first of the engine's size types that are targets: an amount, a value, a share."""


def record(portfolio: Any, recorder: Sink, *, indicators: Mapping[str, Any] | None = None) -> None:
    """Record a `Portfolio` that was made with `log=True`, with indicators by name if they are given.

    An indicator is what its factory's `run` returns, or one series or frame with the portfolio's columns.
    """
    guard = Guard(recorder)
    guard.attempt(partial(_record, portfolio, recorder, guard, indicators or {}))


def _record(portfolio: Any, recorder: Sink, guard: Guard, indicators: Mapping[str, Any]) -> None:
    if not len(portfolio.logs.records) and len(portfolio.orders.records):
        raise Unrecordable("the portfolio has orders but no log of its requests; make it with log=True")
    lines = list(_lines(portfolio, indicators))
    first, *others = _accounts(portfolio)
    if others and not isinstance(recorder, Branching):
        raise Unrecordable(
            f"the portfolio has {1 + len(others)} accounts, each a run of its own; record them in a Recorder"
        )
    if guard.claim():
        _Teller(portfolio, guard.tape, first, lines).tell(1 + len(others))
    for account in others:
        assert isinstance(recorder, Branching)
        with recorder.another(account.label, account.parameters) as sink:
            own = Guard(sink)
            own.claim()
            own.attempt(partial(_Teller(portfolio, own.tape, account, lines).tell, 1 + len(others)))


def version() -> str:
    """The engine's version, as a run's `engine` names it."""
    return f"vectorbt {importlib.import_module('vectorbt').__version__}"


@dataclass(frozen=True, slots=True)
class _Account:
    """Columns with one cash: their places in the portfolio, and the account's value and cash on every bar."""

    columns: list[int]
    label: str
    parameters: Mapping[str, Any]
    values: Any
    cash: Any
    start: Decimal


@dataclass(frozen=True, slots=True)
class _Line:
    """An indicator's values in one column."""

    column: int
    name: str
    parameters: Mapping[str, Any]
    values: Any


@dataclass(slots=True)
class Column:
    """One column: its symbol, its closes, and the position in it."""

    symbol: str
    closes: Any
    units: Decimal = _ZERO
    cost: Decimal = _ZERO
    """What the open units were taken for, all together: exact, where an average would have to be rounded."""
    realized: Decimal = _ZERO

    @property
    def average(self) -> Decimal:
        return self.cost / abs(self.units) if self.units else _ZERO

    def took(self, signed: Decimal, price: Decimal, fees: Decimal) -> Decimal | None:
        """Move the position by an execution; returns what it realised before fees, if it closed anything."""
        before, average = self.units, self.average
        self.units = before + signed
        self.realized -= fees
        if before * signed >= 0:
            self.cost += abs(signed) * price
            return None
        closed = min(abs(before), abs(signed)) * (1 if before > 0 else -1)
        profit = closed * (price - average)
        self.realized += profit
        turned = before * self.units <= 0
        self.cost = abs(self.units) * (price if turned else average)
        return figure(profit)

    def settle(self, units: Decimal) -> None:
        """Take the engine's own position, at our average, so that no rounding of its sums adds up here."""
        self.cost = abs(units) * self.average
        self.units = units

    def holding(self, row: int) -> Holding:
        unrealized = self.units * (exact(self.closes[row]) - self.average)
        average, realized = figure(self.average), figure(self.realized)
        return Holding(self.symbol, figure(self.units), average, figure(unrealized), realized)


class _Teller:
    """Walks the portfolio's rows in time, and its columns in each."""

    def __init__(self, portfolio: Any, tape: Tape, account: _Account, lines: list[_Line]) -> None:
        names = portfolio.wrapper.columns
        closes = portfolio.close.to_numpy().reshape(len(portfolio.close), -1)
        self._tape, self._account = tape, account
        self._lines = [line for line in lines if line.column in account.columns]
        self._times: list[int] = portfolio.wrapper.index.as_unit("ns").asi8.tolist()
        self._columns = {at: Column(_symbol(names[at], at), closes[:, at]) for at in account.columns}
        self._requests = _by_row(_of(account, portfolio.logs.records))
        self._ended = _profits(_of(account, portfolio.exit_trades.records))
        enums: Any = importlib.import_module("vectorbt.portfolio.enums")
        self._reasons = list(enums.OrderStatusInfo._fields)
        self._texts: list[str] = list(enums.status_info_desc)
        self._size_types = list(enums.SizeType._fields)

    def tell(self, accounts: int) -> None:
        if accounts > 1:
            which = {"Account": self._account.label, "Accounts": accounts, **self._account.parameters}
            self._tape.setting(self._times[0], "Account", which, "One of several accounts of a portfolio")
        for row, time in enumerate(self._times):
            for column in self._columns.values():
                self._tape.bar(time, column.symbol, {"Close": number(column.closes[row])})
            for line in self._lines:
                symbol = self._columns[line.column].symbol
                self._tape.indicator(time, symbol, line.name, number(line.values[row]), line.parameters)
            for request in self._requests.get(row, ()):
                self._request(time, row, request)
            self._close(time, row)

    def _request(self, time: int, row: int, request: Mapping[str, Any]) -> None:
        """One row of the log: a request, and what came of it."""
        if request["res_status"] == _IGNORED:
            return
        column = self._columns[int(request["col"])]
        order = self._place(time, column, request)
        if request["res_status"] == _FILLED:
            self._fill(time, row, column, order, request)
        else:
            info = int(request["res_status_info"])
            figures = {"Cash": number(request["free_cash"]), "Value": number(request["value"])}
            self._tape.rejected(time, order, self._reasons[info], self._texts[info], figures)

    def _place(self, time: int, column: Column, request: Mapping[str, Any]) -> str:
        order, filled = f"log-{request['id']}", request["res_status"] == _FILLED
        side = int(request["res_side"]) if filled else int(not _is_purchase(request))
        units = _asked(request)
        if units is None and filled:
            units = size(request["res_size"])
        kind = {"SizeType": self._size_types[int(request["req_size_type"])]}
        price = number(request["req_price"])
        ticket = Ticket(order, column.symbol, ("Buy", "Sell")[side], units, "Market", price, more=kind)
        self._tape.placed(time, ticket)
        return order

    def _fill(self, time: int, row: int, column: Column, order: str, request: Mapping[str, Any]) -> None:
        units, price, fees = (exact(request[name]) for name in ("res_size", "res_price", "res_fees"))
        side = int(request["res_side"])
        profit = column.took(-units if side else units, price, fees)
        more: dict[str, Any] = {"EngineOrderId": int(request["order_id"])}
        fill = Fill(figure(units), ("Buy", "Sell")[side], price, fees, profit, more)
        seq = self._tape.executed(time, order, fill)
        column.settle(exact(request["new_position"]))
        ended = None if profit is None else next(self._ended[int(request["col"])], None)
        self._tape.position(time, column.holding(row), seq, ended)
        asked = _asked(request)
        if asked is not None and request["res_status_info"] >= 0:
            info = int(request["res_status_info"])
            remaining = {"RemainingQuantity": figure(exact(asked) - units)}
            self._tape.cancelled(time, order, self._reasons[info], remaining)

    def _close(self, time: int, row: int) -> None:
        holdings = [column.holding(row) for column in self._columns.values()]
        for holding in holdings:
            if holding.quantity:
                self._tape.marked(time, holding)
        unrealized = sum((Decimal(holding.unrealized or 0) for holding in holdings), _ZERO)
        value, cash = exact(self._account.values[row]), exact(self._account.cash[row])
        total = value - self._account.start
        figures = map(figure, (value, cash, total, total - unrealized, unrealized))
        cause = self._tape.bar_of(self._columns[self._account.columns[-1]].symbol)
        self._tape.account(time, Account(*figures), "Bar", cause)


def _asked(request: Mapping[str, Any]) -> Plain | None:
    """The units asked for; None for all there is, or for a target, which only the result turns into units."""
    return size(request["req_size"]) if request["req_size_type"] == 0 else None


def _is_purchase(request: Mapping[str, Any]) -> bool:
    """Whether a request that came to nothing was to buy, by the engine's own rules."""
    units = float(request["req_size"]) * (-1 if int(request["req_direction"]) == _SHORT_ONLY else 1)
    kind = int(request["req_size_type"])
    if kind < _TARGETS:
        return units > 0
    # A target is what the position shall be: in units, in money, or as a share of the account's value.
    value, price = float(request["value"]), float(request["val_price"])
    scale = {_TARGETS: 1.0, _TARGETS + 1: 1 / price, _TARGETS + 2: value / price}[kind] if price else 1.0
    return units * scale > float(request["position"])


def _of(account: _Account, records: Any) -> list[dict[str, Any]]:
    """The records of an account's columns."""
    return records[records["col"].isin(account.columns)].to_dict("records")


def _by_row(records: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """The log's rows by their bar, in the order the engine processed them."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for request in records:
        rows.setdefault(int(request["idx"]), []).append(request)
    return rows


def _profits(trades: list[dict[str, Any]]) -> dict[int, Iterator[Plain | None]]:
    """Net profits of the closed trades of each column; the engine ends a trade with each closing order."""
    closed: dict[int, list[Plain | None]] = defaultdict(list)
    for trade in trades:
        if trade["status"] == _CLOSED:
            closed[int(trade["col"])].append(number(trade["pnl"]))
    return defaultdict(lambda: iter(()), {column: iter(gains) for column, gains in closed.items()})


def _symbol(name: Any, at: int) -> str:
    """A column's name; the columns of a parameter sweep have a tuple, whose parts make it up."""
    if isinstance(name, tuple):
        return "/".join(map(str, name))  # pyright: ignore[reportUnknownArgumentType]
    return str(name) if isinstance(name, str) else f"column{at}" if name is None else str(name)


def _accounts(portfolio: Any) -> list[_Account]:
    """The accounts of a portfolio: its groups where they share their cash, else its columns."""
    wrapper, by = portfolio.wrapper, None if portfolio.cash_sharing else False
    names = wrapper.grouper.get_columns(group_by=by)
    groups = list(wrapper.grouper.get_groups(group_by=by))
    value, cash = (_table(read(group_by=by)) for read in (portfolio.value, portfolio.cash))
    starts = _table(portfolio.get_init_cash(group_by=by)).reshape(-1)
    found: list[_Account] = []
    for at, name in enumerate(names):
        columns = [column for column, group in enumerate(groups) if group == at]
        series = (value[:, at], cash[:, at], exact(starts[at]))
        found.append(_Account(columns, _symbol(name, at), _levels(names, at), *series))
    return found


def _table(values: Any) -> Any:
    """Rows of bars and columns of accounts, whatever shape the engine gives to a single one."""
    numpy: Any = importlib.import_module("numpy")
    found = numpy.asarray(values)
    return found.reshape(len(found), -1) if found.ndim else found.reshape(1, 1)


def _levels(names: Any, at: int) -> dict[str, Any]:
    """The parts of a column's name that have names themselves: a sweep's parameters."""
    parts: tuple[Any, ...] = names[at] if isinstance(names[at], tuple) else (names[at],)
    found: dict[str, Any] = {}
    for level, part in zip(names.names, parts, strict=True):
        if level is not None:
            same = sum(each.split("#")[0] == str(level) for each in found)
            found[f"{level}#{same + 1}" if same else str(level)] = part
    return scalars(found)


def _lines(portfolio: Any, indicators: Mapping[str, Any]) -> Iterator[_Line]:
    """Each indicator's outputs in each column of the portfolio."""
    shape = (len(portfolio.wrapper.index), len(portfolio.wrapper.columns))
    for name, indicator in indicators.items():
        for line, frame in _outputs(name, indicator).items():
            values = frame.to_numpy().reshape(len(frame), -1)
            if values.shape != shape:
                raise Unrecordable(
                    f"the indicator {name!r} has the shape {values.shape}, the portfolio {shape}"
                )
            for column in range(shape[1]):
                yield _Line(column, line, _parameters(indicator, column), values[:, column])


def _outputs(name: str, indicator: Any) -> dict[str, Any]:
    """A factory's outputs by their names; a series or frame is its own."""
    names: tuple[str, ...] | None = getattr(indicator.__class__, "output_names", None)
    if names is None:
        return {name: indicator}
    if len(names) == 1:
        return {name: getattr(indicator, names[0])}
    return {f"{name}.{output}": getattr(indicator, output) for output in names}


def _parameters(indicator: Any, column: int) -> dict[str, Any]:
    """A factory's parameters; a list of one holds for every column."""
    names: tuple[str, ...] = getattr(indicator.__class__, "param_names", ())
    lists = {name: getattr(indicator, f"{name}_list", [None]) for name in names}
    return scalars({name: values[column if len(values) > column else 0] for name, values in lists.items()})
