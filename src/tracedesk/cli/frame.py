"""The frame of the command line: lazy groups, global options everywhere, one place where failures end."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

import click

import tracedesk
from tracedesk.cli.console import Console, Misuse, describe, disk_sentence

SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _keep_home(ctx: click.Context, _: click.Parameter, value: Path | None) -> None:
    console = ctx.ensure_object(Console)
    if value is not None:
        console.home = value.expanduser().absolute()


def _keep_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    console = ctx.ensure_object(Console)
    console.json = console.json or value


def global_options() -> list[click.Parameter]:
    """The options that every command takes, before its name or after it."""
    home = click.Option(
        ["--home"],
        type=click.Path(file_okay=False, path_type=Path),
        metavar="PATH",
        help="Where the desk keeps its files [default: TRACEDESK_HOME, or the user's data folder].",
        expose_value=False,
        callback=_keep_home,
    )
    machine = click.Option(
        ["--json"],
        is_flag=True,
        help="Print JSON, also for errors.",
        expose_value=False,
        callback=_keep_json,
    )
    return [home, machine]


class DeskCommand(click.Command):
    """A command that takes the global options too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"context_settings": SETTINGS, **kwargs})
        self.params.extend(global_options())


class DeskGroup(click.Group):
    """A group of such commands."""

    command_class = DeskCommand

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"context_settings": SETTINGS, **kwargs})
        self.params.extend(global_options())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(_unknown(args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)


def _unknown(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    remedy = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
    return f"No such command {name!r}. {remedy}"


class LazyGroup(DeskGroup):
    """The root group: each command's module is imported when the command is run or shown."""

    def __init__(self, name: str, commands: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self.table = commands
        self.params.append(_version_option())

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name][0].partition(":")
        return cast("click.Command", getattr(importlib.import_module(module), attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.table.items()])


def _version_option() -> click.Parameter:
    def show(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            console = ctx.ensure_object(Console)
            console.answer({"version": tracedesk.__version__}, f"tracedesk {tracedesk.__version__}")
            ctx.exit()

    return click.Option(
        ["--version"], is_flag=True, expose_value=False, callback=show, help="Show the version and exit."
    )


# --- one run -----------------------------------------------------------------------------------


def run(group: click.Group, words: Sequence[str]) -> int:
    """Run one command line to its exit code; nothing escapes as a traceback."""
    console = Console(json="--json" in words, protocol="--stdio" in words)
    try:
        code: Any = group.main(args=list(words), prog_name=group.name, standalone_mode=False, obj=console)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as fault:
        return _no_command(fault, console)
    except Misuse as fault:
        return console.refuse("USAGE", fault.format_message(), 2)
    except click.UsageError as fault:
        hint = f"\nTry '{fault.ctx.command_path} --help'." if fault.ctx else ""
        return console.refuse("USAGE", fault.format_message(), 2, hint)
    except click.ClickException as fault:
        return console.refuse("FAILED", fault.format_message(), 1)
    except (click.Abort, KeyboardInterrupt):
        return console.refuse("INTERRUPTED", "Interrupted.", 1)
    except BrokenPipeError:
        # The reader of our output has left; Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as fault:
        return console.refuse("FAILED", disk_words(fault, console) or describe(fault), 1)
    except Exception as fault:
        if (disk := disk_words(fault, console)) is not None:
            return console.refuse("FAILED", disk, 1)
        return console.refuse("INTERNAL_ERROR", bug(fault, console), 1)


def _no_command(fault: click.exceptions.NoArgsIsHelpError, console: Console) -> int:
    if console.json:
        return console.refuse("USAGE", "Name a command; --help lists them.", 2)
    click.echo(fault.format_message(), err=True)
    return 2


def disk_words(fault: Exception, console: Console) -> str | None:
    """The home's disk as the cause of a failure, with the remedy; None for any other cause."""
    try:
        return disk_sentence(fault, console.settings().home)
    except click.UsageError:
        return None


def bug(fault: Exception, console: Console) -> str:
    """Keep the traceback in the log, and say where it is."""
    from tracedesk import logs

    what = f"The command failed inside ({type(fault).__name__})"
    try:
        home = console.settings().home
        with logs.writing(home, "INFO", echo=False):
            logging.getLogger(__name__).critical("the command failed inside", exc_info=fault)
    except (OSError, click.UsageError):
        return f"{what}, and the log cannot be written."
    return f"{what}. The traceback is in {logs.path(home)}."
