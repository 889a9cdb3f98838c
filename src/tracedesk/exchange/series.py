"""What happened in a market, as columns of whole numbers in order of time.

Times are UTC nanoseconds of the event as the venue gave them, prices and quantities are units of 1e-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Touches:
    """Best bid and ask, one row for each time either changed."""

    ns: Column
    id: Column
    bid: Column
    bid_quantity: Column
    ask: Column
    ask_quantity: Column

    def __len__(self) -> int:
        return len(self.ns)


@dataclass(frozen=True, slots=True, eq=False)
class Prints:
    """Trades; `maker` is 1 where the buyer was the maker, so that the seller was the aggressor."""

    ns: Column
    id: Column
    price: Column
    quantity: Column
    maker: Column

    def __len__(self) -> int:
        return len(self.ns)


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Levels of the book whose quantity changed; `side` is 1 for bids and -1 for asks."""

    ns: Column
    id: Column
    """The last update id of the event that brought the change."""
    side: Column
    price: Column
    before: Column
    after: Column

    def __len__(self) -> int:
        return len(self.ns)


@dataclass(frozen=True, slots=True)
class Covered:
    """The time that is known: what lies before was never seen or is forgotten."""

    from_ns: int
    to_ns: int
    dropped: int = 0
    """Rows that were forgotten since the beginning."""
