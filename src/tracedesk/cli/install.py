"""`tracedesk install` and `uninstall`: the desk's entry in the configuration of an MCP client."""

from __future__ import annotations

import json
from typing import Any

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console, sentence, short_path
from tracedesk.cli.frame import DeskCommand
from tracedesk.clients import CLIENTS, Change, Client, FileScope, Refusal, starting
from tracedesk.clients import install as write_entry
from tracedesk.clients import uninstall as remove_entry
from tracedesk.snippets import Target

_client = click.option(
    "--client", "name", type=click.Choice(list(CLIENTS)), required=True, help="Which client."
)
_scope = click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="For every project of this user, or for the current folder.",
)


@click.command(cls=DeskCommand)
@_client
@_scope
@click.option("--toolsets", metavar="A,B", help="The toolsets to serve [default: every one that is built].")
@click.option("--print", "only_print", is_flag=True, help="Print what would be written, and write nothing.")
@click.option("--http", "url", metavar="URL", help="Connect to a running desk instead of starting one.")
@click.option("--token", metavar="TOKEN", help="The running desk's token; without one, tools only read.")
@pass_console
def install(
    console: Console,
    name: str,
    scope: FileScope,
    toolsets: str | None,
    only_print: bool,
    url: str | None,
    token: str | None,
) -> None:
    """Tell an MCP client about this desk.

    The entry starts this tracedesk by absolute path over stdio. Everything else in the client's file stays
    as it is, byte for byte, and the old file is kept beside it. A file with comments is left alone.
    """
    client = CLIENTS[name]
    target = _remote(client, url, token, toolsets) if url else _local(console, token, toolsets)
    try:
        if only_print:
            _print(console, client, scope, target)
        else:
            _report(console, client, write_entry(client, scope, target), "Installed in")
            _warn_of_token(console, scope, target)
    except Refusal as refusal:
        raise Failed(str(refusal)) from None


@click.command(cls=DeskCommand)
@_client
@_scope
@pass_console
def uninstall(console: Console, name: str, scope: FileScope) -> None:
    """Take this desk out of a client's configuration.

    Only our own entry is removed; the old file is kept beside the new one.
    """
    client = CLIENTS[name]
    try:
        _report(console, client, remove_entry(client, scope), "Removed from")
    except Refusal as refusal:
        raise Failed(str(refusal)) from None


def _local(console: Console, token: str | None, toolsets: str | None) -> Target:
    if token is not None:
        raise Misuse("--token goes with --http; a desk over stdio needs none.")
    home = console.explained()["home"]
    # A client started from a menu does not see the shell's TRACEDESK_HOME, so it is written down too.
    return starting(_toolsets(toolsets), home.value if home.source != "default" else None)


def _toolsets(given: str | None) -> tuple[str, ...]:
    from tracedesk.toolsets import UnknownToolset, built, load

    names = tuple(part.strip() for part in given.split(",") if part.strip()) if given else built()
    try:
        load(names)
    except UnknownToolset as fault:
        raise Misuse(sentence(fault)) from None
    return names or ("desk",)


def _remote(client: Client, url: str, token: str | None, toolsets: str | None) -> Target:
    if toolsets is not None:
        raise Misuse("--toolsets goes without --http; a running desk has chosen its own.")
    if not url.startswith(("http://", "https://")):
        raise Misuse(f"--http needs a URL like http://127.0.0.1:3000/mcp, not {url!r}.")
    if client.snippet.http_entry is None:
        raise Misuse(f"{client.name}'s file can only start commands; install it without --http.")
    return Target(url=url, token=token)


def _print(console: Console, client: Client, scope: FileScope, target: Target) -> None:
    document = client.snippet.document(target)
    file = client.file(scope)
    console.note(f"For {short_path(file)}:")
    console.answer({"file": str(file), "document": document}, json.dumps(document, indent=2))


def _report(console: Console, client: Client, change: Change, done: str) -> None:
    facts: dict[str, Any] = {
        "client": client.name,
        "file": str(change.file),
        "changed": change.changed,
        "backup": str(change.backup) if change.backup else None,
    }
    console.answer(facts, _told(change, done))


def _told(change: Change, done: str) -> str:
    file = short_path(change.file)
    if not change.changed:
        return f"Nothing to change in {file}."
    kept = f" The old file is {short_path(change.backup)}." if change.backup else ""
    return f"{done} {file}.{kept} Restart the client to see it."


def _warn_of_token(console: Console, scope: FileScope, target: Target) -> None:
    if target.token and scope == "project":
        console.note("The file now holds a token: keep it out of version control.")
