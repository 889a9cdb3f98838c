"""A full index in a process of its own, so that nothing the desk does has to wait for it.

The request goes in as one JSON document; progress comes out a line at a time, and at last the report or the
refusal. Whoever started it may kill it at any moment: the graph is then as it was.
"""

from __future__ import annotations

import logging
import os
import select
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, Any, Final, cast

from tracedesk.codegraph.graph.index import Progress, index_project
from tracedesk.codegraph.graph.limits import Limits, Skip
from tracedesk.codegraph.graph.reports import IndexReport
from tracedesk.codegraph.graph.store import Store
from tracedesk.codegraph.refusals import index_cancelled
from tracedesk.errors import ToolError
from tracedesk.primitives import json
from tracedesk.primitives.paths import Jail, PathRefused
from tracedesk.primitives.redaction import redact_text

log = logging.getLogger(__name__)

SMALL: Final = 200
"""Files up to which an index is over before a process has started."""
_NICE: Final = 5
_PROGRESS_SECONDS: Final = 0.1
_CHECK_SECONDS: Final = 0.1
_LAST_WORDS: Final = 4_000
"""Bytes of what a process that failed has said."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be indexed, and within which bounds."""

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


def index(request: Request, progress: Progress, check: Callable[[], object]) -> IndexReport:
    """Index in a process of its own; `check` raises to stop it."""
    # -P: the folder where the desk was started may be the project's, whose modules are not ours to run.
    command = [sys.executable, "-P", "-m", "tracedesk.codegraph.indexer"]
    with (
        TemporaryFile() as words,
        subprocess.Popen(
            command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words
        ) as child,
    ):
        try:
            _send(cast("IO[bytes]", child.stdin), request)
            report = _heard(cast("IO[bytes]", child.stdout), progress, check)
        except BaseException:
            child.kill()
            raise
        if report is None:
            raise _died(request, child.wait(), words)
        return report


def _died(request: Request, status: int, words: IO[bytes]) -> Exception:
    """Why there is no report: someone ended the process, or it could not do its work."""
    words.seek(max(0, words.seek(0, os.SEEK_END) - _LAST_WORDS))
    log.error("the indexer ended with %d: %s", status, redact_text(words.read().decode(errors="replace")))
    if status < 0:
        return index_cancelled(request.root)
    return RuntimeError(f"the indexer ended with the exit code {status}; the log has its last words")


def _send(pipe: IO[bytes], request: Request) -> None:
    with suppress(BrokenPipeError), pipe:
        pipe.write(json.dumps(asdict(request)))


def _heard(pipe: IO[bytes], progress: Progress, check: Callable[[], object]) -> IndexReport | None:
    """The report; None when the other side ended without one."""
    for line in _lines(pipe.fileno(), check):
        said: dict[str, Any] = json.loads(line)
        if "progress" in said:
            done, total, message = said["progress"]
            progress(float(done), float(total), message)
        elif "error" in said:
            raise ToolError(**said["error"])
        elif "report" in said:
            return _report(said["report"])
        else:
            raise RuntimeError(f"the indexer failed:\n{said['bug']}")
    return None


def _lines(pipe: int, check: Callable[[], object]) -> Iterator[bytes]:
    """Whole lines as they come, with a look every moment whether they are still wanted."""
    rest = b""
    while True:
        check()
        if not select.select([pipe], [], [], _CHECK_SECONDS)[0]:
            continue
        data = os.read(pipe, 1 << 20)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        yield from whole


def _report(said: Mapping[str, Any]) -> IndexReport:
    facts: dict[str, Any] = {**said, "skipped": [Skip(**skip) for skip in said["skipped"]]}
    return IndexReport(**facts)


# --- the process --------------------------------------------------------------------------------


def main() -> None:
    """Index what stdin asks for."""
    os.nice(_NICE)
    out = sys.stdout.buffer
    _say(out, _answer(_request(json.loads(sys.stdin.buffer.read())), _Throttled(out)))


def _request(given: dict[str, Any]) -> Request:
    numbers: dict[str, Any] = given.pop("limits")
    limits: dict[str, Any] = {
        name: value if isinstance(value, int) else float(value) for name, value in numbers.items()
    }
    return Request(limits=Limits(**limits), **given)


def _answer(request: Request, progress: Progress) -> dict[str, Any]:
    from tracedesk.codegraph.desk import as_tool_errors

    try:
        with Store(Path(request.graph)) as store, as_tool_errors(request.root):
            return {"report": request.run(store, progress, lambda: None).document()}
    except ToolError as refused:
        return {"error": {"code": refused.code, "message": refused.message, "details": refused.details}}
    except Exception:
        return {"bug": redact_text(traceback.format_exc())}


class _Throttled:
    """Passes on progress a few times a second."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._next = 0.0

    def __call__(self, done: float, total: float, message: str) -> None:
        if monotonic() >= self._next:
            self._next = monotonic() + _PROGRESS_SECONDS
            _say(self._out, {"progress": [done, total, message]})


def _say(out: IO[bytes], value: Mapping[str, Any]) -> None:
    out.write(json.dumps(value) + b"\n")
    out.flush()


if __name__ == "__main__":
    main()
