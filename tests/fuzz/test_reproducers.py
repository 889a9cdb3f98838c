"""Reproducers: as calls that read back, and as Foundry tests that forge itself runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks import fuzz_forge
from tests.fuzz.test_answers import row, tx
from tests.fuzz.test_target import ADDRESS, BANK, SENDER, function, target
from tests.judges.install import FORGE
from tracedesk.fuzz import config, native, reproducers, spec
from tracedesk.fuzz.bench import campaign_of
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.keccak import keccak
from tracedesk.fuzz.solc import SOLJSON
from tracedesk.fuzz.steering import transactions
from tracedesk.fuzz.target import Target


def foundry(test: dict[str, Any], *sequence: Any, source: str = "src/Bank.sol") -> str:
    return reproducers.foundry(test, sequence, BANK, native.engine(), source, ADDRESS)


def test_a_call_of_another_contract_says_where_it_goes() -> None:
    both = target(Bank=[function("Bank", "f")], Token=[function("Token", "f")])
    child = "0x" + "cd" * 20
    call: dict[str, Any] = {"function": "Token.f()", "name": "f", "types": [], "args": []}
    places = (both.main.address, both.places[1].address, child)
    rows = reproducers.calls(
        [{**tx("f"), "to": place, "call": call} for place in places], both, native.engine()
    )
    assert [(each["call"], each.get("to")) for each in rows] == [
        ("f()", None),
        ("Token$f()", both.places[1].address),
        (f"Token${child}$f()", child),
    ]


def test_a_foundry_test_repeats_time_sender_value_and_arguments() -> None:
    calls = (
        tx("deposit", value="5", delay=(7, 2)),
        tx("transfer", ADDRESS, "9", types=("address", "uint256")),
        tx("pay", [[ADDRESS, "1"]], "x", types=("(address,uint256)[]", "string")),
    )
    text = foundry(row("echidna_a", reason="false"), *calls)
    assert 'vm.getCode("Bank.sol:Bank")' in text
    assert "pass(7, 2);\n        // deposit()" in text
    assert f"send(address(uint160(0x00{SENDER[2:]})), target, 5, " in text
    assert f'"transfer(address,uint256)", address(uint160(0x00{ADDRESS[2:]})), uint256(9))' in text
    selector = keccak(b"pay((address,uint256)[],string)")[:4].hex()
    assert f'hex"{selector}' in text, "what Solidity has no short literal for goes as bytes"
    assert "import" not in text, "it needs no library"


def test_text_from_a_contract_cannot_leave_its_place_in_a_foundry_test() -> None:
    evil = 'a"; selfdestruct(); //\n\u2028}'
    text = foundry(row("echidna_a", reason=evil), tx("pay", evil, types=("string",)))
    assert "selfdestruct(); //\n" not in text
    assert "\u2028" not in text
    assert "\\x22; selfdestruct(); //\\x0a" in text


# --- under forge -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """A bug, the calls that show it, and the source without it."""

    source: str
    test: str
    calls: tuple[tuple[str, int, int], ...]
    """Each with the seconds and blocks that pass before it."""
    mend: tuple[str, str]
    keys: Mapping[str, Any] = field(default_factory=dict[str, Any])
    contract: str = "C"
    value: str = "0"

    def mended(self) -> str:
        assert self.mend[0] in self.source
        return self.source.replace(*self.mend)


def _calls(*texts: str) -> tuple[tuple[str, int, int], ...]:
    return tuple((text, 0, 0) for text in texts)


STRUCTS = """contract C {
    struct P { uint8 a; address b; bytes4 c; }
    struct O { P p; uint16[] xs; string name; int64[2][] m; }
    bool a; bool b; bool c;
    function f(O calldata o) external {
        if (o.p.a == 42 && o.p.b == address(this) && o.p.c == 0xaabbccdd) a = true;
        if (o.xs.length == 3 && o.xs[0] < o.xs[1] && o.xs[1] < o.xs[2] && o.xs[2] == 9999) b = true;
        if (o.m.length > 1 && o.m[1][0] == -77) c = true;
    }
    function echidna_a() public view returns (bool) { return !a; }
    function echidna_b() public view returns (bool) { return !b; }
    function echidna_c() public view returns (bool) { return !c; }
}"""
TIME = """contract C {
    uint t0; uint b0; bool a; bool b;
    constructor() { require(block.timestamp == 1524785992 && block.number == 4370000 && block.chainid == 1); }
    function start() public { t0 = block.timestamp; b0 = block.number; }
    function lock() public { if (t0 > 0 && block.timestamp >= t0 + 30 days) a = true; }
    function blocks() public { if (b0 > 0 && block.number > b0 + 7000 && block.number < b0 + 7500) b = true; }
    function echidna_lock() public view returns (bool) { return !a; }
    function echidna_blocks() public view returns (bool) { return !b; }
}"""
MULTI = """contract Token {
    bool public frozen;
    function freeze(uint code) public { if (code == 777) frozen = true; }
}
contract C {
    Token public t; Token[] public kids;
    constructor() { t = new Token(); }
    function make() public { kids.push(new Token()); }
    function echidna_frozen() public view returns (bool) { return !t.frozen(); }
    function echidna_kids() public view returns (bool) {
        for (uint i; i < kids.length; i++) if (kids[i].frozen()) return false;
        return true;
    }
}"""
PAID = """contract C {
    uint first; uint n; uint immutable k; string s; address owner;
    constructor(uint k_, string memory s_) payable { k = k_; s = s_; first = address(this).balance; }
    function setUp() public { owner = msg.sender; }
    function f(uint x) public payable {
        require(owner == address(0x30000) && tx.origin == msg.sender && msg.value == 5 ether);
        if (x == k && first == 12345 && bytes(s).length == 3) n++;
    }
    function echidna_w() public returns (bool) { n += 1; return n < 3; }
    function echidna_revert_never() public view returns (bool) { require(n == 0); return true; }
}"""
UNPAID = """contract C {
    uint first; bool b;
    constructor() { first = address(this).balance; }
    function f(uint x) public { if (x == 99 && first == 0 && address(this).balance == 12345) b = true; }
    function echidna_b() public view returns (bool) { return !b; }
}"""
ASSERTS = """contract C {
    event AssertionFailed(uint256, uint256);
    uint z;
    function a(uint x) public { z = x; assert(x != 4242); }
    function e(uint x) public { z = x; if (x == 77) emit AssertionFailed(1, 2); }
    function d(uint x) public {
        address vm = 0x7109709ECfa91a80626fF3989D68f67F5b1DD12D;
        bytes memory data = abi.encodeWithSignature(
            "store(address,bytes32,bytes32)", vm, bytes32("failed"), bytes32(uint256(1)));
        if (x == 33) { (bool ok, ) = vm.call(data); require(ok); }
    }
}"""
LIBRARY = """library L { function add(uint a, uint b) external pure returns (uint) { return a + b; } }
contract C {
    uint n;
    function f(uint a) public { n = L.add(a, 1); }
    function echidna_n() public view returns (bool) { return n != 556; }
}"""
ZERO = "0x0000000000000000000000000000000000000000"
OWN = "0x00a329c0648769a73afac7f9381e08fb43dbea72"
KID = "0xee35211c4d9126d520bbfeaf3cfee5fe7b86f221"
HELD: dict[str, Any] = {"constructorArgs": '777, "abc"', "balanceContract": 12345}

CASES = {
    "struct_a": Case(
        STRUCTS, "echidna_a", _calls(f'f(((42, {OWN}, 0xaabbccdd), [], "", []))'), ("== 42", "== 43")
    ),
    "struct_b": Case(
        STRUCTS, "echidna_b", _calls(f'f(((0, {ZERO}, 0x00000000), [0, 1, 9999], "", []))'), ("9999", "9")
    ),
    "struct_c": Case(
        STRUCTS,
        "echidna_c",
        _calls(f'f(((0, {ZERO}, 0x00000000), [], "", [[0, 0], [-77, 0]]))'),
        ("-77", "-78"),
    ),
    "lock": Case(
        TIME, "echidna_lock", (("start()", 0, 0), ("lock()", 30 * 86_400, 1)), ("30 days", "31 days")
    ),
    "blocks": Case(
        TIME, "echidna_blocks", (("start()", 9, 9), ("*wait*", 5, 7000), ("blocks()", 0, 1)), ("7000", "7001")
    ),
    "frozen": Case(
        MULTI, "echidna_frozen", _calls("Token$freeze(777)"), ("777", "778"), {"allContracts": True}
    ),
    "kids": Case(
        MULTI,
        "echidna_kids",
        _calls("make()", "make()", f"Token${KID}$freeze(777)"),
        ("777", "778"),
        {"allContracts": True},
    ),
    "writing": Case(
        PAID, "echidna_w", _calls("f(777)", "f(777)"), ("n < 3", "n < 4"), HELD, value=str(5 * 10**18)
    ),
    "reverting": Case(PAID, "echidna_revert_never", (), ("n == 0", "n == 1"), HELD),
    "balance": Case(UNPAID, "echidna_b", _calls("f(99)"), ("x == 99", "x == 98"), {"balanceContract": 12345}),
    "panic": Case(ASSERTS, "a(uint256)", _calls("a(4242)"), ("4242", "4243"), {"testMode": "assertion"}),
    "event": Case(ASSERTS, "AssertionFailed(..)", _calls("e(77)"), ("77", "78"), {"testMode": "assertion"}),
    "flag": Case(ASSERTS, "d(uint256)", _calls("d(33)"), ("33", "34"), {"testMode": "assertion"}),
}


def reproducer(case: Case, source: Path) -> str:
    """The Foundry test of a failure that the calls of a case bring about."""
    engine = native.engine()
    told = config.of({"seed": 1, "workers": 1, **case.keys}).config
    made = spec.build(compile_project(source), told, case.contract, engine)
    known = Target.of(made.document)
    texts = [text for text, _, _ in case.calls]
    sequence = transactions({"sequence": texts, "sender": SENDER, "value": case.value}, known, told, engine)
    timed = [
        {**each, "delay": [seconds, blocks]}
        for each, (_, seconds, blocks) in zip(sequence, case.calls, strict=True)
    ]
    checked = native.read(campaign_of(engine, native.text(made.document)).check(native.text(timed)))
    test = next(each for each in made.document["tests"] if each["name"] == case.test)
    failure = next(each for each in checked["failures"] if each["test"] == test["id"])
    return reproducers.foundry(
        {**test, "reason": failure["reason"]}, timed, known, engine, made.contract.path, told.deployer
    )


def verdicts(folder: Path, sources: Mapping[str, str], tests: Mapping[str, str]) -> dict[str, str]:
    """What forge says of each test; a contract is in a file of its own name."""
    forge = fuzz_forge.binary()
    assert forge is not None
    files = {f"src/{name}.sol": text for name, text in sources.items()}
    files |= {f"test/{name}.t.sol": text for name, text in tests.items()}
    fuzz_forge.Project.make(folder, forge, files)
    ran = subprocess.run([forge, "test", "--json"], cwd=folder, capture_output=True, text=True, check=False)
    line = next(each for each in ran.stdout.splitlines() if each.startswith("{"))
    found: dict[str, str] = {}
    for suite, told in json.loads(line).items():
        [result] = told["test_results"].values()
        found[Path(suite.partition(":")[0]).name.removesuffix(".t.sol")] = result["status"]
    return found


@pytest.mark.judge
def test_forge_sees_each_bug_by_its_reproducer_and_no_longer_when_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SOLJSON, str(FORGE.require("node_modules", "solc", "soljson.js")))
    pragma = "// SPDX-License-Identifier: MIT\npragma solidity ^0.8.0;\n"
    tests: dict[str, str] = {}
    for name, case in CASES.items():
        source = tmp_path / "found" / f"{name}.sol"
        source.parent.mkdir(exist_ok=True)
        source.write_text(pragma + case.source)
        tests[name] = reproducer(case, source)
    broken = {name: pragma + case.source for name, case in CASES.items()}
    assert verdicts(tmp_path / "broken", broken, tests) == dict.fromkeys(CASES, "Success")
    mended = {name: pragma + case.mended() for name, case in CASES.items()}
    assert verdicts(tmp_path / "mended", mended, tests) == dict.fromkeys(CASES, "Failure")


@pytest.mark.judge
def test_forge_runs_the_reproducer_of_a_contract_with_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SOLJSON, str(FORGE.require("node_modules", "solc", "soljson.js")))
    source = tmp_path / "linked.sol"
    source.write_text("pragma solidity ^0.8.0;\n" + LIBRARY)
    text = reproducer(Case(LIBRARY, "echidna_n", _calls("f(555)"), ("", "")), source)
    found = verdicts(tmp_path / "project", {"linked": source.read_text()}, {"linked": text})
    assert found == {"linked": "Success"}
