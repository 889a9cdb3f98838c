"""The command-line page, from click itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from tracedesk.cli import tracedesk

_WIDTH: Final = 90
_INTRO: Final = """# Command line

Every command takes `--home PATH` and `--json`, before its name or after it. With `--json` the answer is one
JSON object on stdout, and an error is `{"error": {"code": ..., "message": ...}}`.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed, or unhealthy |
| 2 | the command line or a setting cannot be used as given |
"""


def page() -> str:
    """The whole page."""
    sections = (
        f"\n## {path}\n\n```text\n{text}\n```\n" for path, text in helps(tracedesk, None, "tracedesk")
    )
    return _INTRO + "".join(sections)


def helps(command: click.Command, parent: click.Context | None, name: str) -> Iterator[tuple[str, str]]:
    """The path and the help of a command and of everything below it."""
    context = click.Context(
        command,
        parent,
        info_name=name,
        terminal_width=_WIDTH,
        help_option_names=["-h", "--help"],
    )
    with context:
        yield context.command_path, command.get_help(context)
        if isinstance(command, click.Group):
            for below in command.list_commands(context):
                found = command.get_command(context, below)
                assert found is not None
                yield from helps(found, context, below)
