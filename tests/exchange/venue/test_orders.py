"""What each type of order does, and how the venue refuses what it does not do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.exchange.venue.support import SYMBOL, Bench, asking, entry
from tracedesk.exchange.units import units
from tracedesk.exchange.venue.events import Reported
from tracedesk.exchange.venue.orders import CancelResult, OrderResult, VenueRefused


@pytest.fixture
def bench() -> Bench:
    return Bench()


def _refused(code: int, message: str) -> Any:
    class Expected:
        def __enter__(self) -> None:
            self.raises = pytest.raises(VenueRefused)
            self.caught = self.raises.__enter__()

        def __exit__(self, *problem: Any) -> bool:
            result = self.raises.__exit__(*problem)
            assert (self.caught.value.code, self.caught.value.message) == (code, message)
            return bool(result)

    return Expected()


# --- limit and market --------------------------------------------------------------------------


def test_a_limit_order_takes_what_meets_its_price_and_rests_with_the_remainder(bench: Bench) -> None:
    bench.flow("SELL", "1", "100")
    bench.flow("SELL", "1", "101")
    result = bench.limit("ann", "BUY", "3", "100.5")
    assert [(each.price, each.quantity) for each in result.fills] == [(units("100"), units("1"))]
    assert result.order.status == "PARTIALLY_FILLED"
    assert bench.depth()[0] == [(units("100.5"), units("2"))]


def test_an_ioc_order_expires_with_what_it_could_not_take(bench: Bench) -> None:
    bench.flow("SELL", "1", "100")
    order = bench.limit("ann", "BUY", "3", "100", tif="IOC").order
    assert (order.status, order.executed) == ("EXPIRED", units("1"))
    assert order.expiry_reason == "UNFILLED_IOC_QUANTITY_EXPIRED"
    assert bench.depth() == ([], [])


def test_a_fok_order_takes_all_or_nothing(bench: Bench) -> None:
    bench.flow("SELL", "1", "100")
    order = bench.limit("ann", "BUY", "3", "100", tif="FOK").order
    assert (order.status, order.executed) == ("EXPIRED", 0)
    assert order.expiry_reason == "UNFILLED_FOK_ORDER_EXPIRED"
    bench.flow("SELL", "2", "100")
    assert bench.limit("ann", "BUY", "3", "100", tif="FOK").order.status == "FILLED"


def test_a_market_order_walks_the_book_and_expires_where_it_ends(bench: Bench) -> None:
    bench.flow("BUY", "1", "100")
    bench.flow("BUY", "1", "99")
    result = bench.place("ann", "SELL", "MARKET", "5")
    assert [each.price for each in result.fills] == [units("100"), units("99")]
    assert (result.order.status, result.order.expiry_reason) == ("EXPIRED", "INSUFFICIENT_LIQUIDITY")


@pytest.mark.parametrize(
    ("side", "quote", "quantity", "spent"),
    [("BUY", "250", "2.48", "249.96"), ("BUY", "100", "1", "100"), ("SELL", "150", "1.51", "149.99")],
)
def test_a_market_order_by_amount_trades_whole_steps_up_to_the_amount(
    bench: Bench, side: str, quote: str, quantity: str, spent: str
) -> None:
    for price in ("100", "101", "102"):
        bench.flow("SELL", "1", price)
    for price in ("99.5", "99"):
        bench.flow("BUY", "1", price)
    order = bench.place("ann", side, "MARKET", quote=quote).order
    assert order.status == "FILLED"
    assert order.executed == order.quantity == units(quantity)
    assert order.executed_quote == units(spent)


def test_a_market_order_by_amount_expires_where_the_book_ends(bench: Bench) -> None:
    bench.flow("SELL", "1", "100")
    order = bench.place("ann", "BUY", "MARKET", quote="250").order
    assert (order.status, order.expiry_reason) == ("EXPIRED", "INSUFFICIENT_LIQUIDITY")
    assert (order.executed, order.executed_quote) == (units("1"), units("100"))


def test_a_market_order_by_amount_needs_someone_to_trade_with(bench: Bench) -> None:
    with _refused(-2010, "Order book liquidity is less than symbol minimum quantity."):
        bench.place("ann", "BUY", "MARKET", quote="100")


def test_a_limit_maker_that_would_take_is_refused_and_one_that_would_not_rests(bench: Bench) -> None:
    bench.flow("SELL", "1", "100")
    with _refused(-2010, "Order would immediately match and take."):
        bench.place("ann", "BUY", "LIMIT_MAKER", "1", price="100")
    assert bench.place("ann", "BUY", "LIMIT_MAKER", "1", price="99.99").order.status == "NEW"


def test_an_iceberg_takes_with_all_of_itself_but_shows_a_part(bench: Bench) -> None:
    bench.flow("SELL", "2", "100")
    result = bench.limit("ann", "BUY", "10", "100", iceberg="3")
    assert result.order.executed == units("2")
    assert bench.depth()[0] == [(units("100"), units("3"))]


# --- stops -------------------------------------------------------------------------------------

STOPS = [
    ("BUY", "STOP_LOSS", "105", "105"),
    ("BUY", "TAKE_PROFIT", "95", "95"),
    ("SELL", "STOP_LOSS", "95", "95"),
    ("SELL", "TAKE_PROFIT", "105", "105"),
]


def _trade_at(bench: Bench, price: str) -> None:
    bench.flow("SELL", "0.001", price)
    bench.venue.flow_market(SYMBOL, "BUY", units("0.001"), units(price))


@pytest.mark.parametrize(("side", "type", "stop", "trade"), STOPS)
def test_a_stop_waits_off_the_book_until_a_trade_reaches_it(
    bench: Bench, side: str, type: str, stop: str, trade: str
) -> None:
    _trade_at(bench, "100")
    placed = bench.place("ann", side, type, "1", stop=stop).order
    assert (placed.status, placed.is_working) == ("NEW", False)
    assert bench.depth() == ([], [])
    _trade_at(bench, "100")
    assert not bench.venue.order("ann", SYMBOL, order_id=placed.id).is_working
    other = "SELL" if side == "BUY" else "BUY"
    bench.flow(other, "1", "110" if other == "SELL" else "90")
    _trade_at(bench, trade)
    found = bench.venue.order("ann", SYMBOL, order_id=placed.id)
    assert (found.status, found.is_working) == ("FILLED", True)


@pytest.mark.parametrize(("side", "type", "stop", "trade"), STOPS)
def test_a_stop_that_is_met_already_is_refused(
    bench: Bench, side: str, type: str, stop: str, trade: str
) -> None:
    _trade_at(bench, trade)
    with _refused(-2010, "Order would trigger immediately."):
        bench.place("ann", side, type, "1", stop=stop)


def test_a_stop_limit_rests_at_its_own_price_once_it_is_set_off(bench: Bench) -> None:
    _trade_at(bench, "100")
    bench.place("ann", "SELL", "STOP_LOSS_LIMIT", "1", stop="95", price="96", tif="GTC")
    assert bench.venue.account("ann").balances["BTC"][1] == units("1")
    _trade_at(bench, "95")
    assert bench.depth()[1] == [(units("96"), units("1"))]


def test_one_stop_sets_off_another(bench: Bench) -> None:
    _trade_at(bench, "100")
    first = bench.place("ann", "SELL", "STOP_LOSS", "1", stop="99").order
    second = bench.place("bob", "SELL", "STOP_LOSS", "1", stop="97").order
    bench.flow("BUY", "1", "96")
    bench.flow("BUY", "1", "90")
    _trade_at(bench, "99")
    fills = [bench.venue.my_trades(name, SYMBOL)[-1] for name in ("ann", "bob")]
    assert [each.price for each in fills] == [units("96"), units("90")]
    assert [each.order_id for each in fills] == [first.id, second.id]


def test_a_stop_that_cannot_be_paid_when_it_is_set_off_expires(bench: Bench) -> None:
    _trade_at(bench, "100")
    order = bench.place("ann", "BUY", "STOP_LOSS", "10", stop="105").order
    bench.venue.deposit("ann", "USDT", -units("999999"))
    bench.flow("SELL", "10", "110")
    _trade_at(bench, "105")
    found = bench.venue.order("ann", SYMBOL, order_id=order.id)
    assert (found.status, found.expiry_reason, found.executed) == ("EXPIRED", "REJECTED", 0)


def test_a_trailing_stop_follows_from_its_stop_price_as_documented(bench: Bench) -> None:
    # The steps of the venue's own scenario for a trailing stop loss that buys, prices divided by 400.
    _trade_at(bench, "100")
    asked = {"stop": "110", "price": "112.5", "tif": "GTC", "trailing": 500}
    order = bench.place("ann", "BUY", "STOP_LOSS_LIMIT", "1", **asked).order
    for price in ("92.5", "110", "112.5", "115", "105"):
        _trade_at(bench, price)
        assert not bench.venue.open_orders("ann")[0].is_working
    _trade_at(bench, "110.25")
    found = bench.venue.order("ann", SYMBOL, order_id=order.id)
    assert found.is_working
    assert bench.depth()[0] == [(units("112.5"), units("1"))]


def test_how_far_a_trailing_stop_has_followed_survives_a_restart(tmp_path: Path) -> None:
    bench = Bench(path=tmp_path / "venue.db")
    order = bench.place("ann", "SELL", "STOP_LOSS", "1", trailing=1000).order
    for price in ("100", "200"):
        _trade_at(bench, price)
    bench.reopen()
    bench.flow("BUY", "1", "50")
    _trade_at(bench, "180")
    assert bench.venue.order("ann", SYMBOL, order_id=order.id).status == "FILLED"


def test_cancelled_stops_leave_nothing_behind_and_the_others_fire(bench: Bench) -> None:
    _trade_at(bench, "100")
    kept = [bench.place("ann", "BUY", "STOP_LOSS", "1", stop=f"{200 + at}").order.id for at in range(3)]
    for _ in range(50):
        for side, stop in (("BUY", "150"), ("SELL", "50")):
            order = bench.place("ann", side, "STOP_LOSS", "1", stop=stop).order
            bench.venue.cancel("ann", SYMBOL, order_id=order.id)
    triggers = bench.venue._markets[SYMBOL].triggers  # pyright: ignore[reportPrivateUsage]
    assert len(triggers._rising) + len(triggers._falling) <= 6  # pyright: ignore[reportPrivateUsage]
    bench.flow("SELL", "10", "250")
    _trade_at(bench, "201")
    states = [bench.venue.order("ann", SYMBOL, order_id=id) for id in kept]
    assert [state.is_working for state in states] == [True, True, True]
    assert not triggers.is_armed


def test_how_far_a_trailing_stop_has_followed_survives_a_kill(tmp_path: Path) -> None:
    bench = Bench(path=tmp_path / "venue.db")
    order = bench.place("ann", "SELL", "STOP_LOSS", "1", trailing=1000).order
    for price in ("100", "200"):
        _trade_at(bench, price)
    (tmp_path / "killed").mkdir()
    for file in tmp_path.glob("venue.db*"):
        shutil.copy(file, tmp_path / "killed")
    bench.path = tmp_path / "killed" / "venue.db"
    bench.reopen()
    bench.flow("BUY", "1", "50")
    _trade_at(bench, "180")
    assert bench.venue.order("ann", SYMBOL, order_id=order.id).status == "FILLED"


def test_a_trailing_stop_without_a_stop_price_follows_from_the_next_trade(bench: Bench) -> None:
    _trade_at(bench, "200")
    order = bench.place("ann", "SELL", "STOP_LOSS", "1", trailing=1000).order
    bench.flow("BUY", "1", "50")
    for price in ("100", "110", "99.01"):
        _trade_at(bench, price)
    assert bench.venue.order("ann", SYMBOL, order_id=order.id).status == "NEW"
    _trade_at(bench, "99")
    assert bench.venue.order("ann", SYMBOL, order_id=order.id).status == "FILLED"


# --- cancel, replace, amend --------------------------------------------------------------------


def test_a_cancelled_order_leaves_the_book_and_frees_what_it_locked(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "2", "100", id="mine").order
    assert bench.venue.account("ann").balances["USDT"] == (units("999800"), units("200"))
    done = bench.venue.cancel("ann", SYMBOL, client_order_id="mine", new_client_order_id="stop-it")
    assert (done.order.status, done.client_order_id, done.order.client_order_id) == (
        "CANCELED",
        "stop-it",
        "mine",
    )
    assert bench.depth() == ([], [])
    assert bench.venue.account("ann").balances["USDT"] == (units("1000000"), 0)
    report = bench.told(Reported)[-1]
    assert (report.execution, report.client_order_id, report.original_client_order_id) == (
        "CANCELED",
        "stop-it",
        "mine",
    )
    with _refused(-2011, "Unknown order sent."):
        bench.venue.cancel("ann", SYMBOL, order_id=order.id)


def test_only_the_owner_finds_an_order(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "2", "100").order
    with _refused(-2011, "Unknown order sent."):
        bench.venue.cancel("bob", SYMBOL, order_id=order.id)
    with _refused(-2013, "Order does not exist."):
        bench.venue.order("bob", SYMBOL, order_id=order.id)


def test_number_and_client_order_id_must_name_the_same_order(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "2", "100", id="one").order
    bench.limit("ann", "BUY", "2", "100", id="two")
    with _refused(-2039, "Client order ID is not correct for this order ID."):
        bench.venue.cancel("ann", SYMBOL, order_id=order.id, client_order_id="two")
    with _refused(-2039, "Client order ID is not correct for this order ID."):
        bench.venue.order("ann", SYMBOL, order_id=order.id, client_order_id="two")
    with _refused(-1102, "Param 'origClientOrderId' or 'orderId' must be sent, but both were empty/null!"):
        bench.venue.order("ann", SYMBOL)


def test_a_cancel_may_insist_on_a_status(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "2", "100").order
    with _refused(-2011, "Order was not canceled due to cancel restrictions."):
        bench.venue.cancel("ann", SYMBOL, order_id=order.id, restriction="ONLY_PARTIALLY_FILLED")
    bench.flow("SELL", "1", "100")
    with _refused(-2011, "Order was not canceled due to cancel restrictions."):
        bench.venue.cancel("ann", SYMBOL, order_id=order.id, restriction="ONLY_NEW")
    bench.venue.cancel("ann", SYMBOL, order_id=order.id, restriction="ONLY_PARTIALLY_FILLED")


def test_cancelling_all_needs_something_to_cancel(bench: Bench) -> None:
    with _refused(-2011, "Unknown order sent."):
        bench.venue.cancel_all("ann", SYMBOL)
    bench.limit("ann", "BUY", "2", "100")
    bench.place("ann", "SELL", "STOP_LOSS", "1", stop="90")
    bench.limit("bob", "BUY", "2", "100")
    assert len(bench.venue.cancel_all("ann", SYMBOL)) == 2
    assert len(bench.venue.open_orders("bob")) == 1


def test_replacing_uses_the_funds_that_the_cancel_frees(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "10000", "100").order
    asked = asking("BUY", "LIMIT", "9999", price="100", tif="GTC")
    result = bench.venue.cancel_replace("ann", asked, mode="STOP_ON_FAILURE", cancel_order_id=order.id)
    assert result.refusal is None
    assert isinstance(result.cancelled, CancelResult)
    assert isinstance(result.placed, OrderResult)
    assert [each.quantity for each in bench.venue.open_orders("ann")] == [units("9999")]


@pytest.mark.parametrize(
    ("mode", "known", "poor", "code", "left"),
    [
        ("STOP_ON_FAILURE", False, False, -2022, 1),
        ("ALLOW_FAILURE", False, False, -2021, 2),
        ("ALLOW_FAILURE", False, True, -2022, 1),
        ("STOP_ON_FAILURE", True, True, -2021, 0),
        ("ALLOW_FAILURE", True, True, -2021, 0),
    ],
)
def test_a_replacement_that_fails_says_which_part_failed(
    bench: Bench, mode: Any, known: bool, poor: bool, code: int, left: int
) -> None:
    order = bench.limit("ann", "BUY", "1", "100").order
    asked = asking("BUY", "LIMIT", "9000" if poor else "1", price="120" if poor else "90", tif="GTC")
    id = order.id if known else order.id + 1
    result = bench.venue.cancel_replace("ann", asked, mode=mode, cancel_order_id=id)
    assert result.refusal is not None
    assert result.refusal.code == code
    assert len(bench.venue.open_orders("ann")) == left
    rejected = [each.reject_reason for each in bench.told(Reported) if each.execution == "REJECTED"]
    assert rejected == (["INSUFFICIENT_BALANCES"] if known else [])
    if not known:
        assert isinstance(result.cancelled, VenueRefused)
        assert (result.cancelled.code, result.cancelled.message) == (-2011, "Unknown order sent.")


def test_a_replacement_by_amount_is_worked_out_on_the_book_that_the_cancel_leaves(bench: Bench) -> None:
    order = bench.limit("ann", "SELL", "10", "50").order
    bench.flow("SELL", "10", "100")
    asked = asking("BUY", "MARKET", quote="100")
    result = bench.venue.cancel_replace("ann", asked, mode="STOP_ON_FAILURE", cancel_order_id=order.id)
    assert isinstance(result.placed, OrderResult)
    assert (result.placed.order.executed, result.placed.order.executed_quote) == (units("1"), units("100"))


def test_an_amount_that_buys_less_than_a_step_is_refused(bench: Bench) -> None:
    bench.flow("SELL", "10", "100")
    with _refused(-1013, "Filter failure: LOT_SIZE"):
        bench.place("ann", "BUY", "MARKET", quote="0.05")


def test_a_replacement_that_a_filter_stops_cancels_nothing(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "1", "100").order
    asked = asking("BUY", "LIMIT", "1.0001", price="100", tif="GTC")
    with _refused(-1013, "Filter failure: LOT_SIZE"):
        bench.venue.cancel_replace("ann", asked, mode="STOP_ON_FAILURE", cancel_order_id=order.id)
    assert len(bench.venue.open_orders("ann")) == 1


def test_an_amended_order_keeps_its_place_and_gets_a_new_client_order_id(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "5.5", "100", id="old").order
    bench.limit("bob", "BUY", "4", "100")
    result = bench.venue.amend("ann", SYMBOL, order_id=order.id, quantity=units("5"))
    assert (result.order.id, result.order.quantity) == (order.id, units("5"))
    assert result.order.client_order_id == result.amendment.new_client_order_id != "old"
    assert bench.told(Reported)[-1].execution == "REPLACED"
    assert bench.told(Reported)[-1].execution_id == result.amendment.execution_id
    assert bench.depth()[0] == [(units("100"), units("9"))]
    bench.flow("SELL", "5", "100")
    assert bench.venue.order("ann", SYMBOL, order_id=order.id).status == "FILLED"
    assert bench.venue.amendments("ann", SYMBOL, order.id) == (result.amendment,)


def test_an_amendment_only_makes_smaller(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "5", "100", id="it").order
    bench.flow("SELL", "2", "100")
    for quantity, message in (
        ("5", "The requested action would change no state; rejecting"),
        ("6", "Order amend (quantity increase) is not supported."),
        ("2", "Invalid quantity."),
        ("2.0005", "Filter failure: LOT_SIZE"),
    ):
        with _refused(-2038, message):
            bench.venue.amend("ann", SYMBOL, order_id=order.id, quantity=units(quantity))
    with _refused(-2038, "Unknown order sent."):
        bench.venue.amend("bob", SYMBOL, order_id=order.id, quantity=units("3"))


def test_an_order_is_amended_ten_times_and_no_more(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "50", "100").order
    for number in range(10):
        bench.venue.amend("ann", SYMBOL, order_id=order.id, quantity=units(str(49 - number)))
    with _refused(-2038, "Filter failure: MAX_NUM_ORDER_AMENDS"):
        bench.venue.amend("ann", SYMBOL, order_id=order.id, quantity=units("1"))


def test_an_amended_iceberg_shows_less_only_where_less_is_left(bench: Bench) -> None:
    order = bench.limit("ann", "BUY", "50", "100", iceberg="10").order
    bench.venue.amend("ann", SYMBOL, order_id=order.id, quantity=units("20"))
    assert bench.depth()[0] == [(units("100"), units("10"))]
    bench.venue.amend("ann", SYMBOL, order_id=order.id, quantity=units("4"))
    assert bench.depth()[0] == [(units("100"), units("4"))]


# --- ids, statuses, parameters -----------------------------------------------------------------


def test_a_client_order_id_is_unique_among_open_orders_only(bench: Bench) -> None:
    first = bench.limit("ann", "BUY", "1", "100", id="same").order
    with _refused(-2010, "Duplicate order sent."):
        bench.limit("ann", "BUY", "1", "100", id="same")
    bench.limit("bob", "BUY", "1", "100", id="same")
    bench.venue.cancel("ann", SYMBOL, order_id=first.id)
    second = bench.limit("ann", "BUY", "1", "100", id="same").order
    assert bench.venue.order("ann", SYMBOL, client_order_id="same").id == second.id
    assert second.id > first.id


@pytest.mark.parametrize("id", ["", "ä", "a b", "x" * 37, "a.b", "a\n"])
def test_a_client_order_id_of_other_characters_is_refused(bench: Bench, id: str) -> None:
    with _refused(
        -1100,
        "Illegal characters found in parameter 'newClientOrderId'; legal range is '^[a-zA-Z0-9-_]{1,36}$'.",
    ):
        bench.limit("ann", "BUY", "1", "100", id=id)


@pytest.mark.parametrize("status", ["HALT", "BREAK", "END_OF_DAY", "CANCEL_ONLY"])
def test_a_symbol_that_is_not_trading_takes_cancels_but_no_orders(bench: Bench, status: str) -> None:
    order = bench.limit("ann", "BUY", "1", "100").order
    bench.venue.set_status(SYMBOL, status)
    with _refused(-1013, "Market is closed."):
        bench.limit("ann", "BUY", "1", "100")
    with _refused(-1013, "Market is closed."):
        bench.venue.amend("ann", SYMBOL, order_id=order.id, quantity=units("0.5"))
    assert bench.venue.cancel("ann", SYMBOL, order_id=order.id).order.status == "CANCELED"


MISSING = "Mandatory parameter '{}' was not sent, was empty/null, or malformed."
EXTRA = "Parameter '{}' sent when not required."
BAD: list[tuple[Any, int, str]] = [
    (asking("BUY", "LIMIT", "1", price="1"), -1102, MISSING.format("timeInForce")),
    (asking("BUY", "LIMIT", None, price="1", tif="GTC"), -1102, MISSING.format("quantity")),
    (asking("BUY", "LIMIT", "1", tif="GTC"), -1102, MISSING.format("price")),
    (asking("BUY", "LIMIT", "1", price="1", tif="GTC", quote="5"), -1106, EXTRA.format("quoteOrderQty")),
    (asking("BUY", "LIMIT", "1", price="1", tif="GTC", stop="5"), -1106, EXTRA.format("stopPrice")),
    (asking("BUY", "MARKET", "1", price="1"), -1106, EXTRA.format("price")),
    (asking("BUY", "MARKET", "1", tif="IOC"), -1106, EXTRA.format("timeInForce")),
    (asking("BUY", "MARKET", "1", iceberg="0.5"), -1106, EXTRA.format("icebergQty")),
    (
        asking("BUY", "MARKET"),
        -1102,
        "Param 'quantity' or 'quoteOrderQty' must be sent, but both were empty/null!",
    ),
    (asking("BUY", "MARKET", "1", quote="5"), -1128, "Combination of optional parameters invalid."),
    (asking("BUY", "LIMIT_MAKER", "1", price="1", tif="GTC"), -1106, EXTRA.format("timeInForce")),
    (
        asking("BUY", "STOP_LOSS", "1"),
        -1102,
        "Param 'stopPrice' or 'trailingDelta' must be sent, but both were empty/null!",
    ),
    (asking("BUY", "LIMIT", "0", price="1", tif="GTC"), -1013, "Invalid quantity."),
    (asking("BUY", "LIMIT", "1", price="0", tif="GTC"), -1013, "Invalid price."),
    (asking("BUY", "LIMIT", "1", price="1", tif="GTC", iceberg="2"), -1013, "IcebergQty exceeds QTY."),
    (
        asking("BUY", "LIMIT", "1", price="1", tif="IOC", iceberg="0.5"),
        -1014,
        "Unsupported order combination.",
    ),
    (asking("BUY", "LIMIT", "99999999999", price="1", tif="GTC"), -1108, "Parameter 'quantity' overflowed."),
    (
        asking("BUY", "LIMIT", "0.00000001", price="0.01", tif="GTC"),
        -1013,
        "Price * QTY is zero or less.",
    ),
    (
        asking("BUY", "LIMIT", "1", price="1", tif="GTC", strategy_type=5),
        -1134,
        "strategyType was less than 1000000.",
    ),
    (asking("BUY", "NO", "1"), -1116, "Invalid orderType."),
    (asking("NO", "MARKET", "1"), -1117, "Invalid side."),
    (asking("BUY", "LIMIT", "1", price="1", tif="NO"), -1115, "Invalid timeInForce."),
    (asking("BUY", "MARKET", "1", symbol="NONE"), -1121, "Invalid symbol."),
]


@pytest.mark.parametrize(("asked", "code", "message"), BAD)
def test_a_request_that_is_incomplete_or_inconsistent_is_refused(
    bench: Bench, asked: Any, code: int, message: str
) -> None:
    for call in (bench.venue.test, bench.venue.place):
        with _refused(code, message):
            call("ann", asked)
    assert bench.events == []


@pytest.mark.parametrize(
    ("rules", "asked", "message"),
    [
        (
            {"orderTypes": ["LIMIT"]},
            asking("BUY", "MARKET", "1"),
            "Market orders are not supported for this symbol.",
        ),
        (
            {"orderTypes": ["LIMIT"]},
            asking("BUY", "STOP_LOSS", "1", stop="1"),
            "Stop loss orders are not supported for this symbol.",
        ),
        (
            {"icebergAllowed": False},
            asking("BUY", "LIMIT", "1", price="1", tif="GTC", iceberg="0.5"),
            "Iceberg orders are not supported for this symbol.",
        ),
        (
            {"quoteOrderQtyMarketAllowed": False},
            asking("BUY", "MARKET", quote="1"),
            "Quote order qty market orders are not support for this symbol.",
        ),
        (
            {"allowTrailingStop": False},
            asking("BUY", "STOP_LOSS", "1", trailing=100),
            "Trailing stop orders are not supported for this symbol.",
        ),
        (
            {"allowedSelfTradePreventionModes": ["NONE"]},
            asking("BUY", "MARKET", "1", stp="EXPIRE_TAKER"),
            "This symbol does not allow the specified self-trade prevention mode.",
        ),
    ],
)
def test_what_a_symbol_does_not_allow_is_refused(rules: dict[str, Any], asked: Any, message: str) -> None:
    with _refused(-1013, message):
        Bench(entry(**rules)).venue.place("ann", asked)


def test_an_order_that_cannot_be_paid_is_refused_and_leaves_no_trace(bench: Bench) -> None:
    bench.flow("SELL", "20000", "100")
    bench.events.clear()
    for asked in (
        asking("BUY", "LIMIT", "10000", price="100.01", tif="GTC"),
        asking("SELL", "LIMIT", "1000.001", price="100", tif="GTC"),
        asking("BUY", "MARKET", quote="1000000.01"),
        asking("SELL", "STOP_LOSS", "1001", stop="90"),
    ):
        with _refused(-2010, "Account has insufficient balance for requested action."):
            bench.venue.place("ann", asked)
    assert bench.events == []
    assert bench.venue.all_orders("ann", SYMBOL) == ()
    bench.venue.place("ann", asking("BUY", "MARKET", "10000"))
    assert bench.venue.account("ann").balances["USDT"] == (0, 0)
