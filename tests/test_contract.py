"""Declarations are checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures.echo import echo
from tracedesk.contract import Annotations, Arguments, Call, DeclarationError, Tool, Toolset
from tracedesk.hooks import Requester
from tracedesk.registry import Registry

GOOD = echo.tools["echo"]


def _fresh(name: str = "fresh") -> Toolset[None]:
    return Toolset(name, summary="A test.", guide="call it.")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"description": " "}, "no description"),
        ({"description": "hi\u200bdden"}, "hides characters"),
        ({"description": "right\u202eleft"}, "hides characters"),
        ({"description": "tag\U000e0041"}, "hides characters"),
        ({"input": {"type": "object", "description": "a\u2066b"}}, "hides characters"),
        ({"name": "Camel"}, "snake_case"),
        ({"name": "x" * 65}, "snake_case"),
        ({"input": {"type": "string"}}, "object"),
        ({"deadline": 0}, "deadline"),
        ({"scope": "write"}, "read-only but asks"),
        ({"annotations": Annotations(read_only=False)}, "changes state"),
        ({"page_size": "pageSize"}, "does not have"),
        ({"codes": {"path": "X"}}, "does not have"),
        ({"writes": ("out",)}, "does not have"),
    ],
)
def test_a_tool_with_faulty_metadata_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        _fresh().add(replace(GOOD, **change))


def test_a_name_declared_twice_is_refused_within_and_across_toolsets() -> None:
    one, two = _fresh("one"), _fresh("two")
    one.add(GOOD)
    with pytest.raises(DeclarationError, match="declared twice"):
        one.add(GOOD)
    two.add(GOOD)
    with pytest.raises(DeclarationError, match="declared by"):
        Registry([one, two])


def test_a_toolset_needs_a_summary_and_a_guide() -> None:
    with pytest.raises(DeclarationError, match="no guide"):
        Toolset("x", summary="Something.", guide="")


def test_a_tool_without_a_contract_file_is_refused() -> None:
    async def no_such_contract(args: Arguments, call: Call[None]) -> None:
        """Has a docstring but no contract."""

    with pytest.raises(FileNotFoundError):
        _fresh("desk").tool(annotations=GOOD.annotations, scope="read", deadline=1.0)(no_such_contract)


def test_a_decorated_function_takes_its_contract_by_name_and_its_docstring_as_description() -> None:
    toolset = _fresh("desk")

    @toolset.tool(annotations=GOOD.annotations, scope="read", deadline=1.0)
    async def get_source(args: Arguments, call: Call[None]) -> None:
        """Finds it."""

    tool = toolset.tools["get_source"]
    assert tool.description == "Finds it."
    assert tool.input["required"] == ["ref"]


def test_a_prompt_or_resource_without_a_docstring_is_refused() -> None:
    async def silent(args: Arguments, call: Call[None]) -> str:
        return ""

    with pytest.raises(DeclarationError, match="no description"):
        _fresh().prompt()(silent)
    with pytest.raises(DeclarationError, match="no description"):
        _fresh().resource("x://y", mime_type="text/plain")(silent)


def test_a_toolset_has_one_resolver() -> None:
    toolset = _fresh()

    async def resolver(ref: str, state: Any, requester: Requester) -> None:
        return None

    toolset.resolves(resolver)
    with pytest.raises(DeclarationError, match="two resolvers"):
        toolset.resolves(resolver)


def test_a_read_only_registry_keeps_read_only_tools_alone() -> None:
    toolset = _fresh()
    toolset.add(GOOD)
    changing = Annotations(read_only=False)
    toolset.add(replace(GOOD, name="change", annotations=changing, scope="write"))
    assert set(Registry([toolset], read_only=True).tools) == {"echo"}
    assert isinstance(Registry([toolset]).tools["change"], Tool)


def test_a_withheld_tool_is_not_there() -> None:
    toolset = _fresh()
    toolset.add(GOOD)
    assert GOOD.name in Registry([toolset]).tools
    assert GOOD.name not in Registry([toolset], withheld={GOOD.name: ""}).tools


@pytest.mark.parametrize(
    ("headers", "decided"), [({"X-Key": "key"}, True), ({"x-key": "key"}, False), ({}, True)]
)
def test_headers_are_declared_in_lower_case_and_with_who_decides_about_them(
    headers: dict[str, str], decided: bool
) -> None:
    def accepts(table: Mapping[str, Any]) -> bool:
        return True

    with pytest.raises(DeclarationError, match="headers"):
        Toolset("x", summary="A.", guide="b.", headers=headers, accepts_headers=accepts if decided else None)
