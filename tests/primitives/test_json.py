"""JSON: the quick parser reads what the exact one reads, and members can be ordered by their names."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tracedesk.primitives import json

_PADDING = b" " * 10_000
"""Makes any document too long for the quick parser, and changes nothing else."""

_NAMES = st.sampled_from(["a", "b", "a\\u0062", 'q\\"', "\\u0022", "\\\\", "é", "\\ud83d\\ude00"])
_BLANKS = st.sampled_from(["", " ", "\n\t"])
_SCALARS = st.sampled_from(
    ["null", "true", "-0", "0", "7", "18446744073709551615", "18446744073709551616", "-9223372036854775809",
     "1.0", "1.10", "1e2", "-0.0", '""', '"x"', '"a\\"b"', '"\\\\"', '"\\\\\\""', '"\\u0022"', '":"',
     '"\\n{[,"', '"\\ud800"', "NaN", "1e9999", "01", '"\t"']
)  # fmt: skip


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.tuples(_NAMES, _BLANKS, _BLANKS, values).map(lambda m: f'"{m[0]}"{m[1]}:{m[2]}{m[3]}')
    return st.lists(member, max_size=4).map(lambda members: "{" + ",".join(members) + "}")


def _lists(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=4).map(lambda items: "[" + ", ".join(items) + "]")


_DOCUMENTS = st.recursive(_SCALARS, lambda values: _objects(values) | _lists(values), max_leaves=12)


def _read(document: bytes) -> tuple[str, object]:
    try:
        value = json.loads(document)
    except ValueError as refused:
        return "refused", type(refused)
    return repr(value), value


@given(_DOCUMENTS)
@example('{"a":1,"a":1}')
@example('{"a" :1,"a":"\\""}')
@example('{"a":"\\u0022\\u0022","a":1}')
@example('{"a":"\\\\","a":"\\\\"}')
@example('[{"a":{"b":1,"b":2}}]')
def test_a_short_document_is_read_as_a_long_one(document: str) -> None:
    assert _read(document.encode()) == _read(document.encode() + _PADDING)


@pytest.mark.parametrize("depth", [10, 400, 600, 900, 1_010, 4_000])
def test_a_short_document_may_nest_as_deeply_as_a_long_one(depth: int) -> None:
    document = b"[" * depth + b"]" * depth
    assert _read(document)[0] == _read(document + _PADDING)[0]


@pytest.mark.parametrize("document", ['{"a":1,"a":2}', '{"x":[{"a":"1","b":2,"a":"1"}]}', '{"a":{},"a":{}}'])
def test_a_repeated_name_is_refused_wherever_it_is(document: str) -> None:
    with pytest.raises(ValueError, match="repeats a member name"):
        json.loads(document)


def test_fractions_and_large_integers_keep_their_digits() -> None:
    value = json.loads('{"a":1.10,"b":[18446744073709551616]}')
    assert str(value["a"]) == "1.10"
    assert value["b"] == [2**64]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text() | st.just(Decimal("1.10")),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=5),
    max_leaves=12,
)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _sorted(members[name]) for name in sorted(members)}
    return [_sorted(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


@given(_VALUES)
@example({"\U0001f600": 1, "\uffff": {"z": 2, "é": 3}, "a": []})
def test_ordered_members_come_by_the_characters_of_their_names(value: Any) -> None:
    assert json.dumps(value, ordered=True) == json.dumps(_sorted(value))


_UNFRACTIONED = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.decimals(allow_nan=False, allow_infinity=False),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=6,
)


@given(st.lists(_UNFRACTIONED, max_size=5))
def test_values_that_are_encoded_in_one_go_are_encoded_as_each_by_itself(values: list[Any]) -> None:
    assert json.dumps_each(values) == [json.dumps(value) for value in values]
