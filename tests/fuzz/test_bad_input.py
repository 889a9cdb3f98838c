"""Input that cannot be used: INVALID_INPUT naming the argument, and the campaign goes on untouched."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.desks import Started, agent, lines, no_host_left, started, vault
from tests.support import run

ADDRESS = "0x" + "ab" * 20


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Started]:
    folder = tmp_path_factory.mktemp("bad")
    with no_host_left(folder / "home"):
        yield started(folder / "home", vault(folder))


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("inject_transaction", {"sequence": [f"unlock({'0x' + '00' * 32}, 0xabcd...)"]}, "argument 1"),
    ("inject_transaction", {"sequence": ["set_fee(1)", "set_fee(0xabcd...)"]}, "sequence[1]"),
    ("inject_transaction", {"sequence": ["set_fee()"]}, "argument 0"),
    ("inject_transaction", {"sequence": ["set_fee(1, 2)"]}, "argument 1"),
    ("inject_transaction", {"sequence": ["set_fee(true)"]}, "argument 0"),
    ("inject_transaction", {"sequence": ["set_fee(-1)"]}, "argument 0"),
    ("inject_transaction", {"sequence": [f"set_fee({2**256})"]}, "argument 0"),
    ("inject_transaction", {"sequence": ["nothing(1)"]}, "no function of the target"),
    ("inject_transaction", {"sequence": ["set_fee(1) set_fee(2)"]}, "sequence[0]"),
    ("inject_transaction", {"sequence": []}, "sequence"),
    ("inject_transaction", {"sequence": ["deposit()"] * 101}, "sequence"),
    ("inject_transaction", {"sequence": ["deposit"]}, "sequence.0"),
    ("inject_transaction", {"sequence": ["deposit()"], "value": "-1"}, "value"),
    ("inject_transaction", {"sequence": ["deposit()"], "value": "0x10"}, "value"),
    ("inject_transaction", {"sequence": ["deposit()"], "value": str(2**256)}, "value"),
    ("inject_transaction", {"sequence": ["deposit()"], "value": "9" * 5_000}, "value: does not fit"),
    ("execute_sequence", {"sequence": ["deposit()"], "value": "9" * 5_000}, "value: does not fit"),
    ("find_transaction_in_corpus", {"minValue": "9" * 5_000}, "minValue: does not fit"),
    ("find_transaction_in_corpus", {"minValue": str(2**256)}, "minValue: does not fit"),
    ("inject_transaction", {"sequence": ["set_fee(1)"], "value": "1"}, "payable"),
    ("inject_transaction", {"sequence": ["deposit()"], "sender": "0x1"}, "sender"),
    ("inject_transaction", {}, "sequence"),
    ("read_logs", {"count": 0}, "count"),
    ("read_logs", {"count": 2501}, "count"),
    ("read_logs", {"eventType": "Nothing"}, "eventType"),
    ("read_logs", {"workerId": -1}, "workerId"),
    ("inspect_corpus_transactions", {"limit": 101}, "limit"),
    ("inspect_corpus_transactions", {"offset": -1}, "offset"),
    ("find_transaction_in_corpus", {}, "functionSignature, sender, minValue"),
    ("find_transaction_in_corpus", {"campaign_id": "x"}, "functionSignature, sender, minValue"),
    ("find_transaction_in_corpus", {"minValue": "0x10"}, "minValue"),
    ("find_transaction_in_corpus", {"minValue": "-1"}, "minValue"),
    ("find_transaction_in_corpus", {"minValue": " "}, "minValue"),
    ("find_transaction_in_corpus", {"minValue": ""}, "minValue"),
    ("find_transaction_in_corpus", {"sender": ADDRESS[:-1]}, "sender"),
    ("find_transaction_in_corpus", {"functionSignature": "f("}, "functionSignature"),
    ("prioritize_function", {"functionSignature": "f(uint256"}, "functionSignature"),
    ("prioritize_function", {"functionSignature": "f((uint256)"}, "functionSignature"),
    ("prioritize_function", {"functionSignature": "f(x y)"}, "functionSignature"),
    ("clear_priorities", {"all": True}, "all"),
    ("get_corpus_size", {"extra": 1}, "extra"),
    ("show_coverage", {"contract": "Nothing"}, "contract"),
    ("dump_lcov", {"outputPath": "../x.lcov"}, "outputPath"),
    ("dump_lcov", {"outputPath": "/tmp/x.lcov"}, "outputPath"),
    ("dump_lcov", {"outputPath": "x.py"}, "outputPath"),
    ("dump_lcov", {"outputPath": ""}, "outputPath"),
    ("execute_sequence", {"sequence": ["set_fee(1"]}, "sequence"),
    ("execute_sequence", {"sequence": ["deposit()"] * 101}, "sequence"),
    ("start_campaign", {"path": "/etc/passwd"}, "path"),
    ("start_campaign", {"path": "../Vault.vy"}, "path"),
    ("start_campaign", {"path": "missing.vy"}, "path"),
    ("start_campaign", {"path": "Vault.vy", "contract": "Nothing"}, "contract"),
    ("start_campaign", {"path": "Vault.vy", "workers": 9}, "workers"),
    ("start_campaign", {"path": "Vault.vy", "options": {"allowFFI": True}}, "allowFFI"),
    ("start_campaign", {"path": "Vault.vy", "options": {"testLimit": "x"}}, "testLimit"),
    ("start_campaign", {"path": "Vault.vy", "options": {"corpusDir": "/etc/corpus"}}, "corpusDir"),
    ("start_campaign", {"path": "Vault.vy", "config": "none.yaml"}, "config"),
    ("sample_function", {"functionSignature": "f("}, "functionSignature"),
    ("avoid_function", {"functionSignature": ""}, "functionSignature"),
]


def test_every_bad_input_is_named_and_the_campaign_goes_on_untouched(running: Started) -> None:
    async def main() -> None:
        record = running.folder.path / "corpus" / "mcp-commands.jsonl"
        async with agent(running.home.path, roots=running.home.path.parent) as found:
            before = await found.call("campaign_status")
            for tool, arguments, word in BAD:
                error = await found.refused(tool, **arguments)
                assert error["code"] == "INVALID_INPUT", (tool, arguments, error)
                assert word in error["message"], (tool, arguments, error)
            after = await found.call("campaign_status")
            assert after["state"] == "running"
            assert after["calls"] > before["calls"]
            assert (after["prioritizedFunctions"], after["avoidedFunctions"]) == ([], [])
        assert lines(record) == [], "what was refused steered nothing"
        assert not (running.folder.path / "reports").exists() or not any(
            (running.folder.path / "reports").iterdir()
        )

    run(main())


def test_arguments_may_be_missing_where_none_are_needed(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            reply = await found.client.modern("tools/call", {"name": "get_corpus_size"})
            assert reply.json["result"]["isError"] is False

    run(main())


def test_an_unknown_tool_is_answered_with_the_envelope_of_the_family(running: Started) -> None:
    async def main() -> None:
        async with agent(running.home.path) as found:
            reply = await found.client.call("unknown_tool")
            error = reply.json["error"]
            assert error["code"] == -32602
            assert error["data"]["success"] is False
            assert error["data"]["error"]["code"] == "TOOL_NOT_FOUND"

    run(main())


def test_a_link_out_of_the_roots_is_no_way_to_a_contract(running: Started, tmp_path: Path) -> None:
    async def main() -> None:
        inside = tmp_path / "inside"
        inside.mkdir()
        (inside / "way.vy").symlink_to(vault(tmp_path / "outside"))
        async with agent(running.home.path, roots=inside) as found:
            error = await found.refused("start_campaign", path="way.vy")
            assert (error["details"]["kind"], error["details"]["reason"]) == ("BAD_PATH", "outside")

    run(main())
