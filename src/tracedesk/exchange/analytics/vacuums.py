"""Liquidity vacuums: stretches of price where next to nothing rests, so that prices would run through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID, uuid5

from tracedesk.exchange.analytics.exact import shown
from tracedesk.exchange.analytics.slippage import Trusted
from tracedesk.exchange.analytics.span import BINARY64, Evidence, Insufficient, Span, known
from tracedesk.exchange.book.book import Book
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.series import Prints
from tracedesk.primitives import time

Severity = Literal["Medium", "High", "Critical"]

REACH_BPS: Final = 200
"""How far from the touch vacuums are looked for, as far as the prices are trusted."""
BINS: Final = 100
NEIGHBOURS: Final = 10
"""Bins on either side of one that make its local median."""
BELOW_PERCENT: Final = 20
_TICKS: Final = 10
_LEAST: Final = 10
_NAMES: Final = UUID("0b4f2f0e-73d5-4f0e-8d8a-6a5c1f5d9e42")
_METHOD: Final = (
    f"bins of equal width from the touch outwards (>= {_TICKS} ticks, about {BINS} a side, within "
    f"{REACH_BPS} bps and the prices the snapshot vouches for); a vacuum is a run of bins whose resting "
    f"depth is < {BELOW_PERCENT} % of the median of the {2 * NEIGHBOURS + 1} bins around; severity by "
    f"width: 1, 2-3, >= 4 bins; {BINARY64}"
)


@dataclass(frozen=True, slots=True)
class Vacuum:
    """A stretch of prices on one side of the book."""

    side: Literal["bid", "ask"]
    low: int
    high: int
    bins: int
    depth: int
    usual: int
    """What its bins would hold at their local medians."""
    traded: int
    """What was traded in the stretch during the covered window."""

    @property
    def deficit_pct(self) -> float:
        return 100.0 * (1.0 - self.depth / self.usual)

    @property
    def severity(self) -> Severity:
        return "Critical" if self.bins >= 4 else "High" if self.bins >= 2 else "Medium"

    def document(self, instrument: Instrument, at_ns: int) -> dict[str, Any]:
        low, high = instrument.price_text(self.low), instrument.price_text(self.high)
        beyond = f"below {low}" if self.side == "bid" else f"above {high}"
        return {
            "vacuum_id": str(uuid5(_NAMES, f"{instrument.symbol}/{self.side}/{low}/{high}/{at_ns}")),
            "symbol": instrument.symbol,
            "side": self.side,
            "price_range_low": low,
            "price_range_high": high,
            "volume_deficit_pct": self.deficit_pct,
            "severity": self.severity,
            "expected_impact": "ModerateMovement" if self.traded else "FastMovement",
            "resting_quantity": shown(self.depth),
            "traded_quantity": shown(self.traded),
            "detection_timestamp": time.format(at_ns),
            "stop_placement_recommendation": f"Place no stop between {low} and {high}; place it {beyond}.",
        }


@dataclass(frozen=True, slots=True)
class Vacuums:
    """The vacuums of both sides, nearest to the touch first."""

    instrument: Instrument
    found: tuple[Vacuum, ...]
    bin_size: int
    median_depth: Mapping[str, int]
    """The median bin of each side."""
    evidence: Evidence

    def document(self) -> dict[str, Any]:
        at = self.evidence.span.covered.to_ns
        return known(
            self.evidence,
            vacuums=[each.document(self.instrument, at) for each in self.found],
            bin_size=self.instrument.price_text(self.bin_size),
            median_volume={side: shown(depth) for side, depth in self.median_depth.items()},
        )


def vacuums(
    book: Book, prints: Prints, instrument: Instrument, span: Span, trusted: Trusted | None = None
) -> Vacuums | Insufficient:
    """Where hardly anything rests near the touch; `prints` tell whether it was traded in the window."""
    bid, ask = book.best_bid(), book.best_ask()
    low, high = trusted or (0, 2**63 - 1)
    if bid is None or ask is None:
        have = {"bids": len(book.bids), "asks": len(book.asks)}
        return span.insufficient(_METHOD, 0, {"bids": 1, "asks": 1}, have)
    reach = bid[0] * REACH_BPS // 10_000
    tick = instrument.tick or 1
    width = _width(tick, reach)
    sides = {
        "bid": _Side.of("bid", book.bids, bid[0], max(low, bid[0] - reach), width, tick),
        "ask": _Side.of("ask", book.asks, ask[0], min(high, ask[0] + reach), width, tick),
    }
    bins = {name: len(side.depths) for name, side in sides.items()}
    if min(bins.values()) < _LEAST:
        needed = {"bid_bins": _LEAST, "ask_bins": _LEAST}
        return span.insufficient(
            _METHOD, sum(bins.values()), needed, {f"{name}_bins": count for name, count in bins.items()}
        )
    found = [each for side in sides.values() for each in side.vacuums(prints)]
    medians = {name: _median(side.depths) for name, side in sides.items()}
    return Vacuums(
        instrument, tuple(found), width, medians, span.evidence(_METHOD, len(book.bids) + len(book.asks))
    )


def _width(tick: int, reach: int) -> int:
    return tick * max(_TICKS, -(-reach // (BINS * tick)))


def _median(values: Sequence[int]) -> int:
    """The lower median, exact."""
    return sorted(values)[(len(values) - 1) // 2]


@dataclass(frozen=True, slots=True)
class _Side:
    """The depth of one side in bins, nearest to the touch first."""

    name: Literal["bid", "ask"]
    touch: int
    width: int
    tick: int
    depths: list[int]

    @classmethod
    def of(
        cls,
        name: Literal["bid", "ask"],
        levels: Mapping[int, int],
        touch: int,
        limit: int,
        width: int,
        tick: int,
    ) -> _Side:
        """Only bins that lie wholly between the touch and the limit count."""
        depths = [0] * (abs(limit - touch) // width)
        for price, quantity in levels.items():
            at = abs(price - touch) // width
            if at < len(depths):
                depths[at] += quantity
        return cls(name, touch, width, tick, depths)

    def vacuums(self, prints: Prints) -> list[Vacuum]:
        usual = [self._local(at) for at in range(len(self.depths))]
        thin = [at for at, depth in enumerate(self.depths) if depth * 100 < usual[at] * BELOW_PERCENT]
        runs: list[list[int]] = []
        for at in thin:
            if runs and runs[-1][-1] == at - 1:
                runs[-1].append(at)
            else:
                runs.append([at])
        return [self._vacuum(run[0], run[-1], usual, prints) for run in runs]

    def _local(self, at: int) -> int:
        return _median(self.depths[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1])

    def _vacuum(self, first: int, last: int, usual: Sequence[int], prints: Prints) -> Vacuum:
        edges = first * self.width, (last + 1) * self.width
        if self.name == "bid":
            low, high = self.touch - edges[1] + self.tick, self.touch - edges[0]
        else:
            low, high = self.touch + edges[0], self.touch + edges[1] - self.tick
        inside = (prints.price >= low) & (prints.price <= high)
        part = slice(first, last + 1)
        traded = sum(prints.quantity[inside].tolist())
        return Vacuum(
            self.name, low, high, last - first + 1, sum(self.depths[part]), sum(usual[part]), traded
        )
