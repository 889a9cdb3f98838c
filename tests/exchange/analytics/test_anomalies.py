"""What the detector leaves alone and what it finds: ordinary seconds, and episodes in a seeded market."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from scripts.proof.record import Recorder
from tests.exchange.analytics.markets import OURS, OUTSIDE, TICK, Market, continued, outside, recorded
from tests.exchange.analytics.seeded import START, Episode, Flow, Kind, injected
from tracedesk.exchange.analytics.anomalies import Anomalies, Anomaly, detect
from tracedesk.exchange.analytics.anomalies.icebergs import at_least
from tracedesk.exchange.analytics.span import Insufficient, Span
from tracedesk.exchange.book.book import Book
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.local.recorder import record
from tracedesk.primitives.time import SECOND

BASELINE_S = 60
YEAR_2026 = 1_767_225_600 * SECOND
MARKETS = [
    ("BTCUSDT", 11, 1.0),
    ("ETHUSDT", 102, 1.0),
    ("SOLUSDT", 103, 1.0),
    ("BTCUSDT", 113, 0.3),
    ("BNBUSDT", 206, 1.0),
    ("ETHBTC", 5, 0.3),
]
KINDS: tuple[Kind, ...] = ("QuoteStuffing", "SpoofLike", "IcebergOrder")


def detected(market: Market, baseline_s: int = BASELINE_S) -> Anomalies:
    series = (market.touches, market.prints, market.changes)
    found = detect(*series, market.book, market.instrument, market.span, baseline_s)
    assert isinstance(found, Anomalies)
    return found


def matches(episode: Episode, anomaly: Anomaly) -> bool:
    """The same kind, within a second of the same time, and at the same price where it has one."""
    near = anomaly.window.from_ns <= episode.to_ns + SECOND
    near = near and anomaly.window.to_ns >= episode.from_ns - SECOND
    return (
        near and anomaly.kind == episode.kind and (episode.price is None or episode.price in anomaly.prices)
    )


def rates(episodes: Iterable[Episode], anomalies: Iterable[Anomaly], kind: Kind) -> tuple[float, float]:
    """Recall and precision of one kind."""
    put = [each for each in episodes if each.kind == kind]
    found = [each for each in anomalies if each.kind == kind]
    met = sum(any(matches(episode, each) for each in found) for episode in put)
    right = sum(any(matches(episode, each) for episode in put) for each in found)
    return met / len(put), right / len(found)


def check_ordinary_seconds_stay_unflagged(market: Market) -> float:
    """Returns the share of seconds that are flagged."""
    found = detected(market)
    assert found.evidence.sample_size >= 250
    assert found.flagged < 0.01 * found.evidence.sample_size, [each.description for each in found.found]
    return found.flagged / found.evidence.sample_size


def check_episodes_are_found(seed: int, each: int) -> tuple[float, float]:
    """Returns recall and precision of the worst kind."""
    flow = injected(seed, each)
    assert len(flow.episodes) == 3 * each
    assert flow.executed <= each // 20, "hardly any order is put up again because it traded"
    found = detected(flow.market()).found
    worst = (1.0, 1.0)
    for kind in KINDS:
        recall, precision = rates(flow.episodes, found, kind)
        assert recall >= 0.95, f"{kind}: recall {recall:.2f}"
        assert precision >= 0.80, f"{kind}: precision {precision:.2f}"
        worst = min(worst[0], recall), min(worst[1], precision)
    return worst


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_fewer_than_one_second_in_a_hundred_of_our_own_recording_is_flagged(path: Path) -> None:
    check_ordinary_seconds_stay_unflagged(recorded(path))


@pytest.mark.judge
@pytest.mark.timeout(300)
@pytest.mark.sizes("symbol, seed, pace", judge=MARKETS[::3], prove=MARKETS)
def test_fewer_than_one_second_in_a_hundred_of_other_seeded_markets_is_flagged(
    symbol: str, seed: int, pace: float, tmp_path: Path
) -> None:
    path = tmp_path / f"{symbol.lower()}_{seed}.gz"
    record(Plan(seed=seed, pace=pace), symbol, path, start_ns=YEAR_2026, seconds=356)
    check_ordinary_seconds_stay_unflagged(recorded(path))


@pytest.mark.prove
@pytest.mark.parametrize("name", OUTSIDE)
def test_fewer_than_one_second_in_a_hundred_of_the_venues_recording_is_flagged(
    name: str, checkout: Callable[[str], Path], prove: Recorder
) -> None:
    folder = checkout("binance_spot")
    flagged = check_ordinary_seconds_stay_unflagged(recorded(outside(folder, name)))
    prove.record(f"exchange-flagged-{name}", round(flagged, 4), seeds=(), checkouts={"binance_spot": folder})


CHOSEN = {
    "spot/btcusdt_20240808.gz": "5d263f4c5379cfc27379ef0e22779aa33804463d1b69c292e9c0714e31f2e1b4",
    "spot/ethusdt_20240808.gz": "179a67651ec90f8d299c033f85df29027315a30a738eae74a1388d560f80a737",
}
"""The recordings of hftbacktest on which the constants were chosen, with their SHA-256."""
JUDGES = {
    "spot/btcusdt_20240809.gz": "2981a27474b8903133cc66e25f4da561140dd061c942b84801b9d8c60e4b3599",
    "spot/ethusdt_20240809.gz": "7be2b6113ced0cdb125bfa7607aacb18acd1f3cea9a248d1f53c627c7eed6bb8",
    "usdm/btcusdt_20240808.gz": "0ad7b3a0f5cff220761ea890cfd6e3c15f6899edc7f94637ec915043d7a72251",
    "usdm/ethusdt_20240808.gz": "6b76bc224bbb7fe402e7206066775e17e18dbc697247fbab8ebcc38289a3f772",
    "cm/btcusd_perp_20240808.gz": "795efa5540bfca87d20181df5c444741a8cc31810689c429a4004cbbd0b3a374",
    "cm/btcusd_perp_20240809.gz": "49ae1c7797b924e7f1dca4c5a64f5cebafaf08473041227b4b142b447c56c766",
    "cm/ethusd_perp_20240808.gz": "a4be5dd61b71ee9b1c36a2a7b407bd56abe1b563088b46e8eb0d436b4d4e1b80",
    "cm/ethusd_perp_20240809.gz": "91d3fb8441674c501afc6a5c7c3b4687d56cc93aca5d171b8ccc1cf7d97a8a1d",
}
"""Recordings that judge, and that nothing was chosen on."""


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_fewer_than_one_second_in_a_hundred_of_any_recording_is_flagged(
    checkout: Callable[[str], Path], prove: Recorder
) -> None:
    folder = checkout("hftbacktest") / "examples"
    shares: dict[str, float] = {}
    for name, digest in {**CHOSEN, **JUDGES}.items():
        path = folder / name
        assert sha256(path.read_bytes()).hexdigest() == digest, name
        before = folder / name.replace("20240809", "20240808")  # a recording of the next day has no snapshot
        tick = TICK if "eth" in name or "spot" in name else 10 * TICK
        market = continued(tuple(dict.fromkeys((before, path))), tick)
        shares[name] = check_ordinary_seconds_stay_unflagged(market)
    worst = max(shares[name] for name in JUDGES)
    prove.record(
        "exchange-flagged-judges", round(worst, 4), seeds=(), checkouts={"hftbacktest": folder.parent}
    )


@pytest.mark.timeout(600)
@pytest.mark.judge
@pytest.mark.sizes("seeds", judge=[(31,), (42,)], prove=[(31, 33, 41, 42, 43)])
def test_a_hundred_injected_episodes_of_each_kind_are_found_and_little_else(
    seeds: tuple[int, ...], prove: Recorder
) -> None:
    found = [check_episodes_are_found(seed, 100) for seed in seeds]
    prove.record("exchange-episodes-recall", min(recall for recall, _ in found), seeds=seeds)
    prove.record("exchange-episodes-precision", round(min(right for _, right in found), 3), seeds=seeds)


def test_every_kind_of_episode_is_found_in_a_short_seeded_flow_and_reads_as_a_pattern() -> None:
    flow = injected(5, 4)
    market = flow.market()
    found = detected(market)
    for kind in KINDS:
        put = [each for each in flow.episodes if each.kind == kind]
        met = [each for each in put if any(matches(each, anomaly) for anomaly in found.found)]
        assert len(met) >= 3, kind
    document = found.document()
    assert document["status"] == "ok"
    assert document["baseline_seconds"] == BASELINE_S
    for said in document["anomalies"]:
        assert said["confidence"] >= 0.95
        assert len(said["description"]) < 500
        assert "attern consistent with" in said["description"] or said["anomaly_type"] == "FlashCrashRisk"


def test_the_same_flow_gives_the_same_document() -> None:
    def document() -> dict[str, object]:
        flow = Flow(9)
        flow.spoof(START + 65 * SECOND)
        flow.run(72)
        return detected(flow.market()).document()

    assert document() == document()


def test_less_than_a_baseline_is_insufficient_data_and_says_what_is_needed() -> None:
    flow = Flow(3)
    flow.run(20)
    market = flow.market()
    series = (market.touches, market.prints, market.changes)
    found = detect(*series, market.book, market.instrument, market.span, BASELINE_S)
    assert isinstance(found, Insufficient)
    document = found.document()
    assert document["status"] == "insufficient_data"
    assert document["needed"] == {"seconds": BASELINE_S + 1}
    assert document["have"]["seconds"] < 20


def test_a_window_is_scored_against_the_time_known_before_it() -> None:
    flow = Flow(4)
    flow.run(75)
    market, end = flow.market(), flow.now
    span = Span.of(end - 10 * SECOND, end - 1, market.covered)
    series = (market.touches, market.prints, market.changes)
    found = detect(*series, market.book, market.instrument, span, BASELINE_S)
    assert isinstance(found, Anomalies)
    assert 8 <= found.evidence.sample_size <= 10
    assert found.scored.from_ns >= end - 10 * SECOND


def test_a_vanishing_side_under_an_open_spread_is_a_flash_crash_risk() -> None:
    flow = Flow(6)
    flow.run(70)
    best = flow.book.best_bid()
    assert best is not None
    for price in [each for each in flow.book.bids if each > best[0] - 3_000_000_000]:
        flow.take_away(1, price)
    flow.idle(3)
    kinds = {each.kind for each in detected(flow.market()).found}
    assert "FlashCrashRisk" in kinds


def test_a_baseline_shorter_than_a_minute_is_refused() -> None:
    market = Flow(1).market()
    empty = Span.of(0, SECOND)
    with pytest.raises(ValueError, match="60"):
        detect(market.touches, market.prints, market.changes, Book(), market.instrument, empty, 30)


def test_the_chance_of_refills_is_binomial() -> None:
    counted = np.random.default_rng(1).binomial(6, 0.3, 200_000)
    assert at_least(4, 6, 0.3) == pytest.approx(float((counted >= 4).mean()), abs=0.002)
    assert at_least(0, 6, 0.3) == pytest.approx(1.0)
