"""The settings page, from the fields of `Settings` and what is written under each."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from typing import Any

from tracedesk import config
from tracedesk.config import FILE, PREFIX, Settings
from tracedesk.docs.markdown import code, rows

_INTRO = f"""# Settings

Later layers win: the default, then `{FILE}` in the home, then the environment, then a flag of the command.
`tracedesk config show` prints every value with the layer that decided it. The home itself cannot be set in
the file that lies in it.
"""


def page() -> str:
    """The whole page."""
    told = notes()
    body = [
        (code(f.name), _default(f.name), code(f"{PREFIX}{f.name.upper()}"), told[f.name])
        for f in fields(Settings)
    ]
    return f"{_INTRO}\n{rows(('Setting', 'Default', 'Environment', 'What it does'), body)}"


def notes() -> dict[str, str]:
    """What is written under each field; a field without a note is a mistake in `config.py`."""
    tree = ast.parse(inspect.getsource(config))
    owner = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Settings")
    told: dict[str, str] = {}
    for field, note in zip(owner.body, owner.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if not isinstance(note, ast.Expr) or not isinstance(note.value, ast.Constant):
                raise LookupError(f"the setting {field.target.id} has no note under it")
            told[field.target.id] = str(note.value.value)
    return told


def _default(name: str) -> str:
    value: Any = getattr(Settings(), name)
    if name == "home":
        return "the user's data folder"
    if value == ():
        return "all that are built"
    return code(str(value).lower() if isinstance(value, bool) else str(value))
