"""What a command says: text for people, JSON for programs, and how it fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from tracedesk.primitives.text import escape_controls, sanitize_terminal

if TYPE_CHECKING:
    from tracedesk.config import Origin, Settings


class Failed(click.ClickException):
    """The command was understood and could not be done: exit code 1."""

    exit_code = 1


class Misuse(click.UsageError):
    """A command line that cannot be used as given, with its remedy in the sentence: exit code 2."""


@dataclass(slots=True)
class Console:
    """The global options of one run, and where its words go."""

    home: Path | None = None
    json: bool = False
    protocol: bool = False
    """Whether stdout belongs to a client's protocol, so that errors must not go there."""

    def answer(self, value: Any, text: str) -> None:
        """Print `value` for programs, or `text` for people."""
        if self.json:
            print_json(json.dumps(value, ensure_ascii=False))
        else:
            click.echo(sanitize_terminal(text))

    def note(self, text: str) -> None:
        """Print a remark for people beside the answer."""
        if not self.json:
            click.echo(sanitize_terminal(text), err=True)

    def refuse(self, code: str, message: str, exit_code: int, hint: str = "") -> int:
        """Print why the command failed, as one sentence or as an error object."""
        message = sanitize_terminal(message)
        if self.json:
            error = {"error": {"code": code, "message": message}}
            print_json(json.dumps(error, ensure_ascii=False), err=self.protocol)
        else:
            click.echo(f"tracedesk: {message}{hint}", err=True)
        return exit_code

    def settings(self, **flags: Any) -> Settings:
        """The settings in force; a bad one is a usage error. Credentials leave the environment here."""
        from tracedesk.config import BadSetting, load
        from tracedesk.exchange.credentials.environment import PROCESS
        from tracedesk.surroundings import credential_names

        try:
            settings = load({"home": self.home, **flags})
        except BadSetting as fault:
            raise Misuse(sentence(fault)) from None
        PROCESS.take(credential_names(settings.tables.get("exchange", {})))
        return settings

    def explained(self, **flags: Any) -> dict[str, Origin]:
        """The settings in force, each with the layer that decided it."""
        from tracedesk.config import BadSetting, explain

        try:
            return explain({"home": self.home, **flags})
        except BadSetting as fault:
            raise Misuse(sentence(fault)) from None

    def table_sources(self) -> dict[tuple[str, str], str]:
        """The layer that decided each value of the toolsets' tables; the settings have been read already."""
        from tracedesk.config import table_sources

        return table_sources({"home": self.home})


def print_json(document: str, *, err: bool = False) -> None:
    """Print a JSON document; a terminal finds no control character in it."""
    click.echo(escape_controls(document), err=err)


_WORD: Final = re.compile(r"[a-z]+(?=('s)?,? |$)")


def sentence(fault: Exception) -> str:
    """The fault's own words with a full stop, and a capital unless a name begins them."""
    text = str(fault)
    first = text if _begins_with_name(text) else text[:1].upper() + text[1:]
    return first + ("" if text.endswith(".") else ".")


def _begins_with_name(text: str) -> bool:
    """Return whether a file, path, setting or command, or a word of the command line, begins the text."""
    word = _WORD.match(text)
    return word is None or word[0] in _names() or any(text.startswith(f"{given} ") for given in _given())


def _names() -> set[str]:
    """Plain words that are names wherever they stand: the command and its settings."""
    from tracedesk.config import Settings

    return {"tracedesk", *(field.name for field in fields(Settings))}


def _given() -> set[str]:
    """The values on the command line, and the files' own names without their folders."""
    context = click.get_current_context(silent=True)
    texts: set[str] = set()
    for value in () if context is None else context.params.values():
        parts = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
        texts |= {str(part) for part in parts if isinstance(part, str | Path)}
    return texts | {Path(text).name for text in texts}


pass_console = click.make_pass_decorator(Console, ensure=True)


def table(rows: Iterable[Sequence[str]], heads: Sequence[str] = ()) -> str:
    """Rows in aligned columns; the last column runs free."""
    lines = [tuple(heads), *map(tuple, rows)] if heads else [tuple(row) for row in rows]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)]
    return "\n".join(_line(line, widths) for line in lines)


def _line(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
    return "  ".join((*cells, line[-1])).rstrip()


def describe(fault: OSError) -> str:
    """A system error as a sentence."""
    where = f"{fault.filename}: " if fault.filename else ""
    return f"{where}{fault.strerror or fault}."


def disk_sentence(fault: Exception, home: Path) -> str | None:
    """The disk of the home as the cause of a failure, with the remedy; None for any other cause."""
    from tracedesk.storage import fault_of

    name: Any = fault.filename if isinstance(fault, OSError) else None
    if isinstance(name, str) and not Path(name).absolute().is_relative_to(home):
        return None  # another file, such as one that the command writes for its user
    found = fault_of(fault, home)
    return None if found is None else f"{found.problem} ({short_path(home)}). {found.remedy}"


def size_text(count: float) -> str:
    """A number of bytes as people write it."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def short_path(path: Path) -> str:
    """The path with the user's folder as `~`, as people write it."""
    try:
        return str("~" / path.relative_to(Path.home()))
    except ValueError:
        return str(path)
