"""What a `tool_call_id` promises: the same answer again, for ever or for a session, and never another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import Client, Reply, rpc, run
from tests.trading.desks import Agent, agent
from tracedesk.market import Move, ReplayClock
from tracedesk.primitives.time import ManualClock
from tracedesk.trading.clockwork import advance
from tracedesk.trading.sources.embedded import Embedded
from tracedesk.trading.sources.seam import Fetch, Quote, network_error

BUY: Final = {"symbol": "AAPL", "action": "buy", "quantity": 10, "order_type": "market"}
REPLAYED: Final = "tracedesk/replayed"
ORIGINAL_AT: Final = "tracedesk/originalAt"
WALL_NS: Final = 1_790_000_000_000_000_000
CLOSED: Final = {"clock": "2012-12-03T22:00:00Z"}


def text(reply: Reply) -> str:
    """The body of an answer as it was sent."""
    return reply.json["result"]["content"][0]["text"]


def meta(reply: Reply) -> dict[str, Any]:
    return reply.json["result"]["_meta"]


async def move(found: Agent, step: Callable[[ReplayClock], Move]) -> None:
    trader = found.trader
    await trader.commit(lambda ledger: advance(ledger, trader.desk.payloads, trader.settings, step))


async def entries(found: Agent) -> int:
    return (await found.trader.ledger(lambda ledger: ledger.head()))[0]


# --- the id itself -------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["a", "A.b_c:d-9", "x" * 128])
def test_an_id_comes_back_verbatim_and_first(tmp_path: Path, id: str) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.call("get_quotes", "earlier", symbols=["IBM"])
            answer = await found.call("get_quotes", id, symbols=["IBM"])
            assert answer["source_refs"][0] == id
            assert len(answer["source_refs"]) == 2

    run(main())


@pytest.mark.parametrize("id", ["", "x" * 129, "a b", "a/b", "é", "a\n"])
@pytest.mark.parametrize("tool", ["get_portfolio", "ledger_verify"])
def test_an_id_that_cannot_be_one_is_refused(tmp_path: Path, tool: str, id: str) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            reply = await found.client.call(tool, {"tool_call_id": id})
            error = reply.envelope["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["tool_call_id"])

    run(main())


def test_a_call_without_an_id_is_refused_without_references(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            for arguments in ({}, {"tool_call_id": 7}):
                envelope = (await found.client.call("get_portfolio", arguments)).envelope
                assert envelope["error"]["code"] == "INVALID_INPUT"
                assert envelope["source_refs"] == []

    run(main())


# --- the same answer again -----------------------------------------------------------------------

WRITES: Final[list[tuple[str, dict[str, Any]]]] = [
    ("trade_execute", {"trades": [BUY]}),
    ("log_event", {"event_type": "alert", "data": {"n": 1.50}, "severity": "high"}),
]
READS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("get_portfolio", {}),
    ("get_quotes", {"symbols": ["IBM", "NONE"]}),
    ("get_history", {"symbol": "IBM", "period": "5d"}),
    ("get_risk", {"weights": {"IBM": 0.5}}),
    ("trade_simulate", {"trades": [{"symbol": "IBM", "action": "buy", "quantity": 1}]}),
    ("list_trade_orders", {"status": "all"}),
    ("ledger_verify", {}),
]


@pytest.mark.parametrize(("tool", "arguments"), [*WRITES, *READS])
def test_a_repeated_call_gets_the_same_bytes_and_says_when_they_were_made(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async def main() -> None:
        clock = ManualClock(WALL_NS)
        async with agent(tmp_path, clock=clock) as found:
            first = await found.raw(tool, "same", **arguments)
            assert REPLAYED not in meta(first)
            before = await entries(found)
            clock.advance(3600)
            await move(found, ReplayClock.to_close)
            moved = await entries(found)
            second = await found.raw(tool, "same", **arguments)
            assert text(second) == text(first)
            assert second.structured == first.structured
            assert meta(second)[REPLAYED] is True
            assert meta(second)[ORIGINAL_AT] == "2026-09-21T14:13:20Z"
            assert meta(second)["tracedesk/call"] != meta(first)["tracedesk/call"]
            assert await entries(found) == moved > before

    run(main())


@pytest.mark.parametrize(("tool", "arguments"), WRITES)
def test_a_change_is_repeated_word_for_word_by_another_desk_later(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            first = await found.raw(tool, "same", **arguments)
        async with agent(tmp_path, {"limits": {"max_order_notional": 1}}) as found:
            before = await entries(found)
            second = await found.raw(tool, "same", **arguments)
            assert text(second) == text(first)
            assert meta(second)[REPLAYED] is True
            assert await entries(found) == before

    run(main())


def test_a_trade_is_repeated_by_a_desk_that_no_longer_knows_what_it_rested_on(tmp_path: Path) -> None:
    async def main() -> None:
        bound = {"trades": [BUY], "simulation_ref": "s", "rationale_refs": ["q"]}
        async with agent(tmp_path) as found:
            await found.call("get_quotes", "q", symbols=["AAPL"])
            leg = {name: BUY[name] for name in ("symbol", "action", "quantity")}
            await found.call("trade_simulate", "s", trades=[leg])
            first = await found.raw("trade_execute", "same", **bound)
            assert first.structured["execution"]["trades"][0]["status"] == "filled"
        async with agent(tmp_path) as found:
            assert text(await found.raw("trade_execute", "same", **bound)) == text(first)
            moved = (await found.refused("trade_execute", "moved", **bound))["error"]
            assert moved["details"]["violations"][0]["limit"] == "simulation_version"
        for file in (tmp_path / "run").glob("shared-*.db*"):
            file.unlink()
        async with agent(tmp_path) as found:
            assert text(await found.raw("trade_execute", "same", **bound)) == text(first)
            forgotten = await found.refused("trade_execute", "new", **bound)
            assert forgotten["error"]["code"] == "INVALID_INPUT"

    run(main())


def test_a_cancellation_is_made_once_and_repeated_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            rests = {**BUY, "order_type": "limit", "price": 100, "time_in_force": "gtc"}
            placed = await found.call("trade_execute", trades=[rests])
            order = placed["execution"]["trades"][0]["order_id"]
            first = await found.raw("cancel_trade_order", "c", order_id=order)
            assert text(await found.raw("cancel_trade_order", "c", order_id=order)) == text(first)
        async with agent(tmp_path) as found:
            again = await found.raw("cancel_trade_order", "c", order_id=order)
            assert (text(again), meta(again)[REPLAYED]) == (text(first), True)

    run(main())


# --- scopes --------------------------------------------------------------------------------------


async def ask(session: Client, tool: str, id: str, **arguments: Any) -> Reply:
    params = {"name": tool, "arguments": {"tool_call_id": id, **arguments}}
    return await session.post("/mcp", rpc("tools/call", params))


def test_two_sessions_may_read_different_things_under_one_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            one, other = await found.client.open_session(), await found.client.open_session()
            first = await ask(one, "get_quotes", "quote_001", symbols=["IBM"])
            await move(found, ReplayClock.to_close)
            second = await ask(other, "get_quotes", "quote_001", symbols=["IBM"])
            third = await ask(other, "get_quotes", "quote_002", symbols=["AAPL"])
            assert first.structured["quotes"][0]["price"] == 190.76
            assert second.structured["quotes"][0]["price"] == 189.48
            assert REPLAYED not in meta(second)
            assert text(await ask(one, "get_quotes", "quote_001", symbols=["IBM"])) == text(first)
            assert (await ask(one, "get_quotes", "quote_002", symbols=["IBM"])).structured
            assert third.structured["quotes"][0]["symbol"] == "AAPL"

    run(main())


def test_an_id_that_traded_is_taken_in_every_session_of_the_account(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"accounts": ["second"]}) as found:
            one, other = await found.client.open_session(), await found.client.open_session()
            first = await ask(one, "trade_execute", "t", trades=[BUY])
            again = await ask(other, "trade_execute", "t", trades=[BUY])
            assert (text(again), meta(again)[REPLAYED]) == (text(first), True)
            changed = await ask(other, "trade_execute", "t", trades=[{**BUY, "quantity": 11}])
            assert changed.envelope["error"]["code"] == "TOOL_CALL_ID_CONFLICT"
            elsewhere = await ask(other, "trade_execute", "t", trades=[BUY], user_id="second")
            assert REPLAYED not in meta(elsewhere)
            orders = {r.structured["execution"]["trades"][0]["order_id"] for r in (first, elsewhere)}
            assert len(orders) == 2

    run(main())


# --- conflicts -----------------------------------------------------------------------------------

Asked = tuple[str, dict[str, Any]]
TRADE: Final[Asked] = ("trade_execute", {"trades": [BUY]})
EVENT: Final[Asked] = ("log_event", {"event_type": "alert", "data": {}})
PORTFOLIO: Final[Asked] = ("get_portfolio", {})
CONFLICTS: Final[list[tuple[Asked, Asked]]] = [
    (TRADE, ("trade_execute", {"trades": [{**BUY, "quantity": 10.5}]})),
    (TRADE, ("trade_execute", {"trades": [BUY, BUY]})),
    (TRADE, EVENT),
    (TRADE, PORTFOLIO),
    (PORTFOLIO, TRADE),
    (PORTFOLIO, EVENT),
    (("get_quotes", {"symbols": ["IBM", "FB"]}), ("get_quotes", {"symbols": ["FB", "IBM"]})),
    (("get_quotes", {"symbols": ["IBM"]}), ("get_news", {"symbols": ["IBM"]})),
    (EVENT, ("log_event", {"event_type": "alert", "data": {"a": 1}})),
]


@pytest.mark.parametrize(("first", "second"), CONFLICTS)
def test_an_id_that_was_used_for_something_else_is_a_conflict_and_nothing_is_done(
    tmp_path: Path, first: Asked, second: Asked
) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            told = await found.raw(first[0], "same", **first[1])
            before = await entries(found)
            envelope = await found.refused(second[0], "same", **second[1])
            error = envelope["error"]
            assert (error["code"], envelope["source_refs"]) == ("TOOL_CALL_ID_CONFLICT", ["same"])
            known, given = error["details"]["known"], error["details"]["given"]
            assert (known["tool"], given["tool"]) == (first[0], second[0])
            assert known["params_sha256"] != given["params_sha256"]
            assert {len(known["params_sha256"]), len(given["params_sha256"])} == {64}
            assert await entries(found) == before
            assert text(await found.raw(first[0], "same", **first[1])) == text(told)

    run(main())


# --- in flight -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "arguments"), [WRITES[0], WRITES[1], READS[1], READS[4]])
def test_calls_at_once_with_one_id_are_answered_by_one_of_them(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            before = await entries(found)
            replies = await asyncio.gather(*(found.raw(tool, "same", **arguments) for _ in range(8)))
            assert len({text(reply) for reply in replies}) == 1
            assert sum(REPLAYED in meta(reply) for reply in replies) == 7
            assert not any(reply.json["result"]["isError"] for reply in replies)
            wrote = 1 if (tool, arguments) in WRITES else 0
            assert await entries(found) == before + wrote

    run(main())


def test_two_desks_asked_at_once_with_one_id_trade_once_and_answer_alike(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as one, agent(tmp_path) as other:
            for number in range(5):
                id, before = f"same{number}", await entries(one)
                legs = [{**BUY, "quantity": 1}]
                replies = await asyncio.gather(
                    *(found.raw("trade_execute", id, trades=legs) for found in (one, other))
                )
                assert not any(reply.json["result"]["isError"] for reply in replies)
                assert len({text(reply) for reply in replies}) == 1
                assert await entries(other) == before + 1

    run(main())


def test_two_requests_at_once_under_one_id_are_one_trade_and_one_conflict(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            replies = await asyncio.gather(
                *(found.raw("trade_execute", "same", trades=[{**BUY, "quantity": n}]) for n in (1, 2))
            )
            refused = [reply for reply in replies if reply.json["result"]["isError"]]
            assert [r.envelope["error"]["code"] for r in refused] == ["TOOL_CALL_ID_CONFLICT"]
            assert len((await found.call("list_trade_orders", status="all"))["orders"]) == 1

    run(main())


# --- refusals ------------------------------------------------------------------------------------


def test_a_refusal_of_the_moment_is_kept_so_that_a_retry_cannot_trade_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, CLOSED) as found:
            first = await found.raw("trade_execute", "late", trades=[BUY])
            assert first.envelope["error"]["code"] == "MARKET_CLOSED"
            await move(found, ReplayClock.to_open)
            assert text(await found.raw("trade_execute", "late", trades=[BUY])) == text(first)
        async with agent(tmp_path, CLOSED) as found:
            before = await entries(found)
            assert text(await found.raw("trade_execute", "late", trades=[BUY])) == text(first)
            assert await entries(found) == before
            conflict = await found.refused("trade_execute", "late", trades=[{**BUY, "quantity": 1}])
            assert conflict["error"]["code"] == "TOOL_CALL_ID_CONFLICT"
            assert (await found.call("list_trade_orders", status="all"))["orders"] == []
            await found.call("trade_execute", "on-time", trades=[BUY])

    run(main())


@pytest.mark.parametrize(
    ("leg", "code"),
    [
        ({"quantity": 1000}, "INSUFFICIENT_FUNDS"),
        ({"action": "sell"}, "INSUFFICIENT_POSITION"),
        ({"symbol": "NONE"}, "INVALID_SYMBOL"),
        ({"quantity": 20}, "RISK_LIMIT_EXCEEDED"),
    ],
)
def test_each_final_refusal_is_kept_even_when_the_desk_would_allow_it_now(
    tmp_path: Path, leg: dict[str, Any], code: str
) -> None:
    async def main() -> None:
        trades = [{**BUY, **leg}]
        async with agent(tmp_path) as found:
            first = await found.raw("trade_execute", "kept", trades=trades)
            assert first.envelope["error"]["code"] == code
        generous = {"limits": {"max_order_notional": 1e9, "max_position_weight": 9}, "short_selling": True}
        async with agent(tmp_path, generous) as found:
            assert text(await found.raw("trade_execute", "kept", trades=trades)) == text(first)

    run(main())


def test_a_request_that_could_not_be_read_leaves_its_id_free(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            bad = await found.refused("trade_execute", "free", trades=[{**BUY, "quantity": 0}])
            assert bad["error"]["code"] == "INVALID_INPUT"
            await found.call("trade_execute", "free", trades=[BUY])

    run(main())


@pytest.mark.parametrize(
    ("tool", "arguments"), [("trade_execute", {"trades": [BUY]}), ("get_quotes", {"symbols": ["AAPL"]})]
)
def test_a_failure_that_may_pass_is_not_kept_and_the_same_id_may_be_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, Any]
) -> None:
    quotes, asked = Embedded.quotes, count()

    async def down_at_first(self: Embedded, symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        if not next(asked):
            raise network_error("embedded", "the line is down")
        return await quotes(self, symbols, now_ns)

    monkeypatch.setattr(Embedded, "quotes", down_at_first)

    async def main() -> None:
        async with agent(tmp_path, {"providers": {"attempts": 1}}) as found:
            before = await entries(found)
            error = (await found.refused(tool, "again", **arguments))["error"]
            assert (error["code"], error["details"]["retryable"]) == ("NETWORK_ERROR", True)
            assert await entries(found) == before
            second = await found.raw(tool, "again", **arguments)
            assert second.structured["source_refs"] == ["again"]
            assert REPLAYED not in meta(second)

    run(main())


# --- spellings -----------------------------------------------------------------------------------


def written(number: str) -> bytes:
    """The argument `trades` with a quantity in exactly these digits."""
    return b'[{"order_type":"market","quantity":%s,"action":"buy","symbol":"AAPL"}]' % number.encode()


@pytest.mark.parametrize("number", ["10", "10.0", "1e1", "0.1E2", "10.000000000000000000"])
def test_a_number_is_the_same_however_it_is_written(tmp_path: Path, number: str) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            first = await found.raw("trade_execute", "n", trades=[BUY])
            body = b'{"trades":%s,"tool_call_id":"n"}' % written(number)
            again = await found.client.request("POST", "/tools/trade_execute", body)
            assert (again.status, again.body) == (200, text(first).encode())

    run(main())


@pytest.mark.parametrize(
    ("tool", "first", "second"),
    [
        ("get_quotes", {"symbols": ["AAPL", "IBM"]}, {"symbols": ["aapl", " IBM ", "AAPL"]}),
        ("get_history", {"symbol": "IBM", "period": "5d"},
         {"symbol": "ibm", "period": "5d", "interval": "1d", "include_forming": False}),
        ("get_risk", {"weights": {"AAPL": 0.5, "IBM": 0.25}}, {"weights": {"ibm": 0.250, "aapl": 0.5}}),
        ("list_trade_orders", {}, {"status": "open", "limit": 50}),
        ("get_portfolio", {}, {"user_id": "default"}),
        ("log_event", {"event_type": "alert", "data": {"a": 1, "b": 2}},
         {"event_type": "alert", "data": {"b": 2.0, "a": 1}, "severity": "low"}),
        ("trade_execute", {"trades": [BUY]},
         {"trades": [{**BUY, "symbol": "aapl", "time_in_force": "ioc"}], "rationale_refs": []}),
    ],
)  # fmt: skip
def test_requests_that_mean_the_same_are_the_same(
    tmp_path: Path, tool: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            told = await found.raw(tool, "same", **first)
            again = await found.raw(tool, "same", **second)
            assert json.loads(text(again)) == told.structured
            assert meta(again)[REPLAYED] is True

    run(main())
