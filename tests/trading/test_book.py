"""The book: what trades, splits and dividends make of a portfolio."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.trading.ledgers import DOLLAR, SHARE, fill
from tracedesk.trading import book
from tracedesk.trading.model import CASH, Fill, Portfolio, Position, Posting, Side
from tracedesk.trading.units import notional


@dataclass(frozen=True, slots=True)
class Step:
    """An entry as far as the book is concerned."""

    seq: int
    fills: tuple[Fill, ...] = ()
    postings: tuple[Posting, ...] = ()
    clock_ns: int = 0


def _after(*fills: Fill, opened: int = 10_000_000) -> Portfolio:
    portfolio = book.apply(book.opened("a"), Step(1, (), book.for_opening(opened)))
    for seq, one in enumerate(fills, 2):
        portfolio = book.apply(portfolio, Step(seq, (one,), book.for_fill(one)))
    return portfolio


def test_buying_costs_notional_and_fees_and_selling_gives_notional_less_fees() -> None:
    bought = Fill("o", "IBM", "buy", 10 * SHARE, 203_011_500, 203_012, 100)
    sold = Fill("o", "MSFT", "sell", 100 * SHARE, 27_936_000, 279_360, 100)
    portfolio = _after(bought, sold, opened=1_000_000)
    assert portfolio.cash == 1_076_148
    assert portfolio.fees == 200


def test_every_maker_balances_for_each_asset() -> None:
    made = (
        book.for_fill(fill("o", side="buy")),
        book.for_fill(fill("o", side="sell")),
        book.for_opening(10_000),
        book.for_dividend("IBM", 85),
        book.for_split("AAPL", 5 * SHARE),
    )
    assert [book.imbalance(postings) for postings in made] == [{}] * 5
    assert {posting.book for postings in made for posting in postings} == set(book.BOOKS)


def test_an_imbalance_is_named_by_its_asset() -> None:
    postings = [*book.for_fill(fill("o")), Posting("cash", CASH, 1), Posting("position", "IBM", -2)]
    assert book.imbalance(postings) == {CASH: 1, "IBM": -2}


def test_postings_that_are_not_the_fills_contradict_them() -> None:
    one = fill("o")
    assert not book.contradict([one], book.for_fill(one))
    assert book.contradict([one], ())
    assert book.contradict([], book.for_fill(one))
    cheaper = fill("o", price=202)
    assert book.contradict([one], book.for_fill(cheaper))


def test_the_average_price_is_weighted_and_leaves_fees_out() -> None:
    portfolio = _after(fill("a", shares=10, price=100), fill("b", shares=30, price=200))
    assert book.average(portfolio.positions["IBM"]) == 175 * DOLLAR
    assert portfolio.fees == 200


def test_a_partial_sale_leaves_the_average_price_and_realises_the_difference() -> None:
    portfolio = _after(
        fill("a", shares=10, price=100), fill("b", shares=30, price=200), fill("c", "IBM", "sell", 15, 180)
    )
    assert book.average(portfolio.positions["IBM"]) == 175 * DOLLAR
    assert portfolio.positions["IBM"].quantity == 25 * SHARE
    assert portfolio.realised == 15 * 500


def test_a_position_sold_out_is_gone_and_its_cost_with_it() -> None:
    portfolio = _after(
        fill("a", shares=3, price=100), fill("b", side="sell", shares=3, price=90), fill("c", price=50)
    )
    assert portfolio.positions == {"IBM": Position("IBM", 10 * SHARE, 10 * SHARE * 50 * DOLLAR)}
    assert portfolio.realised == -3000


def test_selling_through_zero_realises_the_long_part_and_starts_the_short_one_at_its_price() -> None:
    portfolio = _after(fill("a", shares=10, price=100), fill("b", side="sell", shares=25, price=120))
    short = portfolio.positions["IBM"]
    assert (short.quantity, book.average(short)) == (-15 * SHARE, 120 * DOLLAR)
    assert portfolio.realised == 20_000


def test_buying_a_short_position_back_cheaper_wins() -> None:
    portfolio = _after(
        fill("a", side="sell", shares=10, price=120), fill("b", side="buy", shares=4, price=100)
    )
    assert book.average(portfolio.positions["IBM"]) == 120 * DOLLAR
    assert portfolio.realised == 8_000


def test_a_split_keeps_the_cost_and_halves_the_average() -> None:
    portfolio = _after(fill("a", shares=10, price=100))
    split = book.apply(portfolio, Step(3, (), book.for_split("IBM", 10 * SHARE)))
    assert split.positions["IBM"].quantity == 20 * SHARE
    assert split.positions["IBM"].cost == portfolio.positions["IBM"].cost
    assert book.average(split.positions["IBM"]) == 50 * DOLLAR
    assert (split.cash, split.realised) == (portfolio.cash, 0)


def test_a_dividend_is_cash_and_counted_as_one() -> None:
    portfolio = book.apply(_after(fill("a")), Step(3, (), book.for_dividend("IBM", 850)))
    assert portfolio.dividends == 850
    assert portfolio.cash == 10_000_000 - 203_100 + 850
    assert list(portfolio.positions) == ["IBM"]


def test_the_version_is_the_last_entry_that_moved_something() -> None:
    portfolio = _after(fill("a"))
    assert portfolio.version == 2
    assert book.apply(portfolio, Step(9)) is portfolio


SIDES: st.SearchStrategy[Side] = st.sampled_from(["buy", "sell"])
TRADES = st.lists(st.tuples(SIDES, st.integers(1, 10**13), st.integers(1, 10**10)), min_size=1, max_size=30)


@given(TRADES)
def test_any_trades_conserve_quantity_and_value_is_gain_plus_cost(
    trades: list[tuple[Side, int, int]],
) -> None:
    fills = [Fill("o", "IBM", side, q, p, notional(q, p), 0) for side, q, p in trades]
    portfolio = _after(*fills)
    signed = [(q if side == "buy" else -q, p) for side, q, p in trades]
    held = portfolio.positions.get("IBM", Position("IBM", 0, 0))
    assert held.quantity == sum(q for q, _ in signed)
    # What was paid in all is what the position has cost less what was won; each sale rounds once.
    paid = Fraction(sum(q * p for q, p in signed), 10**13)
    assert abs(paid - (Fraction(held.cost, 10**13) - portfolio.realised)) <= len(trades)
    assert held.quantity == 0 or held.cost * held.quantity >= 0


@given(st.integers(1, 10**12), st.integers(1, 10**9), st.lists(st.integers(1, 10**9), max_size=40))
def test_the_average_price_never_drifts_over_partial_sales(bought: int, price: int, sales: list[int]) -> None:
    position, _ = book.traded(Position("IBM", 0, 0), bought, price)
    position, _ = book.traded(position, bought // 3 + 1, price + 7)
    exact = Fraction(position.cost, position.quantity)
    for sale in sales:
        if sale >= position.quantity:
            break
        position, _ = book.traded(position, -sale, 1)
        # Each sale rounds the cost by half a unit at most, over what is left.
        assert abs(Fraction(position.cost, position.quantity) - exact) <= Fraction(
            len(sales), position.quantity
        )
