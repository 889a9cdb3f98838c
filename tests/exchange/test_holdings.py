"""What holdings are worth: by which way, with which digits, and what cannot be valued."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tracedesk.exchange.holdings import last_prices, valued
from tracedesk.exchange.resources import worth_table

PRICES = {"BTCUSDT": Decimal("50000"), "ETHBTC": Decimal("0.05"), "USDTDAI": Decimal("3")}


def test_an_asset_is_valued_directly_turned_round_or_over_another() -> None:
    amounts = {
        "BTC": Decimal("0.5"),
        "ETH": Decimal(2),
        "DAI": Decimal(9),
        "USDT": Decimal("1.5"),
        "XYZ": Decimal(1),
    }
    found = {h.asset: (h.worth, h.way) for h in valued(amounts, PRICES, "USDT")}
    assert found == {
        "BTC": (Decimal("25000.00000000"), "BTCUSDT"),
        "ETH": (Decimal("5000.00000000"), "ETHBTC and BTCUSDT"),
        "DAI": (Decimal("2.99999997"), "USDTDAI"),
        "USDT": (Decimal("1.50000000"), "USDT"),
        "XYZ": (None, ""),
    }


def test_the_largest_comes_first_and_what_has_no_price_last() -> None:
    amounts = {"XYZ": Decimal(10**9), "USDT": Decimal(1), "BTC": Decimal(1), "ETH": Decimal(0)}
    assert [h.asset for h in valued(amounts, PRICES, "USDT")] == ["BTC", "USDT", "XYZ"]


def test_the_page_names_the_quote_asset_the_sum_and_the_gaps() -> None:
    shown = worth_table(valued({"BTC": Decimal(1), "X|Y": Decimal(1)}, PRICES, "USDT"), "USDT")
    assert "Worth (USDT)" in shown
    assert "| «X\\|Y» | 1.00000000 | — | — | — | no price |" in shown
    assert shown.endswith("Total: 50000.00000000 USDT.")


def test_a_price_of_zero_is_no_price() -> None:
    assert last_prices([{"symbol": "A", "price": "0.00000000"}, {"symbol": "B", "price": "1"}]) == {
        "B": Decimal(1)
    }


@given(
    st.decimals(min_value=0, max_value=10**9, places=8),
    st.decimals(min_value="0.00000001", max_value=10**6, places=8),
)
def test_any_worth_has_eight_places_and_is_within_half_of_the_last_one(
    amount: Decimal, price: Decimal
) -> None:
    for holding in valued({"A": amount}, {"AB": price}, "B"):
        assert holding.worth is not None
        assert holding.worth.as_tuple().exponent == -8
        assert abs(holding.worth - amount * price) <= Decimal("0.000000005")
