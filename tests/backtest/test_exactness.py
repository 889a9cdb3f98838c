"""Exact to the client: the digits of all six aggregates on the wire, whichever way they were found."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backtest.desks import T0, Agent, agent, record
from tests.backtest.test_aggregates import SIX, agree, expected
from tests.support import run
from tracedesk.primitives.time import format

GROUPS: Final = ("A", "B")
PRICES = st.one_of(
    *(
        st.integers(-(10**25), 10**25).map(lambda units, places=places: Decimal(units).scaleb(-places))
        for places in (2, 8, 18)
    )
)


def as_given(value: Decimal, number: int) -> Any:
    """Every third one as a decimal text, which counts as a number too."""
    return f"{value:f}" if number % 3 == 2 else value


def keep(home: Path, values: list[Decimal]) -> str:
    """A run with the values as prices, a nanosecond apart, in two groups in turns; returns its id."""
    with record(home, batch=5) as recorder:
        for number, value in enumerate(values):
            row = {"Price": as_given(value, number), "Group": GROUPS[number % 2]}
            recorder.emit("TradeExecution", T0 + number, row)
    return recorder.run_id


async def by_moments(desk: Agent, about: dict[str, Any], values: list[Decimal]) -> None:
    found = await desk.call("aggregate_metrics", **about)
    assert found["metadata"]["method"] == "moments"
    assert {name: found["aggregations"][name] for name in SIX} == expected(values)


async def by_scan(desk: Agent, about: dict[str, Any], values: list[Decimal]) -> None:
    found = await desk.call("aggregate_metrics", **about, groupBy="Group")
    assert found["metadata"]["method"] == "scan"
    agree(found["aggregations"], expected(values))
    for group in found["groups"]:
        agree(group, expected(values[GROUPS.index(group["group"]) :: 2]))


async def by_part(desk: Agent, about: dict[str, Any], values: list[Decimal], low: int, high: int) -> None:
    bounds = {"startTime": format(T0 + low), "endTime": format(T0 + high)}
    found = await desk.call("aggregate_metrics", **about, **bounds)
    assert found["metadata"]["totalEvents"] == len(values[low : high + 1])
    agree(found["aggregations"], expected(values[low : high + 1]))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values=st.lists(PRICES, min_size=2, max_size=40), data=st.data())
def test_a_client_reads_the_oracles_digits_from_moments_from_a_scan_and_from_a_part(
    values: list[Decimal], data: st.DataObject
) -> None:
    low = data.draw(st.integers(0, len(values) - 1))
    high = data.draw(st.integers(low, len(values) - 1))

    async def main(home: Path) -> None:
        about: dict[str, Any] = {"runId": keep(home, values), "eventType": "TradeExecution"}
        about |= {"propertyPath": "$.Price", "aggregations": SIX}
        async with agent(home) as desk:
            await by_moments(desk, about, values)
            await by_scan(desk, about, values)
            await by_part(desk, about, values, low, high)

    with tempfile.TemporaryDirectory() as folder:
        run(main(Path(folder)))


def test_digits_that_a_binary_float_cannot_hold_reach_the_client(tmp_path: Path) -> None:
    async def main() -> None:
        values = [Decimal("0.10"), Decimal("12345678.12345678"), Decimal("0.123456789012345678")]
        about: dict[str, Any] = {"runId": keep(tmp_path, values), "eventType": "TradeExecution"}
        async with agent(tmp_path) as desk:
            text = await desk.text(
                "aggregate_metrics", **about, propertyPath="$.Price", aggregations=["sum", "min", "max"]
            )
            assert '"sum":12345678.346913569012345678,' in text
            assert '"min":0.1' in text
            assert '"max":12345678.12345678,' in text

    run(main())
