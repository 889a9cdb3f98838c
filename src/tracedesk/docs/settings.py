"""The settings page, from the fields of the settings' classes and what is written under each."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from typing import Any, cast

from tracedesk import config
from tracedesk.config import FILE, PREFIX, Settings
from tracedesk.docs.markdown import code, rows
from tracedesk.toolsets import built

_INTRO = f"""# Settings

Later layers win: the default, then `{FILE}` in the home, then the environment, then a flag of the command.
`tracedesk config show` prints every value with the layer that decided it. The home itself cannot be set in
the file that lies in it.
"""


def page() -> str:
    """The whole page."""
    told = notes(Settings)
    body = [
        (code(f.name), _default(f.name), code(f"{PREFIX}{f.name.upper()}"), told[f.name])
        for f in fields(Settings)
        if f.name != "tables"
    ]
    own = rows(("Setting", "Default", "Environment", "What it does"), body)
    return "\n".join((f"{_INTRO}\n{own}", *(_toolset(name) for name in built())))


def _toolset(name: str) -> str:
    """A toolset's own tables; a toolset without settings has none."""
    if importlib.util.find_spec(f"tracedesk.{name}.settings") is None:
        return ""
    module = importlib.import_module(f"tracedesk.{name}.settings")
    return "\n".join(_tables(name, module.TABLE))


def _tables(path: str, kind: type[Any]) -> list[str]:
    made: Any = kind()
    told = notes(kind)
    inner = [f for f in fields(kind) if is_dataclass(getattr(made, f.name))]
    body = [
        (code(f.name), code(_shown(getattr(made, f.name))), told[f.name])
        for f in fields(kind)
        if f not in inner
    ]
    parts = [f"## `[{path}]`\n\n{rows(('Setting', 'Default', 'What it does'), body)}"]
    for f in inner:
        parts += _tables(f"{path}.{f.name}", cast("type[Any]", type(getattr(made, f.name))))
    return parts


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, str):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def notes(kind: type[Any]) -> dict[str, str]:
    """What is written under each field; a field without a note is a mistake in its class."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(kind) or config))
    owner = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    told: dict[str, str] = {}
    for field, note in zip_longest(owner.body, owner.body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if not isinstance(note, ast.Expr) or not isinstance(note.value, ast.Constant):
                raise LookupError(f"the setting {field.target.id} has no note under it")
            told[field.target.id] = " ".join(str(note.value.value).split())
    return told


def _default(name: str) -> str:
    value: Any = getattr(Settings(), name)
    if name == "home":
        return "the user's data folder"
    if value == ():
        return "all that are built"
    return code(str(value).lower() if isinstance(value, bool) else str(value))
