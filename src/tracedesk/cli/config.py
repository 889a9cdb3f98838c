"""`tracedesk config`: the settings in force, and who decided each."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import click

from tracedesk.cli.console import Console, Misuse, pass_console, sentence, short_path, table
from tracedesk.cli.frame import DeskGroup
from tracedesk.toolsets import TOOLSETS


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
    own = _tables(settings["tables"][0])
    del document["settings"]["tables"]  # its settings follow, one by one
    document["settings"] |= {
        name: {"value": _plain(v), "source": source} for name, (v, source) in own.items()
    }
    plain = {name: row for name, row in settings.items() if name != "tables"}
    plain["toolsets"] = plain["toolsets"][0] or "(all that are built)", plain["toolsets"][1]
    rows = [(name, _shown(value), source) for name, (value, source) in {**plain, **own}.items()]
    state = "" if file.exists() else " (not there: every value has a default)"
    console.answer(
        document, f"{table(rows, ('SETTING', 'VALUE', 'FROM'))}\n\nFile: {short_path(file)}{state}"
    )


def _tables(given: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    """Every setting of the toolsets' tables by its whole name, each read as its toolset reads it."""
    from tracedesk.config import FILE, BadSetting
    from tracedesk.primitives.redaction import redact

    found: dict[str, tuple[Any, str]] = {}
    for name in TOOLSETS:
        if importlib.util.find_spec(f"tracedesk.{name}.settings") is None:
            continue
        try:
            read = importlib.import_module(f"tracedesk.{name}.settings").read(given.get(name, {}))
        except BadSetting as fault:
            raise Misuse(sentence(fault)) from None
        for path, value in _flat(name, read):
            keys, place = path.split(".")[1:], given.get(name, {})
            while keys and isinstance(place, dict):
                place = cast("dict[str, Any]", place).get(keys.pop(0))
            found[path] = redact({path: value})[path], "default" if place is None else FILE
    return found


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The settings in a table, and in the tables within it."""
    if is_dataclass(value):
        for each in fields(value):
            yield from _flat(f"{path}.{each.name}", getattr(value, each.name))
    elif isinstance(value, dict) and value:
        for name, inner in cast("dict[str, Any]", value).items():
            yield from _flat(f"{path}.{name}", inner)
    else:
        yield path, value


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Path):
        return str(value)
    return list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    if isinstance(value, Path):
        return short_path(value)
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[Any, ...]", value))) or "(none named)"
    if isinstance(value, dict):
        return ", ".join(f"[{name}]" for name in cast("dict[str, Any]", value)) or "(none)"
    return str(value).lower() if isinstance(value, bool) else str(value)
