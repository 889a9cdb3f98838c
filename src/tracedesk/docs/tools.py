"""The tool page: what is built, from its declarations; what is not yet, from its contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tracedesk import contracts
from tracedesk.contract import Tool
from tracedesk.docs.markdown import code, prose, rows
from tracedesk.docs.schema import flatten
from tracedesk.errors import FUZZ, STANDARD, TRADING, Family
from tracedesk.toolsets import TOOLSETS, built, load

_FAMILIES: Final[Mapping[str, Family]] = {"fuzz": FUZZ, "trading": TRADING}
_INTRO: Final = """# Tools

Every tool of every toolset: what it takes, what it answers, and the family its errors belong to. Parameters
in **bold** are required. A toolset that is *not built yet* is shown as its contract promises it; a desk of
this version does not serve it.
"""
_ENVELOPES: Final = """
## Error families

An error is sent as `isError: true` with one JSON text: `{"error": {"code", "message", "details"}}`. The fuzz
family adds `"success": false`, the trading family `source_refs`.

"""


def page() -> str:
    """The whole page."""
    declared = {toolset.name: toolset for toolset in load(built())}
    parts = [_INTRO, _contents()]
    for name in ("desk", *TOOLSETS):
        toolset = declared.get(name)
        if toolset is None:
            parts += [f"\n## {name}\n\n*Not built yet.*{_no_contract(name)}\n", *_promised(name)]
        else:
            parts += [f"\n## {name}\n\n{prose(toolset.summary)}\n", *map(_declared, toolset.tools.values())]
    return "".join((*parts, _errors()))


def _contents() -> str:
    body = [
        (f"[{name}](#{name})", "yes" if name == "desk" or name in built() else "not yet", _count(name))
        for name in ("desk", *TOOLSETS)
    ]
    return "\n" + rows(("Toolset", "Built", "Tools"), body)


def _count(toolset: str) -> str:
    return str(len(_names(toolset)) or "come with it")


def _names(toolset: str) -> tuple[str, ...]:
    if toolset == "desk" or toolset in built():
        return tuple(next(t for t in load((toolset,)) if t.name == toolset).tools)
    return _contracts(toolset)


def _contracts(toolset: str) -> tuple[str, ...]:
    try:
        return contracts.names(toolset)
    except FileNotFoundError:
        return ()


def _no_contract(toolset: str) -> str:
    return "" if _contracts(toolset) else " Its contracts come with it."


def _declared(tool: Tool) -> str:
    nature = "reads" if tool.annotations.read_only else "changes state"
    limits = f"Scope {code(tool.scope)}, {nature}, answers within {tool.deadline:g} s."
    facts = f"{limits} Errors of the {tool.family.name} family."
    return _tool(tool.name, tool.description, facts, tool.input, tool.output)


def _promised(toolset: str) -> Iterator[str]:
    family = _FAMILIES.get(toolset, STANDARD)
    for name in _contracts(toolset):
        contract = contracts.load(toolset, name)
        facts = f"*Not built yet.* Errors of the {family.name} family."
        yield _tool(name, str(contract.input.get("description", "")), facts, contract.input, contract.output)


def _tool(
    name: str, description: str, facts: str, takes: Mapping[str, Any], answers: Mapping[str, Any] | None
) -> str:
    told = f"{prose(description)}\n\n" if description else ""
    return f"\n### {name}\n\n{told}{facts}\n\n{_takes(takes)}\n{_answers(answers)}"


def _takes(schema: Mapping[str, Any]) -> str:
    found = flatten(schema)
    if not found:
        return "Takes no parameters.\n"
    body = [(_bold(f.path, f.required), f.type, f.default, prose(f.note)) for f in found]
    return rows(("Parameter", "Type", "Default", "What it is"), body)


def _bold(path: str, required: bool) -> str:
    return f"**{code(path)}**" if required else code(path)


def _answers(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return "Answers with content blocks.\n"
    found = flatten(schema)
    if not found:
        return f"Answers with {prose(str(schema.get('description') or schema.get('type', 'any JSON')))}.\n"
    body = [(code(f.path), f.type, "always" if f.required else "optional", prose(f.note)) for f in found]
    return rows(("Result", "Type", "Presence", "What it is"), body)


def _errors() -> str:
    families = (STANDARD, FUZZ, TRADING)
    cases = [
        ("a parameter breaks the contract", [f.invalid for f in families]),
        ("the deadline passed", [f.timeout for f in families]),
        ("the deadline passed after an order was sent", [f.outcome_unknown or f.timeout for f in families]),
        ("too many calls in flight", [f.overload for f in families]),
        ("the answer is too large", [f.too_large for f in families]),
        ("the tool failed inside", [f.internal for f in families]),
    ]
    body = [(case, *map(code, codes)) for case, codes in cases]
    return _ENVELOPES + rows(("Case", *(family.name for family in families)), body)
