"""The seventeen tools on a campaign that runs: answers as the contracts show them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from tests.fuzz.desks import Started, agent, no_host_left, started, vault
from tests.support import BOUND, run
from tracedesk import contracts
from tracedesk.fuzz.tools import fuzz
from tracedesk.primitives import json
from tracedesk.wire.publish import describe

SEED = (
    "read_logs",
    "show_coverage",
    "dump_lcov",
    "get_corpus_size",
    "inspect_corpus_transactions",
    "find_transaction_in_corpus",
    "inject_transaction",
    "prioritize_function",
    "clear_priorities",
)
SENDER = "0x0000000000000000000000000000000000010000"
KEY = "0x5472616365646573ba11000000000000000000000000000000000000deadbeef"
BEEF = "0x00000000000000000000000000000000deadbeef"
FEW = 2_000
"""Calls that do not matter beside those that a share is measured over."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Started]:
    """One campaign that all tests of this module look at and steer."""
    folder = tmp_path_factory.mktemp("tools")
    with no_host_left(folder / "home"):
        yield started(folder / "home", vault(folder), workers=2, timeout=3600)


def test_the_toolset_serves_every_contract_it_has() -> None:
    assert set(fuzz.tools) == set(contracts.names("fuzz"))
    assert set(SEED) < set(fuzz.tools)


def test_the_nine_seed_tools_have_a_tenth_of_a_second() -> None:
    assert {fuzz.tools[name].deadline for name in SEED} == {0.1}


def test_the_six_that_observe_only_read_and_the_three_that_control_write() -> None:
    natures = [fuzz.tools[name].annotations.read_only for name in SEED]
    assert natures == [True] * 6 + [False] * 3
    assert fuzz.tools["dump_lcov"].writes == ("outputPath",)


def test_the_toolsets_part_of_the_list_stays_under_20_kb() -> None:
    listed = [describe(tool, "2026-07-28") for tool in fuzz.tools.values()]
    assert len(json.dumps(listed)) <= 20_000


