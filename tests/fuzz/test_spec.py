"""From a compiled contract and a configuration to what the native core is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.desks import vault
from tracedesk.errors import ToolError
from tracedesk.fuzz import native, oracles, spec
from tracedesk.fuzz.abi import Member
from tracedesk.fuzz.bench import campaign_of
from tracedesk.fuzz.compile import compile_project
from tracedesk.fuzz.config import Config, Mode, address, parse
from tracedesk.fuzz.project import Code, Contract, Project
from tracedesk.fuzz.sourcemap import NOWHERE
from tracedesk.fuzz.spec import Spec

CODE = Code(bytes.fromhex("00"), NOWHERE)


def entry(name: str, *types: Any, outputs: tuple[str, ...] = (), state: str = "nonpayable") -> dict[str, Any]:
    inputs = [{"type": each} if isinstance(each, str) else each for each in types]
    outs = [{"type": each} for each in outputs]
    return {"type": "function", "name": name, "inputs": inputs, "outputs": outs, "stateMutability": state}


ABI = (
    entry("set", "uint256"),
    entry("pay", {"type": "tuple[]", "components": [{"type": "address"}, {"type": "bool"}]}, state="payable"),
    entry("look", outputs=("uint256",), state="view"),
    entry("echidna_holds", outputs=("bool",), state="view"),
    entry("echidna_revert_always", outputs=("bool",)),
    entry("echidna_value", outputs=("int256",), state="view"),
    entry("property_medusa", outputs=("bool",), state="view"),
    entry("optimize_it", outputs=("int256",), state="view"),
    entry("invariant_sum"),
    entry("invariant_told", outputs=("bool",), state="view"),
    entry("testFuzz_add", "uint256"),
    entry("setUp"),
    {"type": "event", "name": "AssertionFailed", "inputs": [{"type": "string"}]},
)


def contract(name: str = "Bank", path: str = "Bank.sol", abi: Any = ABI) -> Contract:
    return Contract(name, path, "solidity", abi, CODE, CODE)


def built(config: Config, *contracts: Contract, name: str | None = None) -> Spec:
    found = contracts or (contract(),)
    project = Project(Path(), found, {}, tuple(dict.fromkeys(c.path for c in found)))
    return spec.build(project, config, name, native.engine())


def called(made: Spec) -> list[str]:
    return [id.partition(".")[2] for id in made.document["targets"][0]["functions"]]


@pytest.mark.parametrize(
    ("mode", "tests"),
    [
        (
            "property",
            [("property", "echidna_holds", "true"), ("property", "echidna_revert_always", "revert")],
        ),
        (
            "optimization",
            [("optimization", "echidna_value", "true"), ("optimization", "optimize_it", "true")],
        ),
        ("overflow", [("overflow", "Integer (over/under)flow", "true")]),
        ("exploration", []),
        (
            "foundry",
            [
                ("property", "invariant_sum", "success"),
                ("property", "invariant_told", "true"),
            ],
        ),
    ],
)
def test_each_mode_has_its_tests(mode: Mode, tests: list[tuple[str, str, str]]) -> None:
    made = built(Config(mode=mode))
    assert [(test["kind"], test["name"], test["expect"]) for test in made.document["tests"]] == tests


def test_assertion_mode_watches_every_called_function_and_the_event() -> None:
    made = built(parse("testMode: assertion\npanicCodes: [1, 0x12]\nfilterFunctions: [set]").config)
    tests = made.document["tests"]
    assert [test["name"] for test in tests] == [
        "pay((address,bool)[])",
        "look()",
        "property_medusa()",
        "optimize_it()",
        "invariant_sum()",
        "invariant_told()",
        "testFuzz_add(uint256)",
        "AssertionFailed(..)",
    ]
    assert tests[0]["panics"] == [1, 0x12]
    assert tests[-1]["kind"] == "call"


def test_other_prefixes_are_taken_when_configured() -> None:
    made = built(parse("prefix: [property_, echidna_]").config)
    assert made.tests == ["echidna_holds", "echidna_revert_always", "property_medusa"]


def test_tests_and_set_up_are_not_called_and_filters_are_heeded() -> None:
    plain = called(built(Config()))
    assert plain == [
        "set(uint256)",
        "pay((address,bool)[])",
        "look()",
        "property_medusa()",
        "optimize_it()",
        "invariant_sum()",
        "invariant_told()",
        "testFuzz_add(uint256)",
    ]
    assert called(built(parse("excludeViewPure: true").config)) == [
        name
        for name in plain
        if name not in ("look()", "property_medusa()", "optimize_it()", "invariant_told()")
    ]
    listed = 'filterFunctions: ["Bank.set(uint256)", "look()"]\n'
    assert set(plain) - set(called(built(parse(listed).config))) == {"set(uint256)", "look()"}
    assert called(built(parse(listed + "filterBlacklist: false").config)) == ["set(uint256)", "look()"]


def test_the_limits_accounts_and_block_are_echidnas() -> None:
    document = built(parse("workers: 3\nseed: 9\nbalanceContract: 5").config).document
    assert (document["workers"], document["seed"], document["test_limit"]) == (3, 9, 50_000)
    assert document["block"]["timestamp"] == 1_524_785_992
    assert document["block"]["number"] == 4_370_000
    balances = {account["address"]: account["balance"] for account in document["accounts"]}
    assert balances == dict.fromkeys(map(address, (0x10000, 0x20000, 0x30000)), str(0xFFFFFFFF))
    assert document["deploy"][0]["address"] == Config().contract_address


HELD = """# pragma version ~=0.4.0
first: public(uint256)
@deploy
{payable}
def __init__():
    self.first = self.balance
