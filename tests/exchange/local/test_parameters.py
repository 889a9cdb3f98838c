"""Parameters as they are read, and the venue's own words for those that cannot be."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.exchange.local import errors, parameters
from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.parameters import SYMBOL, Parameter, Reader

DECLARED = (SYMBOL, Parameter("limit", parameters.at_most(1000)), Parameter("fromId", parameters.whole))


def _refusal(sent: dict[str, str], apart: tuple[str, ...] = ()) -> tuple[int, str]:
    with pytest.raises(Refused) as refused:
        parameters.read(DECLARED, sent, apart)
    assert refused.value.status == 400
    return refused.value.code, refused.value.message


def test_what_is_sent_is_read_and_what_is_not_stays_away() -> None:
    assert parameters.read(DECLARED, {"symbol": "BTCUSDT", "limit": "5"}) == {"symbol": "BTCUSDT", "limit": 5}


def test_a_mandatory_parameter_is_missing_or_empty() -> None:
    text = "Mandatory parameter 'symbol' was not sent, was empty/null, or malformed."
    assert _refusal({}) == _refusal({"symbol": ""}) == (-1102, text)


def test_an_optional_parameter_is_empty() -> None:
    assert _refusal({"symbol": "BTCUSDT", "limit": ""}) == (-1105, "Parameter 'limit' was empty.")


def test_parameters_that_no_one_reads_are_counted() -> None:
    unread = "Not all sent parameters were read; read '2' parameter(s) but was sent '3'."
    assert _refusal({"symbol": "BTCUSDT", "limit": "5", "colour": "red"}) == (-1104, unread)
    signed = {"symbol": "BTCUSDT", "timestamp": "1", "signature": "x", "colour": "red"}
    unread = "Not all sent parameters were read; read '3' parameter(s) but was sent '4'."
    assert _refusal(signed, ("timestamp", "signature")) == (-1104, unread)


def test_more_parameters_than_there_are_is_too_many() -> None:
    with pytest.raises(Refused) as refused:
        parameters.read((), {"colour": "red"})
    assert (refused.value.code, refused.value.message) == (
        -1101,
        "Too many parameters; expected '0' and received '1'.",
    )


@pytest.mark.parametrize("text", ["btcusdt", "BTC/USDT", "BTC USDT", "A" * 51, "BTC\n"])
def test_a_symbol_has_its_legal_range(text: str) -> None:
    code, message = _refusal({"symbol": text})
    assert code == -1100
    assert (
        message
        == r"Illegal characters found in parameter 'symbol'; legal range is '^[\w\-._&&[^a-z]]{1,50}$'."
    )


@pytest.mark.parametrize("text", ["BTCUSDT", "1000SATSUSDT", "１２３４５６", "A.B-C_D", "币安人生USDT"])
def test_symbols_may_have_digits_and_letters_of_any_script(text: str) -> None:
    assert parameters.symbol("symbol", text) == text


@given(st.decimals(min_value=0, max_value=10**9, places=8, allow_nan=False, allow_infinity=False))
def test_amounts_are_exact(value: Decimal) -> None:
    assert parameters.amount("price", format(value, "f")) == int(value.scaleb(8))


def test_an_amount_may_have_zeros_beyond_the_eighth_place_but_no_other_digit() -> None:
    assert parameters.amount("price", "1.000000000000") == 10**8
    with pytest.raises(Refused) as refused:
        parameters.amount("price", "1.000000001")
    assert (refused.value.code, refused.value.message) == (-1111, "Parameter 'price' has too much precision.")


@pytest.mark.parametrize("text", ["-1", "1e5", "+1", ".5", "1.", "NaN", "0x1", "1,5", " 1", "1" * 21])
def test_an_amount_that_is_no_plain_decimal_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        parameters.amount("quantity", text)
    assert refused.value.code == -1100
    assert refused.value.message.endswith(r"legal range is '^([0-9]{1,20})(\.[0-9]{1,20})?$'.")


@pytest.mark.parametrize(
    ("read", "text"), [(parameters.amount, "99999999999999"), (parameters.whole, str(2**63))]
)
def test_numbers_that_do_not_fit_overflow(read: Reader, text: str) -> None:
    with pytest.raises(Refused, match="Parameter 'n' overflowed") as refused:
        read("n", text)
    assert refused.value.code == -1108


def test_a_limit_is_cut_to_the_largest_and_never_zero() -> None:
    read = parameters.at_most(1000)
    assert (read("limit", "1"), read("limit", "5000")) == (1, 1000)
    with pytest.raises(Refused, match="Data sent for parameter 'limit' is not valid") as refused:
        read("limit", "0")
    assert refused.value.code == -1130


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('["BTCUSDT"', -1135),
        ("[]", -1130),
        ('{"a":1}', -1130),
        ('["BTCUSDT","BTCUSDT"]', -1151),
        ('["btcusdt"]', -1100),
        ("[" * 600 + "]" * 600, -1100),
        ("[" * 100_000 + "]" * 100_000, -1135),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_list_of_symbols_is_checked(text: str, code: int) -> None:
    with pytest.raises(Refused) as refused:
        parameters.symbols("symbols", text)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("0", 0), ("8", 480), ("-1:00", -60), ("05:45", 345), ("+14:00", 840), ("-12", -720)],
)
def test_a_zone_is_hours_or_hours_and_minutes(text: str, minutes: int) -> None:
    assert parameters.zone_minutes("timeZone", text) == minutes


@pytest.mark.parametrize("text", ["15", "-13", "14:01", "1:60", "UTC", ""])
def test_a_zone_off_the_map_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parameters.zone_minutes("timeZone", text)


@pytest.mark.parametrize(
    ("text", "ms"), [("1m", 60_000), ("59m", 3_540_000), ("23h", 82_800_000), ("7d", 604_800_000)]
)
def test_a_window_counts_minutes_hours_or_days(text: str, ms: int) -> None:
    assert parameters.window_ms("windowSize", text) == ms


@pytest.mark.parametrize("text", ["60m", "24h", "8d", "0m", "1d2h", "1w", "m"])
def test_other_windows_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        parameters.window_ms("windowSize", text)


def test_times_may_be_sent_in_microseconds() -> None:
    assert parameters.instant("startTime", "1499827319559") == parameters.instant(
        "startTime", "1499827319559999"
    )


def test_a_word_outside_its_list_gets_its_own_refusal() -> None:
    for refusal, code in (
        (errors.invalid_side, -1117),
        (errors.invalid_order_type, -1116),
        (errors.invalid_interval, -1120),
    ):
        with pytest.raises(Refused) as refused:
            parameters.one_of(("BUY", "SELL"), refusal)("word", "HOLD")
        assert refused.value.code == code


@pytest.mark.parametrize("text", ["", "a b", "ä", "x" * 37, "a/b"])
def test_a_client_order_id_has_its_legal_range(text: str) -> None:
    with pytest.raises(Refused) as refused:
        parameters.order_id_text("newClientOrderId", text)
    assert refused.value.message == (
        "Illegal characters found in parameter 'newClientOrderId'; legal range is '^[a-zA-Z0-9-_]{1,36}$'."
    )
