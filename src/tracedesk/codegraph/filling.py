"""The vectors of a project made in a process of its own: computing them takes the interpreter for seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracedesk.codegraph.beside import Beside, Said, Say, Throttled, serve

if TYPE_CHECKING:
    from tracedesk.codegraph.embed.fill import At, Filling

MODULE: Final = "tracedesk.codegraph.filling"


class _Unwanted(Exception):
    """Nobody wants the vectors any more."""


def beside(home: Path, graph: Path) -> Filling:
    """Fills in another process, with every model of the home; what was kept before a cancel stays."""

    def work(root: str, at: At, cancelled: Callable[[], bool]) -> None:
        _fill({"home": str(home), "graph": str(graph), "root": root}, at, cancelled)

    return work


def _fill(request: Mapping[str, str], at: At, cancelled: Callable[[], bool]) -> None:
    def check() -> None:
        if cancelled():
            raise _Unwanted

    try:
        with Beside(MODULE, request) as child:
            for said in child.said(check):
                if "filled" in said:
                    return
                model, done, total = said["progress"]
                at(model, done, total)
            status = child.died()
    except _Unwanted:
        return
    raise RuntimeError(f"filling ended with the exit code {status}; the log has its last words")


def _filled(request: dict[str, Any], say: Say) -> Said:
    from tracedesk.codegraph.embed.chunks import ProjectChunks
    from tracedesk.codegraph.embed.fill import fill
    from tracedesk.codegraph.embed.shelf import shelf
    from tracedesk.codegraph.graph.store import Store

    told = Throttled(say)

    def progress(model: str, done: int, total: int) -> None:
        told({"progress": (model, done, total)})

    with Store(Path(request["graph"])) as store:
        chunks = ProjectChunks(store, request["root"])
        added = [
            fill(vectors, chunks, progress=partial(progress, vectors.model)).added
            for vectors in shelf(Path(request["home"]))
        ]
    return {"filled": sum(added)}


if __name__ == "__main__":
    serve(_filled)
