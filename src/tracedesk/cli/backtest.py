"""`tracedesk backtest`: runs brought in, listed, shown, written out, and told as a page."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tracedesk.cli.console import (
    Console,
    Failed,
    Misuse,
    pass_console,
    print_json,
    sentence,
    short_path,
    size_text,
)
from tracedesk.cli.frame import DeskGroup
from tracedesk.primitives import json
from tracedesk.primitives.text import escape_controls, sanitize_terminal

if TYPE_CHECKING:
    from tracedesk.backtest.importing import Imported
    from tracedesk.backtest.query import Recording
    from tracedesk.backtest.story import Rejected
    from tracedesk.catalog import Catalog, Run
    from tracedesk.home import Home

_FEWEST: Final = 4
"""Characters of an id that may stand for the whole."""
_NAMED: Final = 6
_REASONS: Final = 20
_PIPE_WIDTH: Final = 200
_SEVERITIES: Final = ("Error", "Warning", "Info", "Debug")

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FORM = click.Choice(["jsonl", "parquet"])
_OUT = click.Path(dir_okay=False, path_type=Path)

Heads = Sequence[str]


@click.group(cls=DeskGroup)
def backtest() -> None:
    """Import, list, show, export, report and remove recorded backtest runs."""


@backtest.command("import")
@click.argument("file", type=_FILE)
@click.option("--name", metavar="NAME", help="What to call the run [default: the file's name].")
@click.option("--run-id", metavar="GUID", help="The run's id, instead of the one the file names.")
@click.option("--force", is_flag=True, help="Import a file of which no line is an event.")
@pass_console
def import_(console: Console, file: Path, name: str | None, run_id: str | None, force: bool) -> None:
    """Bring in the events of FILE, a .jsonl or .jsonl.gz with one event object a line.

    Nothing is dropped: a line or an event that is not as it should be is kept with its validation errors. A
    file of which no line is an event is refused, unless --force is given.
    Importing the same file again changes nothing. An import that is interrupted leaves no run.
    """
    found = _brought_in(console, file, name, run_id, force)
    console.answer({"runs": [_import_document(run) for run in found]}, "\n".join(map(_import_text, found)))


@backtest.command()
@pass_console
def sample(console: Console) -> None:
    """Bring in the recorded sample run, and say what to ask about it."""
    from tracedesk.backtest.sample import bring_in, question
    from tracedesk.cli.progress import Bar

    with Bar("sample") as bar:
        run = bring_in(_home(console), progress=bar.show)
    advice = f"Serve the desk (`tracedesk serve`), connect an agent, and ask it:\n  {question(run)}"
    page = f"`tracedesk backtest report {run.id[:8]} --html report.html` draws it."
    document = {**_import_document(run), "question": question(run)}
    console.answer(document, f"{_import_text(run)}\n\n{advice}\nOr look yourself: {page}")


@backtest.command()
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1), help="How many runs.")
@pass_console
def runs(console: Console, limit: int) -> None:
    """List the runs of this home, newest first."""
    found = _runs(_home(console))
    shown = found[:limit]
    if console.json:
        console.answer({"runs": [_run_document(run) for run in shown], "total": len(found)}, "")
    elif not shown:
        console.answer(None, "There is no run yet; `tracedesk backtest sample` brings one in.")
    else:
        heads = ("Run", "Name", "Engine", "Status", "#Events", "Recorded")
        _print_table("", heads, [_run_row(run) for run in shown])
        if len(found) > limit:
            console.note(f"{len(found) - limit:,} older ones are not shown; --limit shows more.")


@backtest.command()
@click.argument("run")
@pass_console
def show(console: Console, run: str) -> None:
    """Show what RUN holds: its events by type and severity, its rejections by reason, its time range.

    RUN is an id, the beginning of one, or a name that only one run has.
    """
    with _recording(console, run) as (entry, recording):
        document = _show_document(entry, recording)
    if console.json:
        # A configuration may hold decimals, which keep their digits here as everywhere.
        print_json(json.dumps(document).decode())
    else:
        _print_run(document)


@backtest.command()
@click.argument("run")
@click.option("--format", "form", type=_FORM, default="jsonl", show_default=True, help="What to write.")
@click.option("--out", type=_OUT, metavar="FILE", help="Write to FILE; a .jsonl.gz is compressed.")
@pass_console
def export(console: Console, run: str, form: str, out: Path | None) -> None:
    """Write the events of RUN for another program, to FILE or, as JSONL, to the output.

    FILE appears when it is complete. The same run gives the same JSONL each time, and importing that gives
    the same events. Parquet needs the extra `parquet`.
    """
    if out is None and form == "parquet":
        raise Misuse("Parquet is not text: say --out FILE.")
    if out is None and console.json:
        raise Misuse("With --json, say --out FILE; the answer then tells what was written.")
    with _recording(console, run) as (entry, recording):
        if out is None:
            _pour(recording)
        else:
            count = _written(recording, form, out)
            facts = {"runId": entry.id, "format": form, "file": str(out.absolute()), "events": count}
            size = out.stat().st_size
            text = f"Wrote {count:,} events to {short_path(out.absolute())} ({size_text(size)})."
            console.answer({**facts, "bytes": size}, text)


@backtest.command()
@click.argument("run")
@click.option("--html", "out", type=_OUT, metavar="FILE", required=True, help="Where the page goes.")
@pass_console
def report(console: Console, run: str, out: Path) -> None:
    """Write RUN as one page: equity, drawdown, trades on price, rejections by reason, event counts.

    The page needs nothing but a browser: no script, no font, no network.
    """
    from tracedesk.backtest.export import whole
    from tracedesk.backtest.report import page_of
    from tracedesk.cli.progress import Bar

    with _recording(console, run) as (entry, recording), Bar("report") as bar:
        page = page_of(recording, entry.name, progress=bar.show)
    with whole(out) as fresh:
        fresh.write_bytes(page)
    text = f"Wrote {short_path(out.absolute())} ({size_text(len(page))}); open it in a browser."
    console.answer({"runId": entry.id, "file": str(out.absolute()), "bytes": len(page)}, text)


@backtest.command()
@click.argument("run")
@click.option("--force", is_flag=True, help="Remove a run that trades rest on.")
@pass_console
def rm(console: Console, run: str, force: bool) -> None:
    """Remove RUN for good: its events, its tables and its entry in the list.

    A run that is being recorded is not removed, and one that trades rest on only with --force: their trace
    would end there. `tracedesk prune` removes events alone and keeps manifests.
    """
    from tracedesk.backtest.explain import run_ref
    from tracedesk.backtest.runs import RunInUse, remove
    from tracedesk.forget import is_in_ledger

    home = _home(console)
    entry = _find(home, run)
    if not force and is_in_ledger(home, run_ref(entry.id)):
        raise Failed(
            f"Trades of this home rest on run {entry.id}, and their trace would end there. Keep it, or give "
            "--force to remove it all the same."
        )
    try:
        size = remove(home, entry.id)
    except RunInUse as refusal:
        raise Failed(sentence(refusal)) from None
    facts = {"runId": entry.id, "name": entry.name, "events": entry.events, "bytes": size}
    text = f"Removed run {entry.id} ({entry.name}): {entry.events:,} events, {size_text(size)}."
    console.answer(facts, text)


# --- runs -------------------------------------------------------------------------------------


def _home(console: Console) -> Home:
    from tracedesk.home import Home

    return Home.open(console.settings().home)


def _runs(home: Home) -> list[Run]:
    """Newest first, each as its file says; those whose recorder has died are settled on the way."""
    from tracedesk.backtest.runs import settle
    from tracedesk.catalog import Catalog

    settle(home)
    with Catalog(home) as catalog:
        return [run if run.is_settled else _fresh(catalog, run) for run in catalog.list()]


def _fresh(catalog: Catalog, run: Run) -> Run:
    """A running run as its file says, or as the catalog knows it when the file cannot be read."""
    from tracedesk.catalog import CatalogError
    from tracedesk.journal import JournalError
    from tracedesk.journal.sqlite import SQLiteError

    try:
        return catalog.refresh(run.id)
    except (CatalogError, JournalError, SQLiteError):
        return run


def _find(home: Home, text: str) -> Run:
    """The one run that the text names."""
    found = _runs(home)
    for match in (
        [run for run in found if run.id == text.lower()],
        [run for run in found if len(text) >= _FEWEST and run.id.startswith(text.lower())],
        [run for run in found if run.name == text],
    ):
        if len(match) == 1:
            return match[0]
        if match:
            ids = ", ".join(run.id for run in match[:_NAMED])
            raise Failed(f"{len(match)} runs are called {text!r}: {ids}. Give one of these ids.")
    raise Failed(f"No run {text!r} is here. `tracedesk backtest runs` lists those that are.")


@contextmanager
def _recording(console: Console, text: str) -> Generator[tuple[Run, Recording]]:
    """A run as it is at one moment."""
    from tracedesk.backtest import shadow
    from tracedesk.backtest.query import Recording
    from tracedesk.journal import JournalError, Reader, StreamPruned
    from tracedesk.journal.sqlite import SQLiteError

    home = _home(console)
    entry = _find(home, text)
    try:
        with Reader(home.run_file(entry.id)) as reader:
            shadow.prepare(reader, entry.id)
            with reader.connection:
                recording = Recording.of(reader, entry.id)
                if recording is None:
                    raise Failed(f"The tables of run {entry.id} are being built; try again in a moment.")
                yield entry, recording
    except StreamPruned:
        raise Failed(f"The events of run {entry.id} were pruned; only its manifest is left.") from None
    except (JournalError, SQLiteError) as problem:
        raise Failed(f"The file of run {entry.id} cannot be read: {sentence(problem)}") from None


def _brought_in(
    console: Console, file: Path, name: str | None, run_id: str | None, force: bool
) -> list[Imported]:
    from tracedesk.backtest.importing import ImportRefused, import_file
    from tracedesk.cli.progress import Bar
    from tracedesk.primitives.ids import is_uuid

    if run_id is not None and not is_uuid(run_id):
        raise Misuse(f"--run-id takes a GUID like 0190b5a0-3c1e-7d4f-8a2b-6c5d4e3f2a1b, not {run_id!r}.")
    given: dict[str, Any] = {"name": name, "run_id": run_id, "force": force}
    try:
        with Bar("import") as bar:
            return import_file(_home(console), file, **given, progress=bar.show)
    except ImportRefused as refusal:
        raise Failed(sentence(refusal)) from None


# --- files ------------------------------------------------------------------------------------


def _pour(recording: Recording) -> None:
    from tracedesk.backtest.export import jsonl

    out = sys.stdout.buffer
    is_shown = sys.stdout.isatty()
    for line in jsonl(recording):
        out.write(escape_controls(line.decode()).encode() if is_shown else line)
    out.flush()


def _written(recording: Recording, form: str, out: Path) -> int:
    from tracedesk.backtest import export as exporting
    from tracedesk.backtest import parquet

    if form == "jsonl":
        return exporting.keep(exporting.jsonl(recording), out)
    try:
        return parquet.keep(recording, out)
    except parquet.ParquetMissing as missing:
        raise Failed(sentence(missing)) from None


# --- what is said -----------------------------------------------------------------------------


def _import_document(run: Imported) -> dict[str, Any]:
    return {
        "runId": run.id,
        "name": run.name,
        "events": run.events,
        "invalid": run.invalid,
        "malformedLines": run.malformed,
        "isNew": run.is_new,
    }


def _import_text(run: Imported) -> str:
    if not run.is_new:
        return f"Run {run.id} ({run.name}) is here already: {run.events:,} events; nothing was changed."
    kept = f", {run.invalid:,} of them with validation errors" if run.invalid else ""
    lines = f" (malformed lines: {run.malformed:,})" if run.malformed else ""
    return f"Run {run.id} ({run.name}): {run.events:,} events{kept}{lines}."


def _run_document(run: Run) -> dict[str, Any]:
    from tracedesk.primitives.time import MILLISECOND, format

    return {
        "runId": run.id,
        "name": run.name,
        "engine": run.kind,
        "status": run.status,
        "events": run.events,
        "pruned": run.pruned,
        "recordedAt": format(run.created_ns // MILLISECOND * MILLISECOND),
    }


def _run_row(run: Run) -> tuple[str, ...]:
    facts = _run_document(run)
    status = f"{run.status}, pruned" if run.pruned else run.status
    return run.id, run.name, run.kind, status, f"{run.events:,}", facts["recordedAt"]


def _show_document(run: Run, recording: Recording) -> dict[str, Any]:
    from tracedesk.backtest.story import counts_of, reasons_of
    from tracedesk.primitives.time import format

    counts = counts_of(recording)
    times = recording.times
    groups = sorted(reasons_of(recording).items(), key=lambda item: -item[1].count)
    return {
        **_run_document(run),
        "events": recording.head,
        "invalid": counts.invalid,
        "from": format(times[0]) if times else None,
        "to": format(times[1]) if times else None,
        "meta": dict(recording.meta),
        "types": {name: dict(row) for name, row in counts.by_type.items()},
        "rejections": [_reason_document(code, group) for code, group in groups],
    }


def _reason_document(code: str, group: Rejected) -> dict[str, Any]:
    symbols = sorted(group.symbols)
    facts = {"reason": code, "orders": group.count, "symbols": symbols, "firstEvent": group.first_seq}
    return facts if group.reason == code else {**facts, "example": group.reason}


def _print_run(facts: dict[str, Any]) -> None:
    head = [(label, str(facts[key])) for label, key in _HEAD.items() if facts[key] not in (None, "")]
    _print_table(facts["name"], ("", ""), head)
    _print_types(facts["types"])
    _print_reasons(facts["rejections"])


def _print_types(types: dict[str, dict[str, int]]) -> None:
    found = [name for name in _SEVERITIES if any(name in row for row in types.values())]
    rows = [
        (name, f"{sum(row.values()):,}", *(f"{row.get(severity, 0):,}" for severity in found))
        for name, row in types.items()
    ]
    _print_table("Events", ("Type", "#Events", *(f"#{name}" for name in found)), rows)


def _print_reasons(reasons: list[dict[str, Any]]) -> None:
    if not reasons:
        return
    rows = [
        (each["reason"], f"{each['orders']:,}", ", ".join(each["symbols"]), str(each["firstEvent"]))
        for each in reasons[:_REASONS]
    ]
    _print_table("Rejections by reason", ("Reason", "#Orders", "Symbols", "#First event"), rows)
    if len(reasons) > _REASONS:
        click.echo(f"{len(reasons) - _REASONS:,} more reasons; --json lists all.")


_HEAD: Final = {
    "Run": "runId",
    "Engine": "engine",
    "Status": "status",
    "Recorded": "recordedAt",
    "From": "from",
    "To": "to",
    "Events": "events",
    "With validation errors": "invalid",
}


def _print_table(title: str, heads: Heads, rows: Sequence[Sequence[str]]) -> None:
    """A table for people; # before a head sets its column to the right. Cells are text, never markup."""
    from rich import box
    from rich.console import Console as Terminal
    from rich.table import Table
    from rich.text import Text

    shown = Table(
        title=Text(sanitize_terminal(title), style="bold") if title else None,
        title_justify="left",
        show_header=any(heads),
        box=box.SIMPLE_HEAD if any(heads) else None,
        pad_edge=False,
    )
    for head in heads:
        side = "right" if head[:1] == "#" else "left"
        shown.add_column(Text(head.lstrip("#")), justify=side, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(sanitize_terminal(cell).replace("\n", " ")) for cell in row))
    terminal = Terminal(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False, markup=False)
    terminal.print(shown)
