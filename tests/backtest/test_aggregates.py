"""Aggregates against an oracle of decimals: all six, to the last digit, however the values are stored."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backtest.desks import T0, agent, record
from tests.support import run
from tracedesk.backtest import aggregate
from tracedesk.backtest.desk import Shelf
from tracedesk.backtest.intake import Intake
from tracedesk.backtest.lines import Line
from tracedesk.backtest.model import EventType
from tracedesk.backtest.page import Ask
from tracedesk.backtest.runs import Plan
from tracedesk.home import Home
from tracedesk.journal.sqlite import connect
from tracedesk.primitives import json
from tracedesk.primitives.time import format

WIDE: Final = Context(prec=400, Emax=MAX_EMAX, Emin=MIN_EMIN)
SIX: Final = ["count", "sum", "avg", "min", "max", "stddev"]
CASES: Final = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def exponent(value: Decimal) -> int:
    found = value.as_tuple().exponent
    assert isinstance(found, int)
    return found


def expected(values: Sequence[Decimal], kind: str = "population") -> dict[str, Any]:
    """The six by the textbook, in 400 digits, rounded once."""
    if not values:
        return {"count": 0} | dict.fromkeys(SIX[1:])
    count = len(values)
    places = Decimal(1).scaleb(-(max(0, *(-exponent(v) for v in values)) + 6))
    total = Decimal(0)
    for value in values:
        total = WIDE.add(total, value)
    mean = WIDE.divide(total, Decimal(count))
    spread = Decimal(0)
    for value in values:
        gap = WIDE.subtract(value, mean)
        spread = WIDE.add(spread, WIDE.multiply(gap, gap))
    freedom = count - (kind == "sample")
    deviation = WIDE.sqrt(WIDE.divide(spread, Decimal(freedom))) if freedom else None
    return {
        "count": count,
        "sum": total,
        "avg": WIDE.quantize(mean, places),
        "min": min(values),
        "max": max(values),
        "stddev": None if deviation is None else WIDE.quantize(deviation, places),
    }


def ask(home: Path, id: str, **more: Any) -> dict[str, Any]:
    """The answer of the tool's own function, without the wire."""
    args = {"runId": id, "eventType": "TradeExecution", "propertyPath": "$.Price", "aggregations": SIX}

    async def main() -> dict[str, Any]:
        shelf = Shelf(Home.open(home))
        try:
            question = Ask("aggregate_metrics", {**args, "stddevKind": "population", **more}, 8_000, 1 << 20)
            return await shelf.read(id, lambda recording: aggregate.answer(recording, question))
        finally:
            await shelf.close()

    return run(main())


def agree(found: dict[str, Any], oracle: dict[str, Any]) -> None:
    """Equal to the last digit that the inputs have, and to the six beyond for averages."""
    for name in SIX:
        if found[name] is None or oracle[name] is None:
            assert found[name] is oracle[name] is None, name
            continue
        assert (
            WIDE.quantize(Decimal(found[name]), Decimal(1).scaleb(exponent(Decimal(oracle[name]))))
            == oracle[name]
        ), name


PRICES = st.one_of(
    *(
        st.integers(-(10**14), 10**14).map(lambda units, places=places: Decimal(units).scaleb(-places))
        for places in (0, 2, 8, 18)
    )
)


