"""`tracedesk graph`: index code, search it, keep its graph up to date, and see what is known of it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tracedesk.cli.atlas import asked, project_option, root_of
from tracedesk.cli.console import Console, Failed, Misuse, pass_console, short_path, table
from tracedesk.cli.frame import DeskGroup
from tracedesk.cli.graph_jac import export, walk

if TYPE_CHECKING:
    from tracedesk.codegraph.desk import Atlas

T = TypeVar("T")
_FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)
_REASONS: Final = 8


@click.group(cls=DeskGroup)
def graph() -> None:
    """Index code, search it, keep its graph up to date, and see what is known of it."""


@graph.command()
@click.argument("path", type=_FOLDER)
@click.argument("files", nargs=-1)
@click.option(
    "--semantic", is_flag=True, help="Make the vectors of an installed MiniLM now too; it takes minutes."
)
@pass_console
def index(console: Console, path: Path, files: tuple[str, ...], semantic: bool) -> None:
    """Index the project at PATH: all that git would track, or only FILES, which are paths and folders in it.

    The graph then holds these files and no others. Exit code 1 when nothing could be indexed.
    """
    root = path.absolute()
    answer = asked(console, (root,), lambda atlas: _index(atlas, root, files, semantic))
    console.answer(answer, "\n".join(_index_lines(answer)))
    if not answer["indexed_files"]:
        raise Failed(f"Nothing in {short_path(path.absolute())} could be indexed.")


async def _index(atlas: Atlas, root: Path, files: Sequence[str], semantic: bool) -> dict[str, Any]:
    from tracedesk.cli.progress import Bar
    from tracedesk.codegraph import indexing

    with Bar("index") as bar:
        given = {"project_root": str(root), "files": list(files)}
        answer = (await indexing.index(atlas, given, bar)).body
    with Bar("vectors") as bar:
        real = atlas.root(str(root))
        indexing.embed(atlas, real, bar.show, every=semantic)
        return {**answer, "coverage": {**answer["coverage"], **indexing.embedded(atlas, real)}}


@graph.command()
@pass_console
def status(console: Console) -> None:
    """List the indexed projects with their size, how much of them has vectors, and their version."""
    from tracedesk.codegraph import indexing

    found = asked(console, (), indexing.status)
    if not found["projects"]:
        return console.answer(found, "No project is indexed yet; `tracedesk graph index PATH` does it.")
    heads = ("PROJECT", "FILES", "SYMBOLS", "VECTORS", "INDEXED", "VERSION")
    return console.answer(found, table([_status_row(row) for row in found["projects"]], heads))


@graph.command()
@click.argument("query", nargs=-1, required=True)
@click.option(
    "-k", "--top-k", default=10, show_default=True, type=click.IntRange(1, 100), help="How many files."
)
@project_option
@pass_console
def search(console: Console, query: tuple[str, ...], top_k: int, project: Path | None) -> None:
    """Find the files and symbols for QUERY, words or names, best first."""
    from tracedesk.codegraph import finding

    root = root_of(console, project)
    given = {"query": " ".join(query), "project_root": root, "top_k": top_k}
    answer = asked(console, (Path(root),), lambda atlas: finding.search(atlas, given)).body
    console.answer(answer, "\n".join(_search_lines(answer)) or "Nothing was found.")


@graph.command()
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--max-tokens", default=2048, show_default=True, type=click.IntRange(128), help="For all files together."
)
@project_option
@pass_console
def context(console: Console, files: tuple[str, ...], max_tokens: int, project: Path | None) -> None:
    """Show what is in FILES, as outlines in at most so many tokens."""
    from tracedesk.codegraph import contexts

    root = root_of(console, project)
    given = {"project_root": root, "files": list(files), "max_tokens": max_tokens}
    answer = asked(console, (Path(root),), lambda atlas: contexts.context(atlas, given))
    console.answer(answer, "\n\n".join(_context_lines(answer)))


@graph.command()
@click.argument("path", type=_FOLDER)
@click.option("--interval", default=1.0, show_default=True, metavar="S", help="Seconds between two looks.")
@pass_console
def watch(console: Console, path: Path, interval: float) -> None:
    """Keep the graph of the project at PATH up to date until Ctrl-C; it is indexed first if it is not yet."""
    if interval <= 0:
        raise Misuse("--interval must be above 0.")
    root = path.absolute()
    asked(console, (root,), lambda atlas: _watch(console, atlas, root, interval))


async def _watch(console: Console, atlas: Atlas, root: Path, interval: float) -> None:
    from tracedesk.cli.progress import Bar
    from tracedesk.codegraph.watch import Watch

    stop = _interrupted()
    with Bar("index") as bar:
        watch = await Watch.begin(atlas, str(root), bar)
    facts = {"project_root": str(root), "graph_version": watch.version, "watching": watch.files}
    console.answer(facts, f"Watching {watch.files:,} files of {short_path(root)}; stop with Ctrl-C.")
    while not await _within(stop, interval):
        sys.stdout.flush()
        changed = await watch.look()
        if changed is not None:
            console.answer(changed, _changed_line(changed))


def _interrupted() -> asyncio.Event:
    """Set by Ctrl-C or SIGTERM, which end a watch as they should, not as a failure."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


# --- words --------------------------------------------------------------------------------------


def _index_lines(answer: dict[str, Any]) -> Generator[str]:
    counts = answer["counts"]
    shown = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    yield f"{shown}; version {answer['graph_version']}."
    by_reason: dict[str, int] = {}
    for skipped in answer.get("skipped", ()):
        by_reason[skipped["reason"]] = by_reason.get(skipped["reason"], 0) + 1
    ranked = sorted(by_reason.items(), key=lambda item: -item[1])
    for reason, count in ranked[:_REASONS]:
        yield f"  skipped {count:,}: {reason}"
    for warning in answer.get("warnings", ()):
        yield f"  {warning}"


def _status_row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        short_path(Path(row["project_root"])),
        f"{row['files']:,}",
        f"{row['symbols']:,}",
        f"{max(row['coverage'].values(), default=0.0):.0%}",
        row["indexed_at"],
        row["graph_version"],
    )


def _search_lines(answer: dict[str, Any]) -> Generator[str]:
    for hit in answer["files"]:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in hit["reasons"].items() if value)
        yield f"{hit['score']:.2f}  {hit['file']}  ({parts})"
        for symbol in hit.get("symbols", ()):
            yield f"        {symbol['line']}: {symbol.get('signature') or symbol['name']}"


def _context_lines(answer: dict[str, Any]) -> Generator[str]:
    for entry in answer["contexts"]:
        cut = ", cut" if entry.get("truncated") else ""
        yield f"== {entry['file']} ({entry['status']}{cut})\n{entry['summary']}"
    if answer.get("omitted"):
        yield f"{answer['omitted']} files did not fit; raise --max-tokens."


def _changed_line(answer: dict[str, Any]) -> str:
    gone = len(answer["deleted_files"])
    fresh = len(answer["updated_files"]) - gone
    return f"{fresh} updated, {gone} removed; version {answer['graph_version']}."


graph.add_command(export)
graph.add_command(walk)
