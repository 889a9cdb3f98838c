"""Unsupported cheatcodes and warnings: a status of their own in every mode, alike on every door."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.desks import agent, no_host_left
from tests.fuzz.test_fuzz_cli import Shell
from tests.support import run

NAME = "createSelectFork(string)"
CONTRACT = """# pragma version ~=0.4.0
interface Vm:
    def createSelectFork(url: String[64]) -> uint256: nonpayable
VM: constant(address) = 0x7109709ECfa91a80626fF3989D68f67F5b1DD12D
n: uint256
@external
def handler():
    x: uint256 = extcall Vm(VM).createSelectFork("a")
@external
def caught():
    ok: bool = raw_call(VM, method_id("createSelectFork(string)"), revert_on_failure=False)
@external
def other():
    self.n += 1
@external
def echidna_needs() -> bool:
    return extcall Vm(VM).createSelectFork("a") == 0
@external
@view
def echidna_breaks() -> bool:
    return self.n < 3
@external
def optimize_needs() -> int256:
    return convert(extcall Vm(VM).createSelectFork("a"), int256)
@external
def test_needs():
    x: uint256 = extcall Vm(VM).createSelectFork("a")
@external
def test_other():
    pass
@external
def testFail_old():
    pass
"""
DEPLOYS = """# pragma version ~=0.4.0
interface Vm:
    def createSelectFork(url: String[64]) -> uint256: nonpayable
@external
def setUp():
    x: uint256 = extcall Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D).createSelectFork("a")
@external
def test_never_begins():
    pass
