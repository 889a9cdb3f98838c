"""`tracedesk token`: the bearer tokens of a home."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console, sentence, table
from tracedesk.cli.frame import DeskGroup

if TYPE_CHECKING:
    from tracedesk.contract import Scope
    from tracedesk.wire.auth import Token, Tokens

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OWNER: Final = "owner"


@click.group(cls=DeskGroup)
def token() -> None:
    """List, add and revoke bearer tokens.

    A desk that is running takes a change with its next request.
    """


@token.command("list")
@pass_console
def list_tokens(console: Console) -> None:
    """List the tokens by name, with their scopes; secrets are not kept and cannot be shown."""
    tokens = _tokens(console).list()
    rows = [(one.name, _scopes(one), one.digest[:8]) for one in tokens]
    document = [{"name": name, "scopes": scopes.split(","), "id": digest} for name, scopes, digest in rows]
    text = table(rows, ("NAME", "SCOPES", "ID")) if rows else "No tokens yet; the first serve makes one."
    console.answer({"tokens": document}, text)


@token.command()
@click.argument("name")
@click.option("--scopes", default="read", show_default=True, help="Any of read,write,trade.")
@pass_console
def add(console: Console, name: str, scopes: str) -> None:
    """Add a token and print its secret, this once."""
    if not _NAME.fullmatch(name):
        raise Misuse(f"{name!r} is no token name: use letters, digits, dots, dashes, underscores.")
    if name == _OWNER:
        raise Misuse("The owner's token is made by the desk itself; choose another name.")
    granted = _parse(scopes)
    try:
        secret = _tokens(console).issue(name, granted)
    except ValueError as fault:
        raise Failed(sentence(fault)) from None
    console.answer({"name": name, "scopes": list(granted), "token": secret}, secret)
    console.note("This is the only time it is shown.")


@token.command()
@click.argument("name")
@pass_console
def revoke(console: Console, name: str) -> None:
    """Revoke a token by name. After the owner's, the next serve makes a new one."""
    if not _tokens(console).revoke(name):
        raise Failed(f"There is no token named {name!r}; tracedesk token list shows them.")
    console.answer({"name": name, "revoked": True}, f"Revoked {name}.")


def _tokens(console: Console) -> Tokens:
    from tracedesk.wire.auth import Tokens

    home = console.settings().home
    try:
        return Tokens(home)
    except (ValueError, KeyError, TypeError):
        raise Failed(
            f"{home / 'tokens.json'} is damaged. Remove it; the next serve makes a new one."
        ) from None


def _scopes(one: Token) -> str:
    from tracedesk.wire.auth import SCOPES

    return ",".join(scope for scope in SCOPES if scope in one.scopes)


def _parse(text: str) -> tuple[Scope, ...]:
    from tracedesk.wire.auth import SCOPES

    names = {part.strip() for part in text.split(",") if part.strip()}
    if not names or names - set(SCOPES):
        raise Misuse(f"--scopes takes any of {','.join(SCOPES)}, not {text!r}.")
    return tuple(scope for scope in SCOPES if scope in names)
