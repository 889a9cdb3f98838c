"""`tracedesk verify`: everything that a home has recorded, against its chains, itself and an anchor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracedesk.cli.console import Console, Failed, pass_console, short_path
from tracedesk.cli.frame import DeskCommand

if TYPE_CHECKING:
    from tracedesk.anchor import Anchor, Comparison
    from tracedesk.home import Home
    from tracedesk.rollback import Loss


@dataclass(slots=True)
class _Checked:
    """Faults by file, and what was counted on the way."""

    files: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    losses: list[Loss] = field(default_factory=list["Loss"])
    since: dict[str, Any] | None = None

    @property
    def is_sound(self) -> bool:
        since = self.since is None or self.since["sound"]
        return since and not self.losses and all(file["sound"] for file in self.files)

    def document(self) -> dict[str, Any]:
        losses = [loss.document() for loss in self.losses]
        return {"sound": self.is_sound, "files": self.files, "losses": losses, "since": self.since}


@click.command(cls=DeskCommand)
@click.option(
    "--since",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also find what was lost since `tracedesk anchor` wrote FILE.",
)
@pass_console
def verify(console: Console, since: Path | None) -> None:
    """Check everything the home has recorded: trace, ledger, runs and campaigns.

    Every row is checked against its hash chain, and trace.db and ledger.db against what each has stored of
    the other. With --since, fails if the home has lost anything that FILE names: a stream or a run that is
    missing, shorter, or another one. Pruned streams are named and do not count as lost. Exit code 1 if
    anything is not as it was written.
    """
    from tracedesk.anchor import compare, read
    from tracedesk.home import Home
    from tracedesk.rollback import check

    home = Home(console.settings().home)
    anchor = None if since is None else read(since)  # a bad one is refused before the long work
    if not home.path.is_dir():
        raise Failed(f"There is no home at {home.path}. Name it with --home.")
    checked = _Checked(list(_files(home)), check(home.path))
    if since is not None and anchor is not None:
        checked.since = _since(since, anchor, compare(home, anchor, since.name))
    console.answer(checked.document(), "\n".join(_lines(checked)))
    if not checked.is_sound:
        raise Failed("The home is not what was written; the faults are listed above.")


def _files(home: Home) -> Iterator[dict[str, Any]]:
    """A report for each journal and for the ledger; indexes, which can be made anew, are left out."""
    from tracedesk.disk import journals
    from tracedesk.journal import verify as check

    known = {file for file, _ in journals(home)}
    required = {home.trace, *home.runs.glob("*.db")}  # a file that should be a journal and is not is a fault
    for file in home.databases():
        if file == home.ledger:
            yield _ledger(file)
        elif file in known or file in required:
            report = check(file)
            faults = [_fault(each.stream, each.seq, each.problem) for each in report.faults]
            facts = {"streams": report.streams, "entries": report.events, "pruned": report.pruned}
            yield {
                "file": file.relative_to(home.path).as_posix(),
                "sound": report.is_sound,
                **facts,
                "faults": faults,
            }


def _ledger(file: Path) -> dict[str, Any]:
    from tracedesk.trading.audit import verify as check

    report = check(file)
    faults = [_fault("", each.seq, each.problem) for each in report.faults]
    facts = {"streams": 1, "entries": report.entries, "pruned": 0}
    return {"file": file.name, "sound": report.is_sound, **facts, "faults": faults}


def _fault(stream: str, seq: int | None, problem: str) -> dict[str, Any]:
    return {"stream": stream or None, "seq": seq, "problem": problem}


def _since(file: Path, anchor: Anchor, found: Comparison) -> dict[str, Any]:
    return {
        "anchor": str(file.absolute()),
        "writtenAt": anchor.written_at,
        "key": anchor.fingerprint,
        "sound": not found.losses,
        "losses": [loss.document() for loss in found.losses],
        "pruned": [{"file": name, "stream": stream} for name, stream in found.pruned],
    }


# --- for people --------------------------------------------------------------------------------


def _lines(checked: _Checked) -> Iterator[str]:
    for file in checked.files:
        for fault in file["faults"]:
            yield f"{file['file']}{_place(fault)}: {fault['problem']}."
    for loss in checked.losses:
        yield f"{loss.text}."
    entries = sum(file["entries"] for file in checked.files)
    if checked.since is not None:
        yield from _since_lines(checked.since)
    verdict = "are sound" if checked.is_sound else "were checked"
    yield f"{entries:,} entries in {len(checked.files)} files {verdict}."


def _since_lines(since: dict[str, Any]) -> Iterator[str]:
    for loss in since["losses"]:
        yield f"{loss['file']}{_place(loss)}: {loss['problem']}, as {loss['storedBy']} has stored."
    for each in since["pruned"]:
        yield f"{each['file']}, {each['stream']}: pruned since; its seal and tombstone are there."
    verdict = "Nothing was lost" if since["sound"] else f"{len(since['losses'])} losses"
    where = short_path(Path(since["anchor"]))
    yield f"{verdict} since {since['writtenAt']} ({where}, signed by {since['key'][:16]})."


def _place(fault: dict[str, Any]) -> str:
    stream = f", {fault['stream']}" if fault["stream"] else ""
    return f"{stream}, {fault['seq']}" if fault["seq"] else stream
