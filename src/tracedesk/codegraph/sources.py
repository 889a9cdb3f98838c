"""What references of the code and trace graphs lead to: attempts, events, versions, files and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import unquote

from tracedesk.codegraph import indexing
from tracedesk.codegraph.desk import CATCHING_SECONDS, Atlas
from tracedesk.codegraph.etg import source as traced
from tracedesk.codegraph.graph.nodes import FileRow, file_at, symbols_of
from tracedesk.codegraph.graph.store import Project
from tracedesk.codegraph.refs import FILES, REPORTS, SCHEME, VERSIONS, file_ref, report_ref, version_ref
from tracedesk.contract import Edge, Source
from tracedesk.errors import ToolError
from tracedesk.journal import Reader
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.ids import is_uuid
from tracedesk.primitives.time import format

_MOST_SYMBOLS: Final = 100


async def resolve(ref: str, atlas: Atlas) -> Source | None:
    """What a reference, or the bare id of an event, leads to."""
    if ref.startswith(VERSIONS):
        return await _version(ref, atlas)
    if ref.startswith(FILES):
        return await _file(ref, atlas)
    if ref.startswith(REPORTS):
        return await _report(ref, atlas)
    if not ref.startswith(SCHEME) and not is_uuid(ref):
        return None
    if not atlas.home.trace.exists():
        return None
    now = atlas.clock.now_ns()
    late = await atlas.caught_up(CATCHING_SECONDS)
    found = await atlas.traced(lambda reader: _traced(atlas, reader, ref, now))
    if found is None and late and ref.startswith(SCHEME):  # a bare id may be another toolset's
        raise ToolError("DATABASE_ERROR", f"ref: it is not known yet. {late[0]}", {"ref": ref})
    return None if found is None else _with_version(found)


def _traced(atlas: Atlas, reader: Reader, ref: str, now: int) -> Source | None:
    """An attempt or an event, when its attempt may be shown here."""
    found = traced.resolve(reader, ref, now, file_ref)
    if found is None:
        return None
    query = "SELECT project FROM attempt WHERE name = ?"
    name = cast("Mapping[str, Any]", found.body)["attempt_id"]
    projects = [project for (project,) in reader.connection.execute(query, (name,))]
    return found if all(map(atlas.world.allows, projects)) else None


def _with_version(found: Source) -> Source:
    """An attempt or a checkpoint, with the way to the code that it was based on."""
    body = cast("Mapping[str, Any]", found.body)
    payload = body.get("payload")
    holder = cast("Mapping[str, Any]", payload) if isinstance(payload, Mapping) else body
    version = holder.get("graph_version")
    if not isinstance(version, str) or not version:
        return found
    return replace(found, edges=(*found.edges, Edge("graph_version", version_ref(version))))


async def _version(ref: str, atlas: Atlas) -> Source | None:
    """A state of the code that a graph here has or had."""
    version = unquote(ref.removeprefix(VERSIONS))
    root = atlas.world.project_of(version)
    if root is None or root not in atlas.indexed():
        return None

    def work(_: Connection, project: Project) -> dict[str, Any]:
        current = project.graph_version == version
        return {
            "graph_version": version,
            "project_root": root,
            "current": current,
            "current_version": project.graph_version,
            "indexed_at": format(project.indexed_ns),
        }

    body = await atlas.graph(root, work)
    edges = (Edge("report", report_ref(root)),) if body["current"] else ()
    return Source(ref, "graph_version", body, edges)


async def _file(ref: str, atlas: Atlas) -> Source | None:
    """A file as the graph has it; one that was removed is still known by name."""
    key, _, quoted = ref.removeprefix(FILES).partition("/")
    root, path = atlas.by_key(key), unquote(quoted)
    if root is None or not path:
        return None

    def work(connection: Connection, project: Project) -> Source | None:
        row = file_at(connection, project.id, path)
        if row is None:
            return None
        edges = (Edge("graph_version", version_ref(project.graph_version)),)
        return Source(ref, "file", _facts(connection, root, row), edges)

    return await atlas.graph(root, work)


def _facts(connection: Connection, root: str, row: FileRow) -> dict[str, Any]:
    names = [symbol.qualified for symbol in symbols_of(connection, row.id)[:_MOST_SYMBOLS]]
    return {
        "path": row.path,
        "project_root": root,
        "language": row.language,
        "hash": row.sha256.hex(),
        "lines": row.lines,
        "doc": row.doc,
        "symbols": names,
        "deleted": row.deleted,
    }


async def _report(ref: str, atlas: Atlas) -> Source | None:
    key, _, page = ref.removeprefix(REPORTS).partition("/")
    body = await indexing.report(atlas, key, page)
    if body is None:
        return None
    return Source(ref, "index_report", body, (Edge("graph_version", version_ref(body["graph_version"])),))
