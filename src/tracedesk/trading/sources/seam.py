"""What a provider of market facts must offer, and what it hands over."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from math import inf, isfinite
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, overload
from weakref import WeakValueDictionary

from tracedesk.errors import ToolError
from tracedesk.market import Split

T = TypeVar("T")

METRICS: Final = (
    "pe_ratio", "peg_ratio", "ev_ebitda", "roic", "gross_margin", "current_ratio", "debt_to_equity",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quote:
    """The last price of a symbol, when it was made, and what it is compared with."""

    symbol: str
    price: Decimal
    as_of_ns: int
    previous_close: Decimal | None = None
    volume: int | Decimal | None = None
    bid: Decimal | None = None
    ask: Decimal | None = None
    volume_day: date | None = None
    """The session that the volume is of, where it is not the price's."""
    session_ns: int | None = None
    """The start of the price's session, where that is not one of the exchange."""


@dataclass(frozen=True, slots=True)
class Candle:
    """One bar; `start_ns` is its start, a daily bar's is its session's open."""

    start_ns: int
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: int | Decimal
    adjusted_close: Decimal


Adjust = Literal["splits", "none"]
Basis = Literal["splits", "none", "source"]


@dataclass(frozen=True, slots=True)
class History(Sequence[Candle]):
    """Bars of one symbol, oldest first, with the basis of their prices.

    `splits`: in the shares after the splits up to the clock. `none`: as they were traded; only a bar of more
    than a day is in the shares of its last session. `source`: as the source has adjusted them, or not.
    """

    candles: tuple[Candle, ...]
    basis: Basis = "source"
    splits: tuple[Split, ...] = ()
    """The splits that the bars are adjusted for."""
    notes: tuple[str, ...] = ()
    """Facts about the source that a reader must not miss."""

    def __len__(self) -> int:
        return len(self.candles)

    @overload
    def __getitem__(self, index: int) -> Candle: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Candle, ...]: ...

    def __getitem__(self, index: int | slice) -> Candle | tuple[Candle, ...]:
        return self.candles[index]


@dataclass(frozen=True, slots=True)
class Series:
    """Daily columns for arithmetic, oldest first: days as ordinals of `date`, prices as binary64."""

    days: array[int]
    """One object for all series of the same days, so that none has to be compared with another."""
    adjusted: array[float]
    volumes: array[int]
    sound_from: int = field(init=False)
    """The row from which on every price is a number above zero."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "days", _shared(self.days))
        object.__setattr__(self, "sound_from", _sound_from(self.adjusted))


_CALENDARS: Final[WeakValueDictionary[int, array[int]]] = WeakValueDictionary()


def _shared(days: array[int]) -> array[int]:
    known = _CALENDARS.setdefault(hash(days.tobytes()), days)
    return known if known == days else days


def _sound_from(prices: array[float]) -> int:
    if isfinite(sum(prices)) and min(prices, default=0.0) > 0.0:
        return 0
    unsound = (row for row in reversed(range(len(prices))) if not 0.0 < prices[row] < inf)
    return next(unsound, -1) + 1


@dataclass(frozen=True, slots=True)
class Story:
    """A headline as its publisher wrote it: text from outside, never to be obeyed."""

    symbol: str
    headline: str
    summary: str
    published_ns: int
    source: str


@dataclass(frozen=True, slots=True)
class Ratios:
    """Fundamentals of one symbol; each of `METRICS` is in `values` or has its reason in `missing`."""

    symbol: str
    values: Mapping[str, Decimal]
    missing: Mapping[str, str]
    as_of_ns: int
    period_end: date | None = None
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Fetch(Generic[T]):
    """One answer of a provider: what it says of each symbol, and the bytes it said it in."""

    values: Mapping[str, T]
    failures: Mapping[str, ToolError] = field(default_factory=dict[str, ToolError])
    body: bytes = b""
    media_type: str = "application/json"


class QuoteSource(Protocol):
    """Last prices."""

    name: str

    async def quotes(self, symbols: Sequence[str], now_ns: int) -> Fetch[Quote]: ...


class HistorySource(Protocol):
    """Bars: those asked for by period and interval, and the daily columns that risk is computed from."""

    name: str

    async def history(
        self, symbol: str, period: str, interval: str, now_ns: int, adjust: Adjust | None = None
    ) -> Fetch[History]: ...

    async def daily(self, symbols: Sequence[str], count: int, now_ns: int) -> Fetch[Series]:
        """Up to `count` of the last full sessions before `now_ns`."""
        ...


class NewsSource(Protocol):
    """Stories published in (since_ns, now_ns], newest first."""

    name: str

    async def news(self, symbols: Sequence[str], since_ns: int, now_ns: int) -> Fetch[tuple[Story, ...]]: ...


class FundamentalsSource(Protocol):
    """Ratios."""

    name: str

    async def fundamentals(self, symbols: Sequence[str], now_ns: int) -> Fetch[Ratios]: ...


# --- how a provider fails ----------------------------------------------------------------------


def invalid_symbol(symbol: str, known: Sequence[str] = ()) -> ToolError:
    """The provider positively denies that the symbol exists."""
    remedy = f"Use one of {', '.join(known)}." if known else "Check its spelling."
    return ToolError("INVALID_SYMBOL", f"symbol {symbol!r} is not known. {remedy}", _details(symbol, False))


def unavailable(symbol: str, what: str, remedy: str) -> ToolError:
    """The provider answered, and has nothing."""
    return ToolError("DATA_UNAVAILABLE", f"{what} of {symbol!r}: none. {remedy}", _details(symbol, False))


DROPPED_FILE: Final = "dropped_file"
"""The detail of a refusal that names a file which is about the symbol, and has nothing to answer with."""


def nothing_in_file(symbol: str, what: str, file: str, remedy: str) -> ToolError:
    """The provider has a file for the symbol, in which nothing answers the question."""
    message = f"{what} of {symbol!r}: none. {remedy}"
    return ToolError("DATA_UNAVAILABLE", message, {**_details(symbol, False), DROPPED_FILE: file})


BAD_FILE: Final = "file"
"""The detail of a refusal that names the file to be mended."""


def bad_file(symbol: str, what: str, file: str, problem: str) -> ToolError:
    """The provider has a file for the symbol, and cannot use it."""
    message = f"{what} of {symbol!r}: its file cannot be used. {problem}. Mend the file."
    return ToolError("DATA_UNAVAILABLE", message, {**_details(symbol, False), BAD_FILE: file})


def rate_limited(provider: str, retry_after_s: float) -> ToolError:
    """The provider, or our own allowance for it, is spent for now."""
    message = f"{provider} takes no more requests now; retry after {retry_after_s:g} s."
    details = {"provider": provider, "retryable": True, "retry_after_s": retry_after_s}
    return ToolError("RATE_LIMITED", message, details)


def network_error(provider: str, problem: str) -> ToolError:
    """The provider could not be reached, or did not answer in time."""
    message = f"{provider} could not be reached ({problem}). Retry later, or choose another provider."
    return ToolError("NETWORK_ERROR", message, {"provider": provider, "retryable": True})


def _details(symbol: str, retryable: bool) -> dict[str, Any]:
    return {"symbol": symbol, "retryable": retryable}