@external
@view
def echidna_held() -> bool:
    return self.balance == 10**12 and self.first == {first}
"""


@pytest.mark.parametrize(("payable", "first"), [("@payable", "10**12"), ("", "0")])
def test_a_contract_is_created_with_its_balance_when_it_takes_value_and_gets_it_later_else(
    tmp_path: Path, payable: str, first: str
) -> None:
    source = tmp_path / "Held.vy"
    source.write_text(HELD.format(payable=payable, first=first))
    config = parse("balanceContract: 1000000000000").config
    made = spec.build(compile_project(source), config, None, native.engine())
    campaign = campaign_of(native.engine(), native.text(made.document))
    assert native.read(campaign.check("[]"))["failures"] == []
    paid = sum(int(step.get("value", "0")) for step in made.document["deploy"])
    rich = next(a for a in made.document["accounts"] if a["address"] == config.deployer)
    assert int(rich["balance"]) - paid == config.balance_address, "what it pays is given to it before"


def test_a_function_of_a_type_too_large_is_left_out_and_the_others_are_called() -> None:
    abi = (*ABI, entry("huge", "uint256[100000]"), entry("told", outputs=("uint256[100000]",), state="view"))
    made = built(Config(), contract(abi=abi))
    assert "huge(uint256[100000])" not in called(made)
    assert {"set(uint256)", "told()"} <= set(called(made))
    [warning] = made.warnings
    assert warning.startswith("Bank.huge(uint256[100000]): «a type larger than")
    assert built(Config()).warnings == ()


def test_what_takes_calls_without_a_name_is_called_too() -> None:
    takers = ({"type": "receive", "stateMutability": "payable"}, {"type": "fallback"})
    made = built(Config(), contract(abi=(*ABI, *takers)))
    assert called(made)[-2:] == ["receive()", "fallback()"]
    assert made.document["codes"][0]["functions"][-2:] == [
        {"id": "Bank.receive()", "name": "receive", "receive": True, "payable": True},
        {"id": "Bank.fallback()", "name": "fallback", "raw": True, "payable": False},
    ]
    kept = built(parse("filterFunctions: [fallback, receive()]").config, contract(abi=(*ABI, *takers)))
    assert called(kept) == called(built(Config()))


def test_filters_hold_for_contracts_that_are_created_later() -> None:
    token = contract("Token", "Token.sol", (entry("mint", "uint256"), entry("freeze", "uint256")))
    text = 'allContracts: true\nfilterFunctions: ["Token.freeze(uint256)"]'
    _, code = built(parse(text).config, contract(), token, name="Bank").document["codes"]
    assert code["callable"] == ["Token.mint(uint256)"]


def test_set_up_is_called_once_after_everything_is_deployed(tmp_path: Path) -> None:
    source = tmp_path / "Ready.vy"
    source.write_text(
        "# pragma version ~=0.4.0\nx: uint256\n@external\ndef setUp():\n    assert self.x == 0, 'again'\n"
        "    self.x = 7\n@external\n@view\ndef echidna_is_ready() -> bool:\n    return self.x == 7\n"
    )
    made = spec.build(compile_project(source), Config(), None, native.engine())
    first, last = made.document["deploy"]
    assert (first["code"], last["call"], last["to"]) == ("Ready", "0x0a9254e4", first["address"])
    assert called(made) == []
    campaign = campaign_of(native.engine(), native.text(made.document))
    assert native.read(campaign.check("[]"))["failures"] == []
    source.write_text(source.read_text().replace("self.x == 0", "self.x == 1"))
    again = spec.build(compile_project(source), Config(), None, native.engine())
    with pytest.raises(ToolError, match="again") as refusal:
        campaign_of(native.engine(), native.text(again.document))
    assert (refusal.value.details or {})["kind"] == "DEPLOYMENT_FAILED"


def test_without_a_seed_each_campaign_has_its_own() -> None:
    assert built(Config()).seed != built(Config()).seed


def test_other_contracts_are_deployed_and_called_when_asked_for() -> None:
    token = contract("Token", "Token.sol", (entry("mint", "uint256"),))
    text = 'allContracts: true\ndeployContracts: [["0x42", "Token"]]\ndeployBytecodes: [["0x43", "6000"]]'
    made = built(parse(text).config, contract(), token, name="Bank")
    *codes, _ = made.document["deploy"]
    assert [(step["code"], step["address"]) for step in codes] == [
        (f"bytecode@{address(0x43)}", address(0x43)),
        ("Token", address(0x42)),
        ("Bank", Config().contract_address),
    ]
    assert [target["code"] for target in made.document["targets"]] == ["Bank", "Token"]
    assert made.deployed == ("Bank", "Token")
    alone = built(parse('deployContracts: [["0x42", "Token"]]').config, contract(), token, name="Bank")
    assert [target["code"] for target in alone.document["targets"]] == ["Bank"]


def test_contracts_that_share_a_name_are_told_apart_by_path() -> None:
    made = built(Config(), contract(), contract(path="b/Bank.sol"), name="Bank.sol:Bank")
    assert [code["id"] for code in made.document["codes"]] == ["Bank.sol:Bank", "b/Bank.sol:Bank"]


def test_the_only_contract_with_tests_is_chosen_and_the_first_of_several_with_a_warning() -> None:
    token = contract("Token", "Token.sol", (entry("mint", "uint256"),))
    assert built(Config(), token, contract()).contract.name == "Bank"
    found = built(Config(), token, contract(), contract("Other"))
    assert found.contract.name == "Bank"
    assert "first of several; name one of Token, Bank, Other" in found.warnings[0]
    with pytest.raises(ToolError, match="There are: Bank"):
        built(Config(), name="Bnak")


def test_a_contract_without_code_cannot_be_tested() -> None:
    abstract = replace(contract(), init=Code(b"", NOWHERE), runtime=Code(b"", NOWHERE))
    with pytest.raises(ToolError, match="abstract or an interface"):
        built(Config(), abstract, name="Bank")
    with pytest.raises(ToolError, match="no contract with code"):
        built(Config(), abstract)


def test_selectors_and_struct_types_are_canonical() -> None:
    [code] = built(Config()).document["codes"]
    functions = {f["name"]: f for f in code["functions"]}
    assert functions["set"]["selector"] == "0x60fe47b1"
    assert functions["pay"]["types"] == ["(address,bool)[]"]
    assert functions["pay"]["payable"] is True
    assert code["events"] == [
        {"signature": "AssertionFailed(string)", "indexed": [False], "anonymous": False}
    ]


def test_literals_of_the_sources_reach_the_dictionary(tmp_path: Path) -> None:
    project = compile_project(vault(tmp_path))
    document = spec.build(project, Config(), None, native.engine()).document
    assert {"1000", "13"} <= set(document["dictionary"]["ints"])


def test_a_campaign_that_could_find_nothing_is_refused() -> None:
    bare = contract(abi=(entry("set", "uint256"),))
    with pytest.raises(ToolError, match="echidna_x") as refusal:
        built(Config(), bare)
    assert (refusal.value.details or {})["kind"] == "NO_TESTS"
    assert built(Config(mode="exploration"), bare).tests == []


def test_a_function_with_arguments_is_no_property() -> None:
    member = Member("x", "echidna_with", ("uint256",), ("bool",), False, True)
    assert not oracles.is_test(member, Config())
