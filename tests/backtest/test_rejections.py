"""Codes of rejections: what reasons of one rule share, whatever figures and names are in them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.backtest.desks import T0, agent, record
from tests.backtest.files import opened
from tests.support import run
from tracedesk.backtest import report
from tracedesk.backtest.rejections import _known, code_of  # pyright: ignore[reportPrivateUsage]
from tracedesk.home import Home


@pytest.mark.parametrize(
    ("reasons", "code"),
    [
        (["Insufficient margin"], "Insufficient margin"),
        (["NOTIONAL_EXCEEDS_FREE_BALANCE"], "NOTIONAL_EXCEEDS_FREE_BALANCE"),
        (["price 1.2345 above 1.2", "price 99 above 1,000.50"], "price # above #"),
        (["off by -0.5%", "off by +1e-07%", "off by .25%", "off by nan%"], "off by #%"),
        (["late: 2024-01-02T03:04:05.123Z", "late: 2025-11-30T00:00:00Z"], "late: #T#Z"),
        (["levels [1, 2, 3] crossed", "levels [4] crossed"], "levels [#] crossed"),
        (
            [
                "duplicate 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
                "duplicate 0xdeadbeef",
                "duplicate 9af3c21b77",
            ],
            "duplicate #",
        ),
        (["O-20240101-000001-001-1 unknown", "O-20240102-000009-001-12 unknown"], "O-# unknown"),
        (["\x1b[31mred\x1b[0m at 5", "\x1b[31mred\x1b[0m at 6"], "\x1b[31mred\x1b[0m at #"),
        (["id aZ3kP9xQ2mW7 unknown", "id 01HZX4T9QJ8M unknown", "id b7Xd2Kq9Lm3 unknown"], "id # unknown"),
        (["HTTP-Fehler: café 12 €", "HTTP-Fehler: café 9.5 €"], "HTTP-Fehler: café # €"),
    ],
)
def test_reasons_that_differ_in_figures_alone_have_one_code(reasons: list[str], code: str) -> None:
    assert {code_of({"RejectionReason": reason}) for reason in reasons} == {code}


@pytest.mark.parametrize(
    "reasons",
    [
        ["HTTP 400: 12 left", "HTTP 500: 13 left"],
        ["error -2010 at 1.5", "error -1013 at 2.5"],
        ["[code=7] of 10", "[code=8] of 11"],
        ["x" * 600 + "a", "x" * 600 + "b"],
    ],
)
def test_reasons_of_two_errors_have_two_codes(reasons: list[str]) -> None:
    assert len({code_of({"RejectionReason": reason}) for reason in reasons}) == len(reasons)


def test_a_code_is_short_however_long_its_reason_is_and_nothing_long_is_remembered() -> None:
    reasons = [f"{number}: {'no margin ' * 100_000}" for number in range(3)]
    codes = {code_of({"RejectionReason": reason}) for reason in reasons}
    (code,) = codes
    assert len(code) < 600
    assert len(code_of({"RejectionReason": "no", "RejectionCode": "c" * 10**6})) < 600
    before = _known.cache_info().currsize
    code_of({"RejectionReason": reasons[0]})
    assert _known.cache_info().currsize == before


def test_the_rejected_orders_own_names_are_no_part_of_its_code() -> None:
    found = {
        code_of(
            {"RejectionReason": f"no quote for {symbol}, order {id}", "SecuritySymbol": symbol, "OrderId": id}
        )
        for symbol, id in (("AAPL", "a-x"), ("BRK.B", "b-y"), ("EUR/USD", "c-z"))
    }
    assert found == {"no quote for {SecuritySymbol}, order {OrderId}"}


def test_a_symbol_of_one_letter_is_no_word_of_the_reason() -> None:
    assert code_of({"RejectionReason": "A margin call", "SecuritySymbol": "A"}) == "A margin call"


def test_a_code_that_the_event_brings_is_kept() -> None:
    assert code_of({"RejectionReason": "price 5 is too low", "RejectionCode": -2010}) == "-2010"


@pytest.mark.parametrize("reason", [None, "", 0])
def test_a_rejection_without_a_reason_has_a_code_that_says_so(reason: Any) -> None:
    assert code_of({"RejectionReason": reason}) == "(no reason recorded)"


# --- thousands of reasons --------------------------------------------------------------------------------

RULES = (
    "POST_ONLY LIMIT {side} order limit px of {price} would have been a TAKER: bid={bid}, ask={ask}",
    "STOP_MARKET {side} order stop px of {price} was in the market: bid={bid}, ask={ask}",
    "NOTIONAL_EXCEEDS_FREE_BALANCE: free={bid}_000.00 USD, notional={ask}",
    "Market closed since {price} s",
)


def refused(home: Path, count: int = 3_000) -> tuple[str, set[str]]:
    """A run with thousands of texts of a few rules, as an engine that trades on quotes writes them."""
    dice = random.Random(1)
    texts: set[str] = set()
    with record(home) as rec:
        for number in range(count):
            price = dice.randrange(10**5) / 10**5
            figures = {"price": price, "bid": price - 0.0001, "ask": price + 0.0001}
            text = RULES[number % len(RULES)].format(side=("BUY", "SELL")[number // 4 % 2], **figures)
            texts.add(text)
            rec.order_rejected(T0 + number, f"O-{number}", text, symbol="AUD/USD.SIM", quantity=5)
    return rec.run_id, texts


def test_thousands_of_reasons_of_a_few_rules_are_a_few_groups_and_every_reason_is_kept(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        id, texts = refused(tmp_path)
        assert len(texts) > 2_500
        async with agent(tmp_path) as desk:
            ask = {"runId": id, "eventType": "OrderRejection", "propertyPath": "$.RequestedQuantity"}
            found = await desk.call("aggregate_metrics", **ask, groupBy="RejectionCode")
            assert found["metadata"]["groupCount"] == len(found["groups"]) == 6
            assert sum(group["events"] for group in found["groups"]) == 3_000
            compared = await desk.call("compare_runs", runId=id, otherRunId=id)
            rows = compared["runs"][0]["rejectionsByReason"]
            assert len(rows) == 6
            assert sum(row["count"] for row in rows) == 3_000
            assert {row["example"] for row in rows} <= texts
            page = await desk.call("get_events_by_type", runId=id, eventType="OrderRejection", pageSize=1_000)
            assert {event["properties"]["RejectionReason"] for event in page["events"]} <= texts
        with opened(Home.open(tmp_path), id) as recording:
            shown = report.page_of(recording, "refused").decode()
        assert "3,000 rejected orders, 6 reasons." in shown

    run(main())


def test_grouping_by_the_whole_reason_says_that_its_code_has_fewer_groups(tmp_path: Path) -> None:
    async def main() -> None:
        id, texts = refused(tmp_path, 400)
        async with agent(tmp_path) as desk:
            ask = {"runId": id, "eventType": "OrderRejection", "propertyPath": "$.RequestedQuantity"}
            found = await desk.call("aggregate_metrics", **ask, groupBy="RejectionReason")
            assert found["metadata"]["groupCount"] == len(texts)
            assert any("groupBy RejectionCode" in text for text in found["metadata"]["warnings"])

    run(main())
