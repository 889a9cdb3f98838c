"""Literals of sources: what a contract compares with is tried first."""

from __future__ import annotations

from tracedesk.fuzz.literals import MOST, find


def test_numbers_are_found_with_units_powers_and_separators() -> None:
    found = find([("solidity", "x = 1_000; y = 2.5 ether; z = 3 days; w = 1e18; p = 10 ** 6; h = 0xff;")])
    wanted = {1_000, 25 * 10**17, 3 * 86_400, 10**18, 10**6, 10**6 - 1, 0xFF}
    assert wanted <= set(found.ints)


def test_addresses_bytes_and_strings_are_told_apart() -> None:
    source = """
        address a = 0xDeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF; bytes4 b = 0xdeadbeef;
        string s = "it's \\"so\\""; bytes h = hex"CAFE_00"; string u = unicode"é";
    """
    found = find([("solidity", source)])
    assert found.addresses == ("0xdeadbeefdeadbeefdeadbeefdeadbeefdeadbeef",)
    assert set(found.bytes) == {"deadbeef", "cafe00"}
    assert set(found.strings) == {'it\'s "so"', "é"}


def test_comments_hold_no_literals() -> None:
    assert find([("solidity", "// 111\n/* 222 */ 333")]).ints == (333,)
    assert find([("vyper", "x: uint256 = 5  # 444\n")]).ints == (5,)


def test_numbers_inside_names_are_none_and_nothing_grows_without_bound() -> None:
    assert find([("solidity", "uint256 a1; keccak256(b2)")]).ints == ()
    many = " ".join(str(number) for number in range(MOST + 100))
    assert len(find([("vyper", many)]).ints) == MOST


def test_they_are_told_to_the_core_as_text() -> None:
    told = find([("vyper", 'x: uint256 = 5\ny: String[4] = "abc"')]).document()
    assert told == {"ints": ["5", "4"], "addresses": [], "bytes": [], "strings": ["abc"]}
