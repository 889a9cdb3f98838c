"""A desk on pipes answers before its toolsets are open, and misses nothing by it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.gate import DEADLINE, DIARY, KEY
from tests.support import BOUND, HELLO, StdioDesk, modern, rpc

HEAVY = {
    "aiohttp",
    "numpy",
    "tracedesk.backtest.desk",
    "tracedesk.backtest.recorder",
    "tracedesk.codegraph.desk",
    "tracedesk.exchange.provider",
    "tracedesk.fuzz.desk",
    "tracedesk.hosts",
    "tracedesk.market",
    "tracedesk.trading.trader",
    "tracedesk_code",
    "tracedesk_evm",
    "tree_sitter",
}
FIRST_CALLS: Mapping[str, tuple[Mapping[str, Any], str | None]] = {
    "list_backtest_runs": ({}, None),
    "show_coverage": ({}, "INVALID_INPUT"),
    "provider_status": ({}, None),
    "graph_search": ({"query": "x"}, "PROJECT_NOT_INDEXED"),
    "get_portfolio": ({"tool_call_id": "call_1"}, None),
}
"""A call of each toolset, and the code of what it says in an empty home."""


def _call(tool: str, number: int, **arguments: Any) -> dict[str, Any]:
    return modern("tools/call", {"name": tool, "arguments": arguments}, number)


def _until(home: Path, *words: str) -> None:
    """Wait, with an upper bound, until the gate has come so far."""
    diary, end = home / DIARY, time.monotonic() + BOUND
    while not diary.exists() or diary.read_text().split() != list(words):
        assert time.monotonic() < end, diary.read_text() if diary.exists() else "nothing yet"
        time.sleep(0.01)


def _code(result: dict[str, Any]) -> str | None:
    return json.loads(result["content"][0]["text"])["error"]["code"] if result["isError"] else None


def _ask_at_once(desk: StdioDesk, *messages: dict[str, Any]) -> dict[int, Any]:
    """Send everything in one piece, before the desk is up, so that it has no pause between."""
    desk.send_bytes(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    replies = [desk.read() for _ in messages]
    return {reply["id"]: reply["result"] for reply in replies}


def test_a_desk_that_has_only_listed_its_tools_has_loaded_none_of_their_engines(tmp_path: Path) -> None:
    keys = {"BINANCE_API_KEY": "k" * 64, "BINANCE_SECRET_KEY": "s" * 64}
    with StdioDesk(tmp_path, "witness", environment=keys) as desk:
        answers = _ask_at_once(desk, modern("tools/list"), _call("surroundings", 2))
        assert {tool["name"] for tool in answers[1]["tools"]} >= set(FIRST_CALLS)
        seen = answers[2]["structuredContent"]
        assert not HEAVY.intersection(seen["modules"])
        # What is opened later must not leave the keys to other toolsets' children until then.
        assert not set(keys).intersection(seen["variables"])


def test_a_call_of_every_toolset_right_after_the_start_is_answered(tmp_path: Path) -> None:
    with StdioDesk(tmp_path, "witness") as desk:
        calls = [_call(tool, n, **given) for n, (tool, (given, _)) in enumerate(FIRST_CALLS.items())]
        answers = _ask_at_once(desk, *calls)
        said = [_code(answers[n]) for n in range(len(calls))]
        assert said == [code for _, code in FIRST_CALLS.values()]
        assert desk.finish()[0] == 0


def test_completions_readings_and_subscriptions_right_after_the_start_find_their_toolset_open(
    tmp_path: Path,
) -> None:
    uri = "ward://bed/1"
    ref = {"type": "ref/resource", "uri": "ward://bed/{bed}"}
    with StdioDesk(tmp_path, "ward") as desk:
        answers = _ask_at_once(
            desk,
            rpc("initialize", HELLO),
            rpc("resources/subscribe", {"uri": uri}, 2),
            rpc("completion/complete", {"ref": ref, "argument": {"name": "bed", "value": "n"}}, 3),
            rpc("resources/read", {"uri": uri}, 4),
        )
        assert answers[2] == {}
        assert answers[3]["completion"]["values"][0].startswith("n")
        assert answers[4]["contents"][0]["text"] == "bed 1"


def test_calls_and_lists_are_answered_while_another_toolset_opens(tmp_path: Path) -> None:
    with StdioDesk(tmp_path, "gate", "witness", environment={"GATE": "shut"}) as desk:
        desk.send(_call("pass_through", 1))
        _until(tmp_path, "opening")
        assert desk.ask(_call("surroundings", 2))["id"] == 2
        assert desk.ask(modern("tools/list", None, 3))["id"] == 3
        time.sleep(DEADLINE)  # the tool's own time begins when its toolset is open
        (tmp_path / KEY).touch()
        answer = desk.read()
        assert (answer["id"], answer["result"]["structuredContent"]) == (1, {"home": str(tmp_path)})
        assert desk.finish()[0] == 0
    _until(tmp_path, "opening", "open", "closed")


def test_a_toolset_that_nobody_asks_for_opens_all_the_same(tmp_path: Path) -> None:
    with StdioDesk(tmp_path, "gate") as desk:
        _until(tmp_path, "opening", "open")
        assert desk.finish()[0] == 0
    _until(tmp_path, "opening", "open", "closed")


def test_a_desk_whose_client_leaves_after_a_word_opens_nothing(tmp_path: Path) -> None:
    with StdioDesk(tmp_path, "gate") as desk:
        desk.send(modern("tools/list"))
        assert desk.finish()[0] == 0
    assert not (tmp_path / DIARY).exists()


def test_a_client_that_leaves_without_a_word_learns_whether_the_desk_starts(tmp_path: Path) -> None:
    with StdioDesk(tmp_path, "gate") as desk:
        assert desk.finish() == (0, b"", "")
    _until(tmp_path, "opening", "open", "closed")
    with StdioDesk(tmp_path, "gate", environment={"GATE": "broken"}) as desk:
        code, out, said = desk.finish()
    assert (code, out) == (1, b"")
    assert "the gate is broken; mend it" in said


def test_a_call_that_a_stopping_desk_cannot_answer_is_told_so(tmp_path: Path) -> None:
    with StdioDesk(tmp_path, "gate", environment={"GATE": "shut"}) as desk:
        desk.send(_call("pass_through", 1))
        _until(tmp_path, "opening")
        desk.process.send_signal(signal.SIGTERM)
        answer = desk.read()
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
        assert "stopped before this was answered" in answer["error"]["message"]
        (tmp_path / KEY).touch()
        assert desk.process.wait(BOUND) == 0


def test_a_toolset_that_cannot_be_opened_stops_the_desk_by_itself(tmp_path: Path) -> None:
    with StdioDesk(tmp_path, "gate", environment={"GATE": "broken"}) as desk:
        assert desk.ask(modern("tools/list"))["result"]["tools"]
        assert desk.process.wait(BOUND) == 1
        assert "BadSetting: the gate is broken; mend it" in desk.stderr()


def test_a_call_that_waits_for_a_toolset_that_cannot_be_opened_is_told_so(tmp_path: Path) -> None:
    with StdioDesk(tmp_path, "gate", environment={"GATE": "broken"}) as desk:
        answer = desk.ask(_call("pass_through", 1))["result"]
        error = json.loads(answer["content"][0]["text"])["error"]
        assert (answer["isError"], error["code"]) == (True, "INTERNAL_ERROR")
        assert "the gate is broken; mend it" in error["message"]
        assert desk.process.wait(BOUND) == 1


@pytest.mark.parametrize("leave", ["signal", "end of input"])
def test_a_desk_that_is_stopped_while_a_toolset_opens_closes_it(tmp_path: Path, leave: str) -> None:
    with StdioDesk(tmp_path, "ward", "gate", environment={"GATE": "shut"}) as desk:
        desk.ask(modern("tools/list"))
        _until(tmp_path, "opening")
        if leave == "signal":
            desk.process.send_signal(signal.SIGTERM)
        else:
            desk.stdin.close()
        (tmp_path / KEY).touch()
        assert desk.process.wait(BOUND) == 0
    _until(tmp_path, "opening", "open", "closed")
