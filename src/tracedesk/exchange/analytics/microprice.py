"""The micro-price: where the mid is expected to go, estimated from how touches followed one another.

Stoikov's chain: a state is a band of imbalance and a band of spread. Until the mid moves the chain walks
between states (Q); when it moves, by r on average, it lands in another (T). The expected first move is
G1 = (1-Q)^-1 r, the state after it B = (1-Q)^-1 T, and the micro-price the mid plus G1 + B G1 + B^2 G1 + ...
Every observation is counted together with its mirror image, bids for asks, so that the sum has a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tracedesk.exchange.analytics.exact import two_sided
from tracedesk.exchange.analytics.span import BINARY64, Evidence, Insufficient, Span, known
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.series import Touches
from tracedesk.exchange.units import ONE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]
    Indices = NDArray[np.int64]

BANDS: Final = 10
"""Bands of the imbalance bid / (bid + ask)."""
SPREADS: Final = 8
"""Bands of the spread: 1 tick, 2-3, 4-7 and so on; the last is open."""
MOVES: Final = 100
"""Changes of the mid that an estimate needs."""
VISITS: Final = 20
"""Observations, with their mirror images, that the present state needs."""
_STEPS: Final = 10_000
_METHOD: Final = (
    f"Stoikov 2018: Markov chain over {BANDS} bands of imbalance and up to {SPREADS} of spread, one step "
    f"per change of the touch, symmetrised; micro-price = mid + G1 + B G1 + B^2 G1 + ...; {BINARY64}"
)


@dataclass(frozen=True, slots=True)
class MicroPrice:
    """The micro-price at the last touch of the window."""

    price: float
    adjustment: float
    mid: float
    imbalance: float
    spread_ticks: int
    visits: int
    moves: int
    evidence: Evidence

    def document(self) -> dict[str, Any]:
        return known(
            self.evidence,
            microprice=self.price,
            adjustment=self.adjustment,
            mid_price=self.mid,
            imbalance=self.imbalance,
            spread_ticks=self.spread_ticks,
            state_observations=self.visits,
            mid_moves=self.moves,
        )


def estimate(touches: Touches, instrument: Instrument, span: Span) -> MicroPrice | Insufficient:
    """The micro-price now, or what is missing for one."""
    touches = two_sided(touches)
    tick = instrument.tick or 1
    size = max(0, len(touches) - 1)
    needed = {"mid_moves": MOVES, "state_observations": VISITS}
    if size == 0:
        return span.insufficient(_METHOD, 0, needed, {"mid_moves": 0, "state_observations": 0})
    chain = Chain.of(touches, tick)
    have = {"mid_moves": chain.moves, "state_observations": chain.visits}
    adjustments = chain.adjustments() if chain.moves >= MOVES and chain.visits >= VISITS else None
    if adjustments is None:
        return span.insufficient(_METHOD, size, needed, have)
    bid, ask = int(touches.bid[-1]), int(touches.ask[-1])
    bids, asks = int(touches.bid_quantity[-1]), int(touches.ask_quantity[-1])
    adjustment, mid = float(adjustments[chain.last]), (bid + ask) / (2 * ONE)
    return MicroPrice(
        mid + adjustment,
        adjustment,
        mid,
        bids / (bids + asks),
        (ask - bid) // tick,
        chain.visits,
        chain.moves,
        span.evidence(_METHOD, size),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Counts of what followed what, mirrored."""

    stays: Reals
    """From state to state without a move of the mid."""
    lands: Reals
    """From state to state with a move."""
    drift: Reals
    """The sum of moves that began in a state, in price."""
    last: int
    """The present state."""
    moves: int
    """Observed moves of the mid, not counting mirror images."""

    @classmethod
    def of(cls, touches: Touches, tick: int) -> Chain:
        import numpy as np

        band, width = _states(touches, tick)
        step = np.diff(touches.bid + touches.ask)
        state, mirror = width * BANDS + band, width * BANDS + (BANDS - 1 - band)
        stays, lands = np.zeros((2, SPREADS * BANDS, SPREADS * BANDS))
        drift = np.zeros(SPREADS * BANDS)
        moved = step != 0
        for path, sign in ((state, 1.0), (mirror, -1.0)):
            np.add.at(stays, (path[:-1][~moved], path[1:][~moved]), 1.0)
            np.add.at(lands, (path[:-1][moved], path[1:][moved]), 1.0)
            np.add.at(drift, path[:-1][moved], sign * step[moved] / (2.0 * ONE))
        return cls(stays, lands, drift, int(state[-1]), int(moved.sum()))

    @property
    def visits(self) -> int:
        """How often the present state was left, mirror images included."""
        return int(self.stays[self.last].sum() + self.lands[self.last].sum())

    def adjustments(self) -> Reals | None:
        """Expected moves by state; None where some state never leads to a move or the sum has no limit."""
        import numpy as np

        left = self.stays.sum(axis=1) + self.lands.sum(axis=1)
        rate = 1.0 / np.maximum(left, 1.0)
        chain = np.eye(len(left)) - self.stays * rate[:, None]
        try:
            first = _solve(chain, self.drift * rate)
            after = _solve(chain, self.lands * rate[:, None])
        except np.linalg.LinAlgError:
            return None
        return _limit(first, after)


def _states(touches: Touches, tick: int) -> tuple[Indices, Indices]:
    """Bands of imbalance and of spread."""
    import numpy as np

    bids = touches.bid_quantity.astype(np.float64)
    share = bids / (bids + touches.ask_quantity)
    band = np.minimum((share * BANDS).astype(np.int64), BANDS - 1)
    ticks = np.maximum((touches.ask - touches.bid) // tick, 1)
    return band, np.minimum(np.log2(ticks).astype(np.int64), SPREADS - 1)


def _solve(system: Reals, right: Reals) -> Reals:
    import numpy as np

    return np.linalg.solve(system, right).astype(np.float64)


def _limit(first: Reals, after: Reals) -> Reals | None:
    """The sum of `after`^k `first`, which the mirror images make converge."""
    import numpy as np

    whole, term = first.copy(), first
    small = 1e-12 * max(1e-300, float(np.abs(first).max()))
    for _ in range(_STEPS):
        term = after @ term
        whole += term
        if float(np.abs(term).max()) <= small:
            return whole
    return None
