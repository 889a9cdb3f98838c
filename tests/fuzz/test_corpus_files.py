"""Corpora in Echidna's format: every call and ABI tag, both spellings of keys, there and back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.fuzz import abi_tags, corpus_files, haskell
from tracedesk.fuzz.corpus_files import BadFile

WORD = "0x" + "0" * 63
NEW = {
    "call": {"tag": "SolCall", "contents": ["set", [{"tag": "AbiUInt", "contents": [256, "5"]}]]},
    "src": "0x0000000000000000000000000000000000010000",
    "dst": "0x00a329c0648769a73AfAc7F9381E08FB43dBEA72",
    "gas": 12500000,
    "gasprice": WORD + "0",
    "value": WORD + "a",
    "delay": [WORD + "1", WORD + "2"],
}
OLD = {
    "_call": NEW["call"],
    "_src": NEW["src"],
    "_dst": NEW["dst"],
    "_gas'": "0xbebc20",
    "_gasprice'": NEW["gasprice"],
    "_value": NEW["value"],
    "_delay": NEW["delay"],
}


# --- byte strings as Haskell shows them ---------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "literal"),
    [
        (b"abc", r'"abc"'),
        (b'a"b\\', r'"a\"b\\"'),
        (b"\0\x01\x7f", r'"\NUL\SOH\DEL"'),
        (b"\n\t\r\a", r'"\n\t\r\a"'),
        (b"\xff1", r'"\255\&1"'),
        (b"\x0eH", r'"\SO\&H"'),
        (b"\x0eA", r'"\SOA"'),
        (b"\xbc", r'"\188"'),
    ],
)
def test_bytes_are_shown_as_haskell_shows_them(data: bytes, literal: str) -> None:
    assert haskell.shown(data) == literal
    assert haskell.read(literal) == data


@given(st.binary(max_size=64))
def test_any_bytes_survive_being_shown(data: bytes) -> None:
    assert haskell.read(haskell.shown(data)) == data


@pytest.mark.parametrize("literal", ["abc", '"', r'"\q"', r'"\999"'])
def test_what_is_no_byte_string_is_refused(literal: str) -> None:
    with pytest.raises(ValueError, match=r"byte|escape"):
        haskell.read(literal)


# --- values -------------------------------------------------------------------------------------

WORDS = st.integers(1, 32).map(lambda n: n * 8)
HEX = st.binary(max_size=8).map(lambda b: "0x" + b.hex())
LEAVES: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    WORDS.flatmap(lambda n: st.tuples(st.just(f"uint{n}"), st.integers(0, 2**n - 1).map(str))),
    WORDS.flatmap(
        lambda n: st.tuples(st.just(f"int{n}"), st.integers(-(2 ** (n - 1)), 2 ** (n - 1) - 1).map(str))
    ),
    st.tuples(st.just("address"), st.binary(min_size=20, max_size=20).map(lambda b: "0x" + b.hex())),
    st.tuples(st.just("bool"), st.booleans()),
    st.integers(1, 32).flatmap(
        lambda n: st.tuples(
            st.just(f"bytes{n}"), st.binary(min_size=n, max_size=n).map(lambda b: "0x" + b.hex())
        )
    ),
    st.tuples(st.just("bytes"), HEX),
    st.tuples(st.just("string"), st.text(max_size=8)),
    st.tuples(st.just("string"), st.just({"hex": "0xff00"})),
    st.tuples(st.just("function"), st.binary(min_size=24, max_size=24).map(lambda b: "0x" + b.hex())),
)


def wider(inner: st.SearchStrategy[tuple[str, Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    tuples = st.lists(inner, min_size=1, max_size=3).map(
        lambda parts: (f"({','.join(kind for kind, _ in parts)})", [value for _, value in parts])
    )
    arrays = st.tuples(inner, st.integers(0, 3), st.booleans()).map(
        lambda made: (f"{made[0][0]}[{made[1] or '' if made[2] else ''}]", [made[0][1]] * made[1])
    )
    return st.one_of(tuples, arrays)


VALUES = st.recursive(LEAVES, wider, max_leaves=6)


@given(VALUES)
def test_every_value_and_its_type_survive_the_tags(made: tuple[str, Any]) -> None:
    kind, value = made
    tagged = json.loads(json.dumps(abi_tags.write(kind, value)))
    assert abi_tags.read(tagged) == (kind, value)
    assert abi_tags.read_type(json.loads(json.dumps(abi_tags.write_type(kind)))) == kind


def test_values_are_written_as_echidna_writes_them() -> None:
    assert abi_tags.write("int8", "-1") == {"tag": "AbiInt", "contents": [8, "-1"]}
    assert abi_tags.write("bytes2", "0x0041") == {"tag": "AbiBytes", "contents": [2, r'"\NULA"']}
    assert abi_tags.write("(bool,string)[]", [[True, "x"]]) == {
        "tag": "AbiArrayDynamic",
        "contents": [
            {"tag": "AbiTupleType", "contents": [{"tag": "AbiBoolType"}, {"tag": "AbiStringType"}]},
            [
                {
                    "tag": "AbiTuple",
                    "contents": [
                        {"tag": "AbiBool", "contents": True},
                        {"tag": "AbiString", "contents": '"x"'},
                    ],
                }
            ],
        ],
    }
    assert abi_tags.write_type("uint8[2]") == {
        "tag": "AbiArrayType",
        "contents": [2, {"tag": "AbiUIntType", "contents": 8}],
    }


@pytest.mark.parametrize("value", [{}, {"tag": "AbiWhat"}, {"tag": "AbiUInt", "contents": "5"}, 5])
def test_a_value_without_a_known_tag_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="ABI"):
        abi_tags.read(value)


# --- transactions -------------------------------------------------------------------------------


def test_both_spellings_of_the_keys_are_read_alike() -> None:
    [new], [old] = corpus_files.read(json.dumps([NEW])), corpus_files.read(json.dumps([OLD]))
    assert (
        new
        == old
        == {
            "to": "0x00a329c0648769a73afac7f9381e08fb43dbea72",
            "from": "0x0000000000000000000000000000000000010000",
            "value": "10",
            "gas": 12_500_000,
            "gas_price": "0",
            "delay": [1, 2],
            "call": {"name": "set", "types": ["uint256"], "args": ["5"]},
        }
    )


def test_the_new_spelling_is_written() -> None:
    [tx] = corpus_files.read(json.dumps([OLD]))
    [written] = json.loads(corpus_files.write([tx]))
    assert written == {**NEW, "dst": str(NEW["dst"]).lower()}


@pytest.mark.parametrize(
    ("call", "read"),
    [
        ({"tag": "NoCall"}, None),
        ({"tag": "NoCall", "contents": []}, None),
        ({"tag": "SolCalldata", "contents": r'"\222\173\190\239"'}, {"data": "0xdeadbeef"}),
        ({"tag": "SolCreate", "contents": r'"`\NUL"'}, {"create": "0x6000"}),
    ],
)
def test_calls_without_a_function_are_kept(call: Any, read: Any) -> None:
    [tx] = corpus_files.read(json.dumps([{**NEW, "call": call}]))
    assert tx["call"] == read
    [written] = json.loads(corpus_files.write([tx]))
    assert written["call"] == {key: value for key, value in call.items() if value != []}


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "to": st.binary(min_size=20, max_size=20).map(lambda b: "0x" + b.hex()),
                "from": st.binary(min_size=20, max_size=20).map(lambda b: "0x" + b.hex()),
                "value": st.integers(0, 2**256 - 1).map(str),
                "gas": st.integers(0, 2**63 - 1),
                "gas_price": st.integers(0, 2**256 - 1).map(str),
                "delay": st.lists(st.integers(0, 2**64), min_size=2, max_size=2),
                "call": st.one_of(
                    st.none(),
                    HEX.map(lambda data: {"data": data}),
                    HEX.map(lambda data: {"create": data}),
                    st.lists(VALUES, max_size=3).map(
                        lambda made: {
                            "name": "f",
                            "types": [kind for kind, _ in made],
                            "args": [value for _, value in made],
                        }
                    ),
                ),
            }
        ),
        max_size=4,
    )
)
def test_any_sequence_survives_the_file(sequence: list[dict[str, Any]]) -> None:
    document = corpus_files.write(sequence)
    assert corpus_files.read(document) == sequence
    assert corpus_files.write(corpus_files.read(document)) == document


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nonsense", "not JSON"),
        ("{}", "not a list"),
        ("[{}]", "transaction 0: the key 'call' is missing"),
        (json.dumps([{**NEW, "call": {"tag": "What"}}]), "transaction 0: 'What' is no call"),
        (json.dumps([NEW, {**NEW, "value": "ten"}]), "transaction 1"),
    ],
)
def test_a_file_that_holds_no_sequence_is_refused_with_why(text: str, problem: str) -> None:
    with pytest.raises(BadFile) as refusal:
        corpus_files.read(text)
    assert problem in str(refusal.value)


# --- folders ------------------------------------------------------------------------------------


def test_a_folder_gives_reproducers_first_and_tells_what_it_could_not_read(tmp_path: Path) -> None:
    for part in corpus_files.FOLDERS[:2]:
        (tmp_path / part).mkdir()
        (tmp_path / part / "1.txt").write_text(json.dumps([NEW]))
    (tmp_path / "coverage" / "2.txt").write_text("broken")
    os.mkfifo(tmp_path / "coverage" / "3.txt")
    (tmp_path / "coverage" / "readme.md").write_text("not a sequence")
    loaded = corpus_files.load(tmp_path)
    assert loaded.files == ("reproducers/1.txt", "coverage/1.txt")
    assert [problem.partition(":")[0] for problem in loaded.problems] == ["coverage/2.txt", "coverage/3.txt"]


def test_saving_a_sequence_twice_writes_one_file(tmp_path: Path) -> None:
    sequence = corpus_files.read(json.dumps([NEW]))
    path = corpus_files.save(tmp_path, "coverage", sequence)
    assert path is not None
    assert path.parent.name == "coverage"
    assert corpus_files.save(tmp_path, "coverage", sequence) is None
    assert corpus_files.load(tmp_path).sequences == (tuple(sequence),)
    assert corpus_files.copy(tmp_path, tmp_path / "other") == 1
    assert corpus_files.copy(tmp_path, tmp_path / "other") == 0
