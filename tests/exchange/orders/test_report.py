"""What of a venue's word is believed, and what is news."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tracedesk.exchange.orders.report import Implausible, State, client_ids, heard, kind_of, of_stream

TOLD: Final = {
    "symbol": "BTCUSDT",
    "clientOrderId": "td-1",
    "orderId": 7,
    "status": "PARTIALLY_FILLED",
    "origQty": "2.00000000",
    "executedQty": "0.50000000",
    "cummulativeQuoteQty": "100.00000000",
}
QUANTITY: Final = 200_000_000
HALF: Final = State("PARTIALLY_FILLED", 7, 50_000_000, 10_000_000_000)


def test_an_answer_is_read_in_units() -> None:
    assert heard(TOLD, "BTCUSDT", "td-1", QUANTITY) == HALF


def test_a_cancelled_order_is_known_by_the_id_it_had() -> None:
    told = {**TOLD, "origClientOrderId": "td-1", "clientOrderId": "cancel", "status": "CANCELED"}
    assert heard(told, "BTCUSDT", "td-1", QUANTITY).status == "CANCELED"
    assert client_ids(told) == ["td-1"]


def test_an_order_that_was_made_smaller_elsewhere_is_still_ours() -> None:
    told = {**TOLD, "origQty": "0.50000000", "status": "FILLED"}
    assert heard(told, "BTCUSDT", "td-1", QUANTITY).status == "FILLED"


@pytest.mark.parametrize(
    "change",
    [
        {"clientOrderId": "td-2"},
        {"symbol": "ETHUSDT"},
        {"status": "MAYBE"},
        {"status": "FILLED"},
        {"status": "NEW"},
        {"executedQty": "2.50000000"},
        {"executedQty": "-1.00000000"},
        {"executedQty": "2.00000000"},
        {"origQty": "3.00000000"},
        {"executedQty": "much"},
        {"orderId": "x"},
        {"orderId": None},
        {"origQty": None},
    ],
)
def test_what_cannot_be_true_is_not_believed(change: dict[str, Any]) -> None:
    with pytest.raises(Implausible):
        heard({**TOLD, **change}, "BTCUSDT", "td-1", QUANTITY)


@pytest.mark.parametrize("told", [None, [], "FILLED", {}, {"status": "FILLED"}])
def test_what_is_no_order_is_not_believed(told: Any) -> None:
    with pytest.raises(Implausible):
        heard(told, "BTCUSDT", "td-1", QUANTITY)


@pytest.mark.parametrize(
    ("before", "now", "is_news"),
    [
        (State("SENT"), State("UNKNOWN"), True),
        (State("SENT"), HALF, True),
        (State("UNKNOWN"), State("UNKNOWN"), False),
        (State("UNKNOWN"), State("NEVER_ARRIVED"), True),
        (State("UNKNOWN"), State("FILLED", 7, QUANTITY), True),
        (State("NEW", 7), HALF, True),
        (HALF, State("NEW", 7), False),
        (HALF, State("CANCELED", 7, 50_000_000), True),
        (HALF, State("NEVER_ARRIVED"), False),
        (State("NEW", 7), State("NEVER_ARRIVED"), False),
        (HALF, State("UNKNOWN"), False),
        (State("FILLED", 7, QUANTITY), State("CANCELED", 7, QUANTITY), False),
        (State("CANCELED", 7), State("NEW", 7), False),
        (State("REFUSED"), HALF, True),
        (State("NEVER_ARRIVED"), HALF, True),
        (State("NEVER_ARRIVED"), State("UNKNOWN"), False),
        (State("REFUSED"), State("UNKNOWN"), False),
    ],
)
def test_only_what_is_later_than_what_is_known_is_news(before: State, now: State, is_news: bool) -> None:
    assert now.follows(before) is is_news


def test_entries_are_called_by_what_they_change() -> None:
    assert kind_of(State("SENT"), State("UNKNOWN")) == "unknown"
    assert kind_of(State("UNKNOWN"), HALF) == "outcome"
    assert kind_of(State("NEW", 7), HALF) == "report"
    assert kind_of(State("NEVER_ARRIVED"), HALF) == "surprise"


def test_a_report_of_the_stream_reads_like_an_answer() -> None:
    event = {
        "e": "executionReport",
        "s": "BTCUSDT",
        "c": "td-1",
        "C": "",
        "i": 7,
        "X": "PARTIALLY_FILLED",
        "q": "2.00000000",
        "z": "0.50000000",
        "Z": "100.00000000",
    }
    assert heard(of_stream(event), "BTCUSDT", "td-1", QUANTITY) == HALF
    assert client_ids(of_stream({**event, "c": "web_1"})) == []