"""


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    (tmp_path / "Needs.vy").write_text(CONTRACT)
    with no_host_left(tmp_path / "home"):
        yield Shell(tmp_path)


def by_name(found: Any) -> dict[str, Any]:
    return {test["name"]: test for test in found["tests"]}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Generator[Callable[[str], tuple[int, Any]]]:
    """The exit code and the document of one campaign in each mode."""
    folder = tmp_path_factory.mktemp("modes")
    (folder / "Needs.vy").write_text(CONTRACT)
    words = ("run", "Needs.vy", "--contract", "Needs", "--workers", 1, "--seed", 3, "--test-limit", 3_000)

    @cache
    def run_in(mode: str) -> tuple[int, Any]:
        done = Shell(folder).run(*words, "--test-mode", mode, "--json")
        return done.returncode, json.loads(done.stdout)

    with no_host_left(folder / "home"):
        yield run_in


@pytest.mark.parametrize(
    ("mode", "code", "test"),
    [
        ("property", 1, "echidna_needs"),
        ("optimization", 2, "optimize_needs"),
        ("assertion", 2, "handler()"),
        ("assertion", 2, "caught()"),
        ("foundry", 2, "test_needs()"),
    ],
)
def test_what_needs_an_unsupported_cheatcode_is_unsupported_in_every_mode(
    ran: Callable[[str], tuple[int, Any]], mode: str, code: int, test: str
) -> None:
    ended, found = ran(mode)
    assert ended == code
    row = by_name(found)[test]
    assert (row["status"], row["unsupported"]) == ("unsupported", [NAME])
    assert test in found["unsupported"]


def test_a_failure_beside_it_stands_and_a_handler_that_needs_one_is_named(
    ran: Callable[[str], tuple[int, Any]],
) -> None:
    _, found = ran("property")
    assert by_name(found)["echidna_breaks"]["status"] == "solved"
    assert [each for each in found["warnings"] if "Needs.handler()" in each and f"vm.{NAME}" in each]


def test_each_way_in_which_a_test_fails_is_in_the_document(ran: Callable[[str], tuple[int, Any]]) -> None:
    [way] = by_name(ran("property")[1])["echidna_breaks"]["failures"]
    assert way["reason"] == "false"
    assert [call["function"] for call in way["transactions"]] == ["other"] * 3


def test_a_set_up_that_needs_one_is_refused_by_its_names(shell: Shell) -> None:
    (shell.folder / "Deploys.vy").write_text(DEPLOYS)
    words = ("run", "Deploys.vy", "--contract", "Deploys", "--test-mode", "foundry")
    assert NAME in shell.json(*words, code=2)["error"]["message"]


def test_warnings_are_the_same_on_the_terminal_in_json_and_for_agents(shell: Shell) -> None:
    (shell.folder / "foundry.toml").write_text("[profile.default]\nisolate = true\n")
    words = ("run", "Needs.vy", "--contract", "Needs", "--test-mode", "foundry", "--test-limit", 3_000)
    found = shell.json(*words, code=2)
    removed = [each for each in found["warnings"] if "testFail_old()" in each]
    assert removed
    assert [each for each in found["warnings"] if "isolate is not heeded" in each]
    done = shell.run(*words)
    assert all(f"Warning: {warning}" in done.stderr for warning in found["warnings"])

    async def main() -> None:
        async with agent(shell.home, shell.folder) as asked:
            path, keys = str(shell.folder / "Needs.vy"), {"testMode": "foundry", "testLimit": 3_000}
            began = await asked.call("start_campaign", path=path, **keys)
            assert set(began["warnings"]) == set(found["warnings"])
            ended = await asked.until("campaign_status", lambda status: status["state"] == "ended")
            assert set(ended["warnings"]) == set(found["warnings"])
            row = by_name(ended)["test_needs()"]
            assert (row["status"], row["unsupported"]) == ("unsupported", [NAME])

    run(main())


def test_the_first_of_several_contracts_with_tests_is_taken_with_a_warning(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    source = "# pragma version ~=0.4.0\n@external\n@view\ndef echidna_{0}() -> bool:\n    return True\n"
    for name in ("Aa", "Bb"):
        (tmp_path / f"{name}.vy").write_text(source.format(name.lower()))
    with no_host_left(tmp_path / "home"):
        found = shell.json("run", ".", "--test-limit", 100)
    assert found["contract"] == "Aa"
    assert ["first of several" in each for each in found["warnings"]] == [True]


def test_tests_beside_invariants_are_of_the_campaign(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "Inv.vy").write_text(
        "# pragma version ~=0.4.0\nn: uint256\n@external\ndef add():\n    self.n += 1\n"
        "@external\ndef test_unit():\n    assert self.n == 0\n"
        "@external\ndef testFuzz_small(x: uint256):\n    assert x < 2**200\n"
        "@external\n@view\ndef invariant_true():\n    assert True\n"
    )
    with no_host_left(tmp_path / "home"):
        words = ("run", "Inv.vy", "--contract", "Inv", "--test-mode", "foundry", "--fuzz-runs", 500)
        found = shell.json(*words, "--seed", 1, code=1)
        assert {name: test["status"] for name, test in by_name(found).items()} == {
            "invariant_true": "passed",
            "test_unit()": "passed",
            "testFuzz_small(uint256)": "solved",
        }

        async def main() -> None:
            async with agent(shell.home, shell.folder) as asked:
                shown = await asked.call("get_reproducers", test="testFuzz_small(uint256)", format="foundry")
                assert "testFuzz_small" in shown["reproducers"][0]["solidity"]
                logs = await asked.call("read_logs", eventType="PropertyFalsified")
                [data] = [event["data"] for event in logs["events"]]
                assert (data["property"], data["shrunk"]) == ("testFuzz_small(uint256)", True)
                assert data["counterexample"][0].startswith("testFuzz_small(")

        run(main())


def test_a_sequence_that_reaches_one_is_executed_and_not_judged(shell: Shell) -> None:
    async def main() -> None:
        async with agent(shell.home, shell.folder) as asked:
            await asked.call(
                "start_campaign", path=str(shell.folder / "Needs.vy"), testLimit=100, testMode="property"
            )
            shown = await asked.call("execute_sequence", sequence=["other()", "handler()"])
            assert [row.get("unsupported") for row in shown["transactions"]] == [None, [NAME]]
            assert {row["test"]: row["names"] for row in shown["unsupported"]}["Needs.echidna_breaks"] == [
                NAME
            ]

    run(main())
