"""`tracedesk forget`: one call, event or payload taken out for good."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console
from tracedesk.cli.frame import DeskCommand

if TYPE_CHECKING:
    from tracedesk.forget import Outcome


@click.command(cls=DeskCommand)
@click.argument("ref", metavar="REF")
@click.option("--yes", is_flag=True, help="Do it; it cannot be undone.")
@pass_console
def forget(console: Console, ref: str, yes: bool) -> None:
    """Remove the call, event or payload behind REF for good.

    Its hash stays, so the record still verifies, and who forgot it and when is recorded. With an event goes
    the call that logged it, and payloads that nothing else cites. Ledger entries are never forgotten.
    Desks that write wait while the journal is rewritten. Backups keep what they have.
    """
    if not yes:
        raise Misuse("It cannot be undone; add --yes.")
    from tracedesk import forget as forgetting
    from tracedesk.codegraph.etg.forgetting import drop, write_out
    from tracedesk.home import Home

    path = console.settings().home
    if not path.is_dir():
        raise Failed(f"There is no home at {path}; name it with --home.")
    done = forgetting.forget(Home.open(path), ref, by=_who(), drop=drop, tidy=write_out)
    document = {
        "ref": done.ref,
        "forgotten": done.refs,
        "payloads": done.payloads,
        "already": done.already,
        "notes": done.notes,
    }
    console.answer(document, _text(done))


def _who() -> str:
    try:
        return f"{getpass.getuser()} (uid {os.getuid()})"
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _text(done: Outcome) -> str:
    first = "It was forgotten before; nothing of it is left:" if done.already else "Forgotten:"
    return "\n".join([first, *(f"  {ref}" for ref in done.refs), *done.notes])
