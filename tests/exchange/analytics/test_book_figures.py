"""Figures of a book as it stands: imbalance, slippage, profile, micro-price, walls, vacuums, health."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.analytics.markets import EVER, TICK, instrument
from tests.exchange.analytics.seeded import START, Flow
from tests.exchange.analytics.test_flow import prints, seconds, touches
from tracedesk.errors import ToolError
from tracedesk.exchange.analytics import health, microprice, profile, quotes, vacuums, walls
from tracedesk.exchange.analytics.seconds import depths
from tracedesk.exchange.analytics.slippage import Side, slippage
from tracedesk.exchange.analytics.span import Insufficient, Span
from tracedesk.exchange.book.book import Book
from tracedesk.exchange.series import Changes
from tracedesk.exchange.units import ONE
from tracedesk.primitives.time import SECOND

MARKET = instrument("BTCUSDT")
MID = 10_000
size = st.integers(1, 10**12)


@st.composite
def books(draw: st.DrawFn) -> Book:
    book = Book()
    distances = st.dictionaries(st.integers(1, 200), size, min_size=1, max_size=30)
    bids, asks = draw(distances), draw(distances)
    book.apply(
        [((MID - away) * TICK, quantity) for away, quantity in bids.items()],
        [((MID + away) * TICK, quantity) for away, quantity in asks.items()],
    )
    return book


def ladder(levels: int, quantity: int = ONE) -> Book:
    book = Book()
    book.apply(
        [((MID - away) * TICK, quantity) for away in range(1, levels + 1)],
        [((MID + away) * TICK, quantity) for away in range(1, levels + 1)],
    )
    return book


def swapped(book: Book) -> Book:
    """The mirror image of a book around its middle."""
    other = Book()
    other.apply(
        [(2 * MID * TICK - price, quantity) for price, quantity in book.asks.items()],
        [(2 * MID * TICK - price, quantity) for price, quantity in book.bids.items()],
    )
    return other


# --- imbalance and touch


@given(books(), st.integers(1, 40))
def test_every_imbalance_lies_between_minus_one_and_one(book: Book, levels: int) -> None:
    for measure in (quotes.imbalance, quotes.weighted_imbalance):
        found = measure(book, levels)
        assert found is not None
        assert -1.0 <= found <= 1.0


@given(books(), st.integers(1, 40))
def test_the_imbalance_of_the_mirror_image_is_the_opposite(book: Book, levels: int) -> None:
    here, there = quotes.imbalance(book, levels), quotes.imbalance(swapped(book), levels)
    assert here is not None
    assert there is not None
    assert here == -there


def test_a_quantity_far_from_the_mid_counts_less_in_the_weighted_imbalance() -> None:
    book = ladder(1)
    book.set_bid((MID - 100) * TICK, 10 * ONE)
    plain, weighted = quotes.imbalance(book, 20), quotes.weighted_imbalance(book, 20)
    assert plain is not None
    assert weighted is not None
    assert 0 < weighted < 0.01 < plain


@given(books())
def test_the_weighted_mid_lies_within_the_spread(book: Book) -> None:
    bid, ask, mid = book.best_bid(), book.best_ask(), quotes.weighted_mid(book)
    assert bid is not None
    assert ask is not None
    assert mid is not None
    assert bid[0] / ONE * (1 - 1e-12) <= mid <= ask[0] / ONE * (1 + 1e-12)


def test_level_one_says_prices_as_text_and_the_spread_in_bps_of_the_mid() -> None:
    document = quotes.top_of_book(ladder(30), MARKET).document()
    assert document["best_bid"] == "99.99"
    assert document["best_ask"] == "100.01"
    assert document["mid_price"] == "100"
    assert document["spread_bps"] == pytest.approx(2.0)
    assert document["imbalance"] == 0.0
    assert len(document["slippage"]) == 6


def test_a_book_without_asks_has_no_level_one() -> None:
    book = Book()
    book.apply([(TICK, ONE)], [])
    document = quotes.top_of_book(book, MARKET).document()
    assert document["status"] == "insufficient_data"
    assert quotes.imbalance(book) is None
    assert quotes.weighted_mid(book) is None


# --- slippage


@given(books(), st.sampled_from(["BUY", "SELL"]), st.lists(st.integers(1, 10**13), min_size=2, max_size=6))
def test_slippage_never_falls_with_size(book: Book, side: Side, sizes: list[int]) -> None:
    found = [slippage(book, side, quantity=each) for each in sorted(sizes)]
    costs = [each.bps for each in found if each.bps is not None]
    assert all(less <= more + 1e-9 for less, more in pairwise(costs))


@given(books(), st.integers(1, 10**14))
def test_a_size_is_filled_exactly_or_the_depth_is_said_to_be_insufficient(book: Book, wanted: int) -> None:
    found = slippage(book, "BUY", quantity=wanted)
    assert found.insufficient_depth == (sum(book.asks.values()) < wanted)
    assert found.filled == min(wanted, sum(book.asks.values()))


@given(books(), st.integers(1, 10**14))
def test_a_quote_amount_is_spent_to_less_than_one_unit_of_the_base(book: Book, amount: int) -> None:
    found = slippage(book, "BUY", quote=amount)
    assert found.value <= amount * ONE
    if not found.insufficient_depth and found.worst is not None:
        assert amount * ONE - found.value < max(book.asks)


def test_the_average_price_is_exact() -> None:
    found = slippage(ladder(3), "BUY", quantity=3 * ONE)
    assert found.average == Decimal("100.02")
    assert slippage(ladder(3), "SELL", quantity=3 * ONE).average == Decimal("99.98")
    assert found.bps == pytest.approx(2.0)


def test_levels_outside_the_trusted_prices_are_not_counted_on() -> None:
    trusted = (0, (MID + 2) * TICK)
    found = slippage(ladder(10), "BUY", quantity=5 * ONE, trusted=trusted)
    assert found.insufficient_depth
    assert found.filled == 2 * ONE


@pytest.mark.parametrize("side", ["BUY", "SELL"])
def test_a_level_without_a_price_is_no_offer(side: Side) -> None:
    book, clean = ladder(3), ladder(3)
    book.set_ask(0, ONE)
    book.set_bid(0, ONE)
    for amount in (ONE, 10_000 * ONE):
        assert slippage(book, side, quote=amount).filled == slippage(clean, side, quote=amount).filled


def test_a_size_must_be_given_one_way() -> None:
    with pytest.raises(ValueError, match="either"):
        slippage(ladder(1), "BUY")


# --- volume profile

volumes = st.lists(st.integers(0, 1_000), min_size=1, max_size=60).filter(any)


@given(volumes)
def test_the_point_of_control_is_the_largest_bin_nearest_the_middle(bins: list[int]) -> None:
    at = profile.point_of_control(bins)
    assert bins[at] == max(bins)
    middle = (len(bins) - 1) / 2
    assert all(abs(at - middle) <= abs(other - middle) for other, v in enumerate(bins) if v == max(bins))


@given(volumes)
def test_the_value_area_holds_seventy_percent_and_its_last_step_was_needed(bins: list[int]) -> None:
    control = profile.point_of_control(bins)
    low, high = profile.value_area(bins, control)
    inside = sum(bins[low : high + 1])
    assert low <= control <= high
    assert inside * 100 >= 70 * sum(bins)
    # Taken back from whichever end it was, the last pair leaves less than enough.
    smaller = [sum(bins[low + cut : high + 1]) for cut in (1, 2) if low + cut <= control]
    smaller += [sum(bins[low : high + 1 - cut]) for cut in (1, 2) if high - cut >= control]
    if (low, high) != (control, control):
        assert any(each * 100 < 70 * sum(bins) for each in smaller)


def test_a_profile_counts_every_print_once_in_bins_of_whole_ticks() -> None:
    chance = np.random.default_rng(3)
    rows = [(int(tick), ONE, False) for tick in chance.normal(50_000, 300, 3_000)]
    found = profile.volume_profile(prints(rows), MARKET, seconds(3_000))
    assert isinstance(found, profile.VolumeProfile)
    assert found.volume == 3_000 * ONE
    assert found.bin_size % TICK == 0
    assert found.bin_size >= 10 * TICK
    assert sum(each.prints for each in found.bins) == 3_000
    low, high = found.value_area
    assert low <= found.point_of_control < high
    assert abs(found.point_of_control - 50_000 * TICK) < 300 * TICK


def test_a_bin_size_between_ticks_or_too_small_is_refused_with_the_remedy() -> None:
    rows = [(at * 100, ONE, False) for at in range(1, 1_101)]
    for bad in (TICK // 2, 0, TICK):
        with pytest.raises(ToolError, match="tick_size") as refused:
            profile.volume_profile(prints(rows), MARKET, seconds(1_100), bad)
        assert refused.value.code == "INVALID_PARAMETER"


def test_a_profile_of_few_prints_is_insufficient_data() -> None:
    found = profile.volume_profile(prints([(100, ONE, False)] * 999), MARKET, seconds(999))
    assert isinstance(found, Insufficient)
    assert found.needed == {"prints": 1_000}


# --- micro-price


def _leaning_market(rows: int) -> list[tuple[int, int, int, int]]:
    """A mid that moves up where bids weigh more, and down where asks do."""
    chance = np.random.default_rng(11)
    bid, found = 10_000, [(10_000, ONE, 1, ONE)]
    for _ in range(rows):
        share = float(chance.random())
        found.append((bid, max(1, int(share * 10 * ONE)), 1, max(1, int((1 - share) * 10 * ONE))))
        if chance.random() < 0.3:
            bid += 1 if chance.random() < share else -1
    return found


def test_the_micro_price_leans_to_the_side_that_the_mid_then_goes() -> None:
    rows = _leaning_market(6_000)
    for bids, asks, sign in ((9 * ONE, ONE, 1), (ONE, 9 * ONE, -1)):
        market = touches([*rows, (rows[-1][0], bids, 1, asks)])
        found = microprice.estimate(market, MARKET, seconds(6_001))
        assert isinstance(found, microprice.MicroPrice)
        assert 0 < sign * found.adjustment < 0.02
        assert found.price == pytest.approx(found.mid + found.adjustment)


def test_the_adjustments_of_mirror_states_are_opposite() -> None:
    chain = microprice.Chain.of(touches(_leaning_market(4_000)), TICK)
    found = chain.adjustments()
    assert found is not None
    table = found.reshape(microprice.SPREADS, microprice.BANDS)
    assert np.abs(table + table[:, ::-1]).max() < 1e-12


def test_a_still_market_has_no_micro_price_yet() -> None:
    found = microprice.estimate(touches([(100, ONE, 1, ONE)] * 2_000), MARKET, seconds(2_000))
    assert isinstance(found, Insufficient)
    assert found.have["mid_moves"] == 0


# --- walls


def _changes(rows: list[tuple[int, int, int, int, int]]) -> Changes:
    """From time, side, price in ticks, before and after."""
    columns = [np.array([row[at] for row in rows], dtype=np.int64) for at in range(5)]
    order = np.arange(len(rows), dtype=np.int64)
    return Changes(columns[0], order, columns[1], columns[2] * TICK, columns[3], columns[4])


def test_a_wall_is_a_large_level_that_has_stood_for_a_while() -> None:
    book = ladder(60)
    book.set_bid((MID - 20) * TICK, 50 * ONE)
    book.set_ask((MID + 20) * TICK, 50 * ONE)
    fresh = _changes([(59 * SECOND, -1, MID + 20, ONE, 50 * ONE)])
    found = walls.walls(book, fresh, MARKET, seconds(60))
    assert isinstance(found, walls.Walls)
    assert [(each.side, each.price) for each in found.found] == [("bid", (MID - 20) * TICK)]
    assert found.found[0].multiple == pytest.approx(50)
    later = walls.walls(book, fresh, MARKET, seconds(70))
    assert isinstance(later, walls.Walls)
    assert len(later.found) == 2


def test_an_even_book_has_no_walls_and_a_thin_one_is_insufficient_data() -> None:
    nothing = _changes([])
    found = walls.walls(ladder(60), nothing, MARKET, seconds(60))
    assert isinstance(found, walls.Walls)
    assert found.found == ()
    assert isinstance(walls.walls(ladder(5), nothing, MARKET, seconds(60)), Insufficient)


# --- vacuums


def test_a_stretch_without_orders_is_a_vacuum_and_its_width_grades_it() -> None:
    book = Book()
    for away in range(1, 200):
        quantity = 0 if 60 <= away < 100 else ONE
        if quantity:
            book.set_bid((MID - away) * TICK, quantity)
        book.set_ask((MID + away) * TICK, ONE)
    found = vacuums.vacuums(book, prints([]), MARKET, seconds(60))
    assert isinstance(found, vacuums.Vacuums)
    assert {each.side for each in found.found} == {"bid"}
    assert found.found[0].severity == "Critical"
    document = found.document()["vacuums"][0]
    assert document["price_range_high"] == "99.39"
    assert document["price_range_low"] == "99.00"
    assert document["volume_deficit_pct"] > 80


def test_vacuums_are_only_told_of_prices_that_are_vouched_for() -> None:
    book = ladder(150)
    low, high = (MID - 40) * TICK, (MID + 40) * TICK
    found = vacuums.vacuums(book, prints([]), MARKET, seconds(60), (low, high))
    assert isinstance(found, Insufficient)
    whole = vacuums.vacuums(book, prints([]), MARKET, seconds(60), (0, EVER))
    assert isinstance(whole, vacuums.Vacuums)


# --- depth history and health


def test_the_depth_of_earlier_moments_is_what_the_book_was_then() -> None:
    flow = Flow(8)
    moments: list[int] = []
    seen: list[tuple[int, int]] = []
    for _ in range(8):
        flow.run(1)
        bid, ask = flow.book.best_bid(), flow.book.best_ask()
        assert bid is not None
        assert ask is not None
        mid = (bid[0] + ask[0]) // 2
        reach = int(mid * 1e-3)
        bids = sum(q for price, q in flow.book.bids.items() if mid - reach <= price <= mid)
        asks = sum(q for price, q in flow.book.asks.items() if mid <= price <= mid + reach)
        moments.append(flow.now + 6 * 10**6)
        seen.append((bids, asks))
    market = flow.market()
    found = depths(market.book, market.changes, market.touches, np.array(moments), 10.0)
    # Touches come a little late here, so the mid of a moment may already be the next one.
    matching = [
        pair == told for pair, told in zip(zip(found.bids, found.asks, strict=True), seen, strict=True)
    ]
    assert matching[-1]
    assert sum(matching) >= 5


def test_an_ordinary_market_is_healthy_and_one_that_dries_up_is_not() -> None:
    flow = Flow(12)
    flow.run(90)
    market = flow.market()
    span = Span.of(START + 60 * SECOND, flow.now, market.covered)
    well = health.health(market.touches, market.prints, market.changes, market.book, span, 90)
    assert isinstance(well, health.Health)
    assert well.score >= 60
    assert 0 <= well.score <= 100
    assert set(well.document()["components"]) == set(health.WEIGHTS)
    for price in sorted(flow.book.bids)[:-3]:
        flow.take_away(1, price)
    flow.idle(30)
    dry = flow.market()
    later = Span.of(flow.now - 25 * SECOND, flow.now, dry.covered)
    ill = health.health(dry.touches, dry.prints, dry.changes, dry.book, later, 90)
    assert isinstance(ill, health.Health)
    assert ill.parts["liquidity_depth"] < 20
    assert ill.score < well.score - 30
    assert {"liquidity_depth", "update_rate"} <= {
        each["component"] for each in ill.document()["recommendations"]
    }


@pytest.mark.parametrize(
    ("score", "weakest", "said"),
    [
        (80, 50, "Excellent"),
        (95, 49, "Good"),
        (79, 70, "Good"),
        (59, 0, "Fair"),
        (39, 0, "Poor"),
        (19, 0, "Critical"),
    ],
)
def test_the_bands_of_the_score(score: int, weakest: int, said: str) -> None:
    assert health.band(score, weakest) == said


def test_health_needs_a_minute() -> None:
    flow = Flow(2)
    flow.run(10)
    market = flow.market()
    found = health.health(market.touches, market.prints, market.changes, market.book, market.span)
    assert isinstance(found, Insufficient)
    assert found.needed["seconds"] == 60
