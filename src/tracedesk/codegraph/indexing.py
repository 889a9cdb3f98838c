"""Indexing for a call: a project as a whole or file by file, beside everything else that the desk does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from tracedesk.codegraph import answers, indexer, refusals
from tracedesk.codegraph.desk import Atlas, as_tool_errors
from tracedesk.codegraph.graph.nodes import counts_of
from tracedesk.codegraph.graph.reports import UpdateReport
from tracedesk.codegraph.graph.store import Project
from tracedesk.codegraph.graph.update import update_files
from tracedesk.codegraph.indexer import Indexed, Request
from tracedesk.codegraph.refs import report_ref
from tracedesk.contract import Link, Linked
from tracedesk.jobs import Job, Listener, in_thread
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.time import format

PAGE: Final = 2_000
"""Paths on one page of a report."""
MOST_UPDATED: Final = 20_000
"""Paths that one update takes; an index is faster for more."""


async def index(atlas: Atlas, args: Mapping[str, Any], listener: Listener) -> Linked:
    """Index a project, and answer with what is in its graph now."""
    root = atlas.root(args["project_root"])
    request = Request(
        home=str(atlas.home.path),
        graph=str(atlas.home.graph),
        roots=atlas.jail.roots,
        root=root,
        files=tuple(args["files"]),
        hints=args.get("language_hints") or {},
        limits=atlas.limits,
        workers=atlas.workers,
    )

    def work(job: Job[Any]) -> Indexed:
        if indexer.is_small(request):
            report = request.run(atlas.store, job.report, job.check)
            return Indexed(report, embedded(atlas, root))
        return indexer.index(request, job.report, job.check, everywhere=not atlas.serves)

    indexed = await atlas.job("index", root, listener, work)
    report = indexed.report
    if atlas.calls is not None:
        atlas.semantics.fill(root, many=indexed.is_large)
    address = report_ref(root)
    body: dict[str, Any] = {
        "indexed_files": report.indexed_files,
        "graph_version": report.graph_version,
        "counts": report.counts,
        "skipped": [skip.document() for skip in report.skipped],
        "coverage": {**shares(report.coverage), **indexed.vectors},
        "warnings": report.warnings,
        "report": address,
    }
    return Linked(answers.within(body, atlas.max_bytes), (Link(address, "index report"),))


def shares(coverage: Mapping[str, Any]) -> dict[str, float]:
    """How much of the files was parsed without a problem, and in how much a symbol was found."""
    files = sum(row["files"] for row in coverage.values())
    if not files:
        return {}
    sound = sum(row["files"] - row["with_problems"] for row in coverage.values() if row["parsed"])
    speaking = sum(row["with_symbols"] for row in coverage.values())
    return {"parsed": sound / files, "symbols": speaking / files}


def embedded(atlas: Atlas, root: str) -> dict[str, float]:
    """The share of a project's chunks that have a vector, by model; a desk that serves makes the others."""
    with as_tool_errors(root):
        return indexer.shares_by_model(atlas.semantics.coverage(root))


def embed(atlas: Atlas, root: str, progress: Callable[[int, int], object], *, every: bool = False) -> None:
    """Make the vectors of a project now: those of the model in the package, or of every one."""
    from tracedesk.codegraph.embed.chunks import ProjectChunks
    from tracedesk.codegraph.embed.fill import fill

    models = atlas.semantics.models()
    for vectors in models if every else models[:1]:
        fill(vectors, ProjectChunks(atlas.store, root), progress=progress)


async def update(atlas: Atlas, args: Mapping[str, Any], listener: Listener) -> dict[str, Any]:
    """Bring named files into the graph as they are on the disk."""
    changed: list[str] = args.get("added_or_modified") or []
    deleted: list[str] = args.get("deleted") or []
    if len(changed) + len(deleted) > MOST_UPDATED:
        problem = f"more than {MOST_UPDATED} paths; call graph_index_project for so many"
        raise refusals.invalid("added_or_modified", f"{problem}.")
    root = atlas.root(args["project_root"])
    report = await brought(atlas, root, changed, deleted, listener)
    return {
        "updated_files": report.updated_files,
        "graph_version": report.graph_version,
        "unchanged_files": report.unchanged_files,
        "deleted_files": report.deleted_files,
        "skipped": [skip.document() for skip in report.skipped],
        "warnings": report.warnings,
    }


async def brought(
    atlas: Atlas, root: str, changed: list[str], deleted: list[str], listener: Listener
) -> UpdateReport:
    """The report of an update."""

    def work(job: Job[Any]) -> UpdateReport:
        return update_files(
            atlas.store,
            atlas.jail,
            root,
            changed,
            deleted,
            cancelled=job.check,
            workers=1,
            limits=atlas.limits,
            clock=atlas.clock,
        )

    report = await atlas.job("update", root, listener, work)
    if atlas.calls is not None and report.updated_files:
        atlas.semantics.fill(root)
    return report


# --- what is known of an index ------------------------------------------------------------------


async def report(atlas: Atlas, key: str, page: str) -> dict[str, Any] | None:
    """A page of the report of a project's last index."""
    root = atlas.by_key(key)
    if root is None or not page.isdecimal() or not page.isascii():
        return None
    page_of = await atlas.graph(root, lambda connection, project: _page(connection, project, int(page)))
    number, pages = int(page), page_of["pages"]
    if not 1 <= number <= pages:
        return None
    if number < pages:
        page_of["next"] = report_ref(root, number + 1)
    return page_of


def _page(connection: Connection, project: Project, page: int) -> dict[str, Any]:
    from tracedesk.primitives import json

    row = next(connection.execute("SELECT body FROM report WHERE project = ?", (project.id,)))
    whole: dict[str, Any] = json.loads(row[0])
    files: list[str] = whole.pop("indexed_files")
    skipped: list[Any] = whole.pop("skipped")
    start = (page - 1) * PAGE
    return {
        "project_root": project.root,
        "indexed_at": format(project.indexed_ns),
        **{name: value for name, value in whole.items() if name != "root"},
        "page": page,
        "pages": max(1, -(-max(len(files), len(skipped)) // PAGE)),
        "indexed_files": files[start : start + PAGE],
        "skipped": skipped[start : start + PAGE],
    }


async def status(atlas: Atlas) -> dict[str, Any]:
    """The projects that have a graph, how large each is, and how much of it has vectors."""
    rows: list[dict[str, Any]] = []
    for root in atlas.world.roots():
        row = await atlas.graph(root, _row)
        rows.append({**row, "coverage": await in_thread(partial(embedded, atlas, root))})
    return {"projects": rows}


def _row(connection: Connection, project: Project) -> dict[str, Any]:
    counts = counts_of(connection, project.id)
    return {
        "project_root": project.root,
        "graph_version": project.graph_version,
        "indexed_at": format(project.indexed_ns),
        "updated_at": format(project.updated_ns),
        "files": counts["files"],
        "symbols": counts["symbols"],
        "counts": counts,
    }


class Silent:
    """Shows no progress."""

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        return None
