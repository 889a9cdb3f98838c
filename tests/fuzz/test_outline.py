"""Outlines: routines and decisions read from text alone, whatever comments and strings say."""

from __future__ import annotations

import pytest

from tracedesk.fuzz import braces, indents
from tracedesk.fuzz.outline import Outline, Range

SOLIDITY = """
/* function hidden() { if (a) {} } */
contract A {
    function (uint) external callback;
    constructor() B(1) { if (x) a(); else if (y) { b(); } else c(); }
    modifier only(uint n) virtual { require(n > 0, "if (no) {"); _; }
    function over() external returns (uint) { do x--; while (x > 0); while (y) { y--; } }
    function body(uint a) public;
    receive() external payable { for (uint i; i < 3 && ok; ) unchecked { i++; } }
    function() { assert(true); }
}
function free(uint a) pure { for (;;) { if (a > 1) if (a > 2) return; else break; } }
library L {
    function asm() internal {
        assembly { if lt(1, 2) { stop() } for { let i := 0 } lt(i, 2) { i := 1 } { pop(i) } }
    }
}
"""


def cut(text: str, part: Range | None) -> str | None:
    return None if part is None else text[part.start : part.end].strip()


def told(text: str, outline: Outline) -> list[tuple[str, str | None, str | None, str | None]]:
    rows = outline.decisions
    return [(d.kind, cut(text, d.condition), cut(text, d.chosen), cut(text, d.otherwise)) for d in rows]


def test_routines_of_solidity_are_found_with_their_contract() -> None:
    outline = braces.outline(SOLIDITY)
    names = [(routine.qualified, routine.is_modifier) for routine in outline.routines]
    assert names == [
        ("A.constructor", False),
        ("A.only", True),
        ("A.over", False),
        ("A.receive", False),
        ("A.fallback", False),
        ("free", False),
        ("L.asm", False),
    ]


def test_decisions_of_solidity_are_found_with_both_ways() -> None:
    assert told(SOLIDITY, braces.outline(SOLIDITY)) == [
        ("if", None, "a();", "if (y) { b(); } else c();"),
        ("if", None, "{ b(); }", "c();"),
        ("require", None, None, None),
        ("do", "x > 0", "x--;", None),
        ("while", "y", "{ y--; }", None),
        ("for", "i < 3 && ok", "unchecked { i++; }", None),
        ("assert", None, None, None),
        ("for", None, "{ if (a > 1) if (a > 2) return; else break; }", None),
        ("if", None, "if (a > 2) return; else break;", None),
        ("if", None, "return;", "break;"),
        ("if", None, "{ stop() }", None),
        ("for", None, "{ pop(i) }", None),
    ]


@pytest.mark.parametrize(
    ("text", "chosen", "otherwise"),
    [
        ("a > 4 ? b : c", "b", "c"),
        ("a ? b ? 1 : 2 : c ? 3 : 4", "b ? 1 : 2", "c ? 3 : 4"),
        ("(a == b) ? f(x = 1) : c", "f(x = 1)", "c"),
        ("a == b ? 1 : 2", "1", "2"),
        ("a != b ? 1 : 2", "1", "2"),
        ("a >= b ? 1 : c <= d", "1", "c <= d"),
        ('a ? "?:" : c', '"?:"', "c"),
    ],
)
def test_a_conditional_expression_is_told_apart_from_what_holds_one(
    text: str, chosen: str, otherwise: str
) -> None:
    found = braces.ternary(f"  {text};", 2, 2 + len(text))
    assert found is not None
    assert cut(f"  {text};", found.chosen) == chosen
    assert cut(f"  {text};", found.otherwise) == otherwise


@pytest.mark.parametrize(
    "text", ["x = a ? b : c", "x <<= a ? 1 : 2", "return a ? b : c", "f(a ? b : c)", "a == b", "{a: 1}"]
)
def test_what_only_contains_a_conditional_expression_is_none(text: str) -> None:
    assert braces.ternary(text, 0, len(text)) is None


VYPER = '''
# if hidden:
event E:
    a: uint256

interface I:
    def f(a: uint256) -> uint256: view

@external
def go(a: uint256,
       b: DynArray[uint256, 3]) -> uint256:
    """if this: were code"""
    if (a > 1 and
        a < 5):
        x: uint256 = 1
    elif a == 7: return f({b: 3})
    else:
        for i: uint256 in range(3):
            assert i < 9, "for x in y:"
    return 1

@internal
def _b():
    pass
'''


def test_an_outline_of_vyper_follows_the_indentation() -> None:
    outline = indents.outline(VYPER)
    assert [routine.name for routine in outline.routines] == ["go", "_b"]
    assert [cut(VYPER, r.body) for r in outline.routines][1] == "pass"
    kinds = told(VYPER, outline)
    assert [row[0] for row in kinds] == ["if", "if", "for", "assert"]
    assert kinds[0][2] == "x: uint256 = 1"
    assert kinds[0][3] is not None
    assert kinds[0][3].startswith("elif a == 7")
    assert kinds[1][2] == "return f({b: 3})"
    assert kinds[1][3] is not None
    assert kinds[1][3].startswith("else:")
    assert kinds[2][2] is not None
    assert kinds[2][2].startswith("assert i < 9")


def test_a_conditional_expression_of_vyper_has_its_value_in_front() -> None:
    text = "f(a if b else c) if d > 1 else e"
    found = indents.ternary(text, 0, len(text))
    assert found is not None
    assert (cut(text, found.chosen), cut(text, found.otherwise)) == ("f(a if b else c)", "e")
    assert indents.ternary("f(a if b else c)", 0, 16) is None


@pytest.mark.parametrize(
    "text", ["contract {", "function f(", "if (", "}}}}", "contract A { function f() { if (", "\"'", "do"]
)
def test_text_that_is_no_program_is_read_to_its_end(text: str) -> None:
    braces.outline(text)
    indents.outline(text)
