"""What the codegraph tools refuse with: one function per code, each message with its field and remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracedesk.errors import ToolError
from tracedesk.foreign import listed
from tracedesk.primitives.paths import PathRefused

_SHOWN = 120
_LISTED = 8


def invalid(field: str, problem: str, **details: Any) -> ToolError:
    """A parameter that cannot be used as given."""
    return ToolError("INVALID_PARAMETER", f"{field}: {problem}", {"path": [field], **details})


def root_not_allowed(refused: PathRefused, roots: Sequence[str]) -> ToolError:
    """A project outside the folders that the operator allows."""
    message = (
        f"project_root: {refused}. The operator may add folders as codegraph.roots or with `serve --root`."
    )
    return ToolError("ROOT_NOT_ALLOWED", message, {"reason": refused.reason, "roots": list(roots)})


def no_root() -> ToolError:
    """A desk that was started outside any project, with no folder named."""
    message = (
        "project_root: no folder is allowed, for this desk was started outside a project. The operator names "
        "one with `serve --root DIR`, or as codegraph.roots in tracedesk.toml."
    )
    return ToolError("ROOT_NOT_ALLOWED", message, {"reason": "outside", "roots": []})


def project_not_indexed(root: str, known: Sequence[str]) -> ToolError:
    """A project that may be shown but of which there is no graph yet."""
    message = f"project_root: there is no graph of {_shown(root)} yet. Call graph_index_project with it."
    return ToolError("PROJECT_NOT_INDEXED", message, {"projectRoot": root, "indexed": list(known[:_LISTED])})


def project_unnamed(known: Sequence[str]) -> ToolError:
    """A call that names no project where there are several, or none."""
    if not known:
        message = "project_root: no project is indexed yet. Call graph_index_project first."
        return ToolError("PROJECT_NOT_INDEXED", message, {"indexed": []})
    message = (
        f"project_root: {len(known)} projects are indexed here. Name one of: {', '.join(known[:_LISTED])}."
    )
    return invalid("project_root", message.removeprefix("project_root: "), indexed=list(known[:_LISTED]))


def not_in_graph(field: str, name: str, near: Sequence[str]) -> ToolError:
    """A symbol or a file that the graph does not hold."""
    hint = f" Similar: {listed(near[:_LISTED])}." if near else " graph_search finds names by their parts."
    message = f"{field}: the graph has no {field} {_shown(name)}.{hint}"
    return ToolError("NOT_IN_GRAPH", message, {"path": [field], "similar": list(near[:_LISTED])})


def attempt_not_found(attempt: str, warnings: Sequence[str]) -> ToolError:
    """An attempt that nobody has logged, as far as can be seen."""
    known = f"attempt_id: no attempt {_shown(attempt)} was recorded. etg_timeline lists those that were."
    message = " ".join((known, *warnings))
    return ToolError("ATTEMPT_NOT_FOUND", message, {"attemptId": attempt[:_SHOWN]})


def index_busy(root: str, holder: int | None) -> ToolError:
    """Another full index or update of the same project that has not ended."""
    who = f"process {holder}" if holder is not None else "another call"
    message = f"project_root: {who} is indexing {_shown(root)}. Wait for it, then try again."
    return ToolError("INDEX_BUSY", message, {"projectRoot": root, "holder": holder})


def index_cancelled(root: str) -> ToolError:
    """Work that someone stopped, such as the desk when it closes."""
    message = f"project_root: the work on {_shown(root)} was cancelled; its graph is as it was. Call again."
    return ToolError("INDEX_CANCELLED", message, {"projectRoot": root})


def bad_cursor() -> ToolError:
    """A cursor that no page of this tool gave out."""
    return invalid("cursor", "it is not one of this tool's. Send nextCursor of the previous page, or none.")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
