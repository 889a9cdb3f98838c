"""The `[trading]` table of tracedesk.toml: what the model cannot reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

from tracedesk import tables
from tracedesk.config import FILE
from tracedesk.primitives.money import scale_of, trim
from tracedesk.tables import BadTable
from tracedesk.trading.units import CASH_PLACES

State = Literal["ACTIVE", "REDUCING", "HALTED"]
_MOST_CASH: Final = Decimal(10**12)
STATES: Final = ("ACTIVE", "REDUCING", "HALTED")


class BadTradingSetting(BadTable):
    """A value of `[trading]` that cannot be used, with what fits."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`[trading.limits]`: judged on the portfolio as it would be after a batch."""

    max_order_notional: Decimal = Decimal("10000")
    """The most one order may be worth."""
    max_position_weight: Decimal = Decimal("0.15")
    """The most of the total value that one position may be."""
    max_gross_leverage: Decimal = Decimal("1.0")
    """The most that all positions together, long and short, may be of the total value."""
    max_var_95_1d: Decimal = Decimal("0.05")
    """The most one-day 95 % value at risk, as a fraction of the total value."""
    max_daily_loss: Decimal = Decimal("0.05")
    """The most that may be lost since the last close, as a fraction of the value then."""
    max_orders_per_minute: int = 60
    """The most orders of an account within a minute of real time."""


@dataclass(frozen=True, slots=True)
class Costs:
    """`[trading.costs]`: what paper fills cost."""

    slippage_bps: Decimal = Decimal("5")
    """How far a market price moves against the owner, in hundredths of a percent."""
    fee_per_share: Decimal = Decimal("0.005")
    """The fee of one share."""
    fee_minimum: Decimal = Decimal("1.00")
    """The least fee of an order that trades at all."""
    participation: Decimal = Decimal("0.10")
    """The most of the prior 20 sessions' average volume that one order takes in one session."""


@dataclass(frozen=True, slots=True)
class Providers:
    """`[trading.providers]`: who is asked for what, first to last; and for how long an answer holds."""

    quotes: tuple[str, ...] = ("embedded", "files")
    """Who is asked for quotes: embedded, files, yahoo, or the address of a service."""
    history: tuple[str, ...] = ("embedded", "files")
    """Who is asked for bars."""
    news: tuple[str, ...] = ("files",)
    """Who is asked for news."""
    fundamentals: tuple[str, ...] = ("files",)
    """Who is asked for ratios."""
    folder: str = "market"
    """Where the provider `files` looks, inside the home."""
    quotes_ttl: int = 15
    """Seconds that a quote holds."""
    news_ttl: int = 300
    """Seconds that news hold."""
    fundamentals_ttl: int = 86_400
    """Seconds that ratios hold."""
    unknown_symbol_ttl: int = 60
    """Seconds that a provider is believed that a symbol does not exist."""
    requests_per_minute: int = 60
    """The most requests to one provider within a minute."""
    attempts: int = 3
    """How often a request that failed on the network is made in all."""
    timeout_ms: int = 5_000
    """How long one request may take."""
    allow_stale: bool = False
    """Whether an answer past its time may be used, marked, when nobody answers."""


@dataclass(frozen=True, slots=True)
class Trading:
    """Everything in `[trading]`, with its default."""

    account: str = "default"
    """The account of a call that names none."""
    accounts: tuple[str, ...] = ()
    """Other accounts that `user_id` may name; the default one always may."""
    cash: Decimal = Decimal("100000.00")
    """What a new account opens with."""
    clock: str = "replay"
    """`replay`, `system`, or the time a new replay begins at."""
    state: State = "ACTIVE"
    """ACTIVE, REDUCING (only towards zero) or HALTED (no trade)."""
    live_trading: bool = False
    """Whether orders may go to a real broker; paper needs no consent."""
    resting_orders: bool = True
    """Whether orders may rest (`time_in_force` day or gtc); `cancel_trade_order` is served with it."""
    short_selling: bool = False
    """Whether more may be sold than is held."""
    fractional: bool = True
    """Whether quantities may have places, up to nine."""
    window: int = 252
    """Returns that risk is computed from."""
    minimum_returns: int = 30
    """Returns without which risk is unknown."""
    risk_free: Decimal = Decimal("0")
    """The yearly risk-free rate of the Sharpe ratio."""
    simulation_ttl: int = 60
    """Seconds, on the market's clock, that a simulation can be executed as it was shown."""
    limits: Limits = field(default_factory=Limits)
    """The risk limits."""
    costs: Costs = field(default_factory=Costs)
    """What paper fills cost."""
    providers: Providers = field(default_factory=Providers)
    """Who is asked."""

    def is_plain(self, home: Path) -> bool:
        """Whether clock and providers need no look at the market or the home to be found usable."""
        as_shipped = self.clock in ("replay", "system") and self.providers == Providers()
        return as_shipped and not (home / self.providers.folder).is_symlink()


TABLE: Final = Trading
"""The root of the toolset's settings, for the reference."""


def read(table: Mapping[str, Any]) -> Trading:
    """The settings of a `[trading]` table; raises `BadTradingSetting` for what does not fit."""
    found = tables.read(Trading, table, "trading", BadTradingSetting)
    if found.window < max(2, found.minimum_returns):
        raise BadTradingSetting("trading.window must be at least 2, and at least trading.minimum_returns")
    if not all((found.account, *found.accounts)):
        raise BadTradingSetting("trading.account and trading.accounts must be names, not empty")
    if found.cash > _MOST_CASH or scale_of(trim(found.cash)) > CASH_PLACES:
        raise BadTradingSetting(f"trading.cash must be whole cents, at most {_MOST_CASH}")
    return found


def changed_ns(home: Path) -> int:
    """When the home's file of settings was last changed; 0 where there is none."""
    try:
        return (home / FILE).stat().st_mtime_ns
    except FileNotFoundError:
        return 0
