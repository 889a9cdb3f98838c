"""Rules that hold whatever is asked: stops at once, ids of one kind, nothing of others, nothing secret."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import run
from tests.trading.desks import agent
from tracedesk.primitives.time import ManualClock
from tracedesk.trading.settings import BadTradingSetting, read

BUY = {"symbol": "IBM", "action": "buy", "quantity": 1, "order_type": "market"}


def _set(home: Path, text: str, at: int) -> None:
    file = home / "tracedesk.toml"
    file.write_text(text)
    os.utime(file, ns=(at, at))


def test_a_stop_in_the_settings_holds_from_the_next_call_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.buy("IBM", 1)
            _set(tmp_path, '[trading]\nstate = "HALTED"\n', 1)
            refused = (await found.refused("trade_execute", trades=[BUY]))["error"]
            assert [v["limit"] for v in refused["details"]["violations"]] == ["state"]
            _set(tmp_path, "[trading.limits]\nmax_order_notional = 1\n", 2)
            refused = (await found.refused("trade_execute", trades=[BUY]))["error"]
            assert "max_order_notional" in [v["limit"] for v in refused["details"]["violations"]]
            _set(tmp_path, "", 3)
            await found.buy("IBM", 1)

    run(main())


def test_a_stop_between_the_start_and_the_first_call_is_heeded_by_a_desk_that_opens_late(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        _set(tmp_path, "", 1)
        async with agent(tmp_path, lazily=True) as found:
            _set(tmp_path, '[trading]\nstate = "HALTED"\n', 2)
            refused = (await found.refused("trade_execute", trades=[BUY]))["error"]
            assert [v["limit"] for v in refused["details"]["violations"]] == ["state"]

    run(main())


def test_settings_that_cannot_be_read_halt_trading_until_they_can(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            for number, text in enumerate(('[trading]\nstate = "HALT"\n', "[trading"), 1):
                _set(tmp_path, text, number)
                assert (await found.refused("trade_execute", trades=[BUY]))["error"][
                    "code"
                ] == "RISK_LIMIT_EXCEEDED"
            _set(tmp_path, "", 9)
            await found.buy("IBM", 1)

    run(main())


def test_a_read_and_a_change_at_once_under_one_id_are_one_answer_and_one_conflict(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            for number in range(20):
                both = await asyncio.gather(
                    found.raw("get_quotes", f"dup-{number}", symbols=["IBM"]),
                    found.raw("trade_execute", f"dup-{number}", trades=[BUY]),
                )
                assert sorted(reply.json["result"]["isError"] for reply in both) == [False, True]
                refused = next(reply for reply in both if reply.json["result"]["isError"])
                assert refused.envelope["error"]["code"] == "TOOL_CALL_ID_CONFLICT"

    run(main())


def test_a_repeated_refusal_says_that_it_is_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, clock=ManualClock(1_800_000_000_000_000_000)) as found:
            replies = [
                await found.raw("trade_execute", "much", trades=[{**BUY, "quantity": 9_000}]) for _ in "ab"
            ]
            first, again = (reply.json["result"] for reply in replies)
            assert first["content"] == again["content"]
            assert "tracedesk/replayed" not in first["_meta"]
            assert again["_meta"]["tracedesk/replayed"] is True
            assert again["_meta"]["tracedesk/originalAt"] == "2027-01-15T08:00:00Z"

    run(main())


def test_the_digest_of_a_request_does_not_betray_a_secret_in_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            note = await found.call(
                "log_event", "n", event_type="alert", data={"password": "correct horse 1"}
            )
            source = (await found.client.call("get_source", {"ref": note["event_id"]})).structured["body"]
            assert "correct horse" not in str(source)
            guess = (
                b'{"arguments":{"data":{"password":"correct horse 1"},"event_type":"alert","severity":"low"},'
            )
            guess += b'"tool":"log_event"}'
            assert source["call"]["params_sha256"] != hashlib.sha256(guess).hexdigest()
            again = await found.raw(
                "log_event", "n", event_type="alert", data={"password": "correct horse 1"}
            )
            assert again.json["result"]["_meta"]["tracedesk/replayed"] is True
            other = await found.refused("log_event", "n", event_type="alert", data={"password": "another 2"})
            assert other["error"]["code"] == "TOOL_CALL_ID_CONFLICT"

    run(main())


def test_what_belongs_to_an_account_that_is_not_served_resolves_to_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"accounts": ["other"]}) as found:
            traded = await found.call("trade_execute", "t", trades=[BUY], user_id="other")
            order = f"tracedesk://trading/orders/{traded['execution']['trades'][0]['order_id']}"
            entry = (await found.client.call("get_source", {"ref": "t"})).structured["ref"]
            for ref in (order, entry):
                assert (await found.client.call("get_source", {"ref": ref})).structured["ref"] == ref
        async with agent(tmp_path) as found:
            for ref in (order, entry, "t"):
                refused = (await found.client.call("get_source", {"ref": ref})).envelope
                assert refused["error"]["code"] == "SOURCE_NOT_FOUND"

    run(main())


def test_statistics_have_the_latencies_of_each_tool(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.call("get_quotes", symbols=["IBM"])
            await found.refused("get_quotes", symbols=["NOPE"])
            row = found.trader.stats()["tools"]["get_quotes"]
            assert (row["calls"], row["errors"]) == (2, {"INVALID_SYMBOL": 1})
            assert 0 < row["latency_ms"]["p50"] <= row["latency_ms"]["max"]

    run(main())


@pytest.mark.parametrize(
    "table",
    [
        {"account": ""},
        {"accounts": ["a", ""]},
        {"cash": "0.001"},
        {"cash": 1e20},
        {"window": 0},
        {"window": 20},
        {"window": 50, "minimum_returns": 60},
    ],
)
def test_settings_that_no_account_could_live_with_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(BadTradingSetting):
        read(table)
