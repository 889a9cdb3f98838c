"""JSON changed in place: the member in question, and not one byte more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk import jsontext
from tracedesk.jsontext import Unreadable

ENTRY = {"command": "/bin/x", "args": ["a", "b"]}

FOUR_SPACES = """\
{
    "theme": "dark"
}
"""

MIXED = """\
{
\t"numbers": [1.0, 1e5, 12345678901234567890],
\t"inline": {"a": 1,   "b": 2},
\t"escaped": "\\u00e9 // not a comment, /* nor this */",
\t"mcpServers": {
\t\t"other": {"command": "x", "args": ["1",
\t\t\t"2"]}
\t},
\t"last": null
}
"""


def _put(text: str) -> str:
    return jsontext.put(text, "mcpServers", "tracedesk", ENTRY)


@pytest.mark.parametrize("blank", ["", " \n\t\n"])
def test_a_blank_text_becomes_a_whole_document(blank: str) -> None:
    assert json.loads(_put(blank)) == {"mcpServers": {"tracedesk": ENTRY}}


def test_a_new_member_takes_the_indentation_it_finds() -> None:
    assert _put(FOUR_SPACES) == (
        "{\n"
        '    "theme": "dark",\n'
        '    "mcpServers": {\n'
        '        "tracedesk": {\n'
        '            "command": "/bin/x",\n'
        '            "args": [\n'
        '                "a",\n'
        '                "b"\n'
        "            ]\n"
        "        }\n"
        "    }\n"
        "}\n"
    )


def test_everything_else_stays_byte_for_byte() -> None:
    after = _put(MIXED)
    begin = after.index(',\n\t\t"tracedesk"')
    end = begin + len(after) - len(MIXED)
    assert after[:begin] + after[end:] == MIXED
    assert json.loads(after)["mcpServers"]["tracedesk"] == ENTRY


def test_windows_line_ends_are_kept() -> None:
    after = _put(MIXED.replace("\n", "\r\n"))
    assert after.replace("\r\n", "\n") == _put(MIXED)
    assert "\n" not in after.replace("\r\n", "")


def test_one_line_stays_one_line() -> None:
    assert _put('{"a": 1}') == f'{{"a": 1, "mcpServers": {{"tracedesk": {json.dumps(ENTRY)}}}}}'


def test_an_empty_holder_is_filled_in_place() -> None:
    after = jsontext.put('{\n  "mcpServers": {}\n}\n', "mcpServers", "tracedesk", {"a": 1})
    assert after == '{\n  "mcpServers": {\n    "tracedesk": {\n      "a": 1\n    }\n  }\n}\n'


def test_an_entry_that_differs_is_replaced_where_it_stands() -> None:
    before = _put(MIXED)
    after = jsontext.put(before, "mcpServers", "tracedesk", {"command": "new"})
    assert list(json.loads(after)["mcpServers"]) == ["other", "tracedesk"]
    assert json.loads(after)["mcpServers"]["tracedesk"] == {"command": "new"}


def test_putting_what_is_there_changes_nothing_however_it_is_written() -> None:
    before = '{"mcpServers":{"tracedesk":{"args":["a","b"],"command":"/bin/x"}}}'
    assert _put(before) == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"s": {"x": 1}}', '{"s": {}}'),
        ('{"s": {"x": 1, "y": 2}}', '{"s": {"y": 2}}'),
        ('{"s": {"y": 2,\n "x": 1}}', '{"s": {"y": 2}}'),
        ('{"s": {"y": 2, "x": {"x": 1}, "z": 3}}', '{"s": {"y": 2, "z": 3}}'),
        ('{"s": {"y": 2}}', '{"s": {"y": 2}}'),
        ('{"x": 1}', '{"x": 1}'),
        ('{"s": [1]}', '{"s": [1]}'),
        ("", ""),
    ],
)
def test_dropping_takes_the_member_and_its_comma(before: str, after: str) -> None:
    assert jsontext.drop(before, "s", "x") == after


@pytest.mark.parametrize(
    ("text", "problem", "lenient"),
    [
        ('{"a": 1, // why\n"b": 2}', "comments or trailing commas", True),
        ('{"a": [1,], "b": 2}', "comments or trailing commas", True),
        ("/* head */ {}", "comments or trailing commas", True),
        ('{"a": "http://x", "b"}', "not JSON", False),
        ("[1]", "not an object", False),
        ("{", "not JSON", False),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_reason(text: str, problem: str, lenient: bool) -> None:
    with pytest.raises(Unreadable, match=problem) as caught:
        _put(text)
    assert caught.value.lenient is lenient


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"mcpServers": [], "a": 1}', "not an object"),
        ('{"mcpServers": null}', "not an object"),
        ('{"mcpServers": {"a": 1}, "mcpServers": {"b": 2}}', "twice"),
    ],
)
def test_a_holder_that_cannot_hold_is_refused(text: str, problem: str) -> None:
    with pytest.raises(Unreadable, match=problem):
        _put(text)


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


@given(
    others=OBJECTS,
    servers=st.none() | OBJECTS,
    indent=st.sampled_from([None, 1, 2, 4, "\t"]),
    ascii=st.booleans(),
)
def test_put_and_drop_change_one_member_of_any_document(
    others: dict[str, Any], servers: dict[str, Any] | None, indent: int | str | None, ascii: bool
) -> None:
    document = {**others, **({} if servers is None else {"mcpServers": servers})}
    before = json.dumps(document, indent=indent, ensure_ascii=ascii)
    after = _put(before)
    expected = {**document, "mcpServers": {**(servers or {}), "tracedesk": ENTRY}}
    assert json.loads(after) == expected
    assert list(json.loads(after)) == list(expected)
    assert _put(after) == after
    dropped = jsontext.drop(after, "mcpServers", "tracedesk")
    assert json.loads(dropped) == {**document, "mcpServers": servers or {}}
    if servers:
        assert dropped == before


@pytest.mark.parametrize("levels", [1_100, 100_000])
def test_a_text_that_nests_without_end_is_refused(levels: int) -> None:
    with pytest.raises(Unreadable, match="nests too deeply"):
        jsontext.parse('{"a":' + "[" * levels + "]" * levels + "}")
