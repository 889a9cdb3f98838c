"""Moves of the market's clock: splits, dividends, resting orders, in one step or in many."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.market.rows import Row, bars_of
from tests.trading.ledgers import open_ledger, opening, placing
from tracedesk.market import Action, Bars, Dividend, Move, Split, calendar
from tracedesk.market.dataset import EMBEDDED
from tracedesk.primitives import json
from tracedesk.primitives.time import HOUR
from tracedesk.trading import audit, book
from tracedesk.trading.advance import EVERYONE, Happening, Resting, plan
from tracedesk.trading.ledger import New
from tracedesk.trading.model import (
    Order,
    OrderState,
    OrderType,
    Portfolio,
    Position,
    Side,
    TimeInForce,
    Trade,
)
from tracedesk.trading.settings import Costs, Limits, Trading

SHARE = 10**9
DOLLAR = 10**6
DAYS = calendar.sessions(date(2012, 12, 3), date(2012, 12, 20))
START = calendar.open_ns(DAYS[0]) + HOUR
LOOSE = Limits(
    max_position_weight=Decimal(10**6), max_gross_leverage=Decimal(10**6), max_var_95_1d=Decimal(10**6)
)
FREE = Trading(
    limits=LOOSE,
    costs=Costs(
        slippage_bps=Decimal(0), fee_per_share=Decimal(0), fee_minimum=Decimal(0), participation=Decimal(1)
    ),
)


def closing(index: int) -> Move:
    """From inside the first session to the close of a later one."""
    return Move(START, calendar.close_ns(DAYS[index]))


def market(
    *prices: tuple[int, int, int, int], actions: Sequence[Action] = (), volumes: Sequence[int] = (1000,) * 9
) -> dict[str, Bars]:
    """A market of one share X: dollars of open, high, low and close for each session from the first on."""
    rows: list[Row] = []
    for day, row, volume in zip(DAYS, prices, volumes, strict=False):
        opened, high, low, closed = (dollars * 10_000 for dollars in row)
        rows.append((day.toordinal(), opened, high, low, closed, volume))
    return {"X": bars_of("X", rows, actions)}


QUIET = (100, 101, 99, 100)


def holding(shares: int = 0, cash: int = 100_000_00, account: str = "a", symbol: str = "X") -> Portfolio:
    held = {symbol: Position(symbol, shares * SHARE, shares * SHARE * 100 * DOLLAR)} if shares else {}
    return Portfolio(account, cash, held)


def resting(
    id: str,
    side: Side = "buy",
    at: int = 95,
    shares: int = 10,
    *,
    type: OrderType = "limit",
    tif: TimeInForce = "gtc",
    account: str = "a",
    placed_ns: int = START,
) -> Resting:
    limit, stop = (at * DOLLAR, None) if type == "limit" else (None, at * DOLLAR)
    trade = Trade("X", side, shares * SHARE, type, limit, stop, tif)
    return Resting(Order(id, account, trade), 0, placed_ns)


def states(happenings: Iterable[Happening]) -> list[tuple[str, str, int, str | None]]:
    return [
        (state.order, state.status, state.filled // SHARE, state.reason)
        for happening in happenings
        for state in happening.states
    ]


def folded(portfolios: Iterable[Portfolio], happenings: Iterable[Happening]) -> dict[str, Portfolio]:
    after = {portfolio.account: portfolio for portfolio in portfolios}
    for happening in happenings:
        if happening.postings:
            account = happening.account
            after[account] = book.after(after[account], happening.fills, happening.postings)
    return after


def orders_after(orders: Iterable[Resting], happenings: Iterable[Happening]) -> list[Resting]:
    left = {each.order.id: each for each in orders}
    for happening in happenings:
        for state in happening.states:
            left[state.order] = replace(left[state.order], filled=state.filled)
            if state.status != "open":
                del left[state.order]
    return list(left.values())


# --- the move ----------------------------------------------------------------------------------


def test_a_move_without_positions_or_orders_is_the_move_alone() -> None:
    move = closing(3)
    assert plan(move, [holding()], [], FREE) == [
        Happening("clock", EVERYONE, move.to_ns, {"from_ns": move.from_ns, "to_ns": move.to_ns})
    ]


def test_a_move_inside_a_session_brings_nothing_else() -> None:
    source = market((100, 200, 50, 100))
    inside = Move(START, calendar.close_ns(DAYS[0]) - 1)
    assert [h.kind for h in plan(inside, [holding(10)], [resting("1")], FREE, source)] == ["clock"]
    reached = Move(START, calendar.close_ns(DAYS[0]))
    assert [h.kind for h in plan(reached, [holding(10)], [resting("1")], FREE, source)] == ["fill", "clock"]


def test_things_happen_in_the_order_of_the_sessions_edges() -> None:
    source = market(QUIET, (100, 101, 90, 100), QUIET, actions=[Dividend(DAYS[2], Decimal("0.50"))])
    happenings = plan(closing(2), [holding(10)], [resting("1"), resting("2", at=80)], FREE, source)
    assert [(h.kind, h.clock_ns) for h in happenings] == [
        ("fill", calendar.close_ns(DAYS[1])),
        ("dividend", calendar.open_ns(DAYS[2])),
        ("clock", calendar.close_ns(DAYS[2])),
    ]
    # The ten bought at the close before are paid too.
    assert happenings[1].body == {"symbol": "X", "amount": "0.50", "quantity": "20"}


# --- splits and dividends ----------------------------------------------------------------------


def test_a_real_split_doubles_the_shares_and_keeps_the_cost() -> None:
    before = holding(15, symbol="AAPL")
    day = date(2005, 2, 28)
    move = Move(calendar.close_ns(date(2005, 2, 25)), calendar.open_ns(day))
    happenings = plan(move, [before], [], Trading())
    assert [h.kind for h in happenings] == ["split", "clock"]
    assert happenings[0].body == {"symbol": "AAPL", "ratio": "2:1", "before": "15", "after": "30"}
    after = folded([before], happenings)["a"]
    assert after.positions["AAPL"] == Position("AAPL", 30 * SHARE, before.positions["AAPL"].cost)
    assert after.cash == before.cash


def test_a_real_dividend_is_paid_to_each_holder_in_cents() -> None:
    long, short = holding(7, symbol="IBM"), holding(-3, account="b", symbol="IBM")
    bystander = holding(7, account="c", symbol="AAPL")
    ex = next(a for a in EMBEDDED["IBM"].actions if a.ex_date == date(2013, 2, 6))
    assert ex == Dividend(date(2013, 2, 6), Decimal("0.85"))
    move = Move(calendar.close_ns(date(2013, 2, 5)), calendar.open_ns(ex.ex_date))
    happenings = plan(move, [short, long, bystander], [], Trading())
    assert [(h.kind, h.account) for h in happenings] == [("dividend", "a"), ("dividend", "b"), ("clock", "")]
    after = folded([long, short], happenings)
    assert (after["a"].cash - long.cash, after["a"].dividends) == (5_95, 5_95)
    assert (after["b"].cash - short.cash, after["b"].dividends) == (-2_55, -2_55)


@pytest.mark.parametrize(
    ("nanos", "ratio", "after"),
    [
        (3 * SHARE, (3, 2), 4_500_000_000),
        (10 * SHARE, (1, 3), 3_333_333_333),
        (5, (1, 2), 2),
        (7, (1, 2), 4),
        (-7, (1, 2), -4),
        (1, (1, 10), 0),
    ],
)
def test_a_fraction_left_by_a_split_is_kept_to_nine_places(
    nanos: int, ratio: tuple[int, int], after: int
) -> None:
    source = market(QUIET, QUIET, actions=[Split(DAYS[1], *ratio)])
    before = Portfolio("a", 0, {"X": Position("X", nanos, nanos * DOLLAR)})
    happenings = plan(closing(1), [before], [], FREE, source)
    position = folded([before], happenings)["a"].positions.get("X")
    assert (position.quantity if position else 0) == after


@pytest.mark.parametrize(("shares", "cents"), [("1", 0), ("3", 2), ("5", 2), ("0.1", 0), ("-3", -2)])
def test_a_dividend_is_rounded_half_even_and_nothing_is_not_paid(shares: str, cents: int) -> None:
    source = market(QUIET, QUIET, actions=[Dividend(DAYS[1], Decimal("0.005"))])
    before = Portfolio("a", 0, {"X": Position("X", int(Decimal(shares) * SHARE), 0)})
    happenings = plan(closing(1), [before], [], FREE, source)
    assert folded([before], happenings)["a"].cash == cents
    assert len(happenings) == (2 if cents else 1)


def test_a_dividend_on_the_day_of_a_split_is_for_the_new_shares() -> None:
    actions = [Dividend(DAYS[1], Decimal("1.00")), Split(DAYS[1], 2, 1)]
    happenings = plan(closing(1), [holding(10)], [], FREE, market(QUIET, QUIET, actions=actions))
    assert [h.kind for h in happenings] == ["split", "dividend", "clock"]
    assert folded([holding(10)], happenings)["a"].dividends == 20_00


def test_a_split_cancels_the_orders_of_its_symbol_before_it_happens() -> None:
    source = market(QUIET, (50, 51, 49, 50), actions=[Split(DAYS[1], 2, 1)])
    happenings = plan(closing(1), [holding(10)], [resting("1"), resting("2", "sell", 105)], FREE, source)
    assert [h.kind for h in happenings] == ["order", "order", "split", "clock"]
    assert states(happenings) == [("1", "cancelled", 0, "SPLIT"), ("2", "cancelled", 0, "SPLIT")]


def test_own_bars_leave_positions_alone_and_end_resting_orders_at_the_first_close() -> None:
    source = market(
        QUIET, (50, 51, 49, 50), QUIET, actions=[Split(DAYS[1], 2, 1), Dividend(DAYS[2], Decimal(1))]
    )
    orders = [resting("1", at=99), resting("2", "sell", 105)]
    happenings = plan(closing(2), [holding(10)], orders, FREE, source, replaced=frozenset("X"))
    assert [h.kind for h in happenings] == ["order", "order", "clock"]
    assert states(happenings) == [("1", "cancelled", 0, "OWN_BARS"), ("2", "cancelled", 0, "OWN_BARS")]
    assert {h.clock_ns for h in happenings[:2]} == {calendar.close_ns(DAYS[0])}
    for happening in happenings[:2]:
        (edge,) = happening.edges
        assert json.loads(happening.evidence)[edge.pointer.removeprefix("/")] == "own bars"


# --- resting orders ----------------------------------------------------------------------------


def test_a_gtc_order_waits_for_its_session_and_a_day_order_does_not() -> None:
    source = market(QUIET, QUIET, (93, 96, 90, 95))
    orders = [resting("day", tif="day"), resting("gtc")]
    happenings = plan(closing(2), [holding()], orders, FREE, source)
    assert states(happenings) == [("day", "expired", 0, "DAY_ENDED"), ("gtc", "filled", 10, None)]
    (fill,) = happenings[1].fills
    assert (fill.price, fill.notional, fill.fees) == (93 * DOLLAR, 930_00, 0)
    assert [h.clock_ns for h in happenings[:2]] == [calendar.close_ns(DAYS[0]), calendar.close_ns(DAYS[2])]


def test_the_open_of_the_session_of_placement_was_judged_when_the_order_was_placed() -> None:
    source = market((93, 96, 90, 95))
    (filled, _) = plan(closing(0), [holding()], [resting("1")], FREE, source)
    assert filled.fills[0].price == 95 * DOLLAR


def test_volume_caps_an_order_by_the_sessions_before() -> None:
    source = market(QUIET, (93, 96, 90, 95), (93, 96, 90, 95), (93, 96, 90, 95), volumes=[4] * 4)
    happenings = plan(closing(3), [holding()], [resting("1")], FREE, source)
    assert states(happenings) == [
        ("1", "open", 4, "VOLUME_CAP"),
        ("1", "open", 8, "VOLUME_CAP"),
        ("1", "filled", 10, None),
    ]


def test_orders_are_judged_in_order_of_placement_while_the_cash_lasts() -> None:
    source = market((100, 101, 90, 95))
    orders = [resting("1", at=95), resting("2", at=96), resting("3", at=94, shares=1)]
    happenings = plan(closing(0), [holding(cash=1_100_00)], orders, FREE, source)
    assert states(happenings) == [
        ("1", "filled", 10, None),
        ("2", "cancelled", 0, "INSUFFICIENT_FUNDS"),
        ("3", "filled", 1, None),
    ]


def test_an_order_filled_in_part_keeps_its_place() -> None:
    source = market(QUIET, (100, 101, 90, 95), (100, 101, 90, 95), volumes=[10] * 3)
    orders = [resting("1", shares=20), resting("2", shares=10)]
    happenings = plan(closing(2), [holding(cash=1_900_00)], orders, FREE, source)
    assert states(happenings) == [
        ("1", "open", 10, "VOLUME_CAP"),
        ("2", "filled", 10, None),
        ("1", "cancelled", 10, "INSUFFICIENT_FUNDS"),
    ]
    deeper = [resting("1", shares=20), resting("2", at=92)]
    falling = market(QUIET, (100, 101, 94, 95), (100, 101, 90, 95), volumes=[10] * 3)
    assert states(plan(closing(2), [holding()], deeper, FREE, falling)) == [
        ("1", "open", 10, "VOLUME_CAP"),
        ("1", "filled", 20, None),
        ("2", "filled", 10, None),
    ]


def test_a_sell_without_the_position_is_cancelled_unless_shorts_are_allowed() -> None:
    source = market((100, 110, 90, 95))
    orders = [resting("1", "sell", 105, 6), resting("2", "sell", 106, 6)]
    assert states(plan(closing(0), [holding(10)], orders, FREE, source)) == [
        ("1", "filled", 6, None),
        ("2", "cancelled", 0, "INSUFFICIENT_POSITION"),
    ]
    shorts = replace(FREE, short_selling=True)
    assert states(plan(closing(0), [holding(10)], orders, shorts, source)) == [
        ("1", "filled", 6, None),
        ("2", "filled", 6, None),
    ]


def test_a_sell_whose_fees_exceed_its_proceeds_needs_the_cash() -> None:
    source = market((1, 3, 1, 1))
    dear = replace(FREE, costs=replace(FREE.costs, fee_minimum=Decimal("5.00")))
    order = resting("1", "sell", 2, 1)
    poor, rich = holding(1, cash=2_99), holding(1, cash=3_00)
    assert states(plan(closing(0), [poor], [order], dear, source))[0][1:] == (
        "cancelled", 0, "INSUFFICIENT_FUNDS",
    )  # fmt: skip
    assert states(plan(closing(0), [rich], [order], dear, source))[0][1] == "filled"


def test_orders_do_not_trade_while_trading_is_halted_and_only_reduce_while_reducing() -> None:
    source = market((100, 110, 90, 95))
    orders = [resting("1", "sell", 105, 6), resting("2"), resting("3", at=50)]
    halted = plan(closing(0), [holding(10)], orders, replace(FREE, state="HALTED"), source)
    assert states(halted) == [("1", "cancelled", 0, "HALTED"), ("2", "cancelled", 0, "HALTED")]
    reducing = plan(closing(0), [holding(10)], orders, replace(FREE, state="REDUCING"), source)
    assert states(reducing) == [("1", "filled", 6, None), ("2", "cancelled", 0, "REDUCING")]


def test_a_reducing_order_does_not_go_through_zero() -> None:
    source = market((100, 110, 90, 95))
    reducing = replace(FREE, state="REDUCING", short_selling=True)
    orders = [resting("1", "sell", 105, 11), resting("2", "sell", 105, 10)]
    assert states(plan(closing(0), [holding(10)], orders, reducing, source)) == [
        ("1", "cancelled", 0, "REDUCING"),
        ("2", "filled", 10, None),
    ]
    covering = plan(closing(0), [holding(-10)], [resting("3")], reducing, source)
    assert states(covering) == [("3", "filled", 10, None)]


def test_accounts_do_not_pay_for_each_other() -> None:
    source = market((100, 101, 90, 95))
    orders = [resting("1", account="poor"), resting("2", account="rich")]
    accounts = [holding(cash=1_00, account="poor"), holding(account="rich")]
    happenings = plan(closing(0), accounts, orders, FREE, source)
    assert states(happenings) == [("1", "cancelled", 0, "INSUFFICIENT_FUNDS"), ("2", "filled", 10, None)]
    assert [h.account for h in happenings] == ["poor", "rich", EVERYONE]


def test_an_order_of_a_symbol_without_bars_waits_or_expires() -> None:
    orders = [resting("1"), resting("2", tif="day")]
    assert states(plan(closing(1), [holding()], orders, FREE, {})) == [("2", "expired", 0, "DAY_ENDED")]


def test_an_order_placed_after_a_close_is_not_judged_at_it() -> None:
    late = resting("1", tif="day", placed_ns=calendar.open_ns(DAYS[1]))
    source = market((100, 101, 90, 95), QUIET)
    happenings = plan(closing(1), [holding()], [late], FREE, source)
    assert [(s[1], h.clock_ns) for h, s in zip(happenings, states(happenings), strict=False)] == [
        ("expired", calendar.close_ns(DAYS[1]))
    ]


# --- evidence ----------------------------------------------------------------------------------


def test_each_price_can_be_found_in_the_payload_that_its_edge_names() -> None:
    source = market(QUIET, (93, 96, 90, 95), QUIET, QUIET, volumes=[7, 8, 9, 10])
    (filled, *_) = plan(closing(1), [holding()], [resting("1", shares=5)], FREE, source)
    ref = f"tracedesk://payloads/{hashlib.sha256(filled.evidence).hexdigest()}"
    assert [(edge.relation, edge.ref, edge.pointer) for edge in filled.edges] == [
        ("priced_by", ref, "/bar"),
        ("used", ref, "/volumes"),
    ]
    told = json.loads(filled.evidence)
    assert told["bar"] == {"open": 93, "high": 96, "low": 90, "close": 95, "volume": 8}
    assert (told["volumes"], told["session"]) == ([7], DAYS[1].isoformat())


def test_the_evidence_of_an_embedded_share_names_the_digests_of_its_files() -> None:
    move = Move(calendar.close_ns(date(2013, 2, 5)), calendar.open_ns(date(2013, 2, 6)))
    (dividend, _) = plan(move, [holding(7, symbol="IBM")], [], Trading())
    told = json.loads(dividend.evidence)
    assert told["action"] == {"dividend": Decimal("0.85")}
    assert told["dataset"]["sha256"]["IBM.bars"] == EMBEDDED.manifest["sha256"]["IBM.bars"]
    assert [(edge.relation, edge.pointer) for edge in dividend.edges] == [("used", "/action")]


# --- in the ledger -----------------------------------------------------------------------------


def test_a_ledger_takes_everything_that_happens_in_thirteen_years(tmp_path: Path) -> None:
    first, end = calendar.open_ns(date(2000, 3, 1)), calendar.close_ns(date(2013, 3, 1))
    with open_ledger(tmp_path / "ledger.db") as ledger, ledger.writing() as writer:
        writer.append(replace(opening(), clock_ns=first))
        for i, symbol in enumerate(("AAPL", "IBM", "MSFT")):
            dip = Trade(symbol, "buy", 40 * SHARE, "limit", 90 * DOLLAR, None, "gtc")
            writer.append(placing(dip, f"dip{i}", "open", clock_ns=first))
        orders = [Resting(order, state.filled, first) for order, state in writer.open_orders()]
        happenings = plan(Move(first, end), [writer.portfolio("default")], orders, Trading())
        for each in happenings:
            writer.append(
                New(
                    each.kind,
                    each.account,
                    each.clock_ns,
                    each.body,
                    states=each.states,
                    fills=each.fills,
                    postings=each.postings,
                    edges=each.edges,
                )
            )
        assert writer.clock_ns() == end
        assert not writer.open_orders()
        portfolio = writer.portfolio("default")
    assert audit.verify(tmp_path / "ledger.db").faults == []
    assert {each.kind for each in happenings} == {"fill", "split", "dividend", "clock"}
    # Each symbol bought below 90 and never sold: AAPL split twice since, MSFT once.
    assert {s: p.quantity // SHARE for s, p in portfolio.positions.items()} == {
        "AAPL": 160, "IBM": 40, "MSFT": 80,
    }  # fmt: skip
    assert portfolio.dividends > 0


# --- any market, any orders, any division ------------------------------------------------------


@st.composite
def any_market(draw: st.DrawFn) -> dict[str, Bars]:
    return {symbol: draw(_bars(symbol)) for symbol in ("X", "Y")}


@st.composite
def _bars(draw: st.DrawFn, symbol: str) -> Bars:
    rows: list[Row] = []
    for day in DAYS:
        low, one, two, high = sorted(draw(st.tuples(*[st.integers(800_000, 1_200_000)] * 4)))
        swap = draw(st.booleans())
        opened, closed = (two, one) if swap else (one, two)
        rows.append((day.toordinal(), opened, high, low, closed, draw(st.integers(0, 300))))
    acted = draw(st.lists(st.sampled_from(DAYS[1:]), max_size=3, unique=True))
    return bars_of(symbol, rows, [draw(_action(day)) for day in sorted(acted)])


@st.composite
def _action(draw: st.DrawFn, day: date) -> Action:
    if draw(st.booleans()):
        return Split(day, draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    return Dividend(day, Decimal(draw(st.integers(1, 2000))).scaleb(-3))


@st.composite
def _order(draw: st.DrawFn) -> Resting:
    symbol = draw(st.sampled_from(["X", "Y", "Z"]))
    side: Side = draw(st.sampled_from(["buy", "sell"]))
    type: OrderType = draw(st.sampled_from(["limit", "stop"]))
    tif: TimeInForce = draw(st.sampled_from(["day", "gtc", "gtc"]))
    micros = draw(st.integers(80 * DOLLAR, 120 * DOLLAR))
    limit, stop = (micros, None) if type == "limit" else (None, micros)
    trade = Trade(symbol, side, draw(st.integers(1, 60 * SHARE)), type, limit, stop, tif)
    order = Order("", draw(st.sampled_from(["a", "b"])), trade)
    return Resting(order, 0, START - draw(st.integers(0, HOUR)))


@st.composite
def _orders(draw: st.DrawFn) -> list[Resting]:
    placed = sorted(draw(st.lists(_order(), min_size=1, max_size=6)), key=lambda each: each.placed_ns)
    return [replace(each, order=replace(each.order, id=f"o{i}")) for i, each in enumerate(placed)]


@st.composite
def _portfolio(draw: st.DrawFn, account: str) -> Portfolio:
    held: dict[str, Position] = {}
    for symbol in ("X", "Y"):
        quantity = draw(st.integers(-20 * SHARE, 60 * SHARE))
        if quantity:
            held[symbol] = Position(symbol, quantity, quantity * 100 * DOLLAR)
    return Portfolio(account, draw(st.integers(0, 20_000_00)), held)


@st.composite
def _settings(draw: st.DrawFn) -> Trading:
    bps, participation = draw(st.decimals(0, 50, places=1)), draw(st.decimals("0.01", 1, places=2))
    costs = Costs(slippage_bps=bps, participation=participation)
    limits = draw(st.sampled_from([LOOSE, Limits()]))
    return Trading(short_selling=draw(st.booleans()), costs=costs, limits=limits)


END = calendar.close_ns(DAYS[-1]) + HOUR
EDGES = [edge(day) for day in DAYS[1:] for edge in (calendar.open_ns, calendar.close_ns)]
_portfolios = st.tuples(_portfolio("a"), _portfolio("b"))
_instants = st.integers(START, END) | st.sampled_from([edge - off for edge in EDGES for off in (0, 1)])


def _without_moves(happenings: Iterable[Happening]) -> list[Happening]:
    return [happening for happening in happenings if happening.kind != "clock"]


@settings(derandomize=True, deadline=None, database=None, max_examples=80)
@given(any_market(), _portfolios, _orders(), _settings(), st.lists(_instants, max_size=4))
def test_a_move_gives_the_same_however_it_is_divided(
    source: Mapping[str, Bars],
    portfolios: Sequence[Portfolio],
    orders: Sequence[Resting],
    chosen: Trading,
    stops: list[int],
) -> None:
    whole = plan(Move(START, END), portfolios, orders, chosen, source)
    accounts, left = {p.account: p for p in portfolios}, list(orders)
    found: list[Happening] = []
    instants = [START, *sorted(stops), END]
    for begin, end in pairwise(instants):
        step = plan(Move(begin, end), accounts.values(), left, chosen, source)
        accounts, left = folded(accounts.values(), step), orders_after(left, step)
        found += _without_moves(step)
    assert found == _without_moves(whole)
    assert accounts == folded(portfolios, whole)
    assert left == orders_after(orders, whole)


@settings(derandomize=True, deadline=None, database=None, max_examples=80)
@given(any_market(), _portfolios, _orders(), _settings())
def test_cash_and_shares_are_conserved(
    source: Mapping[str, Bars], portfolios: Sequence[Portfolio], orders: Sequence[Resting], chosen: Trading
) -> None:
    happenings = plan(Move(START, END), portfolios, orders, chosen, source)
    after = folded(portfolios, happenings)
    assert all(not book.imbalance(h.postings) for h in happenings)
    for before in portfolios:
        own = [h for h in happenings if h.account == before.account]
        spent = sum(fill.total_cost for h in own for fill in h.fills)
        assert after[before.account].cash == before.cash - spent + after[before.account].dividends
        if not any(p.quantity < 0 for p in before.positions.values()) and not chosen.short_selling:
            assert after[before.account].cash >= 0
            assert all(p.quantity > 0 for p in after[before.account].positions.values())
    _check_states(orders, happenings)


def _check_states(orders: Iterable[Resting], happenings: Iterable[Happening]) -> None:
    """Every order's states only grow, end once, and agree with its fills."""
    filled = {each.order.id: 0 for each in orders}
    ended: set[str] = set()
    quantities = {each.order.id: each.order.trade.quantity for each in orders}
    for happening in happenings:
        for fill in happening.fills:
            filled[fill.order] += fill.quantity
        for state in happening.states:
            assert state.order not in ended
            _check_state(state, filled[state.order], quantities[state.order])
            if state.status != "open":
                ended.add(state.order)


