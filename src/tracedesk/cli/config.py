"""`tracedesk config`: the settings in force, and who decided each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click

from tracedesk.cli.console import Console, pass_console, short_path, table
from tracedesk.cli.frame import DeskGroup


@click.group(cls=DeskGroup)
def config() -> None:
    """See the settings in force."""


@config.command()
@pass_console
def show(console: Console) -> None:
    """Show every setting, its value, and the layer that decided it.

    Layers, weakest first: default, tracedesk.toml in the home, environment (TRACEDESK_*), flag.
    """
    from tracedesk.config import FILE
    from tracedesk.primitives.redaction import redact

    settings = {name: (redact({name: o.value})[name], o.source) for name, o in console.explained().items()}
    file = settings["home"][0] / FILE
    document: dict[str, Any] = {
        "file": str(file),
        "fileExists": file.exists(),
        "settings": {name: {"value": _plain(v), "source": source} for name, (v, source) in settings.items()},
    }
    rows = [(name, _shown(value), source) for name, (value, source) in settings.items()]
    state = "" if file.exists() else " (not there: every value has a default)"
    console.answer(
        document, f"{table(rows, ('SETTING', 'VALUE', 'FROM'))}\n\nFile: {short_path(file)}{state}"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    if isinstance(value, Path):
        return short_path(value)
    if isinstance(value, tuple):
        return ",".join(cast("tuple[str, ...]", value)) or "(all that are built)"
    if isinstance(value, dict):
        return ", ".join(f"[{name}]" for name in cast("dict[str, Any]", value)) or "(none)"
    return str(value).lower() if isinstance(value, bool) else str(value)