@CASES
@given(values=st.lists(PRICES, min_size=1, max_size=60), kind=st.sampled_from(["population", "sample"]))
def test_all_six_equal_an_oracle_on_values_with_2_8_and_18_decimals_mixed(
    values: list[Decimal], kind: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with record(home, batch=7) as rec:
            for number, value in enumerate(values):
                rec.emit("TradeExecution", T0 + number, {"Price": value})
        found = ask(home, rec.run_id, stddevKind=kind)
        assert found["metadata"]["method"] == "moments"
        oracle = expected(values, kind)
        assert {name: found["aggregations"][name] for name in SIX} == oracle


@settings(CASES, max_examples=4)
@given(data=st.data())
def test_a_time_range_over_many_chunks_equals_an_oracle_whatever_order_the_times_have(
    data: st.DataObject,
) -> None:
    """Nine thousand values make three chunks; the drawn ones are spread over them."""
    drawn = data.draw(st.lists(PRICES, min_size=1, max_size=8))
    backwards = data.draw(st.booleans())
    edge = st.integers(-5, 9_005) | st.sampled_from([4_095, 4_096, 8_191, 8_192])
    ranges = data.draw(st.lists(st.tuples(edge, edge).map(sorted), min_size=4, max_size=8))
    count = 9_000
    values = [drawn[number % len(drawn)] for number in range(count)]
    times = [T0 + (number if not backwards else (number * 7_919) % count) for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with record(home) as rec:
            for time, value in zip(times, values, strict=True):
                rec.emit("TradeExecution", time, {"Price": value})
        for low, high in ranges:
            bounds = {"startTime": format(T0 + low), "endTime": format(T0 + high)}
            found = ask(home, rec.run_id, **bounds)
            inside = [v for t, v in zip(times, values, strict=True) if T0 + low <= t <= T0 + high]
            assert found["metadata"]["totalEvents"] == len(inside)
            assert found["metadata"]["method"] == "moments"
            agree(found["aggregations"], expected(inside))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("12.50", "numeric"),
        (Decimal("12.50"), "numeric"),
        (12, "numeric"),
        ("abc", "nonNumeric"),
        (True, "nonNumeric"),
        ([1], "nonNumeric"),
        ({"a": 1}, "nonNumeric"),
        (None, "missing"),
    ],
)
def test_what_is_not_a_number_is_skipped_and_counted_never_taken_for_zero(
    tmp_path: Path, value: Any, kind: str
) -> None:
    with record(tmp_path) as rec:
        rec.emit("TradeExecution", T0, {"Price": Decimal("10.00")})
        rec.emit("TradeExecution", T0, {"Price": value})
        rec.emit("TradeExecution", T0, {"Other": 1})
    for more in ({}, {"groupBy": "Other"}):
        found = ask(tmp_path, rec.run_id, **more)
        skipped = {"missing": 1 + (kind == "missing"), "nonNumeric": int(kind == "nonNumeric")}
        assert found["metadata"]["skipped"] == skipped
        assert found["aggregations"]["count"] == 1 + (kind == "numeric")
        assert found["aggregations"]["min"] == 10
        assert found["metadata"]["totalEvents"] == 3


def test_without_numbers_all_but_the_count_are_null_and_of_one_the_sample_deviation_is(
    tmp_path: Path,
) -> None:
    with record(tmp_path) as rec:
        rec.emit("TradeExecution", T0, {"Price": 5, "Name": "x"})
    none = ask(tmp_path, rec.run_id, propertyPath="$.Name")
    assert none["aggregations"] == {"count": 0} | dict.fromkeys(SIX[1:])
    assert ask(tmp_path, rec.run_id)["aggregations"]["stddev"] == 0
    assert ask(tmp_path, rec.run_id, stddevKind="sample")["aggregations"]["stddev"] is None


