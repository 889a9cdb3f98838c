"""How traded volume lies over prices: bins of ticks, point of control, value area."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.analytics.span import BINARY64, Evidence, Insufficient, Span, known
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.series import Prints
from tracedesk.exchange.units import decimal

PRINTS: Final = 1_000
"""Prints that a profile needs."""
_TICKS: Final = 10
_BINS: Final = 100
_MOST_BINS: Final = 2_000
_METHOD: Final = (
    "bins of whole ticks (at least 10, about 100 bins unless given); POC = largest bin, of equals the one "
    "nearest the middle of the profile, then the lower; value area: from the POC add the larger of the two "
    f"bins above and the two below (above where equal) until 70 % of the volume; volumes exact; {BINARY64}"
)


@dataclass(frozen=True, slots=True)
class Bin:
    """Prices from `low` on, as wide as the profile says."""

    low: int
    volume: int
    prints: int


@dataclass(frozen=True, slots=True)
class VolumeProfile:
    """Traded volume by price, over every bin from the lowest to the highest print."""

    instrument: Instrument
    bin_size: int
    bins: tuple[Bin, ...]
    control: int
    """Index of the bin with the most volume."""
    area: tuple[int, int]
    """First and last index of the value area."""
    evidence: Evidence

    @property
    def volume(self) -> int:
        return sum(each.volume for each in self.bins)

    @property
    def point_of_control(self) -> int:
        return self.bins[self.control].low

    @property
    def value_area(self) -> tuple[int, int]:
        """Lower and upper price of the value area."""
        first, last = self.area
        return self.bins[first].low, self.bins[last].low + self.bin_size

    def document(self) -> dict[str, Any]:
        low, high = self.value_area
        price = self.instrument.price_text
        return known(
            self.evidence,
            symbol=self.instrument.symbol,
            histogram=[self._row(each) for each in self.bins if each.prints],
            bin_size=price(self.bin_size),
            point_of_control=price(self.point_of_control),
            value_area_high=price(high),
            value_area_low=price(low),
            total_volume=self.instrument.quantity_text(self.volume),
        )

    def _row(self, each: Bin) -> dict[str, Any]:
        return {
            "price_level": self.instrument.price_text(each.low),
            "volume": self.instrument.quantity_text(each.volume),
            "trade_count": each.prints,
            "percentage_of_total": round(100.0 * each.volume / self.volume, 4),
        }


def volume_profile(
    prints: Prints, instrument: Instrument, span: Span, bin_size: int | None = None
) -> VolumeProfile | Insufficient:
    """The profile of the window; a given bin size in units must be a multiple of the tick."""
    if len(prints) < PRINTS:
        return span.insufficient(_METHOD, len(prints), {"prints": PRINTS}, {"prints": len(prints)})
    prices = prints.price.tolist()
    width = _width(bin_size, instrument, max(prices) - min(prices))
    bins = _bins(prices, prints.quantity.tolist(), width)
    volumes = [each.volume for each in bins]
    control = point_of_control(volumes)
    area = value_area(volumes, control)
    return VolumeProfile(instrument, width, bins, control, area, span.evidence(_METHOD, len(prints)))


def _width(asked: int | None, instrument: Instrument, spread: int) -> int:
    tick = instrument.tick or 1
    if asked is None:
        return tick * max(_TICKS, -(-spread // (_BINS * tick)))
    if asked <= 0 or asked % tick:
        raise ToolError(
            "INVALID_PARAMETER",
            f"tick_size {decimal(asked)} must be a positive multiple of the tick {decimal(tick)} of "
            f"{instrument.symbol}; leave it out to have about {_BINS} bins.",
        )
    if spread // asked >= _MOST_BINS:
        least = tick * -(-(spread + 1) // (_MOST_BINS * tick))
        raise ToolError(
            "INVALID_PARAMETER",
            f"tick_size {decimal(asked)} makes more than {_MOST_BINS} bins; give at least {decimal(least)}.",
        )
    return asked


def _bins(prices: Sequence[int], quantities: Sequence[int], width: int) -> tuple[Bin, ...]:
    first, last = min(prices) // width, max(prices) // width
    volumes, counts = [0] * (last - first + 1), [0] * (last - first + 1)
    for price, quantity in zip(prices, quantities, strict=True):
        at = price // width - first
        volumes[at] += quantity
        counts[at] += 1
    rows = zip(volumes, counts, strict=True)
    return tuple(Bin((first + at) * width, volume, count) for at, (volume, count) in enumerate(rows))


def point_of_control(volumes: Sequence[int]) -> int:
    """Index of the largest; of equals the nearest to the middle, then the lower."""
    most, middle = max(volumes), len(volumes) - 1
    return min(
        (at for at, each in enumerate(volumes) if each == most), key=lambda at: (abs(2 * at - middle), at)
    )


def value_area(volumes: Sequence[int], control: int, percent: int = 70) -> tuple[int, int]:
    """First and last index: from the control outwards, always the larger pair, until `percent` is inside."""
    needed = sum(volumes) * percent
    low = high = control
    inside = volumes[control]
    while inside * 100 < needed:
        above, below = volumes[high + 1 : high + 3], volumes[max(0, low - 2) : low]
        if above and (not below or sum(above) >= sum(below)):
            high, inside = high + len(above), inside + sum(above)
        else:
            low, inside = low - len(below), inside + sum(below)
    return low, high
