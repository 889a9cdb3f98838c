from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import jsonschema_rs
import pytest

from tests.contracts import catalog
from tests.contracts.seeds import Example
from tracedesk import contracts


def schema(example: Example) -> dict[str, Any]:
    return getattr(contracts.load(example.toolset, example.tool), example.side)


@pytest.mark.parametrize("example", catalog.examples(), ids=lambda e: f"{e.tool}.{e.side}")
def test_every_example_of_the_seeds_satisfies_its_contract(example: Example) -> None:
    jsonschema_rs.Draft7Validator(schema(example), validate_formats=False).validate(example.value)


def test_the_only_example_that_misses_a_format_is_the_log_timestamp_without_a_zone() -> None:
    misses = [
        (example.tool, error.instance)
        for example in catalog.examples()
        for error in strict(schema(example)).iter_errors(example.value)
    ]
    assert misses == [("read_logs", "2025-12-20T10:35:12")]


def test_an_elided_address_passes_the_pattern_and_is_left_to_the_abi_parser() -> None:
    (inject,) = [e for e in catalog.examples() if (e.tool, e.side) == ("inject_transaction", "input")]
    assert "0xabcd..." in inject.value["sequence"][1]
    assert strict(schema(inject)).is_valid(inject.value)


@pytest.mark.parametrize(("toolset", "tool"), catalog.tools())
def test_every_example_and_default_inside_a_schema_satisfies_it(toolset: str, tool: str) -> None:
    for _, root in catalog.sides(toolset, tool, contracts.load(toolset, tool)):
        for part in parts(root):
            for value in [*part.get("examples", []), *([part["default"]] if "default" in part else [])]:
                strict(part).validate(value)


def strict(schema: dict[str, Any]) -> jsonschema_rs.Draft7Validator:
    # Draft-07 has no `uuid` format of its own: a validator only checks it when told how.
    return jsonschema_rs.Draft7Validator(schema, validate_formats=True, formats={"uuid": is_uuid})


def is_uuid(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) is not None


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema and every schema below it that says what type it is."""
    if isinstance(value, dict):
        schema = cast("dict[str, Any]", value)
        if isinstance(schema.get("type"), str | list):
            yield schema
        for child in schema.values():
            yield from parts(child)
