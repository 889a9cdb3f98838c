"""Everything one desk publishes: the chosen toolsets in one flat namespace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from tracedesk.contract import DeclarationError, Intake, Prompt, Resource, Tool, Toolset
from tracedesk.errors import UnknownTool
from tracedesk.hooks import Hooks

T = TypeVar("T")

_PART: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f/\\?#]|^\.{0,2}$")


@dataclass(frozen=True)
class ResourceMatch:
    """A resource and the values its template found in a URI."""

    resource: Resource
    arguments: dict[str, str]


class Registry:
    """Look-ups by name and URI; refuses two declarations of one name."""

    def __init__(
        self,
        toolsets: Iterable[Toolset[Any]],
        *,
        read_only: bool = False,
        withheld: Mapping[str, str] | None = None,
        facts: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.toolsets = tuple(toolsets)
        self.withheld = withheld or {}
        """Tools and prompts that are not served, and how they would be; empty where nobody said."""
        self.facts = facts or {}
        """What everybody is told of a toolset's settings, by its name."""
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.intakes: dict[str, Intake] = {}
        for toolset in self.toolsets:
            _merge(self.tools, toolset.name, _visible(self._served(toolset.tools), read_only))
            _merge(self.resources, toolset.name, toolset.resources)
            _merge(self.prompts, toolset.name, self._served(toolset.prompts))
            open_to = {path: i for path, i in toolset.intakes.items() if i.scope == "read" or not read_only}
            _merge(self.intakes, toolset.name, open_to)
        self._hooks = {toolset.name: toolset.hooks for toolset in self.toolsets}
        narrow_first = sorted(self.resources.values(), key=lambda declared: declared.uri.count("{"))
        self._patterns = [(declared, _pattern(declared.uri)) for declared in narrow_first]

    def _served(self, declared: Mapping[str, T]) -> dict[str, T]:
        return {name: value for name, value in declared.items() if name not in self.withheld}

    def hooks(self, toolset: str) -> Hooks:
        return self._hooks[toolset]

    def tool(self, name: str) -> Tool:
        try:
            return self.tools[name]
        except KeyError:
            raise UnknownTool(name, self.withheld.get(name, "")) from None

    def canonical(self, uri: str) -> str:
        """The one form of a URI, by its toolset's rules; a `ToolError` says why it has none."""
        forms = (t.hooks.canonical(uri) for t in self.toolsets if t.hooks.canonical is not None)
        return next((form for form in forms if form is not None), uri)

    def resource(self, uri: str) -> ResourceMatch | None:
        """The resource that serves exactly this canonical URI: no prefixes, no decoding, no case folding."""
        for declared, pattern in self._patterns:
            if found := pattern.fullmatch(uri):
                values = {name: unquote(value) for name, value in found.groupdict().items()}
                if any(_UNSAFE.search(value) for value in values.values()):
                    return None
                return ResourceMatch(declared, values)
        return None

    @cached_property
    def instructions(self) -> str:
        """What to call first, toolset by toolset, and how each is set."""
        return "\n".join(f"{t.name}{self._told(t.name)}: {t.guide}" for t in self.toolsets)

    def _told(self, toolset: str) -> str:
        facts = self.facts.get(toolset, {})
        return f" ({', '.join(f'{name}: {value}' for name, value in facts.items())})" if facts else ""


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
