"""URIs of the resources: one canonical form, and a clear word about every other one."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.errors import ToolError
from tracedesk.exchange.addresses import canonical


@pytest.mark.parametrize(
    ("uri", "form"),
    [
        ("binance://market/btcusdt", "binance://market/btcusdt"),
        ("BINANCE://Market/BTCUSDT", "binance://market/btcusdt"),
        ("binance://market/%42TCusdt", "binance://market/btcusdt"),
        ("binance://account/balances", "binance://account/balances"),
        ("Binance://ACCOUNT/Holdings", "binance://account/holdings"),
        ("binance://orders/OPEN", "binance://orders/open"),
        ("binance://orders/history/EthUsdt", "binance://orders/history/ethusdt"),
        ("binance://market/1000satsusdt", "binance://market/1000satsusdt"),
        ("binance://market/币安人生USDT", "binance://market/%E5%B8%81%E5%AE%89%E4%BA%BA%E7%94%9Fusdt"),
    ],
)
def test_case_and_encoding_do_not_matter(uri: str, form: str) -> None:
    assert canonical(uri) == form
    assert canonical(form) == form


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("binance://market/", "names no symbol"),
        ("binance://market", "names no symbol"),
        ("binance://market/btc%2Fusdt", "hides a slash"),
        ("binance://market/btc%2fusdt", "hides a slash"),
        ("binance://market/btc%00usdt", "hides a slash"),
        ("binance://market/btc%25usdt", "hides a slash"),
        ("binance://market/btc%zzusdt", "begins no encoded"),
        ("binance://market/%ff", "not UTF-8"),
        ("binance://market/..", "hides a slash"),
        ("binance://market/btcusdt/", "segment too many"),
        ("binance://market/btcusdt/depth", "segment too many"),
        ("binance://market/btcusdt?limit=5", "query or fragment"),
        ("binance://market/btcusdt#top", "query or fragment"),
        ("binance://futures/btcusdt", "none of market, account, orders"),
        ("binance:///market/btcusdt", "none of market, account, orders"),
        ("binance://account", "names nothing under account"),
        ("binance://account/positions", "names nothing under account"),
        ("binance://account/balances/btc", "names nothing under account"),
        ("binance://orders/history", "names no symbol"),
        ("binance://orders/history/", "names no symbol"),
        ("binance://orders/history/btcusdt/1", "segment too many"),
        ("binance:market/btcusdt", "no category"),
        ("binance://market/" + "x" * 300, "longer than"),
    ],
)
def test_a_uri_that_names_nothing_is_refused_with_the_forms_that_do(uri: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem) as refused:
        canonical(uri)
    assert refused.value.code == "INVALID_PARAMETER"
    assert "binance://market/{symbol}" in refused.value.message


@pytest.mark.parametrize(
    "uri", ["tracedesk://calls/1", "http://market/btcusdt", "binances://market/x", "market", ""]
)
def test_another_scheme_is_not_ours(uri: str) -> None:
    assert canonical(uri) is None


@given(st.text(max_size=60))
def test_any_text_after_the_scheme_is_a_canonical_form_or_a_refusal(text: str) -> None:
    try:
        found = canonical(f"binance://{text}")
    except ToolError:
        return
    assert found is not None
    assert canonical(found) == found
    assert found.isascii()


@given(st.text(alphabet=st.characters(categories=("L", "N")), min_size=1, max_size=12))
def test_any_symbol_of_letters_and_digits_has_one_uri(symbol: str) -> None:
    found = canonical(f"binance://market/{quote(symbol, safe='')}")
    assert found == canonical(f"BINANCE://MARKET/{symbol}")
