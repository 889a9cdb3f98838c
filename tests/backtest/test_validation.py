"""Validation: what each type should have, and that nothing is refused for lacking it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.backtest.model import HAS_ERROR, HAS_WARNING, EventType
from tracedesk.backtest.shapes import grouped
from tracedesk.backtest.validation import REQUIRED, Judgement, Profile, faults_of, may_be_faulty

GUID = "99999999-8888-7777-6666-555555555555"


def test_every_type_has_a_row_in_the_table() -> None:
    assert set(REQUIRED) == set(EventType)


@pytest.mark.parametrize("kind", list(EventType))
def test_each_required_field_is_missed_by_name_and_gravity(kind: EventType) -> None:
    expected = [
        {"Field": f"Properties.{name}", "Error": "Missing required field", "Severity": gravity}
        for name, (gravity, _) in REQUIRED[kind].items()
    ]
    assert faults_of(kind, {"Other": 1}) == expected
    assert faults_of(kind, dict.fromkeys(REQUIRED[kind])) == expected
    assert faults_of(kind, dict.fromkeys(REQUIRED[kind], "")) == expected


def test_the_contract_s_example_has_the_contract_s_errors() -> None:
    properties = {"OrderId": "invalid-guid", "SecuritySymbol": "AAPL", "Quantity": 100}
    assert sorted(faults_of(EventType.TradeExecution, properties, "guid"), key=lambda f: f["Field"]) == [
        {"Field": "Properties.OrderId", "Error": "Invalid GUID format", "Severity": "Error"},
        {"Field": "Properties.Price", "Error": "Missing required field", "Severity": "Warning"},
    ]


@pytest.mark.parametrize("order", ["invalid-guid", "42", 42])
def test_any_id_is_an_id_unless_the_run_promised_guids(order: Any) -> None:
    properties = {"OrderId": order, "Quantity": 1, "Price": Decimal("1.50")}
    assert faults_of(EventType.TradeExecution, properties) == []
    assert [f["Error"] for f in faults_of(EventType.TradeExecution, properties, "guid")] == [
        "Invalid GUID format"
    ]
    assert faults_of(EventType.TradeExecution, {**properties, "OrderId": GUID}, "guid") == []


@pytest.mark.parametrize(
    ("price", "is_number"), [("1.50", True), (1.5, True), ("cheap", False), (True, False), ([], False)]
)
def test_a_price_that_is_no_number_is_told(price: Any, is_number: bool) -> None:
    found = faults_of(EventType.TradeExecution, {"OrderId": GUID, "Quantity": 1, "Price": price})
    assert [f["Error"] for f in found] == ([] if is_number else ["Not a number"])


def test_properties_that_were_not_json_have_one_error() -> None:
    assert [f["Error"] for f in faults_of(EventType.TradeExecution, {"_raw": '{"a":'})] == ["Malformed JSON"]


def test_an_event_s_bits_tell_every_severity_among_its_faults() -> None:
    error = {"Field": "x", "Error": "y", "Severity": "Error"}
    warning = {**error, "Severity": "Warning"}
    assert Judgement.of([error]).bits == HAS_ERROR
    assert Judgement.of([warning]).bits == HAS_WARNING
    assert Judgement.of([warning, error]).bits == HAS_ERROR | HAS_WARNING


NAMES = st.sampled_from(
    ("OrderId", "Price", "Quantity", "RejectionReason", "Value", "IndicatorName", "_raw", "X")
)
ROWS = st.lists(
    st.dictionaries(NAMES, st.sampled_from((None, "", GUID, "7", 7, 1.5, Decimal("1.5"), True))),
    min_size=1,
    max_size=9,
)


@given(st.sampled_from(list(EventType)), ROWS, st.sampled_from(("", "guid")))
def test_the_quick_look_never_passes_over_a_faulty_event(
    kind: EventType, rows: list[dict[str, Any]], profile: Profile
) -> None:
    for group in grouped(rows, range(len(rows))):
        if not may_be_faulty(kind, group.columns(), profile):
            assert [faults_of(kind, row, profile) for row in group.rows] == [[] for _ in group.rows]
