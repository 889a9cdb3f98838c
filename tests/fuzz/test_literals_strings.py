"""Strings and comments of sources: told apart as the compilers do, and read as the bytes they spell."""

from __future__ import annotations

import pytest

from tracedesk.fuzz.literals import find


def strings(language: str, text: str | bytes) -> tuple[str, ...]:
    return find([(language, text)]).strings


def test_a_string_that_holds_what_begins_a_comment_is_whole() -> None:
    assert strings("solidity", 'require(eq(s, "https://a.b")); // "no"\nx = "/* y */"; /* "not" */') == (
        "https://a.b",
        "/* y */",
    )
    assert strings("vyper", "x: String[9] = \"issue #42\"  # 'no'\n") == ("issue #42",)


def test_a_quote_in_a_comment_begins_no_string() -> None:
    found = find([("solidity", "// it's 7\nuint x = 11; /* don't 8 */ string s = 'so';")])
    assert (found.ints, found.strings) == ((11,), ("so",))
    found = find([("vyper", '"""Doc: it\'s 7, "x"."""\nx: uint256 = 11  # don\'t 8\ny: String[2] = "so"\n')])
    assert set(found.ints) == {11, 2}
    assert found.strings == ("so",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"\x41b"', "Ab"),
        (r'"caf\u00e9"', "café"),
        (r'"caf\xc3\xa9"', "café"),
        (r'"a\n\t\\\"\'"', "a\n\t\\\"'"),
        ('"one\\\ntwo"', "onetwo"),
        ('unicode"€ 😀"', "€ 😀"),
        ("unicode'é'", "é"),
    ],
)
def test_an_escape_of_solidity_is_what_it_spells(text: str, expected: str) -> None:
    assert strings("solidity", f"string s = {text};") == (expected,)


def test_a_string_that_is_no_text_is_bytes() -> None:
    found = find([("solidity", r'bytes b = "\xff\x00"; bytes c = hex"CA_FE"; bytes d = hex' + "'00ff';")])
    assert found.strings == ()
    assert found.bytes == ("ff00", "cafe", "00ff")


def test_byte_strings_of_vyper_are_bytes_and_its_escapes_are_characters() -> None:
    found = find([("vyper", r'a: Bytes[2] = b"\xff!"' + "\n" + r'b: Bytes[2] = x"CAFE"' + '\nc = "\\xe9"\n')])
    assert found.bytes == ("ff21", "cafe")
    assert found.strings == ("é",)


def test_a_source_of_bytes_is_read_as_utf8() -> None:
    assert strings("solidity", 'string s = unicode"é€";'.encode()) == ("é€",)
    assert strings("vyper", "# caf\u00e9\ns: String[3] = 'ü'\n".encode()) == ("ü",)


def test_a_word_right_before_a_string_is_no_part_of_it() -> None:
    assert strings("solidity", 'return"ab"; myhex"cd"; g("ef")') == ("ab", "cd", "ef")
    assert strings("vyper", 'return"ab"\nassert index"cd"\n') == ("ab", "cd")


def test_the_size_of_an_enum_is_a_literal() -> None:
    found = find([("solidity", "enum Kind {\n  A, // one\n  B,\n  C /* , D */\n}\nenum One{Z}")])
    assert set(found.ints) == {3, 2, 1, 0}
    found = find([("vyper", "flag Role:\n    ADMIN\n    USER  # 5\n    GUEST\n\nx: uint256\n")])
    assert set(found.ints) == {8, 7}


def test_a_number_of_any_length_is_no_fault() -> None:
    assert find([("solidity", f"uint x = {'9' * 10_000}; uint y = 5;")]).ints == (5,)
