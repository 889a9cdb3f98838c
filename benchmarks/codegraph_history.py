"""A repository's own history as questions and answers: what a commit says, and what it changed.

Nobody writes labels: the question is the commit's message without its ticket numbers and trailers, the answer
is the code that it modified. Whoever wrote the message knew the change, so the questions are easier than bug
reports; the plain variant, without anything that looks like code, is the harder one.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.messages import Misbehaved
from tracedesk.codegraph.graph.languages import SUPPORTED, language_of
from tracedesk.codegraph.rank.paths import is_test

VARIANTS: Final = ("subject", "full", "plain")
MOST_SOURCES: Final = 10
MOST_CHANGES: Final = 30

_LOG: Final = ("log", "--reverse", "--raw", "--no-abbrev", "--no-renames", "-z")
_FORMAT: Final = "--format=%x01%H%x02%P%x02%ct%x02%B%x03"
_MERGE: Final = re.compile(r"Merge (?:pull request|branch|remote-tracking|tag)")
_PREFIX: Final = re.compile(
    r"^\s*(?:\[[\w.\s]+\]\s*)?"
    r"(?:(?:fixed|fixes|refs?|closes|resolves)\s+(?:#\d+|cve-[\d-]+)"
    r"(?:(?:,| and|,? refs| --)*\s*(?:#\d+|cve-[\d-]+))*\s*(?:--|:|-)?\s*)+",
    re.IGNORECASE,
)
_TRAILER: Final = re.compile(
    r"^(?:signed-off-by|co-authored-by|reviewed-by|acked-by|backport of|cc|fixes|closes|refs)\b[ :].*$"
    r"|^\(cherry picked from.*$",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER: Final = re.compile(r"\(?(?:#|gh-)\d+\)?|\b[0-9a-f]{7,40}\b", re.IGNORECASE)
_CODE: Final = re.compile(
    r"`[^`]*`|\S*(?:\w[._/\\:]+\w|[a-z0-9][A-Z]|[A-Z]{2,}[a-z]|\(\)|__|[<>{}\[\]=$@])\S*|\b[A-Z][A-Z0-9_]+\b"
)
_TICKET: Final = re.compile(r"#(\d{3,6})\b")
_ANY_NUMBER: Final = re.compile(r"\b[0-9a-f]{7,40}\b|#?\b\d{2,}\b")


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit did, against its first parent."""

    sha: str
    parent: str | None
    time_s: int
    message: str
    changes: tuple[tuple[str, str], ...]
    """Letter (A, M, D, T) and path."""

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(path for _, path in self.changes)


def git(repository: Path, *words: str) -> str:
    """What git says; a bare repository will do."""
    command = ["git", "-C", str(repository), *words]
    done = subprocess.run(command, check=False, capture_output=True)
    if done.returncode:
        raise Misbehaved(f"{repository}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8", "replace")


def first_parents(repository: Path, count: int) -> list[Commit]:
    """The newest commits of the first-parent history, oldest first; merges count as one change."""
    words = (*_LOG, "--first-parent", "-m", f"--max-count={count}", _FORMAT, "HEAD", "--")
    return list(_parsed(git(repository, *words)))


def without_merges(repository: Path, count: int) -> list[Commit]:
    """The newest commits that are no merges, wherever they were made, oldest first."""
    words = (*_LOG, "--topo-order", "--no-merges", f"--max-count={count}", _FORMAT, "HEAD", "--")
    return list(_parsed(git(repository, *words)))


def _parsed(log: str) -> Iterator[Commit]:
    for record in log.split("\x01")[1:]:
        head, _, raw = record.partition("\x03")
        sha, parents, time_s, message = head.split("\x02")
        yield Commit(sha, parents.split(" ")[0] or None, int(time_s), message.strip(), tuple(_changes(raw)))


def _changes(raw: str) -> Iterator[tuple[str, str]]:
    fields = [field.strip("\n") for field in raw.split("\0") if field.strip("\n")]
    for at in range(0, len(fields) - 1, 2):
        yield fields[at].split(" ")[4][0], fields[at + 1]


# --- questions


def wordings(message: str) -> dict[str, str]:
    """A message as questions: subject alone, in full, and the subject without what looks like code."""
    lines = message.splitlines()
    if lines and _MERGE.match(lines[0]):
        lines = [line for line in lines[1:] if line.strip()]
    if not lines:
        return dict.fromkeys(VARIANTS, "")
    subject = _NUMBER.sub(" ", _PREFIX.sub("", lines[0])).strip()
    # "Refs #1 -- Sorted the basket" is a title: only what stands below one can be a trailer.
    body = _TRAILER.sub("", "\n".join(lines[1:]))
    full = _NUMBER.sub(" ", _PREFIX.sub("", f"{lines[0]}\n{body}")).strip()
    return {"subject": subject, "full": full, "plain": " ".join(_CODE.sub(" ", subject).split())}


def without_numbers(text: str) -> str:
    """A text from which no ticket can be told."""
    return _ANY_NUMBER.sub(" ", text)


def tickets(message: str) -> frozenset[str]:
    """The numbers of the tickets that a message names."""
    return frozenset(_TICKET.findall(message))


def is_source(path: str) -> bool:
    """Whether it is code that is no test."""
    return language_of(path) in SUPPORTED and not is_test(path)


def sources(commit: Commit) -> list[str]:
    """The answer: source files that were there before and were modified; none where there are too many."""
    found = [path for letter, path in commit.changes if letter == "M" and is_source(path)]
    return found if 1 <= len(found) <= MOST_SOURCES and len(commit.changes) <= MOST_CHANGES else []


# --- the tree at a commit


class Tree:
    """A checkout that goes from commit to commit; the repository it comes from is only read."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self.folder = folder
        git(
            repository,
            "clone",
            "--quiet",
            "--shared",
            "--no-checkout",
            str(repository.resolve()),
            str(folder),
        )

    def go(self, sha: str) -> None:
        """Check a commit out; files whose content the repository lacks stay away."""
        command = ["git", "-C", str(self.folder), "checkout", "--quiet", "--force", "--detach", sha]
        said = subprocess.run(command, check=False, capture_output=True).stderr
        if git(self.folder, "rev-parse", "HEAD").strip() != sha:
            raise Misbehaved(f"{sha} cannot be checked out: {said.decode('utf-8', 'replace')}")
