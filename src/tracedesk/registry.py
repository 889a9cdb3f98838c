"""Everything one desk publishes: the chosen toolsets in one flat namespace."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

from tracedesk.contract import DeclarationError, Intake, Prompt, Resource, Tool, Toolset
from tracedesk.errors import UnknownTool

_PART: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f/\\?#]|^\.{0,2}$")


@dataclass(frozen=True)
class ResourceMatch:
    """A resource and the values its template found in a URI."""

    resource: Resource
    arguments: dict[str, Any]


class Registry:
    """Look-ups by name and URI; refuses two declarations of one name."""

    def __init__(
        self, toolsets: Iterable[Toolset[Any]], *, read_only: bool = False, withheld: Container[str] = ()
    ) -> None:
        self.toolsets = tuple(toolsets)
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.intakes: dict[str, Intake] = {}
        for toolset in self.toolsets:
            tools = {name: tool for name, tool in toolset.tools.items() if name not in withheld}
            _merge(self.tools, toolset.name, _visible(tools, read_only))
            _merge(self.resources, toolset.name, toolset.resources)
            _merge(self.prompts, toolset.name, toolset.prompts)
            open_to = {path: i for path, i in toolset.intakes.items() if i.scope == "read" or not read_only}
            _merge(self.intakes, toolset.name, open_to)
        narrow_first = sorted(self.resources.values(), key=lambda declared: declared.uri.count("{"))
        self._patterns = [(declared, _pattern(declared.uri)) for declared in narrow_first]

    def tool(self, name: str) -> Tool:
        try:
            return self.tools[name]
        except KeyError:
            raise UnknownTool(name) from None

    def resource(self, uri: str) -> ResourceMatch | None:
        """The resource that serves exactly this URI: no prefixes, no decoding tricks, no case folding."""
        for declared, pattern in self._patterns:
            if found := pattern.fullmatch(uri):
                values = {name: unquote(value) for name, value in found.groupdict().items()}
                if any(_UNSAFE.search(value) for value in values.values()):
                    return None
                return ResourceMatch(declared, values)
        return None

    @cached_property
    def instructions(self) -> str:
        """What to call first, toolset by toolset."""
        return "\n".join(f"{t.name}: {t.guide}" for t in self.toolsets)


def _merge(table: dict[str, Any], toolset: str, declared: Mapping[str, Any]) -> None:
    for name, value in declared.items():
        if name in table:
            raise DeclarationError(f"{name!r} is declared by {table[name].toolset} and by {toolset}")
        table[name] = value


def _visible(tools: Mapping[str, Tool], read_only: bool) -> dict[str, Tool]:
    if not read_only:
        return dict(tools)
    return {name: _without_writes(tool) for name, tool in tools.items() if tool.annotations.read_only}


def _without_writes(tool: Tool) -> Tool:
    if not tool.writes:
        return tool
    properties = {k: v for k, v in tool.input["properties"].items() if k not in tool.writes}
    return replace(tool, input={**tool.input, "properties": properties}, scope="read", writes=())


def _pattern(uri: str) -> re.Pattern[str]:
    fixed = _PART.split(uri)
    if any("{" in text or "}" in text for text in fixed[::2]):
        raise DeclarationError(f"resource {uri!r} has a part that is not a snake_case name in braces")
    parts = (f"(?P<{text}>[^/?#]+)" if i % 2 else re.escape(text) for i, text in enumerate(fixed))
    return re.compile("".join(parts))
