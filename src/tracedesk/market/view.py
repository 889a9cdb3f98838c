"""The market as it was known at one instant: the only way to read bars.

Inside session D, D's open and the full bars of earlier sessions are known; at D's close, D's full bar is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal, Protocol

from tracedesk.market import calendar
from tracedesk.market.actions import Action, Split
from tracedesk.market.bars import PRICE_PLACES, Bar, Bars, price
from tracedesk.market.dataset import EMBEDDED
from tracedesk.primitives.money import divide, from_units, to_units
from tracedesk.primitives.time import format

PERCENT_PLACES = 4


class HasNow(Protocol):
    """Anything that tells the time, such as a `Clock`."""

    def now_ns(self) -> int:
        """Return UTC nanoseconds."""
        ...


class NoBars(LookupError):
    """Nothing is known of the symbol at the instant."""

    def __init__(self, symbol: str, now_ns: int, known: tuple[str, ...]) -> None:
        others = ", ".join(known) or "no symbol"
        super().__init__(f"there are no bars of {symbol!r} up to {format(now_ns)}, but of {others}")


@dataclass(frozen=True, slots=True)
class Quote:
    """The last known price: the open of the session in progress, else the close of the last one.

    `previous_close` is the close of the session before, in today's shares when the share was split since.
    """

    symbol: str
    session: date
    basis: Literal["open", "close"]
    price: Decimal
    as_of_ns: int
    previous_close: Decimal | None
    volume: int | None

    @property
    def change(self) -> Decimal | None:
        """The price less the previous close, or None on the symbol's first session."""
        if self.previous_close is None:
            return None
        return price(to_units(self.price, PRICE_PLACES) - to_units(self.previous_close, PRICE_PLACES))

    @property
    def change_percent(self) -> Decimal | None:
        """The change in percent of the previous close, rounded half-even to four places."""
        if self.change is None or self.previous_close is None:
            return None
        change, base = (to_units(value, PRICE_PLACES) for value in (self.change, self.previous_close))
        return from_units(divide(change * 10 ** (PERCENT_PLACES + 2), base), PERCENT_PLACES)


class View:
    """What is known of the market at the instant that the clock shows when the view is made."""

    def __init__(self, clock: HasNow, source: Mapping[str, Bars] = EMBEDDED) -> None:
        self._now_ns = clock.now_ns()
        self._session = calendar.session_at(self.now_ns)
        self._opened = calendar.opened_by(self.now_ns)
        self._closed = calendar.closed_by(self.now_ns)
        self._source = source
        self._cut: dict[str, Bars] = {}

    @property
    def now_ns(self) -> int:
        """The instant of the view."""
        return self._now_ns

    @property
    def session(self) -> date | None:
        """The session in progress, if there is one."""
        return self._session

    @property
    def is_open(self) -> bool:
        """Whether a session is in progress."""
        return self.session is not None

    def symbols(self) -> tuple[str, ...]:
        """Return the symbols that have traded by now."""
        return tuple(symbol for symbol in self._source if self._is_listed(symbol))

    def bars(self, symbol: str) -> Bars:
        """Return the symbol's full bars so far; their adjusted closes know the actions up to the last one."""
        self._check(symbol)
        return self._complete(symbol)

    def actions(self, symbol: str) -> tuple[Action, ...]:
        """Return the splits and dividends whose ex-date has opened by now."""
        self._check(symbol)
        opened = self._opened
        return tuple(a for a in self._source[symbol].actions if opened is not None and a.ex_date <= opened)

    def splits(self, symbol: str) -> tuple[Split, ...]:
        """Return the splits whose ex-date has opened by now."""
        return tuple(action for action in self.actions(symbol) if isinstance(action, Split))

    def volumes(self, symbol: str, first: int, end: int) -> tuple[int, ...]:
        """Return the volumes of some of the symbol's full bars in the shares of now."""
        return self.bars(symbol).restated_volumes(first, end, self.splits(symbol))

    def quote(self, symbol: str) -> Quote:
        """Return the symbol's last known price and what it changed by."""
        self._check(symbol)
        recent = self._complete(symbol).latest(2)
        opening = self._opening(symbol)
        if self.session is not None and opening is not None:
            before = recent[-1] if recent else None
            return self._quote(symbol, self.session, "open", opening, before, None)
        last, before = recent[-1], recent[-2] if len(recent) > 1 else None
        return self._quote(symbol, last.session, "close", last.close, before, last.volume)

    def _quote(
        self,
        symbol: str,
        session: date,
        basis: Literal["open", "close"],
        amount: Decimal,
        before: Bar | None,
        volume: int | None,
    ) -> Quote:
        as_of = calendar.open_ns(session) if basis == "open" else calendar.close_ns(session)
        previous = None if before is None else self._restated(symbol, before, session)
        return Quote(symbol, session, basis, amount, as_of, previous, volume)

    def _restated(self, symbol: str, before: Bar, session: date) -> Decimal:
        units = to_units(before.close, PRICE_PLACES)
        for split in self.splits(symbol):
            if before.session < split.ex_date <= session:
                units = divide(units * split.old, split.new)
        return price(units)

    def _complete(self, symbol: str) -> Bars:
        if symbol not in self._cut:
            self._cut[symbol] = self._source[symbol].until(self._closed)
        return self._cut[symbol]

    def _opening(self, symbol: str) -> Decimal | None:
        return None if self.session is None else self._source[symbol].open_on(self.session)

    def _is_listed(self, symbol: str) -> bool:
        return self._opening(symbol) is not None or len(self._complete(symbol)) > 0

    def _check(self, symbol: str) -> None:
        # A symbol listed later is as unknown as one that never is: the difference would tell the future.
        if symbol not in self._source or not self._is_listed(symbol):
            raise NoBars(symbol, self.now_ns, self.symbols())
