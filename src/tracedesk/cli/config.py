"""`tracedesk config`: the settings in force, each with the layer that decided it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    own = _tables(settings["tables"][0], console.table_sources())
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


def _tables(given: dict[str, Any], sources: Mapping[tuple[str, str], str]) -> dict[str, tuple[Any, str]]:
    """Every setting of the toolsets' tables by its whole name, each read as its toolset reads it."""
    from tracedesk.config import BadSetting
    from tracedesk.primitives.redaction import redact
    from tracedesk.tables import read_toolset

    found: dict[str, tuple[Any, str]] = {}
    for name in TOOLSETS:
        own = given.get(name, {})
        try:
            read = read_toolset(name, own)
        except BadSetting as fault:
            raise Misuse(sentence(fault)) from None
        for path, value in () if read is None else _flat(name, read):
            keys = path.split(".")[1:]
            source = sources[name, keys[0]] if _is_given(own, keys) else "default"
            found[path] = redact({path: value})[path], source
    return found


def _is_given(table: Any, keys: Sequence[str]) -> bool:
    """True where a table, or the tables within it, name a value."""
    for key in keys:
        if not isinstance(table, dict) or key not in table:
            return False
        table = cast("dict[str, Any]", table)[key]
    return True


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
