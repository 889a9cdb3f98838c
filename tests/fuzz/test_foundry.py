"""The mode `foundry`: what invariants are tried against, and when they and tests fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.judges.install import FORGE
from tracedesk.fuzz import config, native, spec
from tracedesk.fuzz.bench import campaign_of
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.config import address
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.solc import SOLJSON
from tracedesk.fuzz.spec import Spec

FOREVER = 60.0
"""Seconds after which a campaign that has not ended is hopeless."""

HANDLER = """# pragma version ~=0.4.0
n: public(uint256)
@external
def add(k: uint8):
    self.n += convert(k, uint256)
@external
def spoil():
    self.n += 1
"""
TEST = """# pragma version ~=0.4.0
interface Handler:
    def n() -> uint256: view
struct Chosen:
    addr: address
    selectors: DynArray[bytes4, 4]
h: public(address)
other: public(address)
m: uint256
@external
def setUp():
    self.h = create_copy_of(0x0000000000000000000000000000000000000042)
    self.other = create_copy_of(0x0000000000000000000000000000000000000042)
@external
def own(k: uint256):
    self.m = k
@external
def test_unit():
    self.m = 9999
@external
@view
def invariant_void():
    assert staticcall Handler(self.h).n() < 300, "too big"
@external
@view
def invariant_told() -> bool:
    return staticcall Handler(self.h).n() < 300 and self.m != 9999
@external
@view
def invariant_other():
    assert staticcall Handler(self.other).n() == 0, "not to be called"
"""
CONTRACTS = """@external
@view
def {name}Contracts() -> DynArray[address, 4]:
    return [{values}]
"""
SELECTORS = """@external
@view
def {name}Selectors() -> DynArray[Chosen, 4]:
    return [Chosen(addr=self.h, selectors=[method_id("{signature}", output_type=bytes4)])]
"""
PLACED: dict[str, Any] = {"testMode": "foundry", "deployContracts": [["0x42", "Handler"]]}


def made(folder: Path, more: str = "", **keys: Any) -> Spec:
    (folder / "Handler.vy").write_text(HANDLER)
    (folder / "Inv.vy").write_text(TEST + more)
    told = config.of({"seed": 1, "workers": 1, **PLACED, **keys}).config
    return spec.build(compile_project(folder), told, "Inv", native.engine())


def aims(found: Spec) -> dict[str, list[str]]:
    """The functions that are called, by the address below the target's, or by the whole address."""
    names = {f"0x{_created(nonce)}": name for nonce, name in ((1, "h"), (2, "other"))}
    names |= {config.Config().contract_address: "own", address(0x42): "placed"}
    return {
        names[each["address"]]: [id.partition(".")[2] for id in each["functions"]]
        for each in found.document["targets"]
    }


def _created(nonce: int) -> str:
    return keccak(bytes.fromhex("d694" + config.Config().contract_address[2:]) + bytes([nonce]))[12:].hex()


ALL = ["add(uint8)", "spoil()"]
H, OTHER = (
    CONTRACTS.format(name="target", values="self.h"),
    CONTRACTS.format(name="exclude", values="self.other"),
)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", {"own": [], "placed": ALL, "h": ALL, "other": ALL}),
        (H, {"own": [], "h": ALL}),
        (OTHER, {"own": [], "placed": ALL, "h": ALL}),
        (CONTRACTS.format(name="target", values="self, self.h"), {"own": ["own(uint256)"], "h": ALL}),
        (H + SELECTORS.format(name="target", signature="add(uint8)"), {"own": [], "h": ["add(uint8)"]}),
        (H + SELECTORS.format(name="target", signature="n()"), {"own": [], "h": ["n()"]}),
        (H + SELECTORS.format(name="exclude", signature="add(uint8)"), {"own": [], "h": ["spoil()"]}),
    ],
)
def test_what_set_up_left_and_the_contract_names_is_called(
    tmp_path: Path, more: str, expected: dict[str, list[str]]
) -> None:
    assert aims(made(tmp_path, more)) == expected


def test_senders_that_the_contract_names_are_the_callers(tmp_path: Path) -> None:
    senders = CONTRACTS.format(name="target", values="0x" + "0" * 35 + "10001").replace(
        "Contracts", "Senders"
    )
    assert made(tmp_path, senders).document["senders"] == [address(0x10001)]
    less = CONTRACTS.format(name="exclude", values="0x" + "0" * 35 + "10000").replace("Contracts", "Senders")
    assert made(tmp_path, less).document["senders"] == [address(0x20000), address(0x30000)]


def test_tests_beside_invariants_are_no_part_of_their_campaign(tmp_path: Path) -> None:
    found = made(tmp_path)
    assert found.tests == ["invariant_void", "invariant_told", "invariant_other"]
    assert found.warnings == ()
    alone = made(tmp_path, prefix="test")
    assert (alone.tests, alone.document["stateless"], alone.warnings) == (["test_unit()"], True, ())
    assert aims(alone) == {"own": ["test_unit()"]}


def ended(found: Spec) -> dict[str, Any]:
    """The tests of a campaign that has ended, by name."""
    campaign = campaign_of(native.engine(), native.text(found.document))
    campaign.start()
    assert campaign.wait(FOREVER)
    return {test["name"]: test for test in native.read(campaign.status())["tests"]}


