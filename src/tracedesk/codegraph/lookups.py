"""Looking things up for a call: neighbours of code, attempts one by one and in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from tracedesk.codegraph import answers, refusals
from tracedesk.codegraph.desk import Atlas
from tracedesk.codegraph.etg import read
from tracedesk.codegraph.etg.checks import timestamp
from tracedesk.codegraph.freshness import freshness, outdated, warning
from tracedesk.codegraph.graph.neighbours import (
    Bounded,
    FileNeighbours,
    Place,
    SymbolNeighbours,
    around_file,
    around_symbol,
)
from tracedesk.codegraph.graph.store import Project
from tracedesk.codegraph.usage import usage
from tracedesk.contract import Page
from tracedesk.errors import ToolError
from tracedesk.journal import Reader
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.paths import PathRefused

_SIMILAR: Final = 5
_NAMES: Final = 20_000
"""Names that are looked at for similar ones."""
_MOST: Final = 10_000
_MOST_PAGES: Final = 20
_VIEW_BYTES: Final = 200_000
"""Bytes of events that the view of an attempt begins with."""


def position(cursor: str | None) -> int:
    """The row at which a page begins."""
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > len(str(_MOST)):
        raise refusals.bad_cursor()
    return int(cursor)


# --- neighbours ---------------------------------------------------------------------------------


async def neighbors(atlas: Atlas, args: Mapping[str, Any]) -> Page:
    """What lies around a symbol or a file."""
    symbol, file = args.get("symbol"), args.get("file")
    if symbol is None and file is None:
        raise refusals.invalid("symbol", "missing, and so is file. Name a symbol, a file, or both.")
    root = atlas.chosen(args.get("project_root"))
    path = None if file is None else _path(atlas, root, file)
    wanted = frozenset(args.get("relations") or ())
    start = position(args.get("cursor"))
    last = start + args.get("limit", 100)

    def work(connection: Connection, project: Project) -> Page:
        of, rows = _around(connection, project.id, symbol, path, last + 1)
        found = [row for row in rows if not wanted or row["relation"] in wanted]
        fresh = freshness(connection, project, atlas.jail, atlas.limits)
        body: dict[str, Any] = {
            "of": of,
            "neighbors": found[start:last],
            "project_root": root,
            "graph_version": project.graph_version,
            "freshness": fresh,
            **answers.warned([*outdated(project), *warning(fresh)]),
        }
        if symbol is not None:
            body["usage"] = usage(connection, project.id, atlas.jail, root, symbol, path)
        return Page(body, "neighbors", lambda kept: str(start + kept), more=len(found) > last)

    return await atlas.graph(root, work)


def _path(atlas: Atlas, root: str, file: str) -> str:
    try:
        return atlas.jail.resolve(root, file).relative
    except PathRefused as refused:
        raise refusals.invalid("file", f"{refused}.", reason=refused.reason) from None


def _around(
    connection: Connection, project: int, symbol: str | None, path: str | None, most: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What was meant, and its neighbours in the order of their relations."""
    if symbol is None:
        path = path or "."
        found = around_file(connection, project, path, most)
        if found is None:
            raise refusals.not_in_graph("file", path, _near(connection, _PATHS, project, path))
        return [{"kind": "file", "file": path}], list(_of_file(found))
    around = around_symbol(connection, project, symbol, path, most)
    if around is None:
        raise refusals.not_in_graph("symbol", symbol, _near(connection, _SYMBOLS, project, symbol))
    return [_definition(place) for place in around.definitions.found], list(_of_symbol(around))


_PATHS: Final = "SELECT path FROM file WHERE project = ? AND deleted = 0 LIMIT ?"
_SYMBOLS: Final = "SELECT DISTINCT name FROM symbol WHERE project = ? LIMIT ?"


def _near(connection: Connection, query: str, project: int, name: str) -> list[str]:
    known = [row[0] for row in connection.execute(query, (project, _NAMES))]
    return get_close_matches(name, known, n=_SIMILAR)


