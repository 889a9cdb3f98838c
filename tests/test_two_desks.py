"""Two desks of one home, a stdio client beside an HTTP one, are one desk to their owner."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.desk_processes import (
    DeskProcess,
    fixture_desk,
    http_desk,
    refusal,
    result,
    stdio_desk,
    succeeds,
)
from tests.support import BOUND, modern, run
from tests.trading.desks import agent
from tracedesk.exchange.local.launch import running
from tracedesk.hosts import HostClient
from tracedesk.wire.auth import Tokens

DRAFT = {"symbol": "AAPL", "action": "buy", "quantity": 10}
BUY = {**DRAFT, "order_type": "market"}
ORDER = {"symbol": "BTCUSDT", "side": "BUY", "order_type": "MARKET", "quantity": "0.01"}
BOTH_WAYS = pytest.mark.parametrize("first", ["http", "stdio"])


@contextmanager
def two_desks(home: Path, toolset: str, first: str) -> Generator[tuple[DeskProcess, DeskProcess]]:
    """The desk over HTTP and the one over pipes, the one named `first` first."""
    with (
        http_desk(home, "--toolsets", toolset) as over_http,
        stdio_desk(home, "--toolsets", toolset) as over_stdio,
    ):
        yield (over_http, over_stdio) if first == "http" else (over_stdio, over_http)


@pytest.fixture
def exchange_home(tmp_path: Path) -> Generator[Path]:
    """A home whose local exchange is stopped in the end."""
    yield tmp_path
    info = running(tmp_path)
    if info is not None:

        async def stop() -> None:
            async with await HostClient.connect(info) as host:
                await host.stop()

        asyncio.run(stop())


def eventually(attempt: Callable[[], Any]) -> Any:
    """The first answer of `attempt` that is not None, within a bound; each is a round trip of its own."""
    import time

    until = time.monotonic() + BOUND
    while True:
        found = attempt()
        if found is not None:
            return found
        assert time.monotonic() < until, "it never came"


@BOTH_WAYS
def test_a_batch_simulated_on_one_desk_is_executed_once_on_the_other_and_repeated_on_the_first(
    tmp_path: Path, first: str
) -> None:
    with two_desks(tmp_path, "trading", first) as (one, two):
        succeeds(one, "trade_simulate", tool_call_id="sim_1", trades=[DRAFT])
        bound = {"tool_call_id": "buy_1", "trades": [BUY], "simulation_ref": "sim_1"}
        done = result(two, "trade_execute", **bound)
        assert done["isError"] is False, done
        again = result(one, "trade_execute", **bound)
        assert again["content"][0] == done["content"][0]
        assert again["_meta"]["tracedesk/replayed"] is True
        for desk in (one, two):
            held = succeeds(desk, "get_portfolio", tool_call_id="after_1")["portfolio"]["positions"]
            assert [(each["symbol"], each["quantity"]) for each in held] == [("AAPL", 10)]


@BOTH_WAYS
def test_what_was_read_on_one_desk_is_a_reason_on_the_other_once_it_is_recorded(
    tmp_path: Path, first: str
) -> None:
    with two_desks(tmp_path, "trading", first) as (one, two):
        succeeds(one, "get_quotes", tool_call_id="quote_1", symbols=["AAPL"])

        def cited() -> Any:
            found = result(
                two, "trade_execute", tool_call_id="buy_1", trades=[BUY], rationale_refs=["quote_1"]
            )
            return None if found["isError"] else found

        eventually(cited)
        source = succeeds(one, "get_source", ref="buy_1")
        reasons = [edge["ref"] for edge in source["edges"] if edge["relation"] == "rationale"]
        assert len(reasons) == 1
        quoted = succeeds(two, "get_source", ref=reasons[0])
        assert quoted["body"]["tool"] == "get_quotes"
        assert succeeds(two, "get_source", ref="quote_1")["ref"] == reasons[0]


@BOTH_WAYS
def test_an_order_previewed_on_one_desk_is_placed_once_on_the_other(exchange_home: Path, first: str) -> None:
    with two_desks(exchange_home, "exchange", first) as (one, two):
        token = succeeds(one, "preview_order", **ORDER)["preview_token"]
        placed = succeeds(two, "place_order", **ORDER, preview_token=token)
        assert placed["status"] == "FILLED"
        for desk in (one, two):
            again = refusal(desk, "place_order", **ORDER, preview_token=token)
            assert (again["code"], again["details"]["reason"]) == ("PREVIEW_INVALID", "used")
            assert again["details"]["client_order_id"] == placed["client_order_id"]
        balances = succeeds(one, "get_account")["balances"]
        assert {row["asset"]: row["free"] for row in balances}["BTC"] == "1.00999000"


def test_a_desk_that_was_killed_after_its_answer_has_lost_nothing_that_it_gave(exchange_home: Path) -> None:
    with stdio_desk(exchange_home, "--toolsets", "exchange,trading") as one:
        token = succeeds(one, "preview_order", **ORDER)["preview_token"]
        succeeds(one, "trade_simulate", tool_call_id="sim_1", trades=[DRAFT])
        one.process.kill()
        one.process.wait()
    with http_desk(exchange_home, "--toolsets", "exchange,trading") as two:
        assert succeeds(two, "place_order", **ORDER, preview_token=token)["status"] == "FILLED"
        bound = {"tool_call_id": "buy_1", "trades": [BUY], "simulation_ref": "sim_1"}
        succeeds(two, "trade_execute", **bound)


def test_another_token_has_neither_the_owners_simulations_nor_its_previews(exchange_home: Path) -> None:
    other = Tokens(exchange_home).issue("other", ("read", "write", "trade"))
    with (
        stdio_desk(exchange_home, "--toolsets", "exchange,trading") as one,
        http_desk(exchange_home, "--toolsets", "exchange,trading", token=other) as two,
    ):
        token = succeeds(one, "preview_order", **ORDER)["preview_token"]
        succeeds(one, "trade_simulate", tool_call_id="sim_1", trades=[DRAFT])
        assert refusal(two, "place_order", **ORDER, preview_token=token)["details"]["reason"] == "unknown"
        bound = {"tool_call_id": "buy_1", "trades": [BUY], "simulation_ref": "sim_1"}
        assert refusal(two, "trade_execute", **bound)["details"]["path"] == ["simulation_ref"]
        assert succeeds(one, "place_order", **ORDER, preview_token=token)["status"] == "FILLED"


@pytest.mark.parametrize("over", [http_desk, stdio_desk])
def test_the_kill_signal_halts_the_home_and_ends_no_desk_whatever_it_serves(
    tmp_path: Path, over: Callable[..., Any]
) -> None:
    """A desk without the exchange toolset, or one that has not opened it yet, would die of the signal."""
    with over(tmp_path, "--toolsets", "trading") as desk:
        succeeds(desk, "desk_status")
        desk.process.send_signal(signal.SIGUSR1)

        def halted() -> str | None:
            succeeds(desk, "desk_status")
            file = tmp_path / "exchange.halt"
            return file.read_text(encoding="utf-8") if file.exists() else None

        assert "SIGUSR1" in eventually(halted)
        assert desk.process.poll() is None


# --- a user's yes ------------------------------------------------------------------------------------


def _sell(desk: DeskProcess, **params: Any) -> dict[str, Any]:
    message = modern("tools/call", {"name": "sell_now", "arguments": {}, **params})
    message["params"]["_meta"] = {
        **message["params"]["_meta"],
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    answer = desk.ask(message)
    assert "result" in answer, answer
    return answer["result"]


@BOTH_WAYS
def test_a_question_of_one_desk_is_answered_at_the_other_and_its_answer_is_used_once(
    tmp_path: Path, first: str
) -> None:
    second = "stdio" if first == "http" else "http"
    with fixture_desk(first, tmp_path, "probe") as one, fixture_desk(second, tmp_path, "probe") as two:
        asked = _sell(one)
        yes = {"question-1": {"action": "accept", "content": {"ok": True}}}
        answered = {"requestState": asked["requestState"], "inputResponses": yes}
        assert _sell(two, **answered)["structuredContent"] == {"sold": [90]}
        for desk in (one, two):
            assert json.dumps(_sell(desk, **answered)).count("input_required") == 1


# --- in any order ------------------------------------------------------------------------------------


def test_calls_in_any_order_on_either_desk_trade_each_id_once_with_one_answer(tmp_path: Path) -> None:
    """A model of ids and what each answered, against two desks of one home that are asked at random."""
    chance = random.Random(11)
    draft = {**DRAFT, "quantity": 1}  # so few that no number of them is too large a part of the portfolio
    buy = {**draft, "order_type": "market"}

    async def main() -> None:
        async with agent(tmp_path) as one, agent(tmp_path) as two:
            simulated: list[str] = []
            answers: dict[str, tuple[dict[str, Any], str]] = {}
            traded = 0
            for number in range(60):
                desk = chance.choice((one, two))
                step = chance.random()
                if step < 0.4 or not simulated:
                    id = f"sim_{number}"
                    await desk.call("trade_simulate", id, trades=[draft])
                    simulated.append(id)
                elif step < 0.7 or not answers:
                    id, bound = (
                        f"buy_{number}",
                        {"trades": [buy], "simulation_ref": simulated[-1]},
                    )
                    both = await asyncio.gather(*(d.raw("trade_execute", id, **bound) for d in (one, two)))
                    texts = {reply.json["result"]["content"][0]["text"] for reply in both}
                    assert len(texts) == 1, texts
                    answers[id] = (bound, texts.pop())
                    traded += not both[0].json["result"]["isError"]
                else:
                    id = chance.choice(list(answers))
                    bound, text = answers[id]
                    again = await desk.raw("trade_execute", id, **bound)
                    assert again.json["result"]["content"][0]["text"] == text
            assert traded > 3
            for desk in (one, two):
                held = (await desk.call("get_portfolio"))["portfolio"]["positions"]
                assert held[0]["quantity"] == traded

    run(main())