def test_nested_paths_win_over_a_key_that_has_dots_and_mixed_ones_are_scanned(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.emit("TradeExecution", T0, {"a": {"b": 1}, "a.b": 100})
        rec.emit("TradeExecution", T0, {"a.b": 5})
        rec.emit("TradeExecution", T0, {"a": {"c": 1}, "x.y": 7})
    mixed = ask(tmp_path, rec.run_id, propertyPath="$.a.b")
    assert (mixed["aggregations"]["sum"], mixed["metadata"]["method"]) == (6, "scan")
    literal = ask(tmp_path, rec.run_id, propertyPath="$.x.y")
    assert (literal["aggregations"]["sum"], literal["metadata"]["method"]) == (7, "moments")


def test_the_65th_numeric_path_is_scanned_and_says_so(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.emit("TradeExecution", T0, {f"p{number}": Decimal("1.5") for number in range(70)})
    assert ask(tmp_path, rec.run_id, propertyPath="$.p63")["metadata"]["method"] == "moments"
    last = ask(tmp_path, rec.run_id, propertyPath="$.p69")
    assert (last["aggregations"]["sum"], last["metadata"]["method"]) == (Decimal("1.5"), "scan")


def test_rejections_are_counted_by_reason_largest_group_first(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(6):
                reason = "margin" if number % 3 else "halted"
                rec.order_rejected(T0 + number, f"o{number}", reason, symbol="A", quantity=number)
            rec.emit("OrderRejection", T0, {"OrderId": "o9", "RequestedQuantity": "1.5"})
        async with agent(tmp_path) as desk:
            found = await desk.call(
                "aggregate_metrics",
                runId=rec.run_id,
                eventType="OrderRejection",
                propertyPath="$.RequestedQuantity",
                groupBy="RejectionReason",
                aggregations=["sum"],
                quantiles=[0.5],
            )
            rows = [(group["group"], group["events"], group["sum"]) for group in found["groups"]]
            assert rows == [("margin", 4, 12), ("halted", 2, 3), (None, 1, Decimal("1.5"))]
            assert found["metadata"]["method"] == "scan"
            assert found["aggregations"]["sum"] == Decimal("16.5")
            assert found["groups"][0]["quantiles"] == {"0.5": Decimal("3.000000")}

    run(main())


def grouped(home: Path, id: str, by: str) -> list[tuple[Any, int]]:
    found = ask(home, id, eventType="RiskEvent", propertyPath="$.Threshold", groupBy=by)
    assert found["metadata"]["groupCount"] == len(found["groups"])
    return [(group["group"], group["events"]) for group in found["groups"]]


@pytest.mark.parametrize("length", [125, 5_000])
def test_values_that_begin_alike_are_groups_of_their_own(tmp_path: Path, length: int) -> None:
    long = "x" * length
    with record(tmp_path) as rec:
        for text in (long + "a", long + "b", long + "b"):
            rec.emit("RiskEvent", T0, {"RiskType": text})
        rec.emit("RiskEvent", T0, {"RiskType": {"of": long}})
        rec.emit("RiskEvent", T0, {"RiskType": {"of": long + "y"}})
    cut = "x" * 119 + "…"
    by_text = [(text, count) for text, count in grouped(tmp_path, rec.run_id, "RiskType") if text[0] == "x"]
    assert by_text == [(cut, 2), (f"{cut} (2)", 1)]
    assert len(grouped(tmp_path, rec.run_id, "RiskType")) == 4


def test_a_value_that_nests_deeper_than_is_taken_today_is_a_group_that_says_so(tmp_path: Path) -> None:
    """Files of earlier days may hold such."""
    home, id = Home.open(tmp_path), "a1b2c3d4-e5f6-7890-abcd-ef1234567890"
    intake = Intake.begin(home, id, Plan("deep"))
    for depth in (3, 260, 900):
        body = b'{"RiskType":' + b"[" * depth + b"]" * depth + b"}"
        intake.add(Line(body, json.loads(body, levels=1_000), EventType.RiskEvent, T0))
    intake.finish({})
    intake.close()
    assert grouped(tmp_path, id, "RiskType") == [("(nests too deeply)", 2), ("[[[]]]", 1)]


def test_very_many_groups_are_cut_to_the_budget(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(3_000):
                rec.emit("RiskEvent", T0, {"RiskType": f"risk number {number}", "Threshold": number})
        async with agent(tmp_path) as desk:
            arguments: dict[str, Any] = {"runId": rec.run_id, "eventType": "RiskEvent"}
            arguments |= {"propertyPath": "$.Threshold", "groupBy": "$.RiskType"}
            found = await desk.call("aggregate_metrics", **arguments)
            assert found["metadata"]["groupCount"] == 3_000
            assert found["metadata"]["truncated"] is True
            assert len(await desk.text("aggregate_metrics", **arguments)) <= 24_000

    run(main())


@CASES
@given(
    values=st.lists(PRICES, min_size=1, max_size=40),
    share=st.decimals(0, 1, places=3, allow_nan=False, allow_infinity=False),
)
def test_a_quantile_lies_between_its_two_nearest_values_in_proportion(
    values: list[Decimal], share: Decimal
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with record(home) as rec:
            for value in values:
                rec.emit("TradeExecution", T0, {"Price": value})
        found = ask(home, rec.run_id, quantiles=[share])["aggregations"]["quantiles"][f"{share}"]
        ordered = sorted(values)
        place = WIDE.multiply(Decimal(len(values) - 1), share)
        low = int(place)
        step = WIDE.subtract(ordered[min(low + 1, len(values) - 1)], ordered[low])
        exact = WIDE.add(ordered[low], WIDE.multiply(step, WIDE.subtract(place, Decimal(low))))
        places = Decimal(1).scaleb(-(max(0, *(-exponent(v) for v in values)) + 6))
        assert found == WIDE.quantize(exact, places)


def test_a_damaged_scale_is_a_database_error_and_not_an_endless_sum(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.trade(T0, "o", "AAPL", "Buy", 1, Decimal("2.50"))
    with closing(connect(rec.path)) as connection:
        connection.execute("UPDATE moment SET scale = -400000000")

    async def asked() -> dict[str, Any]:
        async with agent(tmp_path) as desk:
            about = {"runId": rec.run_id, "eventType": "TradeExecution", "propertyPath": "$.Price"}
            return await desk.refused("aggregate_metrics", **about, aggregations=SIX)

    assert run(asked())["code"] == "DATABASE_ERROR"
