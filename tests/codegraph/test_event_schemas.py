"""The published payload schemas say what logging an event takes, no more and no less."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts import catalog
from tracedesk.codegraph.etg.checks import check
from tracedesk.codegraph.etg.model import KINDS, NewEvent
from tracedesk.codegraph.event_schemas import PAYLOADS
from tracedesk.errors import ToolError

NAMES = sorted({name for schema in PAYLOADS.values() for name in schema["properties"]})

texts = st.sampled_from(["", " ", "\t", "x", "a b"])
numbers = st.sampled_from([-1, 0, 1, 2**53 - 1, 2**53, 0.5, -0.5, True])
snippets = st.dictionaries(
    st.sampled_from(["file", "summary", "symbols"]), texts | st.lists(texts, max_size=2) | numbers, max_size=3
)
values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    texts,
    numbers,
    st.lists(texts | numbers, max_size=2),
    st.lists(snippets, max_size=2),
    st.just({}),
)


def accepts(kind: str, payload: dict[str, Any]) -> bool:
    try:
        check(NewEvent("attempt", kind, payload), lambda: None)
    except ToolError:
        return False
    return True


@given(kind=st.sampled_from(KINDS), payload=st.dictionaries(st.sampled_from(NAMES), values, max_size=6))
def test_a_schema_takes_a_payload_exactly_when_logging_does(kind: str, payload: dict[str, Any]) -> None:
    assert jsonschema_rs.validator_for(PAYLOADS[kind]).is_valid(payload) == accepts(kind, payload)


@given(kind=st.sampled_from(KINDS), data=st.data())
def test_what_has_every_required_member_of_its_type_is_taken_by_both(kind: str, data: st.DataObject) -> None:
    schema = PAYLOADS[kind]
    fitting: dict[str, Any] = {"string": "x", "object": {}, "array": [], "number": 1, "integer": 1}
    names = data.draw(st.sets(st.sampled_from(sorted(schema["properties"]))))
    payload = {n: fitting[schema["properties"][n]["type"]] for n in (*schema["required"], *names)}
    assert jsonschema_rs.validator_for(schema).is_valid(payload)
    assert accepts(kind, payload)


def test_every_canonical_payload_of_the_seed_is_taken_by_its_schema() -> None:
    found = [example.value for example in catalog.examples() if example.tool == "etg_log_event"]
    assert {event["kind"] for event in found} == set(KINDS) == set(PAYLOADS)
    for event in found:
        jsonschema_rs.validator_for(PAYLOADS[event["kind"]]).validate(event["payload"])
