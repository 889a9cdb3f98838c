"""Trades as the market prints them, one by one and added up by the order that took them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

KEPT: Final = 20_000
"""Trades that can be looked up; older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class Print:
    """One trade."""

    id: int
    price: int
    quantity: int
    time_ns: int
    buyer_is_maker: bool
    taker: int | None = None
    """The order that took, where it is known."""

    @property
    def quote(self) -> int:
        """What was paid, in 1e-16 of the quote asset."""
        return self.price * self.quantity


@dataclass(slots=True)
class Aggregate:
    """Trades of one taking order at one price and time."""

    id: int
    price: int
    quantity: int
    first: int
    last: int
    time_ns: int
    buyer_is_maker: bool
    taker: int | None

    @classmethod
    def of(cls, id: int, made: Print) -> Aggregate:
        return cls(
            id, made.price, made.quantity, made.id, made.id, made.time_ns, made.buyer_is_maker, made.taker
        )

    def takes(self, made: Print) -> bool:
        """Whether the trade is a further part of this one."""
        return (
            made.price == self.price
            and made.taker == self.taker
            and made.buyer_is_maker == self.buyer_is_maker
            and made.id == self.last + 1
            and made.time_ns // 1_000_000 == self.time_ns // 1_000_000
        )

    def add(self, made: Print) -> None:
        self.quantity += made.quantity
        self.last = made.id


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def time_ns(self) -> int: ...


T = TypeVar("T", bound=_Numbered)


class Kept(Generic[T]):
    """The newest rows in order of their ids."""

    def __init__(self, most: int = KEPT) -> None:
        self._rows: list[T] = []
        self._most = most

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: T) -> None:
        self._rows.append(row)
        if len(self._rows) >= 2 * self._most:
            del self._rows[: -self._most]

    def newest(self, count: int) -> list[T]:
        return self._rows[-count:]

    def from_id(self, id: int, count: int) -> list[T]:
        """Rows from that id on."""
        at = bisect_left(self._rows, id, key=lambda row: row.id)
        return self._rows[at : at + count]

    def between(self, from_ns: int | None, until_ns: int | None, count: int) -> list[T]:
        """Rows of a time, ends included: the earliest from a beginning on, else the latest."""
        low = 0 if from_ns is None else self._at(from_ns)
        high = len(self._rows) if until_ns is None else self._at(until_ns + 1)
        if from_ns is None:
            return self._rows[max(low, high - count) : high]
        return self._rows[low : min(high, low + count)]

    def _at(self, ns: int) -> int:
        return bisect_left(self._rows, ns, key=lambda row: row.time_ns)


class Tape:
    """Every trade that is kept, and the aggregate that is still open."""

    def __init__(self, told: Callable[[Aggregate], None]) -> None:
        self.prints: Kept[Print] = Kept()
        self.aggregates: Kept[Aggregate] = Kept()
        self.last: Print | None = None
        self._told = told
        self._open: Aggregate | None = None
        self._aggregates = 0

    def add(self, made: Print) -> None:
        self.last = made
        self.prints.add(made)
        if self._open is not None and self._open.takes(made):
            self._open.add(made)
            return
        self.settle()
        self._aggregates += 1
        self._open = Aggregate.of(self._aggregates, made)

    def settle(self) -> None:
        """Close the open aggregate: its order has taken all it will."""
        done, self._open = self._open, None
        if done is not None:
            self.aggregates.add(done)
            self._told(done)

    def number_from(self, aggregates: int) -> None:
        """Let the next aggregate follow that many that came before."""
        self._aggregates = aggregates
