"""`tracedesk graph export` and `graph walk`: the graph as Jac or JSON, and walkers of the user over it."""

from __future__ import annotations

import asyncio
import json as plain
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tracedesk.cli.atlas import asked, project_option, root_of, told
from tracedesk.cli.console import Console, Failed, Misuse, pass_console, short_path
from tracedesk.cli.frame import DeskCommand

if TYPE_CHECKING:
    from tracedesk.codegraph.desk import Atlas
    from tracedesk.codegraph.jac.types import Graph

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUT: Final = click.Path(dir_okay=False, path_type=Path)
_nodes = click.option(
    "--nodes", default=20_000, show_default=True, type=click.IntRange(1), help="Nodes that are taken at most."
)
_paths = click.option(
    "--path", "paths", multiple=True, metavar="P", help="Only files at or below P; repeatable."
)


@click.command(cls=DeskCommand)
@click.option("--format", "form", type=click.Choice(["jac", "json"]), default="jac", show_default=True)
@click.option(
    "--output", type=_OUT, metavar="FILE", help="Where to write [default: graph.jac or graph.json]."
)
@_nodes
@_paths
@project_option
@pass_console
def export(
    console: Console, form: str, output: Path | None, nodes: int, paths: tuple[str, ...], project: Path | None
) -> None:
    """Write the graph of a project and of what was tried on it, as Jac source or JSON."""
    from tracedesk.codegraph.jac.export import as_jac, as_json

    out = output or Path(f"graph.{form}")
    made = _taken(console, project, nodes, paths, embedded=True)
    with out.open("wb") as file:
        for part in as_json(made) if form == "json" else as_jac(made):
            file.write(part if isinstance(part, bytes) else part.encode())
    for note in made.coverage.notes:
        console.note(note)
    facts = {"file": str(out.absolute()), "format": form, "notes": list(made.coverage.notes)}
    console.answer(facts, f"Wrote {short_path(out.absolute())}.")


@click.command(cls=DeskCommand)
@click.argument("file", type=_FILE)
@click.option("--walker", metavar="NAME", help="The walker, when the file has several.")
@click.option("--arg", "given", multiple=True, metavar="NAME=JSON", help="A field of the walker; repeatable.")
@click.option("--python", type=_FILE, metavar="PATH", help="A Python 3.12 or newer that has jaclang.")
@click.option("--seconds", default=120.0, show_default=True, help="How long it may take.")
@_nodes
@_paths
@project_option
@pass_console
def walk(
    console: Console,
    file: Path,
    walker: str | None,
    given: tuple[str, ...],
    python: Path | None,
    seconds: float,
    nodes: int,
    paths: tuple[str, ...],
    project: Path | None,
) -> None:
    """Run a walker of FILE, a .jac, over the graph of a project, in a process of its own.

    A walker is a program: it runs with your rights. It needs the extra `jac`, or --python.
    """
    from tracedesk.codegraph.jac.walk import Limits
    from tracedesk.codegraph.jac.walk import walk as walked

    arguments = _arguments(given)
    made = _taken(console, project, nodes, paths, embedded=False)
    with told():
        done = walked(
            made, file, walker=walker, arguments=arguments, python=python, limits=Limits(seconds=seconds)
        )
    for note in done.notes:
        console.note(note)
    facts = {
        "walker": done.walker,
        "reports": done.reports,
        "state": dict(done.state),
        "printed": done.printed,
        "notes": done.notes,
    }
    console.answer(facts, plain.dumps({"reports": done.reports, "state": dict(done.state)}, indent=2))


def _arguments(given: Sequence[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        try:
            made[name] = plain.loads(value)
        except ValueError:
            sign = ""
        if not sign or not name:
            raise Misuse(f"--arg {text!r} is not NAME=JSON; write a text as name='\"text\"'.")
    return made


def _taken(
    console: Console, project: Path | None, nodes: int, paths: tuple[str, ...], *, embedded: bool
) -> Graph:
    """The part of a project's graph that is asked for."""
    from tracedesk.codegraph.jac.subgraph import Bounds, bounded

    root = root_of(console, project)

    async def work(atlas: Atlas) -> Graph:
        for warning in await atlas.caught_up():
            console.note(warning)
        real = atlas.root(root)
        vectors = atlas.semantics.models()[0] if embedded else None
        bounds = Bounds(nodes=nodes, paths=paths)
        return await asyncio.to_thread(
            lambda: bounded(
                atlas.store,
                real,
                now_ns=atlas.clock.now_ns(),
                trace_file=atlas.home.trace,
                vectors=vectors,
                bounds=bounds,
            )
        )

    try:
        return asked(console, (Path(root),), work)
    except ValueError as fault:
        raise Failed(f"{fault}.") from None
