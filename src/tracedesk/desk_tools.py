"""The always-on toolset `desk`: what is served here, and where a reference leads."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tracedesk.contract import Annotations, Arguments, Call, Page, Source, Toolset
from tracedesk.errors import ToolError

_MOST_NODES: Final = 500
_READS: Final = Annotations(read_only=True, idempotent=True)


class Status(Protocol):
    """The desk, as its own toolset sees it."""

    def status(self) -> dict[str, Any]: ...


desk: Toolset[Status] = Toolset(
    "desk",
    summary="What this desk serves, and where any reference leads.",
    guide="call desk_status first; pass any tracedesk:// reference or tool_call_id to get_source or trace.",
)


@desk.tool(annotations=_READS, scope="read", deadline=1.0)
async def desk_status(args: Arguments, call: Call[Status]) -> dict[str, Any]:
    """What this desk serves: toolsets with their tools and what to call first, limits, and call counts."""
    return {**call.state.status(), "scope": call.label}


@desk.tool(annotations=_READS, scope="read", deadline=5.0)
async def get_source(args: Arguments, call: Call[Status]) -> dict[str, Any]:
    """What one reference points at: its kind, its body, and the references it was made from."""
    return _source(await _found(args["ref"], call))


@desk.tool(annotations=_READS, scope="read", deadline=10.0)
async def trace(args: Arguments, call: Call[Status]) -> Page:
    """Follow a reference back to what it came from, breadth first, up to `depth` steps."""
    root = await _found(args["ref"], call)
    found = await walk(root, args["depth"], call.resolve)
    start = _position(args.get("cursor"), len(found.nodes))
    body: dict[str, Any] = {
        "root": root.ref,
        "nodes": found.nodes[start:],
        "unresolved": found.unresolved,
        "metadata": {"depth": args["depth"], "total": len(found.nodes), "complete": found.complete},
    }
    return Page(body, "nodes", lambda kept: str(start + kept))


@desk.resource("tracedesk://calls/{id}", mime_type="application/json")
async def call_record(args: Arguments, call: Call[Status]) -> Any:
    """The record of one tool call: arguments (redacted), outcome, duration."""
    return await _readable(f"tracedesk://calls/{args['id']}", call)


@desk.resource("tracedesk://payloads/{sha256}", mime_type="application/json")
async def payload(args: Arguments, call: Call[Status]) -> Any:
    """A stored body, named by its SHA-256."""
    return await _readable(f"tracedesk://payloads/{args['sha256']}", call)


@desk.resource("tracedesk://{toolset}/{stream}/{seq}", mime_type="application/json")
async def entry(args: Arguments, call: Call[Status]) -> Any:
    """One entry of a toolset's stream."""
    return await _readable(f"tracedesk://{args['toolset']}/{args['stream']}/{args['seq']}", call)


async def _readable(ref: str, call: Call[Status]) -> Any:
    source = await call.resolve(ref)
    return None if source is None else _source(source)


async def _found(ref: str, call: Call[Status]) -> Source:
    source = await call.resolve(ref)
    if source is None:
        message = "ref: nothing on this desk resolves it. Take references from results and source_refs."
        raise ToolError("SOURCE_NOT_FOUND", message, {"ref": ref})
    return source


@dataclass(slots=True)
class Walk:
    """References that were followed from one, nearest first."""

    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    unresolved: list[str] = field(default_factory=list[str])
    complete: bool = True


Resolve = Callable[[str], Awaitable[Source | None]]


async def walk(root: Source, depth: int, resolve: Resolve) -> Walk:
    """Follow every reference within `depth` steps once, nearest first."""
    done = Walk()
    seen = {root.ref}
    waiting: deque[tuple[Source, int]] = deque([(root, 0)])
    while waiting:
        source, level = waiting.popleft()
        done.nodes.append({**_source(source), "depth": level})
        fresh = [edge.ref for edge in source.edges if edge.ref not in seen]
        if fresh and (level == depth or len(seen) >= _MOST_NODES):
            done.complete = False
            continue
        for ref in dict.fromkeys(fresh):
            if ref in seen:
                continue
            seen.add(ref)
            found = await _met(ref, resolve)
            if found is None:
                done.unresolved.append(ref)
            elif found.ref == ref or found.ref not in seen:  # a bare id may name what was met already
                seen.add(found.ref)
                waiting.append((found, level + 1))
    return done


async def _met(ref: str, resolve: Resolve) -> Source | None:
    """The source behind a reference on the way; one that cannot be followed now does not end the walk."""
    try:
        return await resolve(ref)
    except ToolError:
        return None


def _source(source: Source) -> dict[str, Any]:
    edges = [{"relation": edge.relation, "ref": edge.ref} for edge in source.edges]
    return {"ref": source.ref, "kind": source.kind, "body": source.body, "edges": edges}


def _position(cursor: str | None, total: int) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal() or int(cursor) > total:
        message = "cursor: not one of this desk's. Send metadata.nextCursor of the previous page, or none."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["cursor"]})
    return int(cursor)
