"""Corporate actions: what happens to a share on its ex-date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Split:
    """Each `old` shares become `new` shares before the ex-date opens."""

    ex_date: date
    new: int
    old: int


@dataclass(frozen=True, slots=True)
class Dividend:
    """Who holds a share when the ex-date opens is paid the amount, in dollars."""

    ex_date: date
    amount: Decimal


Action = Split | Dividend
