"""Accounts in double entry: every amount that one gains, another loses.

What users hold came from `issuance`, what the background flow trades with them is owed by or to
`market`, and commissions go to `fees`; those three may be negative, users never.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tracedesk.exchange.units import ONE

if TYPE_CHECKING:
    from tracedesk.exchange.venue.live import Order

MARKET: Final = "market"
FEES: Final = "fees"
ISSUANCE: Final = "issuance"
HOUSE: Final = (ISSUANCE, MARKET, FEES)
"""The accounts that are not users'."""
STANDARD_RATE: Final = ONE // 1000
"""0.1 % of what is received."""


class Posting(NamedTuple):
    """A change of what an account holds."""

    account: int
    asset: str
    amount: int


@dataclass(frozen=True, slots=True)
class AccountState:
    """An account at a moment; rates are units of 1e-8."""

    name: str
    uid: int
    maker: int
    taker: int
    balances: Mapping[str, tuple[int, int]]
    """Free and locked by asset, in order of the asset's name."""
    updated_ns: int


class Account:
    """Who holds what, and how much of it open orders lock."""

    __slots__ = ("by_client", "id", "locked", "maker", "name", "orders", "taker", "total", "updated_ns")

    def __init__(self, id: int, name: str, maker: int = 0, taker: int = 0, updated_ns: int = 0) -> None:
        self.id = id
        self.name = name
        self.maker = maker
        self.taker = taker
        self.updated_ns = updated_ns
        self.total: defaultdict[str, int] = defaultdict(int)
        self.locked: defaultdict[str, int] = defaultdict(int)
        self.orders: dict[int, Order] = {}
        """Open orders by id."""
        self.by_client: dict[tuple[str, str], Order] = {}
        """Open orders by symbol and client order id."""

    @property
    def is_house(self) -> bool:
        return self.name in HOUSE

    def free(self, asset: str) -> int:
        return self.total[asset] - self.locked[asset]

    def balance(self, asset: str) -> tuple[int, int]:
        """Free and locked."""
        locked = self.locked[asset]
        return self.total[asset] - locked, locked

    def state(self) -> AccountState:
        balances = {asset: self.balance(asset) for asset in sorted(self.total)}
        return AccountState(self.name, uid(self.name), self.maker, self.taker, balances, self.updated_ns)


def uid(name: str) -> int:
    """The number that clients see of an account: the same in every store of a home, and after a new start."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6])


def commission(received: int, rate: int) -> int:
    """The commission on an amount, rounded half up to the last unit."""
    return (received * rate + ONE // 2) // ONE


def is_balanced(postings: Iterable[Posting]) -> bool:
    """Whether the postings of one command sum to zero in every asset."""
    sums: defaultdict[str, int] = defaultdict(int)
    for posting in postings:
        sums[posting.asset] += posting.amount
    return not any(sums.values())
