"""`tracedesk trace`: the recorded calls and attempts, and proof that nobody changed them."""

from __future__ import annotations

import asyncio
import json as plain
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from tracedesk.cli.atlas import asked, told
from tracedesk.cli.console import Console, Failed, Misuse, pass_console, print_json, table
from tracedesk.cli.frame import DeskGroup

if TYPE_CHECKING:
    from tracedesk.calls.history import Ended
    from tracedesk.codegraph.desk import Atlas
    from tracedesk.home import Home
    from tracedesk.journal import Reader, Report

_POLL_SECONDS: Final = 0.25
_FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)
_COLUMNS: Final = ("STARTED", "TOOL", "OUTCOME", "TIME", "CALL")


@click.group(cls=DeskGroup)
def trace() -> None:
    """See recorded calls and attempts, import history, and verify the record."""


@trace.command()
@click.option("-n", "--lines", default=20, show_default=True, help="How many of the newest calls.")
@click.option("-f", "--follow", is_flag=True, help="Go on as calls are recorded, until interrupted.")
@click.option("--attempt", help="Only the calls of this attempt.")
@pass_console
def tail(console: Console, lines: int, follow: bool, attempt: str | None) -> None:
    """Show the newest calls."""
    from tracedesk.calls.history import after, newest

    with _reader(console) as reader:
        calls = newest(reader, lines, attempt)
        _print(console, calls, heading=True)
        while follow:
            time.sleep(_POLL_SECONDS)
            fresh = after(reader, calls[-1].event if calls else 0, attempt)
            _print(console, fresh, heading=False)
            calls = fresh or calls


@trace.command()
@click.argument("ref", metavar="REF|ID|ATTEMPT")
@click.option("--depth", default=0, show_default=True, type=click.IntRange(0, 10), help="Steps to follow.")
@pass_console
def show(console: Console, ref: str, depth: int) -> None:
    """Show the source behind a reference, a tool_call_id, or an attempt's id, and where it leads.

    Follows what the tool `trace` follows, in the files of the home: no desk has to run.
    """
    from tracedesk.desk_tools import Walk
    from tracedesk.primitives import json

    async def follow(home: Home) -> Walk | None:
        from tracedesk.cli.references import following
        from tracedesk.desk_tools import walk

        async with following(home) as resolve:
            root = await resolve(ref)
            return None if root is None else await walk(root, depth, resolve)

    with told():
        walked = asyncio.run(follow(_recorded(console)))
    if walked is None:
        raise Failed(f"Nothing in this home is {ref!r}; `tracedesk trace tail` lists calls.")
    # Read back by the standard library, whose numbers the console can print.
    nodes = plain.loads(json.dumps(walked.nodes))
    followed = {"root": nodes[0]["ref"], "nodes": nodes, "unresolved": walked.unresolved}
    document = {**followed, "complete": walked.complete} if depth else nodes[0]
    lines = [line for node in nodes for line in _lines(node)]
    lines += [f"not found: {name}" for name in walked.unresolved]
    console.answer(document, "\n".join(lines))


def _recorded(console: Console) -> Home:
    """The home, where anything has been recorded in it."""
    from tracedesk.home import Home

    path = console.settings().home
    if not path.exists() or not Home(path).databases():
        raise Failed(f"Nothing is recorded in {path} yet.")
    return Home.open(path)


@trace.command("import-git")
@click.argument("path", type=_FOLDER)
@click.option("--most", default=10_000, show_default=True, type=click.IntRange(1), help="The newest so many.")
@click.option("--since", metavar="TIME", help="Only commits from this time on, such as 2026-01-01T00:00Z.")
@pass_console
def import_git(console: Console, path: Path, most: int, since: str | None) -> None:
    """Take the history of the repository at PATH as attempts: what each commit set out to do, and its files.

    Commits that were taken before stay as they are. An attempt is named `git:` and the commit's hash.
    """
    from tracedesk.cli.progress import Bar
    from tracedesk.codegraph.etg.git import Imported, import_history

    since_ns = None if since is None else _moment(since)

    async def work(atlas: Atlas) -> Imported:
        with Bar("import") as bar:
            return import_history(atlas.etg, path, since_ns=since_ns, most=most, progress=bar.show)

    done = asked(console, (path,), work)
    facts = {"project_root": done.project, "commits": done.commits, "new": done.new, "reverts": done.reverts}
    console.answer(
        facts, f"{done.commits:,} commits read, {done.new:,} new attempts, {done.reverts:,} reverts."
    )


def _moment(text: str) -> int:
    from tracedesk.primitives.time import parse

    try:
        instant = parse(text)
    except ValueError as fault:
        raise Misuse(f"--since: {fault}.") from None
    if instant.form != "exact":
        raise Misuse(f"--since {text} has no offset; write it like 2026-01-01T00:00Z.")
    return instant.ns


