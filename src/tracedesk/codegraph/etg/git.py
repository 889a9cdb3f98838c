"""Git history as attempts: one for each commit, with what it set out to do and the files it changed."""

from __future__ import annotations

import os
import re
import secrets
import select
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tracedesk.codegraph.etg.log import BATCH, Etg
from tracedesk.codegraph.etg.model import NewEvent
from tracedesk.errors import ToolError
from tracedesk.hosts import confined
from tracedesk.primitives.time import SECOND, format

MOST: Final = 10_000
"""Commits that are taken without being asked for more, the newest ones."""

LARGEST: Final = 200_000
_LONGEST_MESSAGE: Final = 16_000
_CHUNK: Final = 1 << 16
_LARGEST_FIELD: Final = 1 << 24
"""Bytes between two NULs; a commit that has more is not one to learn from."""

# What a repository's own configuration could make git run: pagers, monitors, hooks, signature checkers.
_SAFELY: Final = (
    "--no-pager",
    "--no-replace-objects",
    "--literal-pathspecs",
    *("-c", "core.quotePath=false", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.attributesFile=", "-c", "protocol.allow=never", "-c", "log.showSignature=false"),
)
_LOG: Final = (
    "log",
    "-z",
    "--first-parent",
    "--diff-merges=first-parent",
    "--name-only",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-show-signature",
    "--no-mailmap",
    "--no-color",
    "--encoding=UTF-8",
    "--relative",
    "--reverse",
)
_SURROUNDINGS: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
_LIMITS: Final = confined.Limits(2 << 30, seconds=1_800.0, file_bytes=16 << 20)
_SILENCE: Final = 60.0
"""Seconds without a word after which git is ended: a file of the repository may let it wait for ever."""
_TRAILER: Final = re.compile(
    r"(?:[A-Z][A-Za-z-]*-[Bb]y|Change-Id|Bug|Link|Refs?|PR-URL|Reviewed-on|Cc|git-svn-id|Backport-\S+"
    r"|Cr-[A-Za-z-]+): ?\S.*|\(cherry picked from commit [0-9a-f]{7,64}\)"
)
_REVERT: Final = re.compile(r"This reverts commit ([0-9a-f]{40}|[0-9a-f]{64})\b")

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Commit:
    """What is taken of a commit; `files` are relative to the folder that was asked for."""

    sha: str
    tree: str
    time_s: int
    message: str
    files: tuple[str, ...]


@dataclass(slots=True)
class Imported:
    """What an import did: commits read, those that were new, and reverts that were noted."""

    project: str
    commits: int = 0
    new: int = 0
    reverts: int = 0
    cancelled: bool = False


def import_history(
    etg: Etg,
    path: Path,
    *,
    project: str | None = None,
    since_ns: int | None = None,
    most: int = MOST,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Imported:
    """Take the newest commits of a repository as attempts `git:<sha>`; those that are there already stay."""
    folder = path.resolve()
    importing = _Importing(etg, Imported(project or str(folder)))
    batch: list[Commit] = []
    for commit in commits(folder, since_ns=since_ns, most=most):
        batch.append(commit)
        if len(batch) == BATCH:
            if cancelled is not None and cancelled():
                importing.done.cancelled = True
                return importing.done
            importing.take(batch)
            batch.clear()
            if progress is not None:
                progress(importing.done.commits, None)
    importing.take(batch)
    if progress is not None:
        progress(importing.done.commits, importing.done.commits)
    return importing.done


class _Importing:
    """One import under way."""

    def __init__(self, etg: Etg, done: Imported) -> None:
        self._etg = etg
        self.done = done
        self._seen: set[str] = set()

    def take(self, batch: list[Commit]) -> None:
        events = [_event(commit, self.done.project) for commit in batch]
        self._seen.update(commit.sha for commit in batch)
        reverts = [event for commit in batch if (event := self._reverting(commit)) is not None]
        logged = self._etg.log_many([*events, *reverts])
        self.done.commits += len(batch)
        self.done.new += sum(not one.duplicate for one in logged[: len(events)])
        self.done.reverts += sum(not one.duplicate for one in logged[len(events) :])

    def _reverting(self, commit: Commit) -> NewEvent | None:
        """What a revert says of the attempt it undoes, when that is known."""
        found = _REVERT.search(commit.message)
        if found is None or (found[1] not in self._seen and not self._etg.knows(f"git:{found[1]}")):
            return None
        message = f"Reverted: {_subject(commit.message)}"
        return _checkpoint(
            f"git:{found[1]}",
            f"git:reverted-by:{commit.sha}",
            {"message": message, "graph_version": _version(commit)},
            commit,
            self.done.project,
            "failed",
        )


def _event(commit: Commit, project: str) -> NewEvent:
    payload = {
        "message": _subject(commit.message),
        "query": without_trailers(commit.message),
        "files": list(commit.files),
        "graph_version": _version(commit),
        "commit": commit.sha,
    }
    name = f"git:{commit.sha}"
    return _checkpoint(name, name, payload, commit, project, "succeeded")


def _checkpoint(
    attempt: str, event_id: str, payload: dict[str, Any], commit: Commit, project: str, outcome: str
) -> NewEvent:
    return NewEvent(
        attempt,
        "checkpoint",
        payload,
        timestamp_ns=commit.time_s * SECOND,
        project=project,
        outcome=outcome,
        event_id=event_id,
        source="git",
    )


def _version(commit: Commit) -> str:
    """The tree stands for the code as it then was; no graph here had it."""
    return f"git-tree:{commit.tree}"


def _subject(message: str) -> str:
    return message.partition("\n")[0].strip() or "(no message)"


def without_trailers(message: str) -> str:
    """A commit's message without the lines at its end that say who had to do with it."""
    lines = message.strip().splitlines()
    while len(lines) > 1 and (not lines[-1].strip() or _TRAILER.fullmatch(lines[-1].strip())):
        lines.pop()
    return "\n".join(lines)


# --- reading a repository ----------------------------------------------------------------------


def commits(folder: Path, *, since_ns: int | None = None, most: int = MOST) -> Iterator[Commit]:
    """The newest commits of the first-parent history, oldest first; git is all that is run."""
    if not 1 <= most <= LARGEST:
        raise _refused(f"max: must be 1 to {LARGEST}", {"max": most})
    if not folder.is_dir():
        raise _refused(f"path: {folder} is not a folder; name a git repository", {"path": str(folder)})
    # A mark that nobody knew when the repository was written tells commits from file names.
    mark = secrets.token_hex(16).encode()
    command = ["git", *_SAFELY, *_LOG, f"--max-count={most}"]
    command.append(f"--format={mark.decode()}%x00%H%x00%T%x00%ct%x00%B%x00")
    if since_ns is not None:
        command.append(f"--since={format(since_ns - since_ns % SECOND)}")
    with _running([*command, "HEAD", "--"], folder) as output:
        yield from _parsed(_fields(output), mark)


@contextmanager
def _running(command: list[str], folder: Path) -> Generator[IO[bytes]]:
    with tempfile.TemporaryFile() as errors:
        try:
            process = confined.start(
                command, _LIMITS, cwd=folder, more=_SURROUNDINGS, stdin=subprocess.DEVNULL, stderr=errors
            )
        except FileNotFoundError:
            raise _refused("git: is not installed here; install it, then import again", {}) from None
        assert process.stdout is not None
        try:
            yield process.stdout
            process.stdout.close()
            if status := _status(process):
                raise _failed(folder, status, errors)
        finally:
            process.stdout.close()
            confined.end(process)


def _status(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_SILENCE)
    except subprocess.TimeoutExpired:
        raise _silent() from None


def _silent() -> ToolError:
    return _refused(f"path: git said nothing for {_SILENCE:.0f} s and was ended; check the repository", {})


def _failed(folder: Path, status: int, errors: IO[bytes]) -> ToolError:
    errors.seek(0)
    words = errors.read(2_000).decode("utf-8", "replace").strip()
    if found := confined.limit_reached(status, words, _LIMITS):
        return _refused(f"path: git {found}; import fewer commits with max", {"limit": found.limit})
    said = words.partition("\n")[0]
    return _refused(f"path: git cannot read a history in {folder}: {said}", {"path": str(folder)})


def _refused(problem: str, details: dict[str, Any]) -> ToolError:
    return ToolError("INVALID_PARAMETER", problem + ".", details)


def _fields(output: IO[bytes]) -> Iterator[bytes]:
    """What stands between NULs."""
    rest = b""
    while chunk := _heard(output):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole
        if len(rest) > _LARGEST_FIELD:
            raise _refused("path: a commit of this history is too large to read", {})
    if rest:
        yield rest


def _heard(output: IO[bytes]) -> bytes:
    if not select.select([output], [], [], _SILENCE)[0]:
        raise _silent()
    return os.read(output.fileno(), _CHUNK)


def _parsed(fields: Iterator[bytes], mark: bytes) -> Iterator[Commit]:
    head: list[bytes] = []
    files: list[str] = []
    for field in fields:
        if field == mark:
            if head:
                yield _commit(head, files)
            head, files = [], []
        elif len(head) < 4:
            head.append(field)
        elif name := field.removeprefix(b"\n"):
            files.append(name.decode("utf-8", "replace"))
    if head:
        yield _commit(head, files)


def _commit(head: list[bytes], files: list[str]) -> Commit:
    sha, tree, time_s, message = (field.decode("utf-8", "replace") for field in head)
    return Commit(sha, tree, int(time_s), message[:_LONGEST_MESSAGE], tuple(files))
