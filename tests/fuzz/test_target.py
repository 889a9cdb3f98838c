"""Calls as text: read against the ABI, overloads resolved, and printed so that they read back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.test_corpus_files import VALUES
from tracedesk.errors import ToolError
from tracedesk.fuzz import native
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.steering import transactions
from tracedesk.fuzz.target import Target, canonical

ADDRESS = "0x1234567890abcdef1234567890abcdef12345678"
SENDER = "0x0000000000000000000000000000000000010000"


def function(contract: str, name: str, *types: str, payable: bool = False) -> dict[str, Any]:
    signature = f"{contract}.{name}({','.join(types)})"
    facts: dict[str, Any] = {"outputs": [], "selector": "0x00000000", "payable": payable, "view": False}
    return {"id": signature, "name": name, "types": list(types), **facts}


def target(**contracts: list[dict[str, Any]]) -> Target:
    codes = [{"id": n, "name": n, "functions": f, "events": []} for n, f in contracts.items()]
    places = [
        {"address": f"0x{number:040x}", "code": name, "functions": [each["id"] for each in functions]}
        for number, (name, functions) in enumerate(contracts.items(), 1)
    ]
    return Target.of({"codes": codes, "targets": places})


BANK = target(
    Bank=[
        function("Bank", "transfer", "address", "uint256"),
        function("Bank", "deposit", payable=True),
        function("Bank", "pay", "(address,uint256)[]", "string"),
        function("Bank", "set", "uint256"),
        function("Bank", "set", "uint256", "uint256"),
        function("Bank", "put", "address"),
        function("Bank", "put", "bool"),
        function("Bank", "mix", "uint8"),
        function("Bank", "mix", "int16"),
    ],
    Token=[function("Token", "deposit"), function("Token", "mint", "uint256")],
)


def parse(text: str) -> Any:
    return BANK.parse(text, native.engine(), "sequence[0]")


def refusal(text: str) -> ToolError:
    with pytest.raises(ToolError) as refused:
        parse(text)
    assert refused.value.code == "INVALID_INPUT"
    assert (refused.value.details or {})["kind"] == "PARSE_ERROR"
    return refused.value


@pytest.mark.parametrize(
    ("text", "id", "args"),
    [
        (f"transfer({ADDRESS}, 100)", "Bank.transfer(address,uint256)", [ADDRESS, "100"]),
        (f"transfer( {ADDRESS} ,?)", "Bank.transfer(address,uint256)", [ADDRESS, {"hole": True}]),
        ("deposit()", "Bank.deposit()", []),
        (
            f'pay([({ADDRESS}, 1), [{ADDRESS}, 2]], "a)b, \\"c")',
            "Bank.pay((address,uint256)[],string)",
            [[[ADDRESS, "1"], [ADDRESS, "2"]], 'a)b, "c'],
        ),
        ("set(1)", "Bank.set(uint256)", ["1"]),
        ("set(1, 0x10)", "Bank.set(uint256,uint256)", ["1", "16"]),
        ("put(true)", "Bank.put(bool)", [True]),
        (f"put({ADDRESS})", "Bank.put(address)", [ADDRESS]),
        ("mix(-5)", "Bank.mix(int16)", ["-5"]),
        ("mint(7)", "Token.mint(uint256)", ["7"]),
        ("Token$deposit()", "Token.deposit()", []),
        ("Token.deposit()", "Token.deposit()", []),
    ],
)
def test_a_call_is_read_against_the_abi_and_overloads_by_number_and_type(
    text: str, id: str, args: list[Any]
) -> None:
    found = parse(text)
    assert (found.function.id, found.args) == (id, args)


def test_an_elided_address_is_refused_by_argument_never_padded() -> None:
    fault = refusal("transfer(0xabcd..., 500000)")
    assert fault.message.startswith(
        "sequence[0]: 'transfer(0xabcd..., 500000)' does not fit transfer(address,uint256)"
    )
    assert "argument 0" in fault.message
    assert (fault.details or {})["argument"] == "sequence[0]"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("transfer(1)", "argument"),
        (f"transfer({ADDRESS}, 1, 2)", "argument 2"),
        (f"transfer({ADDRESS}, -1)", "argument 1"),
        (f"transfer({ADDRESS}, {2**256})", "argument 1"),
        ("transfer(", "form name"),
        ("nothing()", "There are: deposit, mint, mix, pay, put, set, transfer"),
        ("set(1, 2, 3)", "fits no overload"),
        ("mix(5)", "Bank$mix(uint8), Bank$mix(int16)"),
        ("mix(?)", "ambiguous"),
        ("set(1)x", "form name"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused_with_what_is_wrong(text: str, word: str) -> None:
    assert word in refusal(text).message


@given(st.lists(VALUES, max_size=3), st.sampled_from(("Bank", "Token")))
def test_printing_and_reading_a_call_are_inverse(made: list[tuple[str, Any]], contract: str) -> None:
    types = [kind for kind, _ in made]
    both = target(Bank=[function("Bank", "f", *types)], Token=[function("Token", "f", *types)])
    place = next(p for p in both.places if p.contract == contract)
    call = {"name": "f", "types": types, "args": [value for _, value in made]}
    text = both.text({"to": place.address, "call": call}, native.engine())
    found = both.parse(text, native.engine(), "sequence[0]")
    assert (found.place, found.args) == (place, call["args"])


CHILD = "0x" + "ab" * 20


@given(st.lists(VALUES, max_size=3), st.sampled_from(("Bank", "Token", "Later")), st.booleans())
def test_a_call_of_a_contract_that_was_created_reads_back_with_its_address(
    made: list[tuple[str, Any]], contract: str, is_twin: bool
) -> None:
    types = [kind for kind, _ in made]
    codes = [
        {"id": n, "name": n, "functions": [function(n, "f", *types)], "events": []}
        for n in ("Bank", "Token", "Later")
    ]
    twins = ("Bank", "Token", "Token") if is_twin else ("Bank", "Token")
    places = [
        {"address": f"0x{number:040x}", "code": name, "functions": [f"{name}.f({','.join(types)})"]}
        for number, name in enumerate(twins, 1)
    ]
    found = Target.of({"codes": codes, "targets": places})
    call = {"function": f"{contract}.f({','.join(types)})", "name": "f", "types": types}
    call |= {"args": [value for _, value in made]}
    for address in (CHILD, *(each["address"] for each in places if each["code"] == contract)):
        text = found.text({"to": address, "call": call}, native.engine())
        read = found.parse(text, native.engine(), "sequence[0]")
        assert (read.place.address, read.call()) == (address, call)
        assert INJECTED.fullmatch(text), "what is printed may be injected"


INJECTED = re.compile(r"[a-zA-Z_$][a-zA-Z0-9_$]*\([\s\S]*\)")


def test_a_created_contract_is_called_by_its_address_alone_too() -> None:
    found = parse(f"{CHILD}$mint(7)")
    assert (found.place.address, found.function.id) == (CHILD, "Token.mint(uint256)")
    assert parse(f"Token.{CHILD}.deposit()").function.id == "Token.deposit()"
    assert "no function" in refusal(f"Token${CHILD}$transfer(1)").message


def test_a_function_that_only_created_contracts_have_is_refused_with_how_to_call_it() -> None:
    later = Target(BANK.places[:1], BANK.all)
    with pytest.raises(ToolError, match=r"Token\$0x…\$mint\(…\)"):
        later.parse("mint(7)", native.engine(), "sequence[0]")


TAKERS = Target.of(
    {
        "codes": [
            {
                "id": "Bank",
                "name": "Bank",
                "events": [],
                "functions": [
                    {"id": "Bank.receive()", "name": "receive", "receive": True, "payable": True},
                    {"id": "Bank.fallback()", "name": "fallback", "raw": True, "payable": False},
                ],
            }
        ],
        "targets": [{"address": ADDRESS, "code": "Bank", "functions": ["Bank.receive()", "Bank.fallback()"]}],
    }
)


@given(st.binary(max_size=70), st.sampled_from((ADDRESS, CHILD)))
def test_calls_without_a_name_read_back(data: bytes, to: str) -> None:
    engine = native.engine()
    told = [
        {"function": "Bank.receive()", "name": "receive", "data": "0x"},
        {"function": "Bank.fallback()", "name": "fallback", "data": f"0x{data.hex()}"},
    ]
    texts = [TAKERS.text({"to": to, "call": call}, engine) for call in told]
    before = "" if to == ADDRESS else f"Bank${CHILD}$"
    assert texts == [f"{before}receive()", f"{before}fallback(0x{data.hex()})"]
    read = [TAKERS.parse(text, engine, "sequence[0]") for text in texts]
    assert [each.call() for each in read] == told
    assert {each.place.address for each in read} == {to}


@pytest.mark.parametrize("text", ["receive(0x01)", "fallback(7)", "fallback(0x1)", "fallback(0x01, 0x02)"])
def test_data_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="data"):
        TAKERS.parse(text, native.engine(), "sequence[0]")


def test_waiting_and_bare_data_read_back() -> None:
    for call in (None, {"data": "0xdead"}):
        text = BANK.text({"to": BANK.main.address, "call": call}, native.engine())
        assert parse(text).call() == call


def test_what_is_no_call_of_a_function_is_shown_as_what_it_is() -> None:
    engine = native.engine()
    assert BANK.text({"to": ADDRESS, "call": None}, engine) == "*wait*"
    assert BANK.text({"to": ADDRESS, "call": {"data": "0xdead"}}, engine) == "0xdead"


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ("transfer(address,uint256)", "transfer(address,uint256)"),
        ("f( uint , int[ ], byte )", "f(uint256,int256[],bytes1)"),
        ("f((uint,(address payable,bool)[2]),bytes)", "f((uint256,(address,bool)[2]),bytes)"),
        ("f()", "f()"),
        ("Token$f(uint)", "Token$f(uint256)"),
    ],
)
def test_a_signature_has_one_form(given: str, form: str) -> None:
    assert canonical(given, "functionSignature") == form
    assert canonical(form, "functionSignature") == form


@pytest.mark.parametrize(
    "text", ["f", "f(", "f(()", "f)(", "f(uint256 amount)x", "f(,)", "f(1)", "f((uint)", ""]
)
def test_what_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="functionSignature") as refused:
        canonical(text, "functionSignature")
    assert (refused.value.details or {})["kind"] == "PARSE_ERROR"


def test_value_goes_to_payable_calls_only() -> None:
    args = {"sequence": ["deposit()", "set(1)"], "sender": SENDER.upper().replace("X", "x"), "value": "5"}
    made = transactions(args, BANK, Config(), native.engine())
    assert [(tx["value"], tx["from"], tx["gas"]) for tx in made] == [
        ("5", SENDER, 12_500_000),
        ("0", SENDER, 12_500_000),
    ]


@pytest.mark.parametrize(
    ("sequence", "value", "kind"),
    [(["set(1)"], "5", "NOT_PAYABLE"), (["deposit()"], str(2**256), "PARSE_ERROR")],
)
def test_a_value_that_cannot_be_sent_is_refused(sequence: list[str], value: str, kind: str) -> None:
    with pytest.raises(ToolError, match=r"^value: ") as refused:
        transactions(
            {"sequence": sequence, "sender": SENDER, "value": value}, BANK, Config(), native.engine()
        )
    assert (refused.value.details or {})["kind"] == kind