def test_logs_come_newest_first_with_microseconds_and_references(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            answer = await found.until("read_logs", lambda a: a["totalCount"] >= 5)
            events = answer["events"]
            assert len(events) == min(100, answer["totalCount"])
            stamps = [event["timestamp"] for event in events]
            assert stamps == sorted(stamps, reverse=True)
            assert all(len(stamp) == 27 and stamp.endswith("Z") for stamp in stamps)
            seqs = [event["data"]["seq"] for event in events]
            assert seqs == sorted(seqs, reverse=True)

    run(main())


def test_logs_are_filtered_before_they_are_counted(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            answer = await found.until(
                "read_logs", lambda a: len(a["events"]) == 2, eventType="WorkerStarted", count=5
            )
            assert {event["workerId"] for event in answer["events"]} == {0, 1}
            assert answer["totalCount"] > 2
            one = await found.call("read_logs", eventType="WorkerStarted", workerId=1)
            assert [event["workerId"] for event in one["events"]] == [1]
            assert (await found.call("read_logs", count=1, workerId=9))["events"] == []

    run(main())


def test_a_falsification_is_an_event_with_its_calls_and_a_reference_that_resolves(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            answer = await found.until(
                "read_logs", lambda a: bool(a["events"]), eventType="PropertyFalsified"
            )
            data = answer["events"][-1]["data"]
            assert data["property"] == "echidna_fee_is_not_13"
            assert data["counterexample"][-1] == "set_fee(13)"
            source = await found.call("get_source", ref=data["ref"])
            assert source["kind"] == "PropertyFalsified"
            assert "echidna_fee_is_not_13" in str(source)

    run(main())


def test_coverage_is_in_percent_with_one_place_and_counts(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            answer = await found.until("show_coverage", lambda a: a["contracts"][0]["lineCoverage"] > 50)
            [row] = answer["contracts"]
            assert row["name"] == "Vault"
            assert row["lineCoverage"] == pytest.approx(100 * row["linesHit"] / row["lines"], abs=0.05)
            assert row["lineCoverage"] < 100, "one line needs a hint"
            assert answer["overallCoverage"] == row["lineCoverage"]
            assert await found.call("show_coverage", contract="Vault") == answer
            error = await found.refused("show_coverage", contract="Vaultt")
            assert (error["code"], error["details"]["known"]) == ("INVALID_INPUT", ["Vault"])

    run(main())


def test_lcov_is_text_with_lines_functions_and_branches(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            text = await found.call("dump_lcov")
            assert text.startswith("TN:")
            for record in ("SF:Vault.vy", "FNDA:", "BRDA:", "DA:", "LF:", "end_of_record"):
                assert f"\n{record}" in text

    run(main())


def test_lcov_is_written_below_the_campaigns_reports_and_linked(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            reply = (await found.raw("dump_lcov", {"outputPath": "now.lcov"})).json["result"]
            file = running.folder.path / "reports" / "now.lcov"
            assert reply["content"][1]["uri"] == file.as_uri()
            assert file.read_text() == reply["structuredContent"]

    run(main())


def test_the_corpus_is_paged_by_a_running_index(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            size = await found.until("get_corpus_size", lambda a: a["size"] >= 30)
            assert 0 < size["sequences"] <= size["size"]
            first = await found.call("inspect_corpus_transactions")
            again = await found.call("inspect_corpus_transactions", offset=10, limit=5)
            assert [row["index"] for row in first["transactions"]] == list(range(20))
            assert again["transactions"] == first["transactions"][10:15], "pages stay as they are"
            assert first["total"] >= size["size"]
            row = first["transactions"][0]
            assert {"index", "call", "sender", "value", "sequence", "position"} <= row.keys()
            beyond = await found.call("inspect_corpus_transactions", offset=10**9)
            assert beyond["transactions"] == []

    run(main())


def test_transactions_are_found_by_function_sender_and_value(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            await found.until("get_corpus_size", lambda a: a["size"] >= 30)
            by_name = await found.call("find_transaction_in_corpus", functionSignature="set_fee( uint )")
            assert by_name["count"] >= len(by_name["matches"]) > 0
            assert all(row["call"].startswith("set_fee(") for row in by_name["matches"])
            checksummed = "0x0000000000000000000000000000000000010000".replace("0x", "0x")
            by_sender = await found.call(
                "find_transaction_in_corpus", sender=checksummed.upper().replace("X", "x")
            )
            assert {row["sender"] for row in by_sender["matches"]} == {SENDER}
            by_value = await found.call("find_transaction_in_corpus", minValue="1")
            assert all(int(row["value"]) >= 1 for row in by_value["matches"])
            nothing = await found.call("find_transaction_in_corpus", functionSignature="nothing()")
            assert nothing == {"matches": [], "count": 0}

    run(main())


def test_an_injected_sequence_is_run_by_every_worker_and_found_within_five_seconds(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            sequence = [f"unlock({KEY}, {BEEF})", "deposit()"]
            told = await found.call("inject_transaction", sequence=sequence, value="12345")
            assert told == {
                "success": True,
                "message": "Injected 2 transactions to 2 workers; "
                "12345 wei with 1 payable call, 0 with the others",
                "injectedCount": 2,
            }
            async with asyncio.timeout(5):
                answer = await found.until(
                    "find_transaction_in_corpus",
                    lambda a: any(row["call"] == sequence[0] for row in a["matches"]),
                    functionSignature="unlock(bytes32,address)",
                )
            row = next(row for row in answer["matches"] if row["call"] == sequence[0])
            assert (row["sender"], row["value"], row["injected"]) == (SENDER, "0", True)
            status = await found.until(
                "campaign_status", lambda a: _status(a, "echidna_stays_locked") == "solved"
            )
            assert _status(status, "echidna_total_is_held") == "fuzzing"

    run(main())


def test_priorities_are_a_sorted_set_that_clearing_empties(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            await found.call("clear_priorities")
            first = await found.call("prioritize_function", functionSignature="withdraw( uint )")
            assert first["prioritizedFunctions"] == ["withdraw(uint256)"]
            await found.call("prioritize_function", functionSignature="deposit()")
            twice = await found.call("prioritize_function", functionSignature="deposit()")
            assert twice["prioritizedFunctions"] == ["deposit()", "withdraw(uint256)"]
            unknown = await found.call(
                "prioritize_function", functionSignature="later((uint256,bool)[],bytes)"
            )
            assert unknown["success"] is True
            assert "no contract has it yet" in unknown["message"]
            assert (await found.call("clear_priorities"))["clearedCount"] == 3
            assert (await found.call("clear_priorities"))["clearedCount"] == 0

    run(main())


def test_a_prioritized_function_gets_88_to_94_percent_of_new_calls(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            await found.call("sample_function", functionSignature="withdraw(uint256)")
            await found.call("prioritize_function", functionSignature="withdraw(uint256)")
            before = await _counts(found)
            share = await _share_from(found, before)
            await found.call("clear_priorities")
            await found.call("sample_function", functionSignature="off")
            assert 0.88 <= share <= 0.94

    run(main())


def test_an_avoided_function_is_called_no_more_and_the_last_one_cannot_be_avoided(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            told = await found.call("avoid_function", functionSignature="set_fee(uint)")
            assert told["avoidedFunctions"] == ["set_fee(uint256)"]
            others = [
                "deposit()",
                "withdraw(uint256)",
                "unlock(bytes32,address)",
                "balances(address)",
                "total()",
            ]
            for name in others:
                await found.call("avoid_function", functionSignature=name)
            error = await found.refused("avoid_function", functionSignature="fee()")
            assert error["details"]["kind"] == "NOTHING_LEFT"
            for name in others:
                await found.call("avoid_function", functionSignature=name, avoid=False)
            last = await found.call("avoid_function", functionSignature="set_fee(uint256)", avoid=False)
            assert last["avoidedFunctions"] == []

    run(main())


def test_a_sampled_function_shows_calls_reverts_reasons_and_what_it_returns(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            await found.call("sample_function", functionSignature="withdraw(uint256)")
            seen = await found.until("sample_function", lambda a: a["reverts"] > 0)
            assert seen["function"] == "withdraw(uint256)"
            assert seen["calls"] >= seen["reverts"]
            assert any("not yours" in str(reason) for reason in seen["reasons"])
            await found.call("sample_function", functionSignature="total()")
            total = await found.until("sample_function", lambda a: a["outputs"][0]["max"] is not None)
            assert int(total["outputs"][0]["min"]) <= int(total["outputs"][0]["max"])
            assert (await found.call("sample_function", functionSignature="off"))["function"] is None
            error = await found.refused("sample_function", functionSignature="nothing()")
            assert error["details"]["kind"] == "UNKNOWN_FUNCTION"

    run(main())


def test_the_status_tells_speed_coverage_and_each_tests_state(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            status = await found.until(
                "campaign_status", lambda a: _has_reference(a, "echidna_fee_is_not_13")
            )
            assert status["campaign_id"] == running.id
            assert (status["state"], status["contract"], status["mode"]) == ("running", "Vault", "property")
            assert status["calls"] > 0
            assert status["coveragePoints"] > 0
            assert len(status["workers"]) == 2
            [solved] = [test for test in status["tests"] if test["name"] == "echidna_fee_is_not_13"]
            assert (solved["length"], solved["reason"]) == (1, "false")
            assert solved["ref"].startswith(f"tracedesk://fuzz/{running.id}/")

    run(main())


def test_the_target_lists_contracts_functions_tests_and_senders(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            shown = await found.call("target")
            [place] = shown["contracts"]
            assert place["functions"] == [
                "deposit() payable",
                "set_fee(uint256)",
                "withdraw(uint256)",
                "unlock(bytes32,address)",
                "balances(address) view",
                "total() view",
                "fee() view",
            ]
            assert shown["tests"] == [
                "echidna_fee_is_not_13",
                "echidna_total_is_held",
                "echidna_stays_locked",
            ]
            assert len(shown["senders"]) == 3

    run(main())


def test_a_sequence_is_executed_with_events_storage_reasons_and_failing_tests(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            before = await found.call("get_corpus_size")
            sequence = ["deposit()", "withdraw(7)", "set_fee(5000)", "set_fee(13)"]
            told = await found.call("execute_sequence", sequence=sequence, value="10", trace=True)
            deposit, withdraw, refused, last = told["transactions"]
            assert deposit["events"] == [f"Deposited({SENDER}, 10)"]
            assert deposit["storage"]
            assert withdraw["status"] == "success"
            assert (refused["status"], "too high" in refused["reason"]) == ("revert", True)
            assert last["status"] == "success"
            assert all(row["gasUsed"] > 21_000 for row in told["transactions"])
            assert told["trace"][0].startswith("call Vault.set_fee(13)")
            assert [failure["test"] for failure in told["failures"]] == ["Vault.echidna_fee_is_not_13"]
            assert told["failures"][0]["position"] == 3
            after = await found.call("get_corpus_size")
            assert after["size"] >= before["size"]

    run(main())


def test_reproducers_come_as_calls_and_as_a_foundry_test(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            await found.until("campaign_status", lambda a: _status(a, "echidna_fee_is_not_13") == "solved")
            name = "echidna_fee_is_not_13"
            [as_calls] = (await found.call("get_reproducers", test=name))["reproducers"]
            assert [row["call"] for row in as_calls["calls"]] == ["set_fee(13)"]
            [as_test] = (await found.call("get_reproducers", test=name, format="foundry"))["reproducers"]
            assert "function test_echidna_fee_is_not_13() public {" in as_test["solidity"]
            assert 'abi.encodeWithSignature("set_fee(uint256)", uint256(13))' in as_test["solidity"]
            error = await found.refused("get_reproducers", test="nothing")
            assert error["details"]["kind"] == "UNKNOWN_TEST"

    run(main())


def test_three_clients_at_once_get_whole_answers(running: Started) -> None:
    async def main() -> None:
        async def one(number: int) -> None:
            async with agent(running.home.path) as found:
                for _ in range(5):
                    signature = f"f{number}()"
                    told = await found.call("prioritize_function", functionSignature=signature)
                    assert signature in told["prioritizedFunctions"]
                    assert (await found.call("get_corpus_size"))["size"] > 0

        async with agent(running.home.path) as found:
            await asyncio.gather(*(one(number) for number in range(3)))
            assert (await found.call("clear_priorities"))["clearedCount"] == 3

    run(main())


def test_a_command_whose_time_is_over_is_answered_as_what_it_became(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            await found.call("clear_priorities")
            async with asyncio.timeout(0) as window:
                told = await found.campaigns.apply("prioritize_function", {"functionSignature": "deposit()"})
                assert told["prioritizedFunctions"] == ["deposit()"]
            assert window.expired(), "the caller's time was over before the command was sent"
            assert (await found.call("campaign_status"))["prioritizedFunctions"] == ["deposit()"]
            assert (await found.call("clear_priorities"))["clearedCount"] == 1

    run(main())


def test_a_page_that_is_too_large_is_refused_with_the_size_that_fits(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path, max_bytes=4_000) as found:
            error = await found.refused("inspect_corpus_transactions", limit=100)
            fits = error["details"]["limit"]
            assert f"limit {fits} or less" in error["message"]
            assert len((await found.call("inspect_corpus_transactions", limit=fits))["transactions"]) == fits

    run(main())


def test_a_read_only_desk_shows_and_does_not_steer(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path, read_only=True) as found:
            assert (await found.call("campaign_status"))["state"] == "running"
            assert "inject_transaction" not in found.client.desk.registry.tools
            assert "outputPath" not in found.client.desk.registry.tools["dump_lcov"].input["properties"]

    run(main())


def _status(answer: Any, name: str) -> str:
    return next(test["status"] for test in answer["tests"] if test["name"] == name)


def _has_reference(answer: Any, name: str) -> bool:
    """Whether a test is solved and its event has arrived, which is a moment later."""
    return any(t["name"] == name and t["status"] == "solved" and "ref" in t for t in answer["tests"])


async def _counts(found: Any) -> tuple[int, int]:
    """Calls in all, and of the sampled function, with hardly a call between the two counts."""
    while True:
        before = (await found.call("campaign_status"))["calls"]
        sampled = (await found.call("sample_function"))["calls"]
        after = (await found.call("campaign_status"))["calls"]
        if after - before <= FEW:
            return after, sampled


async def _share_from(found: Any, before: tuple[int, int]) -> float:
    async with asyncio.timeout(2 * BOUND):
        while True:
            await asyncio.sleep(0.1)
            calls, sampled = await _counts(found)
            if calls - before[0] >= 100 * FEW:
                return (sampled - before[1]) / (calls - before[0])