def test_invariants_are_broken_by_calls_of_what_set_up_left_and_of_nothing_else(tmp_path: Path) -> None:
    tests = ended(made(tmp_path, H, testLimit=20_000))
    assert {name: test["status"] for name, test in tests.items()} == {
        "invariant_void": "solved",
        "invariant_told": "solved",
        "invariant_other": "passed",
    }
    assert "too big" in tests["invariant_void"]["reason"]
    assert tests["invariant_told"]["reason"] == "false"
    assert {call["call"]["name"] for call in tests["invariant_told"]["sequence"]} <= {"add", "spoil"}


REFUSES = """@external
def refuse(k: uint256):
    assert k < 1000, "refused"
"""


def test_a_call_that_reverts_fails_every_invariant_where_the_project_asks_for_it(tmp_path: Path) -> None:
    made(tmp_path, CONTRACTS.format(name="target", values="self") + REFUSES)
    told = config.of({"seed": 1, "workers": 1, "testLimit": 2_000, **PLACED}).config

    def reasons(asks: bool) -> dict[str, Any]:
        found = replace(told, fail_on_revert=asks)
        tests = ended(spec.build(compile_project(tmp_path), found, "Inv", native.engine()))
        return {name: (test["status"], test["reason"]) for name, test in tests.items()}

    names = ("invariant_void", "invariant_told", "invariant_other")
    assert reasons(asks=True) == dict.fromkeys(names, ("solved", 'Error("refused")'))
    assert 'Error("refused")' not in {reason for _, reason in reasons(asks=False).values()}


FUZZ_TESTS = """# pragma version ~=0.4.0
n: uint256
@external
def test_revert(x: uint256):
    assert x != 5, "a revert fails it"
@external
def test_fresh(x: uint256):
    assert self.n == 0, "set by another call"
    self.n = x
@external
def test_plain():
    assert self.n == 1, "a unit test"
"""


def test_a_test_fails_by_any_revert_and_always_begins_with_what_set_up_left(tmp_path: Path) -> None:
    source = tmp_path / "Fuzz.vy"
    source.write_text(FUZZ_TESTS)
    told = config.of({"testMode": "foundry", "seed": 1, "workers": 1, "testLimit": 20_000}).config
    tests = ended(spec.build(compile_project(source), told, None, native.engine()))
    assert {name: test["status"] for name, test in tests.items()} == {
        "test_revert(uint256)": "solved",
        "test_fresh(uint256)": "passed",
        "test_plain()": "solved",
    }
    assert "a revert fails it" in tests["test_revert(uint256)"]["reason"]


DEFAULT = """# pragma version ~=0.4.0
seen: Bytes[64]
@external
@payable
def __default__():
    self.seen = slice(msg.data, 0, 2) if len(msg.data) > 1 else b""
@external
@view
def echidna_seen() -> bool:
    return self.seen != b"\\xbe\\xef"
"""


def test_the_default_function_of_vyper_is_called(tmp_path: Path) -> None:
    source = tmp_path / "Taker.vy"
    source.write_text(DEFAULT)
    told = config.of({"seed": 1, "workers": 1, "testLimit": 200_000}).config
    found = spec.build(compile_project(source), told, None, native.engine())
    test = ended(found)["echidna_seen"]
    assert test["status"] == "solved"
    assert {call["call"]["name"] for call in test["sequence"]} == {"__default__"}


SOLIDITY = """// SPDX-License-Identifier: MIT
pragma solidity ^0.8.0;
interface Vm { function warp(uint256) external; function store(address, bytes32, bytes32) external; }
contract Counter { uint public n; function inc(uint k) external { require(k < 50); n += k; } }
contract Handler {
    Counter c;
    constructor(Counter x) { c = x; }
    function add(uint8 k) external { c.inc(k % 50); }
}
contract InvTest {
    Vm constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);
    Counter c; Handler h; address[] private chosen;
    function setUp() public {
        c = new Counter();
        h = new Handler(c);
        vm.warp(1000000);
        chosen.push(address(h));
    }
    function targetContracts() public view returns (address[] memory) { return chosen; }
    function invariant_small() public view { require(c.n() < 300, "too big"); }
    function invariant_time() public view { assert(block.timestamp >= 1000000); }
    function invariant_ds() public {
        if (c.n() > 100) vm.store(address(vm), bytes32("failed"), bytes32(uint256(1)));
    }
}
"""


@pytest.mark.judge
def test_a_handler_in_solidity_breaks_its_invariants_by_reverts_and_by_the_failed_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SOLJSON, str(FORGE.require("node_modules", "solc", "soljson.js")))
    source = tmp_path / "Inv.sol"
    source.write_text(SOLIDITY)
    told = config.of({"testMode": "foundry", "seed": 1, "workers": 1, "testLimit": 20_000}).config
    tests = ended(spec.build(compile_project(source), told, "InvTest", native.engine()))
    assert {name: test["status"] for name, test in tests.items()} == {
        "invariant_small": "solved",
        "invariant_time": "passed",
        "invariant_ds": "solved",
    }
