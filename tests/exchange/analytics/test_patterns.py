"""Single rules of the detector, on series made for them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.exchange.analytics.markets import EVER, TICK, instrument
from tracedesk.exchange.analytics.anomalies.anomaly import Anomaly
from tracedesk.exchange.analytics.anomalies.spoofing import spoofing
from tracedesk.exchange.analytics.anomalies.stuffing import stuffing
from tracedesk.exchange.analytics.seconds import Seconds
from tracedesk.exchange.analytics.span import Window
from tracedesk.exchange.book.tape import Tape
from tracedesk.exchange.units import ONE
from tracedesk.primitives.time import MILLISECOND, SECOND

BASELINE_S = 60
BATCH = 100 * MILLISECOND
MID = 100_000


# --- stuffing


def saturating(count: int, seed: int, power: float = 0.55) -> Seconds:
    """A market in which updates meet the same levels the more of them there are."""
    rng = np.random.default_rng(seed)
    updates = np.exp(np.log(240) + 0.9 * rng.standard_normal(count))
    lasting = 0.45 * 240 * (updates / 240) ** power * np.exp(0.12 * rng.standard_normal(count))
    prints = 0.03 * updates * np.exp(0.6 * rng.standard_normal(count))
    return Seconds(1_000, updates.astype(np.int64), lasting.astype(np.int64), prints.astype(np.int64))


def flood(seconds: Seconds, at: int, length: int) -> None:
    """Five times the median rate of which next to nothing lasts."""
    extra = int(4 * np.median(seconds.updates[at - BASELINE_S : at]))
    seconds.updates[at : at + length] += extra
    seconds.lasting[at : at + length] //= 2


def stuffed(seconds: Seconds) -> list[Anomaly]:
    return stuffing(seconds, range(BASELINE_S, len(seconds)), BASELINE_S)


@pytest.mark.parametrize("seed", range(5))
def test_bursts_that_keep_what_the_market_keeps_at_their_rate_are_ordinary(seed: int) -> None:
    seconds = saturating(900, seed)
    floods = (seconds.updates > 5 * np.median(seconds.updates)).sum()
    assert floods > 10
    assert stuffed(seconds) == []


@pytest.mark.parametrize(("length", "found"), [(1, 0), (2, 1), (3, 1), (5, 1)])
def test_a_flood_counts_when_it_goes_on_for_more_than_a_second(length: int, found: int) -> None:
    seconds = saturating(120, 3)
    seconds.updates[95:110], seconds.lasting[95:110] = 240, 108
    seconds.prints[95:110] = 5
    assert stuffed(seconds) == []
    flood(seconds, 100, length)
    anomalies = stuffed(seconds)
    assert len(anomalies) == found
    if found:
        assert anomalies[0].window == seconds.window(100, length)


def test_a_flood_that_trades_is_no_stuffing() -> None:
    seconds = saturating(120, 3)
    seconds.updates[95:110], seconds.lasting[95:110] = 240, 108
    flood(seconds, 100, 3)
    seconds.prints[100:103] = seconds.updates[100:103] // 5
    assert stuffed(seconds) == []


def test_floods_that_keep_coming_do_not_become_usual() -> None:
    seconds = saturating(300, 4)
    starts = range(70, 290, 8)
    for at in starts:
        seconds.updates[at : at + 3], seconds.lasting[at : at + 3], seconds.prints[at : at + 3] = 240, 108, 5
        flood(seconds, at, 3)
    found = {each.window.from_ns for each in stuffed(seconds)}
    assert sum(seconds.window(at).from_ns in found for at in starts) >= 0.9 * len(starts)


# --- spoof-like


def fleeting(size: int, life_ms: int, traded: int, ticks: int = 2, *, opposite: bool = True) -> list[Anomaly]:
    """A quiet market of levels from one to three coins, and one bid that comes and goes while others buy."""
    tape, rng, base = Tape(10**6), np.random.default_rng(7), 2 * ONE
    levels = {(side, (MID - side * (1 + d)) * TICK): base for side in (1, -1) for d in range(6)}
    price, start = (MID - 1 - ticks) * TICK, 70 * SECOND
    others = [key for key in levels if key != (1, price)]
    planned = {start: base + size, start + life_ms * MILLISECOND: 0 if traded else base}
    if traded:
        # What stood there before is first in the queue.
        tape.print(start + 3 * BATCH - 1, 1, price, base + traded, True)
        planned[start + 3 * BATCH] = size - traded
    if opposite:
        tape.print(start + 4 * BATCH, 2, (MID + 1) * TICK, ONE, False)
    for number, ns in enumerate(range(SECOND, 75 * SECOND, BATCH)):
        key, after = others[int(rng.integers(len(others)))], int(rng.integers(ONE, 3 * ONE))
        if ns in planned:
            key, after = (1, price), planned[ns]
        tape.touch(ns - 1, number, (MID - 1) * TICK, ONE, (MID + 1) * TICK, ONE)
        tape.changes([(ns, number, *key, levels[key], after)])
        levels[key] = after
    tape.print(75 * SECOND, 3, (MID - 1) * TICK, 1_000, True)
    series = (tape.touches(0, EVER), tape.prints(0, EVER), tape.changed(0, EVER))
    return spoofing(*series, instrument("SEEDUSDT"), Window(62 * SECOND, 75 * SECOND), BASELINE_S)


@pytest.mark.parametrize("traded", [0.0, 0.2, 0.45])
def test_much_size_that_is_withdrawn_before_most_of_it_trades_is_spoof_like(traded: float) -> None:
    size = 16 * ONE
    (found,) = fleeting(size, 1_000, int(traded * size))
    assert found.details["ticks_from_touch"] == 2
    assert found.details["lifetime_ms"] == 1_000
    assert float(found.details["traded_quantity"]) == pytest.approx(traded * size / ONE)
    assert f"{100 - round(100 * traded)} % untraded" in found.description
    assert (found.details["opposite_trades"], found.details["opposite_quantity"]) == (1, "1")


def test_without_trades_on_the_other_side_nothing_is_spoof_like() -> None:
    assert fleeting(16 * ONE, 1_000, 0, opposite=False) == []


def test_a_level_that_joins_the_touch_is_ordinary() -> None:
    assert fleeting(16 * ONE, 1_000, 0, ticks=0) == []


@pytest.mark.parametrize(
    ("multiple", "life_ms", "traded"),
    [
        pytest.param(8, 1_000, 0.7, id="mostly executed"),
        pytest.param(8, 2_500, 0.0, id="stands longer than two seconds"),
        pytest.param(8, 100, 0.0, id="in one depth event only"),
        pytest.param(4, 1_000, 0.0, id="not much larger than usual"),
    ],
)
def test_other_orders_near_the_touch_are_ordinary(multiple: int, life_ms: int, traded: float) -> None:
    size = multiple * 2 * ONE
    assert fleeting(size, life_ms, int(traded * size)) == []
