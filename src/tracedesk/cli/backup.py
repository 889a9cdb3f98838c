"""`tracedesk backup`: a home copied while desks use it, and the check of such a copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracedesk.cli.console import Console, pass_console, short_path, size_text
from tracedesk.cli.frame import DeskCommand

if TYPE_CHECKING:
    from tracedesk.backup import Manifest, Verdict


@click.command(cls=DeskCommand)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--verify", is_flag=True, help="Check the backup in DIR instead of making one.")
@pass_console
def backup(console: Console, folder: Path, verify: bool) -> int:
    """Copy a home while desks use it, or check such a copy.

    DIR is a new folder. Each journal is copied in one consistent state; everything that was acknowledged
    before the command began is in it. DIR appears when it is complete. To restore, use DIR, or a copy of
    it, as the home. Tokens and keys are left out: a restored home makes its own, and running desks keep
    theirs. Exit code 1 of --verify means that DIR is not sound.
    """
    return _verify(console, folder) if verify else _make(console, folder)


def _make(console: Console, folder: Path) -> int:
    from tracedesk.backup import MANIFEST, back_up
    from tracedesk.cli.progress import Bar

    with Bar("backup") as bar:
        made = back_up(console.settings().home, folder, progress=bar.show)
    console.answer(
        {"folder": str(folder.resolve()), "manifest": str(folder.resolve() / MANIFEST), **_figures(made)},
        _told(made, folder),
    )
    return 0


def _figures(made: Manifest) -> dict[str, Any]:
    return {
        "files": len(made.items),
        "bytes": made.bytes,
        "journals": made.journals,
        "events": made.events,
        "homeFormat": made.home_format,
        "startedAt": made.started_at,
        "endedAt": made.ended_at,
        "leftOut": list(made.left_out),
        "credentials": list(made.credentials),
    }


def _told(made: Manifest, folder: Path) -> str:
    what = f"{len(made.items)} files, {size_text(made.bytes)}, {made.events:,} events"
    lines = [f"Backed up {what} to {short_path(folder.resolve())}."]
    if made.left_out:
        lines.append(f"Left out, for they are no plain files: {', '.join(made.left_out)}.")
    if made.credentials:
        lines.append(f"Left out, for they hold live credentials: {', '.join(made.credentials)}.")
    return "\n".join(lines)


def _verify(console: Console, folder: Path) -> int:
    from tracedesk.backup import check
    from tracedesk.cli.progress import Bar

    with Bar("verify") as bar:
        found = check(folder, progress=bar.show)
    document = {
        "sound": found.is_sound,
        "files": found.files,
        "bytes": found.bytes,
        "events": found.events,
        "faults": [{"path": path, "problem": problem} for path, problem in found.faults],
    }
    console.answer(document, _judged(found, folder))
    return 0 if found.is_sound else 1


def _judged(found: Verdict, folder: Path) -> str:
    if not found.is_sound:
        return "\n".join([f"{path}: {problem}." for path, problem in found.faults] + ["Not sound."])
    what = f"{found.files} files, {size_text(found.bytes)}, {found.events:,} events"
    return f"{short_path(folder.resolve())} is sound: {what}."
