"""How `tracedesk fuzz` ends: 0 nothing broke, 1 a test was falsified, 2 anything that is no verdict."""

from __future__ import annotations

from typing import Any, Final

import click

from tracedesk.cli.console import Console, Misuse, describe
from tracedesk.cli.frame import (
    DeskCommand,
    DeskGroup,
    bug,
    disk_words,
)
from tracedesk.errors import ToolError

FALSIFIED: Final = 1
UNDECIDED: Final = 2
_OUT_OF_MEMORY: Final = "Out of memory. Name a smaller project, or raise memory_mb in [fuzz.limits]."


class FuzzCommand(DeskCommand):
    """A command whose exit code 1 means one thing only: a test was falsified."""

    def invoke(self, ctx: click.Context) -> Any:
        console = ctx.ensure_object(Console)
        try:
            return super().invoke(ctx)
        except ToolError as fault:
            if fault.code == "INVALID_INPUT":
                raise Misuse(fault.message) from None
            return console.refuse("FAILED", fault.message, UNDECIDED)
        except (click.UsageError, click.exceptions.Exit, BrokenPipeError):
            raise
        except click.ClickException as fault:
            return console.refuse("FAILED", fault.format_message(), UNDECIDED)
        except MemoryError:
            return console.refuse("FAILED", _OUT_OF_MEMORY, UNDECIDED)
        except (click.Abort, KeyboardInterrupt):
            return console.refuse("INTERRUPTED", "Interrupted.", UNDECIDED)
        except OSError as fault:
            return console.refuse("FAILED", disk_words(fault, console) or describe(fault), UNDECIDED)
        except Exception as fault:
            from tracedesk.hosts.confined import is_out_of_memory

            if is_out_of_memory(str(fault)):
                return console.refuse("FAILED", _OUT_OF_MEMORY, UNDECIDED)
            if (words := disk_words(fault, console)) is not None:
                return console.refuse("FAILED", words, UNDECIDED)
            return console.refuse("INTERNAL_ERROR", bug(fault, console), UNDECIDED)


class FuzzGroup(DeskGroup):
    """A group of such commands."""

    command_class = FuzzCommand