@trace.command()
@click.argument("attempt")
@click.option("--format", "form", type=click.Choice(["otlp"]), default="otlp", show_default=True)
@pass_console
def export(console: Console, attempt: str, form: str) -> None:
    """Write an attempt to the output: as an OTLP trace, in JSON with GenAI names."""
    from tracedesk.codegraph.capture.export import Attempt
    from tracedesk.codegraph.capture.export import export as exported
    from tracedesk.codegraph.etg.read import AttemptView, whole
    from tracedesk.primitives import json

    async def work(atlas: Atlas) -> tuple[AttemptView | None, tuple[str, ...]]:
        now = atlas.clock.now_ns()
        late = await atlas.caught_up()
        return await atlas.traced(lambda reader: whole(reader, attempt, now)), late

    found, late = asked(console, (), work)
    if found is None:
        raise Failed(" ".join((f"No attempt {attempt!r} was recorded.", *late)))
    for warning in late:
        console.note(warning)
    print_json(json.dumps(exported(Attempt.of(found))).decode())


@trace.command()
@click.option("--all", "everything", is_flag=True, help="Every journal of the home, not only the trace.")
@pass_console
def verify(console: Console, everything: bool) -> None:
    """Check every record against its hash chain; exit 1 if anything was changed.

    Also finds a trace that is older than ledger.db has stored, such as a copy put back.
    """
    from tracedesk.journal import Fault, Report
    from tracedesk.journal import verify as check
    from tracedesk.rollback import TRACE
    from tracedesk.rollback import check as losses

    home = console.settings().home
    reports = {str(f.relative_to(home)): check(f) for f in _journals(home, everything) if f.exists()}
    for loss in losses(home, (TRACE,)):
        report = reports.setdefault(TRACE, Report())
        report.faults.append(Fault(loss.stream, loss.seq, loss.problem_by))
    if not reports:
        raise Failed(f"There is nothing to verify in {home} yet.")
    rows = [_row(name, report) for name, report in reports.items()]
    console.answer({"files": [_report(*item) for item in reports.items()]}, table(rows, _VERIFY))
    if not all(report.is_sound for report in reports.values()):
        raise Failed("The record is not what was written; the faults are listed above.")


_VERIFY: Final = ("FILE", "STREAMS", "EVENTS", "PRUNED", "FORGOTTEN", "STATE")


def _row(name: str, report: Report) -> tuple[str, str, str, str, str, str]:
    state = (
        "sound" if report.is_sound else "; ".join(f"{f.stream} {f.seq}: {f.problem}" for f in report.faults)
    )
    figures = (report.streams, report.events, report.pruned, report.forgotten)
    return (name, *map(str, figures), state)  # pyright: ignore[reportReturnType]


def _report(name: str, report: Report) -> dict[str, Any]:
    faults = [{"stream": f.stream, "seq": f.seq, "problem": f.problem} for f in report.faults]
    facts = {"streams": report.streams, "events": report.events, "pruned": report.pruned}
    facts["forgotten"] = report.forgotten
    return {"file": name, "sound": report.is_sound, **facts, "heads": report.heads, "faults": faults}


def _journals(home: Path, everything: bool) -> Iterator[Path]:
    yield home / "trace.db"
    if everything:
        yield from sorted((home / "runs").glob("*.db"))


def _reader(console: Console) -> Reader:
    from tracedesk.journal import JournalError, Reader

    path = console.settings().home / "trace.db"
    try:
        return Reader(path)
    except JournalError:
        raise Failed(f"Nothing is recorded in {path.parent} yet.") from None


def _print(console: Console, calls: list[Ended], *, heading: bool) -> None:
    from tracedesk.primitives.time import format

    if console.json:
        for call in calls:
            console.answer({"time": format(call.time_ns), **call.body}, "")
        return
    rows = [(format(call.time_ns), *_cells(call.body)) for call in calls]
    if rows:
        console.answer(None, table(rows, _COLUMNS if heading else ()))
    elif heading:
        console.note("No calls recorded yet.")


def _cells(body: dict[str, Any]) -> tuple[str, str, str, str]:
    outcome = body.get("code") or body["outcome"]
    return body["tool"], outcome, f"{body['us'] / 1000:.1f} ms", body["id"]


def _lines(node: dict[str, Any]) -> Iterator[str]:
    margin = "    " * node["depth"]
    yield f"{margin}{node['ref']}"
    found = node["body"]
    body = cast("dict[str, Any]", found) if isinstance(found, dict) else {"body": found}
    for name, value in body.items():
        yield f"{margin}  {name}: {value}"
    for edge in node["edges"]:
        yield f"{margin}  → {edge['relation']} {edge['ref']}"
