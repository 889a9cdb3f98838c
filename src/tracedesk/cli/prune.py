"""`tracedesk prune`: what would go, and with --yes its going."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console, sentence, size_text, table
from tracedesk.cli.frame import DeskCommand
from tracedesk.primitives import time

if TYPE_CHECKING:
    from tracedesk.home import Home
    from tracedesk.prune import Outcome, Plan, Sealed

_AGE: Final = re.compile(r"([0-9]{1,6})([mhdw])")
_UNITS: Final = {"m": time.MINUTE, "h": time.HOUR, "d": time.DAY, "w": 7 * time.DAY}
_SIZE: Final = re.compile(r"([0-9]{1,12})\s*([KMGT]?)B?", re.IGNORECASE)
_POWERS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SHOWN: Final = 20
"""Streams that are listed for people; programs get all."""


@click.command(cls=DeskCommand)
@click.option("--older-than", metavar="AGE", help="Streams that ended before: 30d, 12h, or 2026-01-01.")
@click.option("--down-to", metavar="SIZE", help="Oldest first, until the journals take SIZE: 500MB, 20GB.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind of stream; repeatable.")
@click.option("--shrink", is_flag=True, help="Also rewrite large journals in use; their writers wait for it.")
@click.option("--dry-run", is_flag=True, help="Only say what would go (the default without --yes).")
@click.option("--yes", is_flag=True, help="Do it.")
@pass_console
def prune(
    console: Console,
    older_than: str | None,
    down_to: str | None,
    kinds: tuple[str, ...],
    shrink: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove old ended streams, leaving their manifests.

    A stream goes as a whole, and only when it is sealed; its manifest and a tombstone stay, so the journal
    still verifies. Payloads that nothing refers to any more go too. The ledger is never pruned. Without
    --yes nothing is removed.
    """
    if older_than is None and down_to is None:
        raise Misuse("Say what is old enough: --older-than AGE, --down-to SIZE, or both.")
    if yes and dry_run:
        raise Misuse("--yes and --dry-run exclude each other; choose one.")
    before = _moment(older_than) if older_than is not None else None
    size = _bytes(down_to) if down_to is not None else None
    _run(console, before, size, kinds, shrink, yes)


def _run(
    console: Console, before: int | None, size: int | None, kinds: tuple[str, ...], shrink: bool, yes: bool
) -> None:
    from tracedesk import prune as pruning
    from tracedesk.cli.progress import Bar
    from tracedesk.codegraph.etg.rebuild import forget_for_good

    home = _home(console)
    chosen = pruning.plan(home, before_ns=before, down_to=size, kinds=kinds)
    if not yes:
        console.answer(_planned(home, chosen), _plan_text(home, chosen))
        return
    with Bar("prune") as bar:
        outcome = pruning.prune(home, chosen, shrink=shrink, progress=bar.show, refold=forget_for_good)
    console.answer(_done(home, outcome), _done_text(outcome))


def _home(console: Console) -> Home:
    from tracedesk.home import Home

    path = console.settings().home
    if not path.is_dir():
        raise Failed(f"There is no home at {path}; name it with --home.")
    return Home.open(path)


def _moment(text: str) -> int:
    age = _AGE.fullmatch(text)
    if age is not None:
        return time.SystemClock().now_ns() - int(age[1]) * _UNITS[age[2]]
    try:
        return time.parse(text).ns
    except ValueError as fault:
        remedy = "An age is 30d, 12h, 90m or 2w."
        raise Misuse(f"--older-than: {sentence(fault)} {remedy}") from None


def _bytes(text: str) -> int:
    size = _SIZE.fullmatch(text.strip())
    if size is None:
        raise Misuse(f"--down-to takes a size like 500MB or 20GB, not {text!r}.")
    return int(size[1]) * _POWERS[size[2].upper()]


# --- what is said ------------------------------------------------------------------------------


def _planned(home: Home, chosen: Plan) -> dict[str, Any]:
    return {
        "dryRun": True,
        "streams": [_stream(home, stream) for stream in chosen.streams],
        "payloads": len(chosen.payloads),
        "bytes": chosen.bytes,
        "notes": list(chosen.notes),
    }


def _done(home: Home, outcome: Outcome) -> dict[str, Any]:
    return {
        "dryRun": False,
        "streams": [_stream(home, stream) for stream in outcome.streams],
        "payloads": outcome.payloads,
        "bytesFreed": outcome.freed,
        "bytesReusable": outcome.reusable,
        "notes": outcome.notes,
    }


def _stream(home: Home, stream: Sealed) -> dict[str, Any]:
    return {
        "file": _relative(home, stream.file),
        "stream": stream.name,
        "kind": stream.kind,
        "endedAt": time.format(stream.ended_ns),
        "events": stream.events,
        "bytes": stream.bytes,
    }


def _relative(home: Home, file: Path) -> str:
    return file.relative_to(home.path).as_posix()


def _plan_text(home: Home, chosen: Plan) -> str:
    what = _count(len(chosen.streams), len(chosen.payloads))
    if what is None:
        return _with_notes("Nothing to prune.", chosen.notes)
    rows = [
        (
            _relative(home, s.file),
            s.name,
            s.kind,
            time.format(s.ended_ns),
            f"{s.events:,}",
            size_text(s.bytes),
        )
        for s in chosen.streams[:_SHOWN]
    ]
    parts = [table(rows, ("FILE", "STREAM", "KIND", "ENDED", "EVENTS", "SIZE"))] if rows else []
    if len(chosen.streams) > _SHOWN:
        parts.append(f"... and {len(chosen.streams) - _SHOWN} more; --json lists all.")
    parts.append(f"{what} would go, about {size_text(chosen.bytes)}. Nothing was removed; add --yes.")
    return _with_notes("\n".join(parts), chosen.notes)


def _done_text(outcome: Outcome) -> str:
    what = _count(len(outcome.streams), outcome.payloads)
    if what is None:
        return _with_notes("Nothing to prune.", outcome.notes)
    text = f"Pruned {what}; {size_text(outcome.freed)} freed."
    if outcome.reusable:
        text += f" {size_text(outcome.reusable)} stay in journals in use, for their next events (--shrink)."
    return _with_notes(text, outcome.notes)


def _count(streams: int, payloads: int) -> str | None:
    named = [(streams, "stream"), (payloads, "payload")]
    return " and ".join(f"{n:,} {noun}{'s' * (n != 1)}" for n, noun in named if n) or None


def _with_notes(text: str, notes: Iterable[str]) -> str:
    return "\n".join((text, *notes))
