from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import pytest

from tests.contracts import catalog
from tests.contracts.notation import DRAFT_07
from tracedesk import contracts

SEED_COUNTS = {"backtest": 6, "codegraph": 5, "fuzz": 9, "trading": 8}

Trail = tuple[str | int, ...]


def test_the_seeds_give_28_tools_with_an_input_and_an_output_each() -> None:
    assert Counter(toolset for toolset, _ in catalog.seed_tools()) == SEED_COUNTS
    assert len(catalog.seed_hashes()) == 56


@pytest.mark.parametrize(("toolset", "tool"), catalog.seed_tools())
def test_a_contract_without_its_deviations_is_the_seed(toolset: str, tool: str) -> None:
    assert catalog.mismatches(toolset, tool, contracts.load(toolset, tool)) == []


@pytest.mark.parametrize(("toolset", "tool"), catalog.seed_tools())
def test_any_unlisted_change_of_a_contract_is_noticed(toolset: str, tool: str) -> None:
    contract = contracts.load(toolset, tool)
    for side in ("input", "output"):
        for path in nodes(getattr(contract, side)):
            if not listed(tool, side, path):
                assert catalog.mismatches(toolset, tool, changed(contract, side, path)), (side, path)


@pytest.mark.parametrize("side", ["input", "output"])
def test_an_unlisted_new_property_is_noticed(side: str) -> None:
    contract = contracts.load("backtest", "aggregate_metrics")
    getattr(contract, side)["properties"]["surprise"] = {"type": "string"}
    assert catalog.mismatches("backtest", "aggregate_metrics", contract) == [
        f"backtest/aggregate_metrics.{side}"
    ]


def test_only_what_a_deviation_lists_is_left_to_the_deviation_rules() -> None:
    assert listed("get_events_by_type", "input", ("properties", "eventType", "enum", 0))
    assert not listed("get_events_by_type", "input", ("properties", "severity", "enum", 0))


def test_no_two_tools_share_a_name() -> None:
    counts = Counter(tool for _, tool in catalog.tools())
    assert [tool for tool, count in counts.items() if count > 1] == []


@pytest.mark.parametrize(("toolset", "tool"), catalog.tools())
def test_every_schema_is_valid_draft_07(toolset: str, tool: str) -> None:
    for _, schema in catalog.sides(toolset, tool, contracts.load(toolset, tool)):
        jsonschema_rs.meta.validate({"$schema": DRAFT_07, **schema})


@pytest.mark.parametrize(("toolset", "tool"), catalog.tools())
def test_every_contract_file_is_written_in_the_one_form(toolset: str, tool: str) -> None:
    assert_one_form(catalog.FOLDER / toolset / f"{tool}.json")


def test_the_list_of_deviations_is_written_in_the_one_form() -> None:
    assert_one_form(catalog.FOLDER / "deviations.json")


def test_no_contract_file_hides_a_character() -> None:
    files = [file for file in catalog.FOLDER.rglob("*") if file.suffix in (".json", ".py", ".sha256")]
    assert files
    assert {file.name: found for file in files if (found := hidden(file.read_text("utf-8")))} == {}


@pytest.mark.parametrize(
    "character", ["\u200b", "\u200d", "\u202e", "\u2066", "\ufeff", "\u00ad", "\u00a0", "\x1b"]
)
def test_a_zero_width_bidi_or_control_character_counts_as_hidden(character: str) -> None:
    assert hidden(f"a{character}b") == [f"U+{ord(character):04X}"]


def test_names_are_the_files_of_the_toolset_in_alphabetical_order() -> None:
    names = contracts.names("codegraph")
    assert set(names) >= {"etg_log_event", "graph_index_project"}
    assert list(names) == sorted(names)


def test_an_unknown_toolset_or_tool_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        contracts.names("nowhere")
    with pytest.raises(FileNotFoundError):
        contracts.load("fuzz", "nothing")


def test_a_loaded_contract_belongs_to_its_caller() -> None:
    contracts.load("fuzz", "read_logs").input.clear()
    assert contracts.load("fuzz", "read_logs").input["title"] == "ReadLogsInput"


def test_undoing_deviations_leaves_the_given_contract_alone() -> None:
    contract = contracts.load("fuzz", "read_logs")
    before = deepcopy(contract)
    assert contracts.undo("read_logs", contract) != before
    assert contract == before


def test_a_digest_ignores_the_order_of_keys_but_not_of_lists() -> None:
    assert contracts.digest({"a": 1, "b": [1, 2]}) == contracts.digest({"b": [1, 2], "a": 1})
    assert contracts.digest({"b": [1, 2]}) != contracts.digest({"b": [2, 1]})


def test_a_digest_is_the_sha256_of_the_canonical_json() -> None:
    # printf '{"a":"é"}' | sha256sum
    assert contracts.digest({"a": "é"}) == "b3a092a6af48807fa9482b2ee140105575daa26d5b24b3c0e60a7e2dee6683b1"


def nodes(value: Any, path: Trail = ()) -> Iterator[Trail]:
    """Yield the path of every value below the root."""
    pairs: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        pairs = list(cast("dict[str | int, Any]", value).items())
    elif isinstance(value, list):
        pairs = list(enumerate(cast("list[Any]", value)))
    for key, child in pairs:
        yield (*path, key)
        yield from nodes(child, (*path, key))


def listed(tool: str, side: str, path: Trail) -> bool:
    """Tell whether a deviation covers the value at the path."""
    pointer = "".join(f"/{step}" for step in path) + "/"
    return any(
        pointer.startswith(f"{deviation.path}/")
        for deviation in contracts.deviations()
        if (deviation.tool, deviation.side) == (tool, side)
    )


def changed(contract: contracts.Contract, side: str, path: Trail) -> contracts.Contract:
    """Return a copy whose value at the path is another one of the same kind, with what lies below it kept."""
    copy = deepcopy(contract)
    holder = getattr(copy, side)
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = another(holder[path[-1]])
    return copy


def another(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + " "
        case list():
            return [*cast("list[Any]", value), "another"]
        case _:
            return {**value, "another": True}


def assert_one_form(file: Path) -> None:
    text = file.read_text("utf-8")
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


def hidden(text: str) -> list[str]:
    """Return the characters that a reader would not see, the plain space and line end excepted."""
    invisible = ("Cc", "Cf", "Co", "Cn", "Zs", "Zl", "Zp")
    return [f"U+{ord(c):04X}" for c in text if c not in " \n" and unicodedata.category(c) in invisible]
