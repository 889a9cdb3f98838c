"""`tracedesk install` and `uninstall`: the desk's entry in the configuration of an MCP client."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console, sentence, short_path
from tracedesk.cli.frame import DeskCommand
from tracedesk.clients import CLIENTS, Change, Client, FileScope, Refusal, starting
from tracedesk.clients import install as write_entry
from tracedesk.clients import uninstall as remove_entry
from tracedesk.roots import is_possible, project_of
from tracedesk.snippets import Hooks, Target

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
@click.option(
    "--root",
    "roots",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    metavar="DIR",
    help="A folder whose code may be indexed, fuzzed and shown; repeatable [default: this project].",
)
@click.option("--print", "only_print", is_flag=True, help="Print what would be written, and write nothing.")
@click.option("--http", "url", metavar="URL", help="Connect to a running desk instead of starting one.")
@click.option("--token", metavar="TOKEN", help="The running desk's token; without one, tools only read.")
@click.option(
    "--extension", is_flag=True, help="Say how the client itself installs all this, and write nothing."
)
@click.option("--hooks/--no-hooks", default=True, help="Let the client's hooks record attempts, or not.")
@pass_console
def install(
    console: Console,
    name: str,
    scope: FileScope,
    toolsets: str | None,
    roots: tuple[Path, ...],
    only_print: bool,
    url: str | None,
    token: str | None,
    hooks: bool,
    extension: bool,
) -> None:
    """Tell an MCP client about this desk.

    The entry starts this tracedesk by absolute path over stdio. With the codegraph toolset, Qwen Code and
    Claude Code also get hooks that record what is tried. Everything else in the client's files stays as it
    is, byte for byte, and the old file is kept beside it. A file with comments is left alone. The entry
    names the project that this folder lies in, or the folder, as the root whose code may be read.
    """
    client = CLIENTS[name]
    if extension:
        _tell_extension(console, client)
        return
    entry = (token, toolsets, roots)
    target = _remote(client, url, *entry) if url else _local(console, *entry)
    recording = _hooks(console, client, url, toolsets) if hooks else None
    try:
        if only_print:
            _print(console, client, scope, target, recording)
        else:
            _report(console, client, write_entry(client, scope, target, recording), "Installed in")
            _warn_of_token(console, scope, target)
    except Refusal as refusal:
        raise Failed(str(refusal)) from None


@click.command(cls=DeskCommand)
@_client
@_scope
@pass_console
def uninstall(console: Console, name: str, scope: FileScope) -> None:
    """Take this desk out of a client's configuration.

    Only our own entry and hooks are removed; the old file is kept beside the new one.
    """
    from tracedesk.codegraph.capture.plugin import SCRIPT

    client = CLIENTS[name]
    try:
        _report(console, client, remove_entry(client, scope, SCRIPT.name), "Removed from")
    except Refusal as refusal:
        raise Failed(str(refusal)) from None


def _local(console: Console, token: str | None, toolsets: str | None, roots: tuple[Path, ...]) -> Target:
    if token is not None:
        raise Misuse("--token goes with --http; a desk over stdio needs none.")
    home = console.explained()["home"]
    # A client started from a menu does not see the shell's TRACEDESK_HOME, so it is written down too.
    names = _toolsets(toolsets)
    return starting(names, home.value if home.source != "default" else None, _roots(console, names, roots))


def _roots(console: Console, names: tuple[str, ...], given: tuple[Path, ...]) -> tuple[Path, ...]:
    """The folders that the entry names: those given, else this project, else this folder."""
    from tracedesk.config import ROOTED

    if not set(ROOTED).intersection(names):
        return ()
    if given:
        return tuple(root.absolute() for root in given)
    here = Path.cwd()
    chosen = project_of(here) or (here if is_possible(here) else None)
    if chosen is None:
        console.note(f"{short_path(here)} is no project: name one with --root DIR to have its code read.")
    return () if chosen is None else (chosen,)


def _toolsets(given: str | None) -> tuple[str, ...]:
    from tracedesk.toolsets import UnknownToolset, built, load

    names = tuple(part.strip() for part in given.split(",") if part.strip()) if given else built()
    try:
        load(names)
    except UnknownToolset as fault:
        raise Misuse(sentence(fault)) from None
    return names or ("desk",)


def _hooks(console: Console, client: Client, url: str | None, toolsets: str | None) -> Hooks | None:
    """The hooks that a client gets: with codegraph, and where a desk of this home will drain its inbox."""
    if client.hooks is None or (url and not _is_loopback(url)) or "codegraph" not in _toolsets(toolsets):
        return None
    from tracedesk.codegraph.capture import plugin

    home = console.explained()["home"]
    words = (client.name, "{}", *((str(home.value),) if home.source != "default" else ()))
    return Hooks(plugin.commands(sys.executable, words), plugin.SCRIPT.name)


def _tell_extension(console: Console, client: Client) -> None:
    """The folder that a client installs by its own command: server and hooks in one."""
    from tracedesk.codegraph.capture.plugin import BY_CLIENT, FOLDER

    if client.name not in BY_CLIENT:
        raise Misuse(f"--extension is for {' and '.join(BY_CLIENT)}; install {client.name} without it.")
    command = shlex.join((*BY_CLIENT[client.name], str(FOLDER)))
    console.answer({"client": client.name, "folder": str(FOLDER), "command": command}, f"Run: {command}")


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


def _remote(
    client: Client, url: str, token: str | None, toolsets: str | None, roots: tuple[Path, ...]
) -> Target:
    if roots:
        raise Misuse("--root goes without --http; a running desk has chosen its own.")
    if toolsets is not None:
        raise Misuse("--toolsets goes without --http; a running desk has chosen its own.")
    if not url.startswith(("http://", "https://")):
        raise Misuse(f"--http needs a URL like http://127.0.0.1:3000/mcp, not {url!r}.")
    if client.snippet.http_entry is None:
        raise Misuse(f"{client.name}'s file can only start commands; install it without --http.")
    return Target(url=url, token=token)


def _print(console: Console, client: Client, scope: FileScope, target: Target, hooks: Hooks | None) -> None:
    documents = {str(client.file(scope)): client.snippet.document(target)}
    if hooks is not None and client.hooks is not None:
        file = str(client.hook_file(scope))
        documents[file] = {**documents.get(file, {}), **hooks.document(client.hooks.second)}
    for file in documents:
        console.note(f"For {short_path(Path(file))}:")
    facts = [{"file": file, "document": document} for file, document in documents.items()]
    told = {**facts[0], "hooks": facts[1] if len(facts) > 1 else None}
    console.answer(told, "\n".join(json.dumps(document, indent=2) for document in documents.values()))


def _report(console: Console, client: Client, changes: list[Change], done: str) -> None:
    facts = [_facts(change) for change in changes]
    told = {"client": client.name, **facts[0], "hooks": facts[1] if len(facts) > 1 else None}
    console.answer(told, "\n".join(_told(change, done) for change in changes))


def _facts(change: Change) -> dict[str, Any]:
    backup = str(change.backup) if change.backup else None
    return {"file": str(change.file), "changed": change.changed, "backup": backup}


def _told(change: Change, done: str) -> str:
    file = short_path(change.file)
    if not change.changed:
        return f"Nothing to change in {file}."
    kept = f" The old file is {short_path(change.backup)}." if change.backup else ""
    return f"{done} {file}.{kept} Restart the client to see it."


def _warn_of_token(console: Console, scope: FileScope, target: Target) -> None:
    if target.token and scope == "project":
        console.note("The file now holds a token: keep it out of version control.")