def _of_file(found: FileNeighbours) -> Iterator[dict[str, Any]]:
    yield from _rows("defines", found.definitions)
    yield from _rows("imports", found.imports)
    yield from _rows("imported_by", found.imported_by)
    yield from _rows("references", found.references_out)
    yield from _rows("referenced_by", found.references_in)


def _of_symbol(found: SymbolNeighbours) -> Iterator[dict[str, Any]]:
    yield from _rows("references", found.references_out)
    yield from _rows("referenced_by", found.references_in)


def _rows(relation: str, bounded: Bounded) -> Iterator[dict[str, Any]]:
    for place in bounded.found:
        if isinstance(place, str):
            yield {"relation": relation, "file": place}
        else:
            yield {"relation": relation, **_place(place)}


def _place(place: Place) -> dict[str, Any]:
    shown = {"name": place.symbol, "kind": place.kind, "file": place.path, "line": place.line}
    return {name: value for name, value in shown.items() if value is not None}


def _definition(place: Place | str) -> dict[str, Any]:
    if isinstance(place, str):
        return {"kind": "file", "file": place}
    return {**_place(place), "signature": place.signature}


# --- attempts -----------------------------------------------------------------------------------


async def attempt(atlas: Atlas, args: Mapping[str, Any]) -> Page:
    """One attempt with a page of its events."""
    name, cursor = args["attempt_id"], args.get("cursor")
    now = atlas.clock.now_ns()
    late = await atlas.caught_up()
    found = await atlas.traced(lambda reader: read.attempt(reader, name, now, cursor=cursor))
    if found is None or not atlas.world.allows(found.brief.project):
        raise refusals.attempt_not_found(name, late)
    body = {
        "attempt": answers.brief(found.brief),
        "tool_calls": answers.tool_calls(found),
        "events": [answers.event(event) for event in found.events],
        **answers.warned(late),
    }
    return Page(body, "events", found.cursor, more=found.more)


async def view(atlas: Atlas, name: str) -> dict[str, Any] | None:
    """The same for a reader of resources: the first events, or None for an attempt that nobody logged."""
    try:
        page = await attempt(atlas, {"attempt_id": name})
    except ToolError as refused:
        if refused.code == "ATTEMPT_NOT_FOUND":
            return None
        raise
    events = answers.first_within(page.body["events"], _VIEW_BYTES)
    return {**page.body, "events": events, "truncated": page.more or len(events) < len(page.body["events"])}


async def timeline(atlas: Atlas, args: Mapping[str, Any]) -> Page:
    """Attempts by when they began, the latest first."""
    project = args.get("project_root")
    wanted = read.Wanted(
        project=None if project is None else atlas.root(project),
        path=args.get("file"),
        outcome=args.get("outcome"),
        since_ns=_moment(args, "since"),
        until_ns=_moment(args, "until"),
    )
    now = atlas.clock.now_ns()
    cursor, limit = args.get("cursor"), args.get("limit", 50)
    late = await atlas.caught_up()
    found = await atlas.traced(lambda reader: _allowed(atlas, reader, wanted, limit, cursor, now))
    body = {"attempts": [answers.brief(each) for each in found.attempts], **answers.warned(late)}
    return Page(body, "attempts", found.cursor, more=found.more)


def _allowed(
    atlas: Atlas, reader: Reader, wanted: read.Wanted, limit: int, cursor: str | None, now: int
) -> read.Timeline:
    """A page of the attempts that may be shown here; those between them are passed over."""
    page = read.timeline(reader, now, wanted, limit=limit, cursor=cursor)
    first, kept = page.first, list[read.Brief]()
    for _ in range(_MOST_PAGES):
        kept += [each for each in page.attempts if atlas.world.allows(each.project)]
        if not page.more or len(kept) >= limit:
            break
        page = read.timeline(reader, now, wanted, limit=limit - len(kept), cursor=page.last)
    return read.Timeline(tuple(kept), page.more, first, page.last)


def _moment(args: Mapping[str, Any], name: str) -> int | None:
    given = args.get(name)
    if given is None:
        return None
    try:
        return timestamp(given)
    except ToolError as refused:
        raise refusals.invalid(name, refused.message.partition(": ")[2]) from None
