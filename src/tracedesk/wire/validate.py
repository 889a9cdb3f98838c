"""Arguments against a contract: every violation named with its field and remedy, defaults filled."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final
from uuid import UUID

import jsonschema_rs

from tracedesk.contract import Tool
from tracedesk.errors import ToolError
from tracedesk.primitives import json
from tracedesk.primitives.redaction import redact_text
from tracedesk.wire.fault_search import part_at_fault

_SHOWN: Final = 10
_LONGEST: Final = 200
_MOST: Final = 2**63
_LONG: Final = 65_536
"""Bytes of arguments from which on the validator looks for one violation only: it copies what it names."""
_DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


class Validator:
    """A tool's compiled input schema."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._schema = compile_schema(tool.input)
        properties: Mapping[str, Any] = tool.input.get("properties", {})
        self._defaults = {name: p["default"] for name, p in properties.items() if "default" in p}
        self._mutable = any(isinstance(value, (list, dict)) for value in self._defaults.values())
        self._whole = [name for name, p in properties.items() if p.get("type") == "integer"]

    def accept(self, arguments: Any) -> dict[str, Any]:
        """`arguments` with the contract's defaults, or the family's error naming every violation."""
        if not self.takes(arguments):
            raise self.refusal(arguments)
        return self.filled(arguments)

    def takes(self, arguments: Any) -> bool:
        """True when `arguments` fit the contract; quick, also for long ones."""
        return self._schema.is_valid(arguments)

    def filled(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Fitting `arguments` with the contract's defaults."""
        if self._whole:
            arguments = self._integers(arguments)
        if not self._defaults:
            return arguments
        defaults = copy.deepcopy(self._defaults) if self._mutable else self._defaults
        return {**defaults, **arguments}

    def _integers(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """JSON Schema takes 10.0 for an integer, and so it becomes one."""
        given = {name: arguments[name] for name in self._whole if name in arguments}
        odd = {n: int(value) for n, value in given.items() if type(value) is not int and abs(value) < _MOST}
        return {**arguments, **odd} if odd else arguments

    def refusal(self, arguments: Any) -> ToolError:
        """The family's error for `arguments` that do not fit; of long ones, only a part at fault is named."""
        if not json.is_longer(arguments, _LONG):
            return self._violations(arguments, {})
        part, begins = part_at_fault(arguments, self.takes)
        if part is None:
            message = f"arguments: they do not fit. See the input schema of {self._tool.name} in tools/list."
            return ToolError(self._tool.family.invalid, message, {"path": [], "rule": "schema"})
        return self._violations(part, begins)

    def _violations(self, arguments: Any, begins: Mapping[str, int]) -> ToolError:
        """The error for violations in `arguments`, whose lists begin at these places of what was sent."""
        errors = islice(self._schema.iter_errors(arguments), _SHOWN)
        found = [_violation(error, self._tool, begins) for error in errors]
        first = found[0]
        message = " ".join(v["message"] for v in found)
        details = {"path": first["path"], "rule": first["rule"]}
        if len(found) > 1:
            details["violations"] = found
        return ToolError(self._code(first), message, details)

    def _code(self, violation: Mapping[str, Any]) -> str:
        path = violation["path"]
        own = self._tool.codes.get(path[0]) if path and isinstance(path[0], str) else None
        return own or self._tool.family.invalid


def compile_schema(schema: Any) -> jsonschema_rs.Validator:
    """A validator with formats on and a regular-expression engine that is linear in its input."""
    dialect = jsonschema_rs.validator_cls_for({"$schema": _DRAFT_07, **schema})
    return dialect(
        schema,
        validate_formats=True,
        formats={"uuid": _is_uuid},
        pattern_options=jsonschema_rs.RegexOptions(),
        offline=True,
    )


def _violation(error: jsonschema_rs.ValidationError, tool: Tool, begins: Mapping[str, int]) -> dict[str, Any]:
    path = list(error.instance_path)
    if len(path) > 1 and isinstance(path[1], int):
        path[1] += begins.get(str(path[0]), 0)
    rule = error.kind.name
    field = ".".join(str(step) for step in path) or "arguments"
    text = redact_text(_shorten(error.message))
    return {"path": path, "rule": rule, "message": f"{field}: {text}. {_remedy(rule, error, tool)}"}


def _remedy(rule: str, error: jsonschema_rs.ValidationError, tool: Tool) -> str:
    properties: Mapping[str, Any] = tool.input.get("properties", {})
    match rule:
        case "required":
            return "Add the missing property."
        case "additionalProperties":
            return f"Remove it; {tool.name} takes {', '.join(properties) or 'no arguments'}."
        case "anyOf":
            named = [name for each in tool.input["anyOf"] for name in each.get("required", ())]
            return "Give at least one of: " + ", ".join(named or properties) + "."
        case "type" | "enum" | "pattern" | "format" | "minimum" | "maximum" | "minItems" | "maxItems":
            return f"The contract asks for {rule} {_shorten(str(_rule_value(tool.input, error)))}."
        case _:
            return f"See the input schema of {tool.name} in tools/list."


def _rule_value(schema: Any, error: jsonschema_rs.ValidationError) -> Any:
    node = schema
    for step in error.schema_path:
        node = node[step]
    return node


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
