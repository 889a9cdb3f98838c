from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import jsonschema_rs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.contracts import catalog
from tracedesk import contracts
from tracedesk.contracts import Deviation, Kind

TOOLSETS = {tool: toolset for toolset, tool in catalog.seed_tools()}


def of_kind(kind: Kind) -> list[Any]:
    found = [deviation for deviation in contracts.deviations() if deviation.kind == kind]
    return [
        pytest.param(deviation, id=f"{deviation.tool}.{deviation.side}{deviation.path}")
        for deviation in found
    ]


def now(deviation: Deviation, path: str | None = None) -> Any:
    """Return what the contract holds at the deviation's place, or at another one of the same schema."""
    contract = contracts.load(TOOLSETS[deviation.tool], deviation.tool)
    return catalog.at(getattr(contract, deviation.side), path or deviation.path)


def before(deviation: Deviation) -> Any:
    contract = contracts.restore(TOOLSETS[deviation.tool], deviation.tool)
    return catalog.at(getattr(contract, deviation.side), deviation.path)


def test_every_deviation_is_of_an_allowed_kind_on_a_seed_tool() -> None:
    for deviation in contracts.deviations():
        assert deviation.kind in get_args(Kind)
        assert f"{TOOLSETS[deviation.tool]}/{deviation.tool}.{deviation.side}" in catalog.seed_hashes()


def test_every_deviation_gives_its_reason_in_one_sentence() -> None:
    for deviation in contracts.deviations():
        assert deviation.reason.endswith(".")
        assert ". " not in deviation.reason


def test_no_place_is_listed_twice() -> None:
    places = Counter((deviation.tool, deviation.side, deviation.path) for deviation in contracts.deviations())
    assert [place for place, count in places.items() if count > 1] == []


@pytest.mark.parametrize("deviation", of_kind("optional-property"))
def test_an_added_property_is_new_and_never_required(deviation: Deviation) -> None:
    holder, _, name = deviation.path.rpartition("/")
    owner, _, keyword = holder.rpartition("/")
    schema = now(deviation, owner) if owner else getattr(loaded(deviation), deviation.side)
    assert keyword == "properties"
    assert name in schema["properties"]
    assert name not in schema.get("required", [])
    with pytest.raises(KeyError):
        before(deviation)


@pytest.mark.parametrize("deviation", of_kind("enum-value"))
def test_an_extended_enum_keeps_the_seeds_values_in_order(deviation: Deviation) -> None:
    values = now(deviation)
    assert deviation.path.endswith("/enum")
    assert [value for value in values if value in deviation.seed] == deviation.seed
    assert len(deviation.seed) < len(values) == len(set(values))


@pytest.mark.parametrize("deviation", of_kind("nullable"))
def test_a_nullable_output_gains_null_and_nothing_else(deviation: Deviation) -> None:
    assert (deviation.side, deviation.path.rpartition("/")[2]) == ("output", "type")
    assert isinstance(deviation.seed, str)
    assert now(deviation) == [deviation.seed, "null"]


@pytest.mark.parametrize("deviation", of_kind("optional-output"))
def test_an_optional_output_is_only_no_longer_required(deviation: Deviation) -> None:
    kept = now(deviation)
    assert (deviation.side, deviation.path.rpartition("/")[2]) == ("output", "required")
    assert kept == [name for name in deviation.seed if name in kept]
    assert len(kept) < len(deviation.seed)


@pytest.mark.parametrize("deviation", of_kind("pattern-superset"))
def test_a_replaced_pattern_is_on_an_input_and_differs(deviation: Deviation) -> None:
    assert (deviation.side, deviation.path.rpartition("/")[2]) == ("input", "pattern")
    assert now(deviation) != deviation.seed


@pytest.mark.parametrize("deviation", of_kind("pattern-superset"))
@settings(deadline=None)
@given(data=st.data())
def test_what_the_seeds_pattern_accepts_the_new_one_accepts(
    deviation: Deviation, data: st.DataObject
) -> None:
    pattern: str = deviation.seed
    text = data.draw(st.from_regex(pattern))
    # Python lets `$` match before a last line end; the wire's validator does not.
    assume(accepts(pattern, text))
    assert accepts(now(deviation), text)


@pytest.mark.parametrize("deviation", of_kind("pattern-superset"))
@pytest.mark.parametrize(
    "text", ["swap((address,uint256),bytes)", 'note("a) b")', "$mint(uint256)", "f(((uint8,(bool))[]))"]
)
def test_nested_and_quoted_parentheses_and_dollar_names_are_accepted_beyond_the_seed(
    deviation: Deviation, text: str
) -> None:
    assert accepts(now(deviation), text)
    assert not accepts(deviation.seed, text)


@pytest.mark.parametrize("deviation", of_kind("pattern-superset"))
@pytest.mark.parametrize("text", ["", "transfer", "1st()", "f(", "f)", "f() ", "f()\n", " f()", "a.b()"])
def test_what_is_no_call_at_all_is_still_refused(deviation: Deviation, text: str) -> None:
    assert not accepts(now(deviation), text)


@pytest.mark.parametrize("deviation", contracts.deviations(), ids=lambda d: f"{d.tool}.{d.side}{d.path}")
def test_a_schema_is_not_the_seed_while_one_deviation_is_left(
    deviation: Deviation, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tuple(other for other in contracts.deviations() if other != deviation)
    monkeypatch.setattr(contracts, "deviations", lambda: others)
    name = f"{TOOLSETS[deviation.tool]}/{deviation.tool}.{deviation.side}"
    assert catalog.mismatches(TOOLSETS[deviation.tool], deviation.tool, loaded(deviation)) == [name]


def loaded(deviation: Deviation) -> contracts.Contract:
    return contracts.load(TOOLSETS[deviation.tool], deviation.tool)


def accepts(pattern: str, text: str) -> bool:
    return jsonschema_rs.Draft7Validator({"type": "string", "pattern": pattern}).is_valid(text)
