"""A full index in a process of its own: progress comes out of it, and at last the report or the refusal.

Whoever started it may kill it at any moment: the graph is then as it was.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracedesk.codegraph.beside import Beside, Said, Say, Throttled, serve
from tracedesk.codegraph.graph.index import Progress, index_project
from tracedesk.codegraph.graph.limits import Limits, Skip
from tracedesk.codegraph.graph.reports import IndexReport
from tracedesk.codegraph.graph.store import Store
from tracedesk.codegraph.refusals import index_cancelled
from tracedesk.errors import ToolError
from tracedesk.primitives.paths import Jail, PathRefused
from tracedesk.primitives.redaction import redact_text

if TYPE_CHECKING:
    from tracedesk.codegraph.embed.vectors import Coverage

MODULE: Final = "tracedesk.codegraph.indexer"
SMALL: Final = 200
"""Files up to which an index is over before a process has started."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be indexed, and within which bounds."""

    home: str
    graph: str
    roots: tuple[str, ...]
    root: str
    files: tuple[str, ...]
    hints: Mapping[str, str]
    limits: Limits
    workers: int

    def run(self, store: Store, progress: Progress, check: Callable[[], object]) -> IndexReport:
        """Do it here and now."""
        return index_project(
            store,
            Jail(self.roots),
            self.root,
            self.files,
            self.hints,
            progress=progress,
            cancelled=check,
            workers=self.workers,
            limits=self.limits,
        )


@dataclass(frozen=True, slots=True)
class Indexed:
    """What an index has come to."""

    report: IndexReport
    vectors: dict[str, float]
    """The share of the project's chunks that have a vector, by model."""
    is_large: bool = False
    """Whether it took a process of its own."""


def is_small(request: Request) -> bool:
    """Whether the named files, and those below named folders, are few; links are not followed."""
    jail = Jail(request.roots)
    left = SMALL
    for entry in request.files or (".",):
        left -= _count(jail, request.root, entry, left) + 1
        if left < 0:
            return False
    return True


def _count(jail: Jail, root: str, entry: str, most: int) -> int:
    """The files below an entry, or a little more than `most`."""
    try:
        place = jail.resolve(root, entry).path
    except PathRefused:
        return 0
    count = 0
    for _, folders, files in os.walk(place):
        count += len(folders) + len(files)
        if count > most:
            break
    return count


# --- the side that asks -------------------------------------------------------------------------


def index(
    request: Request, progress: Progress, check: Callable[[], object], *, everywhere: bool = False
) -> Indexed:
    """Index in a process of its own, on every core or all but one; `check` raises to stop it."""
    with Beside(MODULE, asdict(request), everywhere=everywhere) as child:
        for said in child.said(check):
            if "report" in said:
                return Indexed(_report(said["report"]), said["vectors"], is_large=True)
            _heard(said, progress)
        raise _died(request, child.died())


def _heard(said: Said, progress: Progress) -> None:
    if "error" in said:
        raise ToolError(**said["error"])
    if "bug" in said:
        raise RuntimeError(f"the indexer failed:\n{said['bug']}")
    done, total, message = said["progress"]
    progress(float(done), float(total), message)


def _died(request: Request, status: int) -> Exception:
    """Why there is no report: someone ended the process, or it could not do its work."""
    if status < 0:
        return index_cancelled(request.root)
    return RuntimeError(f"the indexer ended with the exit code {status}; the log has its last words")


def _report(said: Said) -> IndexReport:
    facts: dict[str, Any] = {**said, "skipped": [Skip(**skip) for skip in said["skipped"]]}
    return IndexReport(**facts)


# --- the process --------------------------------------------------------------------------------


def _request(given: dict[str, Any]) -> Request:
    numbers: dict[str, Any] = given.pop("limits")
    limits: dict[str, Any] = {
        name: value if isinstance(value, int) else float(value) for name, value in numbers.items()
    }
    return Request(limits=Limits(**limits), **given)


def _answer(given: dict[str, Any], say: Say) -> Said:
    from tracedesk.codegraph.desk import as_tool_errors

    request, told = _request(given), Throttled(say)

    def progress(done: float, total: float, message: str) -> None:
        told({"progress": (done, total, message)})

    try:
        with Store(Path(request.graph)) as store, as_tool_errors(request.root):
            report = request.run(store, progress, lambda: None)
            return {"report": report.document(), "vectors": _vectors(request, store)}
    except ToolError as refused:
        return {"error": {"code": refused.code, "message": refused.message, "details": refused.details}}
    except Exception:
        return {"bug": redact_text(traceback.format_exc())}


def _vectors(request: Request, store: Store) -> dict[str, float]:
    from tracedesk.codegraph.embed.chunks import ProjectChunks
    from tracedesk.codegraph.embed.shelf import shelf

    keys = list(ProjectChunks(store, request.root).keys())
    return shares_by_model(vectors.coverage(keys) for vectors in shelf(Path(request.home)))


def shares_by_model(found: Iterable[Coverage]) -> dict[str, float]:
    """How much of some chunks has a vector, by model, as an index tells it."""
    return {f"vectors {each.model}": round(each.share, 4) for each in found}


if __name__ == "__main__":
    serve(_answer)
