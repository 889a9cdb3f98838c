"""`tracedesk anchor`: the signed heads of all streams, for a place outside the home."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tracedesk.cli.console import Console, Failed, pass_console, short_path
from tracedesk.cli.frame import DeskCommand


@click.command(cls=DeskCommand)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@pass_console
def anchor(console: Console, file: Path | None) -> None:
    """Write the hashes of all streams, signed, to FILE outside the home, or to the output.

    Keep FILE where nobody who may write the home can replace it. `tracedesk verify --since FILE` then finds
    what the home has lost since. The signature is by a key of the home (anchor.key): it shows that nobody
    without the key has changed FILE. Note the key's fingerprint too.
    """
    from tracedesk.anchor import document, write
    from tracedesk.home import Home

    home = console.settings().home
    if not home.is_dir():
        raise Failed(f"There is no home at {home}. Name it with --home.")
    made = document(Home.open(home))
    if file is None:
        import json

        click.echo(json.dumps(made, indent=1, sort_keys=True))
        return
    write(made, file, home)
    facts = _facts(made)
    where = short_path(file.absolute())
    text = (
        f"Wrote the heads of {facts['streams']:,} streams in {facts['files']} files to {where}."
        f"\nSigned by the key {facts['key']}."
    )
    console.answer({"file": str(file.absolute()), **facts}, text)


def _facts(made: dict[str, Any]) -> dict[str, Any]:
    from base64 import b64decode

    from tracedesk.anchor import fingerprint

    files = made["anchor"]["files"]
    return {
        "writtenAt": made["anchor"]["writtenAt"],
        "files": len(files),
        "streams": sum(len(each["streams"]) for each in files.values()),
        "key": fingerprint(b64decode(made["publicKey"])),
    }
