"""What `tools/list` says, per protocol version, encoded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracedesk.contract import Tool
from tracedesk.primitives import json
from tracedesk.registry import Registry
from tracedesk.wire.encode import ANY_STRUCTURE_SINCE, STRUCTURED_SINCE

ANNOTATED_SINCE = "2025-03-26"


def portable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The input schema with a root `anyOf` of `required` said as `minProperties`.

    Model providers refuse a root `anyOf`. What is published may be laxer than the contract (an added
    optional property also counts); dispatch validates the contract itself.
    """
    alternatives = schema.get("anyOf")
    if not isinstance(alternatives, list):
        return dict(schema)
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**rest, "minProperties": 1}


def describe(tool: Tool, version: str) -> dict[str, Any]:
    """One entry of `tools/list` at a protocol version."""
    entry: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": portable(tool.input),
    }
    if version >= STRUCTURED_SINCE and tool.output is not None and _listable(tool.output, version):
        entry["outputSchema"] = tool.output
    if version >= ANNOTATED_SINCE:
        entry["annotations"] = tool.annotations.wire()
    return entry


def _listable(output: Mapping[str, Any], version: str) -> bool:
    return version >= ANY_STRUCTURE_SINCE or output.get("type") == "object"


class ToolList:
    """The encoded list of a registry's tools, cached per version."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._encoded: dict[str, json.Raw] = {}

    def at(self, version: str) -> json.Raw:
        found = self._encoded.get(version)
        if found is None:
            entries = [describe(tool, version) for tool in self._registry.tools.values()]
            found = self._encoded[version] = json.Raw(json.dumps(entries))
        return found
