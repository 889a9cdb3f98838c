from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.contracts import catalog, notation, seeds
from tests.contracts.markdown import fences, sections
from tests.contracts.typescript import signature
from tracedesk import contracts

ROOT = Path(__file__).parents[2]
BESIDE = ROOT.parent / "shared" / "seeds"


@pytest.fixture(scope="module")
def folder() -> Path:
    if named := os.environ.get("DESKTEST_SEEDS"):
        assert Path(named).is_dir(), "DESKTEST_SEEDS names no folder"
        return Path(named)
    if BESIDE.is_dir():
        return BESIDE
    pytest.skip("the seeds' text is not here: set DESKTEST_SEEDS to the folder that holds it")


def test_the_committed_hashes_are_those_of_the_seeds_text(folder: Path) -> None:
    derived = seeds.schemas(folder)
    assert {name: contracts.digest(schema) for name, schema in derived.items()} == catalog.seed_hashes()


def test_restored_contracts_keep_even_the_key_order_of_the_seeds_text(folder: Path) -> None:
    derived = seeds.schemas(folder)
    for toolset, tool in catalog.seed_tools():
        for name, schema in catalog.sides(toolset, tool, contracts.restore(toolset, tool)):
            assert json.dumps(schema) == json.dumps(derived[name]), name


def test_the_committed_examples_are_those_of_the_seeds_text(folder: Path) -> None:
    assert seeds.examples(folder) == catalog.examples()


@pytest.mark.parametrize(
    ("note", "schema"),
    [
        ("integer", {"type": "integer"}),
        ("decimal", {"type": "number"}),
        ("decimal | null", {"type": ["number", "null"]}),
        ("array | null", {"type": ["array", "null"]}),
        ("string (GUID)", {"type": "string", "format": "uuid"}),
        ("string (GUID) | null", {"type": ["string", "null"], "format": "uuid"}),
        ("ISO 8601 string", {"type": "string", "format": "date-time"}),
        ("Buy | Sell", {"type": "string", "enum": ["Buy", "Sell"]}),
        ("object", {"type": "object"}),
        ("object (free form)", {"type": "object", "description": "free form"}),
        (["array of Side"], {"type": "array", "items": {"type": "string", "enum": ["Buy", "Sell"]}}),
        (
            ["array of Side | null"],
            {"type": ["array", "null"], "items": {"type": "string", "enum": ["Buy", "Sell"]}},
        ),
    ],
)
def test_a_note_compiles_to_its_schema(note: Any, schema: dict[str, Any]) -> None:
    assert notation.shape(note, {"Side": {"type": "string", "enum": ["Buy", "Sell"]}}) == schema


def test_every_field_of_a_noted_object_is_required_and_the_object_stays_open() -> None:
    assert notation.shape({"n": "integer", "rows": [{"ok": "boolean"}]}) == {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "rows": {
                "type": "array",
                "items": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
            },
        },
        "required": ["n", "rows"],
    }


def test_a_parameter_table_compiles_to_a_closed_object() -> None:
    table = {
        "runId": {"type": "string", "required": True, "format": "GUID"},
        "rootEventId": {"type": "string", "required": False, "format": "GUID"},
        "at": {"type": "string", "required": True, "format": "ISO 8601"},
        "size": {"type": "integer", "required": False, "default": 1, "minimum": 1},
    }
    assert notation.parameters(table) == {
        "$schema": notation.DRAFT_07,
        "type": "object",
        "properties": {
            "runId": {"type": "string", "format": "uuid"},
            "rootEventId": {"type": "string"},
            "at": {"type": "string"},
            "size": {"type": "integer", "default": 1, "minimum": 1},
        },
        "required": ["runId", "at"],
        "additionalProperties": False,
    }


def test_a_signature_compiles_to_a_closed_input_and_an_open_output() -> None:
    name, given, answered = signature(
        """
        function place(
          id: string,
          legs: Array<{ side: 'a' | 'b'; size?: number; // all of it if absent
          }>,
          extra?: Record<string, any>
        ): Promise<{ done: boolean; notes?: string[] }>
        """
    )
    leg = {
        "type": "object",
        "properties": {
            "side": {"type": "string", "enum": ["a", "b"]},
            "size": {"type": "number", "description": "all of it if absent"},
        },
        "required": ["side"],
        "additionalProperties": False,
    }
    assert name == "place"
    assert given == {
        "$schema": notation.DRAFT_07,
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "legs": {"type": "array", "items": leg},
            "extra": {"type": "object"},
        },
        "required": ["id", "legs"],
        "additionalProperties": False,
    }
    assert answered == {
        "$schema": notation.DRAFT_07,
        "type": "object",
        "properties": {"done": {"type": "boolean"}, "notes": {"type": "array", "items": {"type": "string"}}},
        "required": ["done"],
    }


@pytest.mark.parametrize("source", ["function f(a: Map): Promise<{}>", "function f(a string): Promise<{}>"])
def test_a_signature_that_is_not_understood_is_refused(source: str) -> None:
    with pytest.raises(AssertionError):
        signature(source)


def test_a_page_splits_at_one_level_and_keeps_the_deeper_headings_inside() -> None:
    page = "# Page\n## One\na\n### Deep\nb\n## Two\nc\n"
    assert sections(page, 2) == {"One": "\na\n### Deep\nb\n", "Two": "\nc\n"}


def test_indented_blocks_are_found_by_their_language() -> None:
    assert fences('- x\n  ```json\n  {"a":\n    1}\n  ```\n```sql\nselect 1\n```\n', "json") == [
        '{"a":\n  1}\n'
    ]