def _check_state(state: OrderState, filled: int, quantity: int) -> None:
    assert state.filled == filled <= quantity
    assert (state.status == "filled") == (filled == quantity)
    assert state.status in ("open", "filled", "expired", "cancelled")


@settings(derandomize=True, deadline=None, database=None, max_examples=80)
@given(any_market(), any_market(), _portfolios, _orders(), _settings(), _instants)
def test_nothing_after_the_clock_matters(
    source: Mapping[str, Bars],
    other: Mapping[str, Bars],
    portfolios: Sequence[Portfolio],
    orders: Sequence[Resting],
    chosen: Trading,
    end: int,
) -> None:
    spliced = {symbol: _spliced(source[symbol], other[symbol], end) for symbol in source}
    move = Move(START, end)
    assert plan(move, portfolios, orders, chosen, source) == plan(move, portfolios, orders, chosen, spliced)


def _spliced(known: Bars, other: Bars, end: int) -> Bars:
    """The bars up to the instant, and then another future; of a session in progress the open is known."""
    rows: list[Row] = []
    for mine, theirs in zip(known, other, strict=True):
        bar = mine if calendar.close_ns(mine.session) <= end else theirs
        opened = mine.open if calendar.open_ns(mine.session) <= end else theirs.open
        high, low = max(opened, bar.high), min(opened, bar.low)
        first, top, bottom, last = (int(value * 10_000) for value in (opened, high, low, bar.close))
        rows.append((mine.session.toordinal(), first, top, bottom, last, bar.volume))
    past = [action for action in known.actions if calendar.open_ns(action.ex_date) <= end]
    future = [action for action in other.actions if calendar.open_ns(action.ex_date) > end]
    return bars_of(known.symbol, rows, [*past, *future])


@settings(derandomize=True, deadline=None, database=None, max_examples=80)
@given(any_market(), _portfolios, _orders(), _settings())
def test_nothing_fills_outside_its_sessions_bar_but_for_slippage(
    source: Mapping[str, Bars], portfolios: Sequence[Portfolio], orders: Sequence[Resting], chosen: Trading
) -> None:
    placed = {each.order.id: each for each in orders}
    slip = chosen.costs.slippage_bps / 10_000
    for happening in plan(Move(START, END), portfolios, placed.values(), chosen, source):
        for fill in happening.fills:
            bar = source[fill.symbol].on(date.fromisoformat(happening.body["session"]))
            assert bar is not None
            stop = placed[fill.order].order.trade.type == "stop"
            room, tick = (slip, Decimal("0.00005")) if stop else (Decimal(0), Decimal(0))
            paid = Decimal(fill.price).scaleb(-6)
            assert bar.low * (1 - room) - tick <= paid <= bar.high * (1 + room) + tick
